//! Gives the library its name for the loader, whose number changes when programs have to be built anew.
#![forbid(unsafe_code)]

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libforebay.so.0");
}
