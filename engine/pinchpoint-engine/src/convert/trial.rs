//! What a trial runs.

use super::elsewhere::{add_elsewhere, check_elsewhere};
use super::replay::add_replay;
use super::slices::Turns;
use super::stream::{find, is_drawn, pacer, rate_fps, rx_ports};
use super::template::{Block, spec};
use super::{Known, KnownPort, MAX_NAME, check, check_core, invalid};
use crate::protocol::{ErrorReply, RunRequest, Shape, StreamRequest, Template};
use pinchpoint_port::xdp_live::{
    LiveChecksum, LiveEdit, LiveStream, MAX_STREAMS as MAX_LIVE_STREAMS,
};
use pinchpoint_port::{BURST, Backend};
use pinchpoint_traffic::flows::{FlowMap, MAX_TRACKED};
use pinchpoint_traffic::program::FrameProgram;
use pinchpoint_traffic::recipe::{Recipe, RecipeChecksum, RecipeField};
use pinchpoint_traffic::spec::{SpecError, StreamSpec};
use pinchpoint_wire::FCS_LEN;
use pinchpoint_workload::streams::plan::Part;
use pinchpoint_workload::streams::{Plan, PlannedStream, WorkerPlan};
use std::sync::Arc;
use std::time::Duration;

/// A stream's id is a byte, and the number of a part of it another one.
const MAX_STREAMS: usize = 256;
const MAX_PARTS: usize = 255;
const MAX_DURATION_S: f64 = 86_400.0;
const MAX_DRAIN_S: f64 = 60.0;
const MAX_QUIET_WAIT_S: f64 = 2.0;
/// How long a trial waits for `go`, and after its sending for `stop`: more than a
/// lab takes for the other engines, whose links may be down at first.
const PEER_TIMEOUT: Duration = Duration::from_secs(600);
const MAX_PROBES: usize = 64;
const MIN_SAMPLE_INTERVAL_S: f64 = 0.01;
/// What is kept takes up to 9,216 bytes a frame.
const MAX_CAPTURE: usize = 10_000;

/// What a trial runs in the session `known`.
///
/// # Errors
/// Code `invalid`, naming the key.
pub fn plan(
    request: &RunRequest,
    known: &Known,
    allowed_cores: &[usize],
) -> Result<Plan, ErrorReply> {
    check_times(request)?;
    check_options(request, allowed_cores)?;
    let count = request.streams.len();
    check(
        count <= MAX_STREAMS,
        "streams",
        format!("expected at most {MAX_STREAMS}, got {count}"),
    )?;
    let worker = |&core: &usize| WorkerPlan {
        core,
        streams: Vec::new(),
    };
    let mut plan = Plan {
        epoch: request.epoch,
        duration_ns: nanoseconds(request.duration_s),
        drain_ns: nanoseconds(request.drain_s),
        peer_timeout_ns: request.on_go.then_some(PEER_TIMEOUT.as_nanos() as u64),
        tx_burst: request.tx_burst,
        latency_every: request.latency_every,
        capture: request.capture.as_ref().map_or(0, |capture| capture.frames),
        slices: None,
        streams: count,
        ports: known.ports.len(),
        jitter: true,
        parts: Vec::new(),
        workers: known.cores.iter().map(worker).collect(),
    };
    check_ids(&request.streams)?;
    let turns = Turns::new(request, plan.duration_ns)?;
    check_elsewhere(request)?;
    for (k, stream) in request.streams.iter().enumerate() {
        let sent_s = turns.as_ref().map_or(request.duration_s, |it| it.sent_s(k));
        add_stream(&mut plan, request, (k, stream, sent_s), known)?;
    }
    plan.slices = turns.map(|turns| turns.of_parts(&plan.parts));
    check_live(&plan, request)?;
    share_budgets(&mut plan, known);
    Ok(plan)
}

/// Gives each stream its share, by rate, of what its port may catch up with.
/// Groups that take turns share too, although they are not sent together.
fn share_budgets(plan: &mut Plan, known: &Known) {
    for port in &known.ports {
        for &(worker, place) in &port.workers {
            let streams = &mut plan.workers[worker].streams;
            let own = |stream: &&mut PlannedStream| stream.tx_port == place;
            let rates = streams.iter_mut().filter(own);
            let total_fps: f64 = rates.filter_map(|stream| stream.rate_fps).sum();
            for stream in streams.iter_mut().filter(own) {
                // An unpaced stream never catches up.
                let share = stream.rate_fps.map_or(1.0, |rate_fps| rate_fps / total_fps);
                stream.pacer = stream.pacer.clone().within(port.smallest_ring, share);
            }
        }
    }
}

/// The kernel has room for a number of streams' programs at each port.
fn check_live(plan: &Plan, request: &RunRequest) -> Result<(), ErrorReply> {
    for worker in &plan.workers {
        for stream in worker.streams.iter().filter(|stream| stream.live.is_some()) {
            let same = |other: &&PlannedStream| other.tx_port == stream.tx_port;
            let count = worker.streams.iter().filter(same).count();
            let name = &request.streams[plan.parts[stream.part].stream].tx_port;
            let name = name.as_deref().unwrap_or_default();
            check(
                count <= MAX_LIVE_STREAMS,
                "streams",
                format!("'{name}' sends at most {MAX_LIVE_STREAMS} streams, got {count}"),
            )?;
        }
    }
    Ok(())
}

