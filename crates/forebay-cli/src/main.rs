//! The command `forebay`.

fn main() {}
