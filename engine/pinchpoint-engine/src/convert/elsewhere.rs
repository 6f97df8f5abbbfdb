//! Streams that another engine sends.

use super::stream::{is_drawn, rx_ports};
use super::template::{Block, spec};
use super::{Known, check};
use crate::protocol::{ErrorReply, RunRequest, StreamRequest};
use pinchpoint_traffic::sent_bound::SentBound;
use pinchpoint_workload::streams::Plan;
use pinchpoint_workload::streams::plan::Part;
use std::sync::Arc;

/// Adds a stream that another engine sends: nothing but a part to be received.
pub(super) fn add_elsewhere(
    plan: &mut Plan,
    run: &RunRequest,
    (index, request): (usize, &StreamRequest),
    known: &Known,
) -> Result<(), ErrorReply> {
    let key = format!("streams[{index}]");
    let rx_ports = rx_ports(request, known, &key)?;
    check(
        !rx_ports.is_empty() && request.stamped,
        format!("{key}.tx_port"),
        "expected the name of a port for a stream that nobody here receives by its signature",
    )?;
    check(
        run.on_go,
        format!("{key}.tx_port"),
        "expected the name of a port where on_go is false: who sends it begins on a `go` of its own",
    )?;
    check(
        request.tracked_flows == 0,
        format!("{key}.tracked_flows"),
        "expected 0 for a stream that another engine sends",
    )?;
    let id = u16::from(request.id);
    let spec = spec(request, run, id, &Block { part: 0, parts: 1 }, &key)?;
    plan.parts.push(Part {
        stream: index,
        id,
        worker: None,
        rx_ports,
        flow_count: (!is_drawn(&spec)).then_some(spec.flows),
        frames: None,
        verify_checksums: run.verify_checksums && request.wrong_checksums.is_empty(),
        sent_bound: Arc::new(SentBound::endless()),
        flows: None,
        unsigned: None,
    });
    Ok(())
}

/// Where other engines take part there are no slices: they know nothing of this engine's turns.
pub(super) fn check_elsewhere(request: &RunRequest) -> Result<(), ErrorReply> {
    check(
        request.slices.is_none() || !request.on_go,
        "slices",
        "expected null where on_go is true",
    )
}
