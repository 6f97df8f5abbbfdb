//! Compiles the DPDK shim and links DPDK, when the feature `dpdk` is on: its shared libraries, or,
//! for a wheel that runs on other systems (packaging/build-wheel), archives in the folders that
//! `PINCHPOINT_ARCHIVES` names.

fn main() {
    println!("cargo:rerun-if-changed=src/dpdk/shim.c");
    #[cfg(feature = "dpdk")]
    dpdk();
}

/// Archives of DPDK 22.11 for a wheel: drivers, and what they call. Linked whole, since drivers
/// register themselves.
#[cfg(feature = "dpdk")]
const WHOLE: &str = "bus_pci bus_vdev common_iavf cryptodev dmadev eal ethdev gso hash kvargs mbuf \
    mempool mempool_ring meter net net_af_xdp net_e1000 net_ena net_i40e net_iavf net_ice net_igc \
    net_ixgbe net_memif net_null net_pcap net_ring net_tap net_vhost net_virtio net_vmxnet3 pci rcu \
    ring security telemetry timer vhost";
/// What these call beyond glibc, each before what it calls itself.
#[cfg(feature = "dpdk")]
const CALLED: &str = "xdp bpf elf z pcap numa bsd md";

#[cfg(feature = "dpdk")]
fn archives(folders: &str) {
    for folder in folders.split(':') {
        println!("cargo:rustc-link-search=native={folder}");
    }
    for name in WHOLE.split_whitespace() {
        println!("cargo:rustc-link-lib=static:+whole-archive,-bundle=rte_{name}");
    }
    for name in CALLED.split_whitespace() {
        println!("cargo:rustc-link-lib=static:-bundle={name}");
    }
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
    println!("cargo:rerun-if-env-changed=PINCHPOINT_ARCHIVES");
    if let Ok(folders) = std::env::var("PINCHPOINT_ARCHIVES") {
        archives(&folders);
        return;
    }
    libdpdk
        .cargo_metadata(true)
        .probe("libdpdk")
        .expect("it was there just now");
}
