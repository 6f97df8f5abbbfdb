//! Ports as options write them, and the `open` that takes them.

use super::Failure;
use super::engine_args::EngineArgs;
use super::ranges::Side;
use crate::protocol::{Address, BackendName, OpenRequest, PortRequest, WorkerRequest};

/// A port: `BACKEND:DEVICE[@NETNS]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortArg {
    /// Who drives it.
    pub backend: BackendName,
    /// What it is, with its options.
    pub device: String,
    /// The network namespace of a kernel interface.
    pub netns: Option<String>,
}

/// Where frames are expected: a port, or nobody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target(pub Option<PortArg>);

/// Each backend with its word.
pub(super) const BACKENDS: [(&str, BackendName); 5] = [
    ("mem", BackendName::Mem),
    ("af_packet", BackendName::AfPacket),
    ("af_xdp", BackendName::AfXdp),
    ("xdp_live", BackendName::XdpLive),
    ("dpdk", BackendName::Dpdk),
];

/// Whether ports of this kind live in a network namespace.
fn of_kernel(backend: BackendName) -> bool {
    !matches!(backend, BackendName::Mem | BackendName::Dpdk)
}

/// Reads `BACKEND:DEVICE[@NETNS]`. Everything after the first colon is the
/// device; a namespace follows the last `@`, of kernel interfaces only.
///
/// # Errors
/// What was expected.
pub(super) fn port(text: &str) -> Result<PortArg, String> {
    let expected = || {
        "expected BACKEND:DEVICE[@NETNS], as in af_packet:veth0@ns1, af_xdp:eth0,queue=2, \
         xdp_live:veth2, dpdk:net_virtio_user0,path=S or mem:pair"
            .to_owned()
    };
    let (word, device) = text.split_once(':').ok_or_else(expected)?;
    let known = BACKENDS.iter().find(|(name, _)| *name == word);
    let Some(&(_, backend)) = known else {
        return Err(format!("no backend is named '{word}'; {}", expected()));
    };
    let (device, netns) = match device.rsplit_once('@') {
        Some((device, netns)) if of_kernel(backend) => (device, Some(netns)),
        _ => (device, None),
    };
    if device.is_empty() || netns == Some("") {
        return Err(expected());
    }
    Ok(PortArg {
        backend,
        device: device.to_owned(),
        netns: netns.map(str::to_owned),
    })
}

/// Reads a port, or `none`.
///
/// # Errors
/// As [`port`].
pub(super) fn target(text: &str) -> Result<Target, String> {
    if text == "none" {
        return Ok(Target(None));
    }
    port(text).map(|port| Target(Some(port)))
}

/// The ports of a session by their place, and the `open` that takes them.
#[derive(Debug, Default)]
pub(super) struct Ports {
    taken: Vec<(PortArg, Side)>,
    names: Vec<String>,
}

impl Ports {
    /// The number of `port`, which is taken once however often it is named;
    /// only the two ends of a pair in memory have the same name on both sides.
    pub(super) fn take(&mut self, port: &PortArg, side: Side) -> usize {
        let same = |(other, of): &(PortArg, Side)| {
            other == port && (port.backend != BackendName::Mem || *of == side)
        };
        self.taken
            .iter()
            .position(same)
            .unwrap_or_else(|| self.add(port, side))
    }

    /// Adds `port` even if it has been named before.
    pub(super) fn add(&mut self, port: &PortArg, side: Side) -> usize {
        let device = port.device.split(',').next().unwrap_or_default();
        let device: String = device.chars().take(200).collect();
        let plain = match &port.netns {
            Some(netns) => format!("{device}@{}", netns.chars().take(40).collect::<String>()),
            None => device,
        };
        let fresh = |name: &String| !self.names.contains(name);
        let numbered = (2..).map(|k| format!("{plain}#{k}"));
        let name = std::iter::once(plain.clone()).chain(numbered).find(fresh);
        self.names.push(name.unwrap_or(plain));
        self.taken.push((port.clone(), side));
        self.names.len() - 1
    }

    /// The request that opens them all.
    ///
    /// # Errors
    /// If `--cores` does not fit them.
    pub(super) fn open(
        &self,
        args: &EngineArgs,
        allowed_cores: &[usize],
    ) -> Result<OpenRequest, Failure> {
        let requests = self.taken.iter().zip(&self.names);
        let ports = requests.map(|((port, side), name)| {
            let own = |of: &Option<Side>| of.is_none_or(|of| of == *side);
            let answers = args.answer.iter().filter(|answer| own(&answer.side));
            PortRequest {
                name: name.clone(),
                backend: port.backend,
                device: port.device.clone(),
                netns: port.netns.clone(),
                rx_ring: args.rx_ring,
                tx_ring: args.tx_ring,
                ring_behind: None,
                answers: answers
                    .map(|answer| Address {
                        ip: answer.ip,
                        mac: answer.mac,
                    })
                    .collect(),
            }
        });
        Ok(OpenRequest {
            workers: self.workers(args, allowed_cores)?,
            eal_args: self.eal_args(args),
            ports: ports.collect(),
            link_timeout_s: args.link_timeout,
            longest_frame_bytes: None,
        })
    }

