//! From requests to what the worker runs, with every check of their values.

use crate::protocol::{
    BackendName, ErrorCode, ErrorReply, FieldName, OpenRequest, PortRequest, RunRequest,
    StreamRequest,
};
use pinchpoint_port::{Backend, PortSpec, SessionSpec};
use pinchpoint_traffic::pacer::Pacer;
use pinchpoint_traffic::program::FrameProgram;
use pinchpoint_traffic::spec::{
    self, FieldProgram, FieldRef, Layer, Op, Sizes, SpecError, StreamSpec, Template, Wrong,
};
use pinchpoint_wire::FCS_LEN;
use pinchpoint_worker::{Plan, PlannedStream};

const MAX_PORTS: usize = 64;
const MAX_STREAMS: usize = 256;
const MAX_RING: u32 = 32_768;
const MAX_LINK_TIMEOUT_S: f64 = 600.0;
const MAX_DURATION_S: f64 = 86_400.0;
const MAX_DRAIN_S: f64 = 60.0;
const MIN_SAMPLE_INTERVAL_S: f64 = 0.01;
const MAX_RATE_FPS: f64 = 1e9;
/// Longest name of a port or a trial, in bytes.
const MAX_NAME: usize = 256;

/// A port of the open session, as trials refer to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownPort {
    /// The name the lab gave it.
    pub name: String,
    /// Bytes of the longest frame it carries, without check sequence.
    pub max_len: usize,
    /// Descriptors of its transmit ring.
    pub tx_ring: u32,
}

fn check(good: bool, key: impl AsRef<str>, what: impl AsRef<str>) -> Result<(), ErrorReply> {
    if good {
        return Ok(());
    }
    Err(ErrorReply {
        code: ErrorCode::Invalid,
        message: format!("{}: {}", key.as_ref(), what.as_ref()),
        hint: None,
    })
}

fn check_core(core: usize, key: &str, allowed: &[usize]) -> Result<(), ErrorReply> {
    check(
        allowed.contains(&core),
        key,
        format!("core {core} is not one of this process's cores {allowed:?}"),
    )
}

/// What a session opens.
///
/// # Errors
/// Code `invalid`, naming the key.
pub fn session(
    request: &OpenRequest,
    allowed_cores: &[usize],
) -> Result<(SessionSpec, Vec<PortSpec>), ErrorReply> {
    check(
        request.cores.len() == 1,
        "cores",
        "expected one core; this engine drives all ports from one",
    )?;
    check_core(request.cores[0], "cores[0]", allowed_cores)?;
    check(
        (0.0..=MAX_LINK_TIMEOUT_S).contains(&request.link_timeout_s),
        "link_timeout_s",
        "expected 0 to 600",
    )?;
    let count = request.ports.len();
    check(
        (1..=MAX_PORTS).contains(&count),
        "ports",
        format!("expected 1 to {MAX_PORTS}, got {count}"),
    )?;
    let mut specs: Vec<PortSpec> = Vec::with_capacity(count);
    for (k, port) in request.ports.iter().enumerate() {
        specs.push(port_spec(port, &format!("ports[{k}]"), &specs)?);
    }
    let session = SessionSpec {
        eal_args: request.eal_args.clone(),
        worker_cores: request.cores.clone(),
    };
    Ok((session, specs))
}

fn port_spec(
    request: &PortRequest,
    port: &str,
    before: &[PortSpec],
) -> Result<PortSpec, ErrorReply> {
    let key = |name| format!("{port}.{name}");
    let fresh = before.iter().all(|other| other.name != request.name);
    check(fresh, key("name"), format!("'{}' is taken", request.name))?;
    check(
        (1..=MAX_NAME).contains(&request.name.len()),
        key("name"),
        "expected 1 to 256 bytes",
    )?;
    check(!request.device.is_empty(), key("device"), "is empty")?;
    for (name, ring) in [("rx_ring", request.rx_ring), ("tx_ring", request.tx_ring)] {
        check(
            (1..=MAX_RING).contains(&ring),
            key(name),
            "expected 1 to 32768",
        )?;
    }
    let backend = match request.backend {
        BackendName::Mem => Backend::Mem,
        BackendName::AfPacket => Backend::AfPacket,
        BackendName::Dpdk => Backend::Dpdk,
    };
    check(
        request.netns.is_none() || backend == Backend::AfPacket,
        key("netns"),
        "only an af_packet port lives in a network namespace",
    )?;
    Ok(PortSpec {
        name: request.name.clone(),
        backend,
        device: request.device.clone(),
        netns: request.netns.clone(),
        rx_ring: request.rx_ring,
        tx_ring: request.tx_ring,
        queues: 1,
    })
}

