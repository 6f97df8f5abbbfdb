//! From specifications to open ports.

use crate::af_packet::AfPacketPort;
use crate::fault::{self, Faults, Faulty};
use crate::spec::{Backend, Deadline, PortSpec, SessionSpec};
use crate::xdp_live::XdpLivePort;
use crate::{AnyPort, OpenError, af_xdp, mem};

/// Opens `ports`; returns the queues of each, as many as its specification
/// says. Links may still be down, but a device that is only there once its link
/// is up is waited for until `deadline`.
///
/// # Errors
/// [`OpenError`] for the first port that cannot be opened; those opened
/// before it are closed again.
pub fn open(
    session: &SessionSpec,
    ports: &[PortSpec],
    deadline: Deadline<'_>,
) -> Result<Vec<Vec<AnyPort>>, OpenError> {
    let mut opened: Vec<Vec<AnyPort>> = ports.iter().map(|_| Vec::new()).collect();
    open_mem(ports, &mut opened)?;
    open_dpdk(session, ports, deadline, &mut opened)?;
    for (spec, slot) in ports.iter().zip(&mut opened) {
        let queues = match spec.backend {
            Backend::Mem | Backend::Dpdk => continue,
            Backend::AfPacket => open_af_packet(spec),
            Backend::AfXdp => open_af_xdp(spec),
            Backend::XdpLive => open_xdp_live(spec),
        };
        *slot = queues.map_err(|error| error.at(&spec.name))?;
    }
    Ok(opened)
}

fn open_af_packet(spec: &PortSpec) -> Result<Vec<AnyPort>, OpenError> {
    let queues = AfPacketPort::open(spec)?.into_iter();
    Ok(queues
        .map(|port| AnyPort::AfPacket(Box::new(port)))
        .collect())
}

fn open_af_xdp(spec: &PortSpec) -> Result<Vec<AnyPort>, OpenError> {
    let queues = af_xdp::open(spec)?.into_iter();
    Ok(queues.map(|port| AnyPort::AfXdp(Box::new(port))).collect())
}

fn open_xdp_live(spec: &PortSpec) -> Result<Vec<AnyPort>, OpenError> {
    if spec.queues > 1 {
        return Err(OpenError::new("an xdp_live port has only one queue")
            .hint("list the port at one worker only"));
    }
    let port = XdpLivePort::open(spec)?;
    Ok(vec![AnyPort::XdpLive(Box::new(port))])
}

#[cfg(feature = "dpdk")]
fn open_dpdk(
    session: &SessionSpec,
    ports: &[PortSpec],
    deadline: Deadline<'_>,
    opened: &mut [Vec<AnyPort>],
) -> Result<(), OpenError> {
    let wanted = |spec: &&PortSpec| spec.backend == Backend::Dpdk;
    let specs: Vec<_> = ports.iter().filter(wanted).collect();
    if specs.is_empty() {
        return Ok(());
    }
    let mut made = crate::dpdk::open(session, &specs, deadline)?.into_iter();
    for (spec, slot) in ports.iter().zip(opened) {
        if spec.backend == Backend::Dpdk {
            let queues = made.next().into_iter().flatten();
            *slot = queues.map(|port| AnyPort::Dpdk(Box::new(port))).collect();
        }
    }
    Ok(())
}

#[cfg(not(feature = "dpdk"))]
fn open_dpdk(
    _session: &SessionSpec,
    ports: &[PortSpec],
    _deadline: Deadline<'_>,
    _opened: &mut [Vec<AnyPort>],
) -> Result<(), OpenError> {
    match ports.iter().find(|spec| spec.backend == Backend::Dpdk) {
        Some(spec) => Err(OpenError::new("this engine was built without DPDK")
            .hint("cargo build --release --features dpdk (needs libdpdk-dev)")
            .at(&spec.name)),
        None => Ok(()),
    }
}

/// Joins the `mem` ports with the same pair name, two by two.
fn open_mem(ports: &[PortSpec], opened: &mut [Vec<AnyPort>]) -> Result<(), OpenError> {
    for (first, spec) in ports.iter().enumerate() {
        if spec.backend != Backend::Mem || !opened[first].is_empty() {
            continue;
        }
        let (name, faults) = parse_mem(&spec.device).map_err(|error| error.at(&spec.name))?;
        let others: Vec<_> = (first + 1..ports.len())
            .filter(|&k| ports[k].backend == Backend::Mem && pair_name(&ports[k].device) == name)
            .collect();
        let &[second] = others.as_slice() else {
            return Err(OpenError::new(format!(
                "mem pair '{name}' needs exactly two ports, found {}",
                others.len() + 1
            ))
            .hint("give two mem ports the same device name")
            .at(&spec.name));
        };
        let other = &ports[second];
        let (_, other_faults) = parse_mem(&other.device).map_err(|error| error.at(&other.name))?;
        if spec.queues != other.queues {
            return Err(OpenError::new(format!(
                "{} queues, but {} at the other end, '{}'",
                spec.queues, other.queues, other.name
            ))
            .hint("give both ends of a mem pair as many workers")
            .at(&spec.name));
        }
        let capacity = spec.tx_ring.min(other.rx_ring) as usize;
        for queue in 0..spec.queues {
            let (one, two) = mem::pair(capacity);
            let share = |faults: Faults| faults.of_queue(queue, spec.queues);
            opened[first].push(with_faults(one, faults.map(share)));
            opened[second].push(with_faults(two, other_faults.map(share)));
        }
    }
    Ok(())
}

fn with_faults(port: mem::MemPort, faults: Option<Faults>) -> AnyPort {
    match faults {
        Some(faults) => AnyPort::FaultyMem(Box::new(Faulty::new(port, faults))),
        None => AnyPort::Mem(port),
    }
}

fn pair_name(device: &str) -> &str {
    device.split(',').next().unwrap_or(device)
}

/// `pair0`, or `pair0,loss=0.01,delay_us=20` with any keys of
/// [`Faults::parse`].
fn parse_mem(device: &str) -> Result<(&str, Option<Faults>), OpenError> {
    let Some((name, options)) = device.split_once(',') else {
        return Ok((device, None));
    };
    let faults = Faults::parse(options).map_err(|wrong| {
        OpenError::new(format!("mem device '{device}': {wrong}")).hint(fault::OPTIONS)
    })?;
    Ok((name, Some(faults)))
}