/// Every stream has an id of its own.
fn check_ids(streams: &[StreamRequest]) -> Result<(), ErrorReply> {
    let mut taken = [false; 256];
    for (k, stream) in streams.iter().enumerate() {
        let slot = &mut taken[usize::from(stream.id)];
        check(
            !*slot,
            format!("streams[{k}].id"),
            format!("expected a new id, {} belongs to another stream", stream.id),
        )?;
        *slot = true;
    }
    Ok(())
}

/// Adds a stream that is sent for this many seconds: a part of it for each
/// worker that drives its port.
fn add_stream(
    plan: &mut Plan,
    run: &RunRequest,
    (index, request, sent_s): (usize, &StreamRequest, f64),
    known: &Known,
) -> Result<(), ErrorReply> {
    let key = format!("streams[{index}]");
    let Some(name) = &request.tx_port else {
        return add_elsewhere(plan, run, (index, request), known);
    };
    let tx_port = &known.ports[find(name, known, &format!("{key}.tx_port"))?];
    if let Template::Capture { .. } = &request.template {
        return add_replay(plan, run, (index, request, sent_s), (tx_port, known));
    }
    let rx_ports = rx_ports(request, known, &key)?;
    let max_len = rx_ports.iter().map(|&index| known.ports[index].max_len);
    let max_len = max_len.fold(tx_port.max_len, usize::min);
    let parts = tx_port.workers.len();
    check(
        parts <= MAX_PARTS,
        format!("{key}.tx_port"),
        format!("expected a port of at most {MAX_PARTS} workers, '{name}' has {parts}"),
    )?;
    for (part, &(worker, place)) in tx_port.workers.iter().enumerate() {
        let id = u16::from_be_bytes([part as u8, request.id]);
        let block = Block {
            part: part as u64,
            parts: parts as u64,
        };
        let spec = spec(request, run, id, &block, &key)?;
        let (program, live) = frames(request, &spec, tx_port, max_len, &key)?;
        let rate_fps = rate_fps(request, tx_port, program.mean_len(), None, &key)?;
        let rate_fps = rate_fps.map(|rate_fps| rate_fps / parts as f64);
        // Spread over one interval, so that equal rates do not add up to
        // bursts of as many frames as there are streams.
        let phase = (index as f64 + part as f64 / parts as f64) / run.streams.len() as f64;
        let pacer = pacer(request, id, rate_fps, sent_s, phase, &key)?;
        let pacer = match counted(request, tx_port, &block, &key)? {
            Some(frames) => pacer.exactly(frames),
            None => pacer,
        };
        let number = plan.parts.len();
        plan.parts.push(Part {
            stream: index,
            id,
            worker: Some(worker),
            rx_ports: if request.stamped {
                rx_ports.clone()
            } else {
                Vec::new()
            },
            flow_count: (!is_drawn(&spec)).then_some(spec.flows),
            frames: pacer.intended(),
            verify_checksums: run.verify_checksums && request.wrong_checksums.is_empty(),
            sent_bound: Arc::default(),
            flows: tracked(request, &spec, parts, &key)?,
            unsigned: None,
        });
        plan.workers[worker].streams.push(PlannedStream {
            part: number,
            pacer,
            program,
            rate_fps,
            tx_port: place,
            live,
        });
    }
    Ok(())
}

/// How many frames the part of a stream has, if the stream has a number of them.
fn counted(
    request: &StreamRequest,
    tx_port: &KnownPort,
    block: &Block,
    key: &str,
) -> Result<Option<u64>, ErrorReply> {
    let Some(frames) = request.limit_frames else {
        return Ok(None);
    };
    let key = format!("{key}.limit_frames");
    let even = matches!(request.shape, Shape::Steady {} | Shape::Bursts { .. });
    check(
        request.rate.is_some() && even,
        &key,
        "expected null for a stream without a rate, or of another shape than steady or bursts",
    )?;
    check(
        tx_port.backend != Backend::XdpLive,
        &key,
        "expected null for frames made by the kernel: those that it refuses are not made again",
    )?;
    let before = |part: u64| u128::from(part) * u128::from(frames) / u128::from(block.parts);
    Ok(Some((before(block.part + 1) - before(block.part)) as u64))
}

/// What writes the frames of a part, or has the kernel make them.
fn frames(
    request: &StreamRequest,
    spec: &StreamSpec,
    tx_port: &KnownPort,
    max_len: usize,
    key: &str,
) -> Result<(FrameProgram, Option<LiveStream>), ErrorReply> {
    let refused = |error: SpecError| {
        let at = spec_key(&error.key, request);
        invalid(format!("{key}.{at}"), error.what)
    };
    let program = FrameProgram::new(spec).map_err(refused)?;
    check(
        program.max_len() <= max_len,
        format!("{key}.size"),
        format!(
            "its ports carry frames of up to {} bytes",
            max_len + FCS_LEN
        ),
    )?;
    let live = live(tx_port, spec).map_err(refused)?;
    Ok((program, live))
}

