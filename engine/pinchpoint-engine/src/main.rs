//! The traffic engine: commands for people, or, without arguments, JSON lines
//! on stdin and stdout.
//!
//! Three threads stand around the worker of a conversation: one reads lines,
//! one waits for signals, and the main one holds the session and does
//! everything else.

use clap::{CommandFactory, Parser};
use pinchpoint_engine::cli::{self, args::Cli};
use pinchpoint_engine::{input, session, usage};
use std::io::IsTerminal;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = Cli::parse();
    if args.help_protocol {
        print!("{}", usage::PROTOCOL);
        return ExitCode::SUCCESS;
    }
    if let Some(command) = args.command {
        return ExitCode::from(cli::run(command));
    }
    if std::io::stdin().is_terminal() {
        // Nobody types JSON lines.
        print!("{}", Cli::command().render_help());
        return ExitCode::SUCCESS;
    }
    match input::start().and_then(|(events, out)| session::run(events, out)) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("pinchpoint-engine: {error}");
            ExitCode::from(usage::EXIT_LOST)
        }
    }
}
