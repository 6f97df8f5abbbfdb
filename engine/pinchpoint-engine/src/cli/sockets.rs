//! `rr`, `crr` and `stream`: one workload, from options to its account.

use super::client::Client;
use super::engine_args::OutputArgs;
use super::live::Line;
use super::numbers::{grouped, scaled};
use super::table::Paint;
use super::{Failure, print, print_json, sockets_table};
use crate::protocol::{Reply, Request};
use crate::usage;
use pinchpoint_sockets::message::{Kind, SocketsRequest, SocketsSample, Status};
use std::fs::File;
use std::io::IsTerminal;

/// Runs what `request` asks for; returns the exit status.
///
/// # Errors
/// What is wrong with the command line, or what could not be done.
pub(super) fn run(
    request: &SocketsRequest,
    output: &OutputArgs,
    out: &mut File,
) -> Result<u8, Failure> {
    let message = Request::Sockets(request.clone());
    if output.dry_run {
        print_json(out, &message);
        return Ok(usage::EXIT_DONE);
    }
    let mut client = Client::start()?;
    let mut line = Line::new(output.quiet);
    let mut last = None;
    let reply = client.ask(&message, |reply| {
        if let Reply::SocketsSample(sample) = reply {
            line.show(&progress(request, last.as_ref(), sample));
            last = Some(sample.clone());
        }
    });
    line.clear();
    let signalled = client.close();
    let reply = reply?;
    let Reply::SocketsResult(result) = &reply else {
        return Err(Failure::failed(
            "the engine sent an unexpected answer to 'sockets'",
        ));
    };
    if output.json {
        print_json(out, &reply);
    } else {
        let paint = Paint::of(out.is_terminal());
        print(out, &sockets_table::told(result, paint));
    }
    Ok(signalled.unwrap_or(match result.status {
        Status::Aborted => usage::EXIT_LOST,
        Status::Completed | Status::Stopped => usage::EXIT_DONE,
    }))
}

/// What a sample adds to the one before.
fn progress(
    request: &SocketsRequest,
    before: Option<&SocketsSample>,
    sample: &SocketsSample,
) -> String {
    let elapsed_s = sample.elapsed_s - before.map_or(0.0, |before| before.elapsed_s);
    let rate = |of: fn(&SocketsSample) -> u64| {
        of(sample).saturating_sub(before.map_or(0, of)) as f64 / elapsed_s.max(1e-9)
    };
    let told = if request.kind == Kind::Stream {
        format!(
            "{}bit/s",
            scaled(rate(|sample| sample.received_bytes) * 8.0)
        )
    } else {
        format!(
            "{}transactions/s  {} failed",
            scaled(rate(|sample| sample.transactions)),
            grouped(sample.failed)
        )
    };
    let total_s = f64::from(request.repeats) * (request.warm_up_s + request.duration_s);
    let left_s = (total_s - sample.elapsed_s).max(0.0);
    format!("{:6.1} s  {told}  {left_s:.0} s left", sample.elapsed_s)
}
