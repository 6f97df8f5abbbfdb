//! Compiles the DPDK shim and links DPDK, when the feature `dpdk` is on.

fn main() {
    println!("cargo:rerun-if-changed=src/dpdk/shim.c");
    #[cfg(feature = "dpdk")]
    dpdk();
}

#[cfg(feature = "dpdk")]
fn dpdk() {
    let mut libdpdk = pkg_config::Config::new();
    let library = libdpdk
        .atleast_version("22.11")
        .cargo_metadata(false)
        .probe("libdpdk")
        .expect("libdpdk 22.11 or later with its headers (Debian: libdpdk-dev)");
    let cflags = std::process::Command::new("pkg-config")
        .args(["--cflags-only-other", "libdpdk"])
        .output()
        .expect("pkg-config just answered");
    let cflags = String::from_utf8_lossy(&cflags.stdout).into_owned();
    let mut build = cc::Build::new();
    build
        .file("src/dpdk/shim.c")
        .includes(&library.include_paths);
    build.opt_level(3).warnings(true);
    // "-include rte_config.h" are two words of one flag, kept in order.
    for flag in cflags.split_whitespace() {
        build.flag(flag);
    }
    build.compile("pinchpoint_dpdk_shim");
    // After the shim, which needs them: libdpdk is linked with --as-needed.
    libdpdk
        .cargo_metadata(true)
        .probe("libdpdk")
        .expect("it was there just now");
}
