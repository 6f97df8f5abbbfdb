//! Streams that replay a capture.

use super::stream::{pacer, rate_fps, rx_ports};
use super::{Known, KnownPort, check, invalid};
use crate::protocol::{ErrorReply, RunRequest, Shape, StreamRequest, Template};
use pinchpoint_import::replay::{self, Side, Source};
use pinchpoint_port::Backend;
use pinchpoint_traffic::pacer::Pacer;
use pinchpoint_traffic::program::FrameProgram;
use pinchpoint_traffic::recorded::Recorded;
use pinchpoint_traffic::replay::Replay;
use pinchpoint_wire::FCS_LEN;
use pinchpoint_workload::streams::plan::Part;
use pinchpoint_workload::streams::{Plan, PlannedStream};
use std::path::Path;
use std::sync::Arc;

/// Adds a stream of a capture's frames that is sent for this many seconds. It has
/// one part: the frames keep their order.
pub(super) fn add_replay(
    plan: &mut Plan,
    run: &RunRequest,
    (index, request, sent_s): (usize, &StreamRequest, f64),
    (tx_port, known): (&KnownPort, &Known),
) -> Result<(), ErrorReply> {
    let key = format!("streams[{index}]");
    check_request(request, tx_port, &key)?;
    let &[(worker, place)] = tx_port.workers.as_slice() else {
        return Err(invalid(
            format!("{key}.tx_port"),
            "expected a port with one queue: the frames of a capture keep their order",
        ));
    };
    let rx_ports = rx_ports(request, known, &key)?;
    let max_len = rx_ports.iter().map(|&index| known.ports[index].max_len);
    let max_len = max_len.fold(tx_port.max_len, usize::min);
    let side = side(request, max_len, &format!("{key}.template.capture"))?;
    let frames = side.frames.iter().map(Vec::as_slice);
    let Some(replay) = Replay::new(frames, request.stamped).map(Arc::new) else {
        return Err(invalid(key, "the capture holds no frame"));
    };
    let (id, unsigned) = (u16::from(request.id), replay.unsigned());
    let program = FrameProgram::replay(replay, id, run.epoch);
    let times = Recorded::new(side.offsets_ns, side.period_ns).map(Arc::new);
    let own_fps = times.as_ref().map(|times| times.rate_fps());
    let rate_fps = rate_fps(request, tx_port, program.mean_len(), own_fps, &key)?;
    let captured = matches!(&request.shape, Shape::Captured {});
    let pacer = if let (true, Some(rate_fps), Some(times)) = (captured, rate_fps, times) {
        Pacer::paced(rate_fps, sent_s, 0.0).recorded(times)
    } else {
        let phase = index as f64 / run.streams.len() as f64;
        pacer(request, id, rate_fps, sent_s, phase, &key)?
    };
    let part = plan.parts.len();
    plan.parts.push(Part {
        stream: index,
        id,
        worker: Some(worker),
        rx_ports,
        flow_count: None,
        frames: pacer.intended(),
        verify_checksums: run.verify_checksums,
        sent_bound: Arc::default(),
        flows: None,
        unsigned: Some(unsigned),
    });
    plan.workers[worker].streams.push(PlannedStream {
        part,
        program,
        pacer,
        rate_fps,
        tx_port: place,
        live: None,
    });
    Ok(())
}

/// Nothing is asked for that captured frames do not have.
fn check_request(
    request: &StreamRequest,
    tx_port: &KnownPort,
    key: &str,
) -> Result<(), ErrorReply> {
    check(
        tx_port.backend != Backend::XdpLive,
        format!("{key}.tx_port"),
        "expected a port whose frames the engine writes: the kernel makes copies of one",
    )?;
    for (name, is_left) in [
        ("fields", request.fields.is_empty()),
        ("wrong_checksums", request.wrong_checksums.is_empty()),
        ("flows", request.flows == 1),
        ("tracked_flows", request.tracked_flows == 0),
        ("limit_frames", request.limit_frames.is_none()),
    ] {
        check(
            is_left,
            format!("{key}.{name}"),
            "expected none (1 of flows): the frames of a capture are sent as they are",
        )?;
    }
    Ok(())
}

/// The frames of the request's side of the capture, none longer than `max_len`.
fn side(request: &StreamRequest, max_len: usize, key: &str) -> Result<Side, ErrorReply> {
    let Template::Capture {
        file,
        source,
        others,
    } = &request.template
    else {
        return Err(invalid(key, "expected a capture"));
    };
    let source = source.as_deref().map(str::parse::<Source>).transpose();
    let source = source.map_err(|told| invalid(format!("{key}.source"), told))?;
    let side = replay::read(Path::new(file), source.as_ref(), *others);
    let side = side.map_err(|told| invalid(key, told))?;
    let long = side.frames.iter().position(|frame| frame.len() > max_len);
    if let Some(k) = long {
        return Err(invalid(
            key,
            format!(
                "{file}: frame {} of {} bytes: its ports carry frames of up to {} bytes",
                side.numbers[k],
                side.frames[k].len() + FCS_LEN,
                max_len + FCS_LEN
            ),
        ));
    }
    Ok(side)
}
