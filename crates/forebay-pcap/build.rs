//! Gives the library the name by which programs load Debian's libpcap.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libpcap.so.0.8");
    println!("cargo:rerun-if-changed=build.rs");
}