    /// A worker for each core. One core drives every port; of several, each
    /// has a queue of every port with `--queues`, otherwise ports are dealt
    /// out in turn.
    fn workers(
        &self,
        args: &EngineArgs,
        allowed_cores: &[usize],
    ) -> Result<Vec<WorkerRequest>, Failure> {
        let cores = if args.cores.is_empty() {
            &allowed_cores[..allowed_cores.len().min(1)]
        } else {
            &args.cores
        };
        if !args.queues && cores.len() > self.names.len() {
            return Err(Failure::usage(format!(
                "--cores: {} cores for {} port(s); add --queues to give every core a queue of \
                 every port",
                cores.len(),
                self.names.len()
            )));
        }
        let share = |k: usize| {
            let names = self.names.iter().enumerate();
            names
                .filter(|(index, _)| args.queues || index % cores.len() == k)
                .map(|(_, name)| name.clone())
                .collect()
        };
        let numbered = cores.iter().enumerate();
        Ok(numbered
            .map(|(k, &core)| WorkerRequest {
                core,
                ports: share(k),
            })
            .collect())
    }

    /// What was given; otherwise what virtual devices, or NICs, get along with.
    fn eal_args(&self, args: &EngineArgs) -> Vec<String> {
        let dpdk = || {
            let ports = self.taken.iter().map(|(port, _)| port);
            ports.filter(|port| port.backend == BackendName::Dpdk)
        };
        if let Some(given) = &args.eal {
            return given.split_whitespace().map(str::to_owned).collect();
        }
        let words: &[&str] = if dpdk().next().is_none() {
            &[]
        } else if dpdk().all(|port| port.device.starts_with("net_")) {
            &[
                "--no-pci",
                "--in-memory",
                "--single-file-segments",
                "-m",
                "256",
            ]
        } else {
            &["--in-memory"]
        };
        words.iter().map(|&word| word.to_owned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (BackendName, String, Option<String>) {
        let port = port(text).unwrap();
        (port.backend, port.device, port.netns)
    }

    #[test]
    fn a_port_is_a_backend_a_device_and_perhaps_a_namespace() {
        let device = |text: &str| text.to_owned();
        for (text, expected) in [
            (
                "af_packet:veth0",
                (BackendName::AfPacket, device("veth0"), None),
            ),
            (
                "af_xdp:eth0,queue=2@ns1",
                (
                    BackendName::AfXdp,
                    device("eth0,queue=2"),
                    Some("ns1".to_owned()),
                ),
            ),
            (
                "xdp_live:a@b@c",
                (BackendName::XdpLive, device("a@b"), Some("c".to_owned())),
            ),
            (
                "dpdk:0000:01:00.0,a=b@c",
                (BackendName::Dpdk, device("0000:01:00.0,a=b@c"), None),
            ),
            (
                "mem:pair,loss=0.01",
                (BackendName::Mem, device("pair,loss=0.01"), None),
            ),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_port_says_what_was_expected() {
        for text in ["", "veth0", "mem:", "af_packet:@ns", "af_packet:veth0@"] {
            assert!(
                port(text)
                    .unwrap_err()
                    .starts_with("expected BACKEND:DEVICE"),
                "{text}"
            );
        }
        assert!(
            port("pcap:x")
                .unwrap_err()
                .starts_with("no backend is named 'pcap'")
        );
        assert_eq!(target("none"), Ok(Target(None)));
    }

    #[test]
    fn a_port_named_twice_is_one_but_a_pair_in_memory_has_two_ends() {
        let mut ports = Ports::default();
        let (veth, pair) = (
            port("af_packet:v@n").unwrap(),
            port("mem:p,loss=0.1").unwrap(),
        );
        assert_eq!(ports.take(&veth, Side::From), 0);
        assert_eq!(ports.take(&veth, Side::To), 0);
        assert_eq!(ports.take(&pair, Side::From), 1);
        assert_eq!(ports.take(&pair, Side::To), 2);
        assert_eq!(ports.take(&pair, Side::From), 1);
        assert_eq!(ports.names, ["v@n", "p", "p#2"]);
    }
}
