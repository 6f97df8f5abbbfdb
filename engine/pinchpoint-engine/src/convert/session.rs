//! What a session opens.

use super::{MAX_NAME, check, check_core};
use crate::protocol::{BackendName, ErrorReply, OpenRequest, PortRequest};
use pinchpoint_port::{Backend, PortSpec, SessionSpec};
use pinchpoint_wire::FCS_LEN;

const MAX_PORTS: usize = 64;
const MAX_ANSWERS: usize = 4096;
const MAX_RING: u32 = 32_768;
const MAX_LINK_TIMEOUT_S: f64 = 600.0;
const MIN_FRAME: usize = 64;

/// What a session opens, with a core for each worker.
///
/// # Errors
/// Code `invalid`, naming the key.
pub fn session(
    request: &OpenRequest,
    allowed_cores: &[usize],
) -> Result<(SessionSpec, Vec<PortSpec>), ErrorReply> {
    for (k, worker) in request.workers.iter().enumerate() {
        let before = &request.workers[..k];
        check(
            before.iter().all(|other| other.core != worker.core),
            format!("workers[{k}].core"),
            format!(
                "core {} has a worker already; expected one worker per core",
                worker.core
            ),
        )?;
    }
    shared_session(request, allowed_cores)
}

/// The same where workers may share a core.
///
/// # Errors
/// Code `invalid`, naming the key.
pub fn shared_session(
    request: &OpenRequest,
    allowed_cores: &[usize],
) -> Result<(SessionSpec, Vec<PortSpec>), ErrorReply> {
    check_workers(request, allowed_cores)?;
    check(
        (0.0..=MAX_LINK_TIMEOUT_S).contains(&request.link_timeout_s),
        "link_timeout_s",
        "expected 0 to 600",
    )?;
    let longest = request.longest_frame_bytes;
    check(
        longest.is_none_or(|bytes| bytes >= MIN_FRAME),
        "longest_frame_bytes",
        "expected at least 64, or null",
    )?;
    let count = request.ports.len();
    check(
        (1..=MAX_PORTS).contains(&count),
        "ports",
        format!("expected 1 to {MAX_PORTS}, got {count}"),
    )?;
    let mut specs: Vec<PortSpec> = Vec::with_capacity(count);
    for (k, port) in request.ports.iter().enumerate() {
        let queues = request.workers.iter();
        let queues = queues
            .filter(|worker| worker.ports.contains(&port.name))
            .count();
        specs.push(port_spec(
            port,
            queues as u16,
            &format!("ports[{k}]"),
            &specs,
        )?);
    }
    let session = SessionSpec {
        eal_args: request.eal_args.clone(),
        worker_cores: request.workers.iter().map(|worker| worker.core).collect(),
        worker_ports: request
            .workers
            .iter()
            .map(|worker| worker.ports.clone())
            .collect(),
        longest_frame: longest.map(|bytes| bytes - FCS_LEN),
    };
    Ok((session, specs))
}

fn check_workers(request: &OpenRequest, allowed_cores: &[usize]) -> Result<(), ErrorReply> {
    check(
        !request.workers.is_empty(),
        "workers",
        "expected at least one",
    )?;
    for (k, worker) in request.workers.iter().enumerate() {
        check_core(worker.core, &format!("workers[{k}].core"), allowed_cores)?;
        for (n, name) in worker.ports.iter().enumerate() {
            let key = format!("workers[{k}].ports[{n}]");
            let known = request.ports.iter().any(|port| port.name == *name);
            check(known, &key, format!("no port is named '{name}'"))?;
            let twice = worker.ports[..n].contains(name);
            check(!twice, &key, format!("'{name}' is listed twice"))?;
        }
    }
    Ok(())
}

fn port_spec(
    request: &PortRequest,
    queues: u16,
    port: &str,
    before: &[PortSpec],
) -> Result<PortSpec, ErrorReply> {
    let key = |name| format!("{port}.{name}");
    let fresh = before.iter().all(|other| other.name != request.name);
    check(
        fresh,
        key("name"),
        format!(
            "expected a new name, '{}' belongs to another port",
            request.name
        ),
    )?;
    check(
        (1..=MAX_NAME).contains(&request.name.len()),
        key("name"),
        "expected 1 to 256 bytes",
    )?;
    check(
        queues > 0,
        key("name"),
        format!(
            "no worker drives '{}'; list it in one of workers[].ports",
            request.name
        ),
    )?;
    check(!request.device.is_empty(), key("device"), "is empty")?;
    for (name, ring) in [("rx_ring", request.rx_ring), ("tx_ring", request.tx_ring)] {
        check(
            (1..=MAX_RING).contains(&ring),
            key(name),
            "expected 1 to 32768",
        )?;
    }
    check(
        request.ring_behind.is_none_or(|ring| ring > 0),
        key("ring_behind"),
        "expected at least 1, or null",
    )?;
    let backend = backend(request.backend);
    check(
        request.netns.is_none() || !matches!(backend, Backend::Mem | Backend::Dpdk),
        key("netns"),
        "expected null: only ports on kernel interfaces are in a network namespace",
    )?;
    check(
        request.answers.len() <= MAX_ANSWERS,
        key("answers"),
        "expected at most 4096 addresses",
    )?;
    Ok(PortSpec {
        name: request.name.clone(),
        backend,
        device: request.device.clone(),
        netns: request.netns.clone(),
        rx_ring: request.rx_ring,
        tx_ring: request.tx_ring,
        queues,
    })
}

fn backend(name: BackendName) -> Backend {
    match name {
        BackendName::Mem => Backend::Mem,
        BackendName::AfPacket => Backend::AfPacket,
        BackendName::AfXdp => Backend::AfXdp,
        BackendName::XdpLive => Backend::XdpLive,
        BackendName::Dpdk => Backend::Dpdk,
    }
}
