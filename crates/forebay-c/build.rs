//! Gives the library the name by which the loader finds it.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libforebay.so.0");
    println!("cargo:rerun-if-changed=build.rs");
}