/// What a trial runs on `core` between `ports`.
///
/// # Errors
/// Code `invalid`, naming the key.
pub fn plan(
    request: &RunRequest,
    ports: &[KnownPort],
    core: usize,
    allowed_cores: &[usize],
) -> Result<Plan, ErrorReply> {
    check_times(request)?;
    check(
        request.trial.len() <= MAX_NAME,
        "trial",
        "expected at most 256 bytes",
    )?;
    if let Some([one, other]) = request.probe_cores {
        check_core(one, "probe_cores[0]", allowed_cores)?;
        check_core(other, "probe_cores[1]", allowed_cores)?;
        check(one != other, "probe_cores", "expected two different cores")?;
    }
    let count = request.streams.len();
    check(
        (1..=MAX_STREAMS).contains(&count),
        "streams",
        format!("expected 1 to {MAX_STREAMS}, got {count}"),
    )?;
    let mut streams: Vec<PlannedStream> = Vec::with_capacity(count);
    for (k, request_stream) in request.streams.iter().enumerate() {
        let fresh = streams.iter().all(|other| other.id != request_stream.id);
        check(
            fresh,
            format!("streams[{k}].id"),
            format!("{} is taken", request_stream.id),
        )?;
        let mut planned = stream(request, request_stream, &format!("streams[{k}]"), ports)?;
        if let Some(rate_fps) = request_stream.rate_fps {
            // Spread over one interval, so that equal rates do not add up to
            // bursts of as many frames as there are streams.
            let phase = k as f64 / count as f64;
            let ring = ports[planned.tx_port].tx_ring;
            planned.pacer = Pacer::paced(rate_fps, request.duration_s, phase).within(ring);
        }
        streams.push(planned);
    }
    Ok(Plan {
        core,
        epoch: request.epoch,
        duration_ns: nanoseconds(request.duration_s),
        drain_ns: nanoseconds(request.drain_s),
        verify_checksums: request.verify_checksums,
        streams,
    })
}

fn check_times(request: &RunRequest) -> Result<(), ErrorReply> {
    let duration_s = request.duration_s;
    check(
        duration_s > 0.0 && duration_s <= MAX_DURATION_S,
        "duration_s",
        "expected more than 0 and at most 86400",
    )?;
    check(
        (0.0..=MAX_DRAIN_S).contains(&request.drain_s),
        "drain_s",
        "expected 0 to 60",
    )?;
    let interval_s = request.sample_interval_s.unwrap_or(MAX_DURATION_S);
    check(
        (MIN_SAMPLE_INTERVAL_S..=MAX_DURATION_S).contains(&interval_s),
        "sample_interval_s",
        "expected null or 0.01 to 86400",
    )
}

fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

fn stream(
    run: &RunRequest,
    request: &StreamRequest,
    key: &str,
    ports: &[KnownPort],
) -> Result<PlannedStream, ErrorReply> {
    let tx_port = find(&request.tx_port, ports, &format!("{key}.tx_port"))?;
    let rx_port = find(&request.rx_port, ports, &format!("{key}.rx_port"))?;
    if let Some(rate_fps) = request.rate_fps {
        check(
            rate_fps > 0.0 && rate_fps <= MAX_RATE_FPS,
            format!("{key}.rate_fps"),
            format!("expected null or more than 0 and at most 1e9, got {rate_fps}"),
        )?;
    }
    let invalid = |error: SpecError| ErrorReply {
        code: ErrorCode::Invalid,
        message: format!("{key}.{}: {}", request_key(&error.key), error.what),
        hint: None,
    };
    let program = FrameProgram::new(&stream_spec(run, request)).map_err(invalid)?;
    let max_len = ports[tx_port].max_len.min(ports[rx_port].max_len);
    check(
        program.max_len() <= max_len,
        format!("{key}.frame_bytes"),
        format!(
            "its ports carry frames of up to {} bytes",
            max_len + FCS_LEN
        ),
    )?;
    Ok(PlannedStream {
        id: request.id,
        program,
        pacer: Pacer::unpaced(),
        tx_port,
        rx_port,
    })
}

fn find(name: &str, ports: &[KnownPort], key: &str) -> Result<usize, ErrorReply> {
    let index = ports.iter().position(|port| port.name == name);
    check(
        index.is_some(),
        key,
        format!("no open port is named '{name}'"),
    )?;
    Ok(index.unwrap_or_default())
}

/// The request's key for a key of the specification made of it.
fn request_key(key: &str) -> String {
    if key == "sizes.fixed" {
        return "frame_bytes".to_owned();
    }
    let key = key.replace(".op.", ".");
    match key
        .strip_prefix("layers[")
        .and_then(|rest| rest.split_once("]."))
    {
        Some((_, inside)) => inside.to_owned(),
        None => key,
    }
}

fn stream_spec(run: &RunRequest, request: &StreamRequest) -> StreamSpec {
    let field = |name| match name {
        FieldName::Ipv4Src => spec::FieldName::Ipv4Src,
        FieldName::Ipv4Dst => spec::FieldName::Ipv4Dst,
        FieldName::UdpSrc => spec::FieldName::UdpSrc,
        FieldName::UdpDst => spec::FieldName::UdpDst,
    };
    let fields = request.fields.iter().map(|program| FieldProgram {
        field: FieldRef::outermost(field(program.field)),
        op: Op::Increment {
            step: program.step,
            count: program.count,
        },
    });
    StreamSpec {
        id: request.id,
        epoch: run.epoch,
        seed: 0,
        stamped: true,
        // Too short a frame stays too short, and is refused by its checks.
        sizes: Sizes::Fixed(request.frame_bytes.saturating_sub(FCS_LEN)),
        template: Template::Layers(layers(request)),
        wrong: Wrong::default(),
        flows: request.flows,
        first_flow: 0,
        fields: fields.collect(),
    }
}

fn layers(request: &StreamRequest) -> Vec<Layer> {
    vec![
        Layer::Ethernet {
            src: request.eth.src.0,
            dst: request.eth.dst.0,
            ethertype: None,
        },
        Layer::Ipv4 {
            src: request.ipv4.src,
            dst: request.ipv4.dst,
            ttl: request.ipv4.ttl,
            dscp: request.ipv4.dscp,
            ecn: 0,
            identification: 0,
            dont_fragment: true,
            protocol: None,
            options: Vec::new(),
        },
        Layer::Udp {
            src: request.udp.src,
            dst: request.udp.dst,
        },
    ]
}
