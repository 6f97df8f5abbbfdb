//! Holds the far end of a benchmark: an interface that drops and counts what
//! arrives.
//!
//! `drop_sink DEVICE [NETNS]` says `native` or `generic` once it is attached,
//! and answers every line on stdin with a line: the frames dropped so far. The
//! end of stdin ends it, and detaches the program.

use pinchpoint_port::xdp_sink::XdpDropSink;
use std::io::{self, BufRead, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (device, netns) = match arguments.as_slice() {
        [device] => (device, None),
        [device, netns] => (device, Some(netns.as_str())),
        _ => {
            eprintln!("usage: drop_sink DEVICE [NETNS]");
            return ExitCode::from(2);
        }
    };
    let sink = match XdpDropSink::attach(device, netns) {
        Ok(sink) => sink,
        Err(error) => {
            eprintln!("drop_sink: {}", error.message);
            if let Some(hint) = error.hint {
                eprintln!("hint: {hint}");
            }
            return ExitCode::FAILURE;
        }
    };
    match answer(&sink) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("drop_sink: {error}");
            ExitCode::FAILURE
        }
    }
}

fn answer(sink: &XdpDropSink) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let mode = if sink.is_native() {
        "native"
    } else {
        "generic"
    };
    writeln!(out, "{mode}")?;
    out.flush()?;
    for line in io::stdin().lock().lines() {
        line?;
        writeln!(out, "{}", sink.dropped())?;
        out.flush()?;
    }
    Ok(())
}