/// The key of the protocol that a key of the traffic crate comes from.
fn spec_key(key: &str, request: &StreamRequest) -> String {
    if let Some(rest) = key.strip_prefix("sizes") {
        return format!("size{rest}");
    }
    if key.starts_with("layers") {
        return format!("template.{key}");
    }
    // The operation's own name stands between `op` and its keys.
    let Some((program, rest)) = key.split_once(".op.") else {
        return key.to_owned();
    };
    let number = program
        .strip_prefix("fields[")
        .and_then(|rest| rest.strip_suffix(']'));
    let program_request = number.and_then(|k| request.fields.get(k.parse::<usize>().ok()?));
    let Some(program_request) = program_request else {
        return key.to_owned();
    };
    match program_request.op.word() {
        "list" => format!("{program}.op.{}", rest.replace("values", "list")),
        word => format!("{program}.op.{word}.{rest}"),
    }
}

/// The frames as the kernel is to make them, if the port has it do so.
fn live(tx_port: &KnownPort, spec: &StreamSpec) -> Result<Option<LiveStream>, SpecError> {
    if tx_port.backend != Backend::XdpLive {
        return Ok(None);
    }
    let recipe = Recipe::new(spec)?;
    let edit = |field: &RecipeField| LiveEdit {
        offset: field.offset,
        width: field.width,
        base: field.base,
        step: field.step,
        mask: field.mask,
        count: field.count,
    };
    let checksum = |check: RecipeChecksum| LiveChecksum {
        offset: check.offset,
        udp: check.avoids_zero,
        edits: check.fields,
    };
    let stream = LiveStream {
        id: spec.id,
        epoch: spec.epoch,
        flows: spec.flows,
        first_flow: spec.first_flow,
        edits: recipe.fields.iter().map(edit).collect(),
        checksums: recipe.checksums.into_iter().map(checksum).collect(),
        template: recipe.frame,
    };
    match stream.validate() {
        Ok(()) => Ok(Some(stream)),
        Err(error) => Err(SpecError {
            key: "fields".to_owned(),
            what: error.message,
        }),
    }
}

/// The flows of a part to follow one by one: of the stream's first ones, those
/// in the part's block.
fn tracked(
    request: &StreamRequest,
    spec: &StreamSpec,
    parts: usize,
    key: &str,
) -> Result<Option<(FlowMap, usize)>, ErrorReply> {
    let wanted = request.tracked_flows;
    let key = format!("{key}.tracked_flows");
    check(
        wanted <= MAX_TRACKED as u64,
        &key,
        format!("expected at most {MAX_TRACKED}, got {wanted}"),
    )?;
    if wanted == 0 {
        return Ok(None);
    }
    check(
        request.flows >= parts as u64,
        &key,
        format!(
            "expected at least as many flows as workers ({parts}) to track them, got {}",
            request.flows
        ),
    )?;
    check(
        !is_drawn(spec),
        key,
        "expected 0 for a stream with a zipf field: its flows do not follow from the sequence \
         number",
    )?;
    let map = FlowMap {
        first: spec.first_flow,
        flows: spec.flows,
    };
    let tracked = wanted.saturating_sub(spec.first_flow).min(spec.flows);
    Ok(Some((map, tracked as usize)))
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

fn check_options(request: &RunRequest, allowed_cores: &[usize]) -> Result<(), ErrorReply> {
    check(
        request.trial.len() <= MAX_NAME,
        "trial",
        "expected at most 256 bytes",
    )?;
    check(
        request.probe_cores.len() <= MAX_PROBES,
        "probe_cores",
        "expected at most 64 pairs",
    )?;
    for (place, &[one, other]) in request.probe_cores.iter().enumerate() {
        let field = format!("probe_cores[{place}]");
        check_core(one, &format!("{field}[0]"), allowed_cores)?;
        check_core(other, &format!("{field}[1]"), allowed_cores)?;
        check(one != other, &field, "expected two different cores")?;
    }
    check(
        (0.0..=MAX_QUIET_WAIT_S).contains(&request.quiet_within_s),
        "quiet_within_s",
        "expected 0 to 2 seconds",
    )?;
    check(
        (1..=BURST).contains(&request.tx_burst),
        "tx_burst",
        format!("expected 1 to {BURST}, got {}", request.tx_burst),
    )?;
    check(
        request.latency_every > 0,
        "latency_every",
        "expected 1 (every frame) or more",
    )?;
    let frames = request.capture.as_ref().map_or(1, |capture| capture.frames);
    check(
        (1..=MAX_CAPTURE).contains(&frames),
        "capture.frames",
        format!("expected 1 to {MAX_CAPTURE}, got {frames}"),
    )
}

fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

#[cfg(test)]
#[path = "trial_tests.rs"]
mod tests;
