//! The traffic engine: JSON lines on stdin, JSON lines on stdout.
//!
//! Three threads stand around the worker: one reads lines, one waits for
//! signals, and the main one holds the session and does everything else.

use pinchpoint_engine::{input, session, usage};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    match (args.next().as_deref(), args.next()) {
        (None, _) => {}
        (Some("--help" | "-h"), None) => {
            print!("{}", usage::HELP);
            return ExitCode::SUCCESS;
        }
        (Some("--version" | "-V"), None) => {
            println!("pinchpoint-engine {}", env!("CARGO_PKG_VERSION"));
            return ExitCode::SUCCESS;
        }
        (Some(arg), _) => {
            eprintln!("pinchpoint-engine: unexpected argument '{arg}'; see --help");
            return ExitCode::from(usage::EXIT_USAGE);
        }
    }
    match input::start().and_then(|(events, out)| session::run(events, out)) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("pinchpoint-engine: {error}");
            ExitCode::from(usage::EXIT_LOST)
        }
    }
}
