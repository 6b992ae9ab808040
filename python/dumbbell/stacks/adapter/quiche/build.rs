//! Lets the linker lead calls for the time and for random numbers to system.rs, those of the standard library and of quiche included.

fn main() {
    for name in ["clock_gettime", "getrandom", "RAND_bytes"] {
        println!("cargo:rustc-cdylib-link-arg=-Wl,--wrap={name}");
    }
    println!("cargo:rerun-if-changed=build.rs");
}
