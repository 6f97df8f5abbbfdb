//! What can be used on this machine and, if not, why and what mends it.

use crate::{Backend, af_packet, af_xdp, xdp_live};

/// Whether a backend can be used here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Availability {
    /// Which backend.
    pub backend: Backend,
    /// Whether opening a port of it has a chance.
    pub available: bool,
    /// What is there.
    pub detail: Option<String>,
    /// Why it is not available.
    pub why: Option<String>,
    /// What the user can do about it.
    pub hint: Option<String>,
}

/// What each backend can do on this machine.
pub fn availability() -> Vec<Availability> {
    let mem = Availability {
        backend: Backend::Mem,
        available: true,
        detail: Some("two ends in this process".to_owned()),
        why: None,
        hint: None,
    };
    let af_xdp = af_xdp::probe().err();
    let xdp_live = xdp_live::probe().err();
    vec![
        mem,
        af_packet_availability(),
        bpf_availability(Backend::AfXdp, "AF_XDP sockets", af_xdp),
        bpf_availability(Backend::XdpLive, "XDP live frames", xdp_live),
        dpdk_availability(),
    ]
}

fn af_packet_availability() -> Availability {
    let failure = af_packet::probe().err();
    Availability {
        backend: Backend::AfPacket,
        available: failure.is_none(),
        detail: failure.is_none().then(|| "packet sockets".to_owned()),
        why: failure
            .as_ref()
            .map(|error| format!("cannot open a packet socket: {error}")),
        hint: failure.map(|_| "run as root".to_owned()),
    }
}

/// A backend that loads programs into the kernel.
fn bpf_availability(
    backend: Backend,
    detail: &str,
    failure: Option<std::io::Error>,
) -> Availability {
    Availability {
        backend,
        available: failure.is_none(),
        detail: failure.is_none().then(|| detail.to_owned()),
        why: failure
            .as_ref()
            .map(|error| format!("bpf(2) fails: {error}")),
        hint: failure.map(|_| "run as root, on Linux 5.18 or newer".to_owned()),
    }
}

#[cfg(feature = "dpdk")]
fn dpdk_availability() -> Availability {
    let hint = "reserve hugepages: sysctl vm.nr_hugepages=512";
    Availability {
        backend: Backend::Dpdk,
        available: true,
        detail: Some(crate::dpdk::version()),
        why: None,
        hint: (!hugepages_free()).then(|| hint.to_owned()),
    }
}

/// Whether the kernel has a free hugepage of the default size.
#[cfg(feature = "dpdk")]
fn hugepages_free() -> bool {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let free = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("HugePages_Free:"));
    free.is_some_and(|free| free.trim() != "0")
}

#[cfg(not(feature = "dpdk"))]
fn dpdk_availability() -> Availability {
    Availability {
        backend: Backend::Dpdk,
        available: false,
        detail: None,
        why: Some("built without DPDK".to_owned()),
        hint: Some("cargo build --release --features dpdk (needs libdpdk-dev)".to_owned()),
    }
}
