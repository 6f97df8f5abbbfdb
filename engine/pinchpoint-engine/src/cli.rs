//! The command form: one line instead of a conversation.
//!
//! * [`args`]: the command line, with `engine_args` for what commands have in
//!   common; `numbers`, `ranges` and `ports` read its values;
//! * `frames`, `flows`, `streams`: options to the streams of a `run`;
//! * `client`: the other end of a session in the same process;
//! * `send`, `backends`, `sockets`: what the commands do;
//! * `standing`: the commands that are no clients, with `standing_args` and
//!   `standing_account`: `relay`, `inspect`, `reflect`, `forward`, `balance`,
//!   `connect`, `serve`; `balance_xdp`, which has no ports;
//! * `live`, `table`, `account`, `sockets_table`, `warnings`: what people see of
//!   it; `refusal`: what the engine refused, by option.

mod account;
pub mod args;
mod backends;
mod balance;
mod balance_args;
mod balance_xdp;
mod client;
mod connect;
mod connect_account;
mod connect_args;
mod connect_outages;
mod connect_samples;
mod engine_args;
mod flows;
mod forward;
mod forward_args;
mod frames;
mod inspect;
mod live;
mod numbers;
mod ports;
mod ranges;
mod reflect;
mod refusal;
mod relay;
mod relay_account;
mod relay_args;
mod send;
mod sockets;
mod sockets_args;
mod sockets_table;
mod standing;
mod standing_account;
mod standing_args;
mod streams;
mod table;
mod warnings;

use crate::usage;
use args::{Cli, Command};
use clap::CommandFactory;
use nix::unistd::{dup, dup2_stdout};
use std::fs::File;
use std::io::{self, Write};

/// Why a command did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The exit status.
    pub status: u8,
    /// What and where.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Failure {
    fn usage(message: impl Into<String>) -> Self {
        Self {
            status: usage::EXIT_USAGE,
            message: message.into(),
            hint: None,
        }
    }

    fn failed(message: impl Into<String>) -> Self {
        Self {
            status: usage::EXIT_LOST,
            message: message.into(),
            hint: None,
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::failed(error.to_string())
    }
}

/// Does what `command` says; returns the exit status. Failures are printed on
/// stderr.
pub fn run(command: Command) -> u8 {
    match dispatch(command) {
        Ok(status) => status,
        Err(failure) => {
            eprintln!("pinchpoint-engine: {}", failure.message);
            if let Some(hint) = &failure.hint {
                eprintln!("hint: {hint}");
            }
            failure.status
        }
    }
}

fn dispatch(command: Command) -> Result<u8, Failure> {
    if let Command::Completion { shell } = command {
        let mut command = Cli::command();
        clap_complete::generate(shell, &mut command, "pinchpoint-engine", &mut io::stdout());
        return Ok(usage::EXIT_DONE);
    }
    // A library that prints shall not print between the results.
    let mut out = File::from(dup(io::stdout()).map_err(io::Error::from)?);
    dup2_stdout(io::stderr()).map_err(io::Error::from)?;
    match command {
        Command::Send(args) => send::send(&args, &mut out),
        Command::Listen(args) => send::listen(&args, &mut out),
        Command::Rr(args) => sockets::run(&args.work(), &args.output, &mut out),
        Command::Crr(args) => sockets::run(&args.work(), &args.output, &mut out),
        Command::Stream(args) => sockets::run(&args.work(), &args.output, &mut out),
        Command::Connect(args) => connect::connect(&args, &mut out),
        Command::Serve(args) => connect::serve(&args, &mut out),
        Command::Relay(args) => relay::run(&args, &mut out),
        Command::Inspect(args) => inspect::run(&args, &mut out),
        Command::Reflect(args) => reflect::run(&args, &mut out),
        Command::Forward(args) => forward::run(&args, &mut out),
        Command::Balance(args) => balance::run(&args, &mut out),
        Command::BalanceXdp(args) => balance_xdp::run(&args, &mut out),
        Command::Backends(args) => backends::backends(&args, &mut out),
        Command::Completion { .. } => Ok(usage::EXIT_DONE),
    }
}

/// Prints a result; a reader that has gone needs none.
fn print(out: &mut File, text: &str) {
    let _ = out.write_all(text.as_bytes());
}

/// Prints a message of the protocol as a line.
fn print_json(out: &mut File, message: &impl serde::Serialize) {
    if let Ok(line) = serde_json::to_string(message) {
        print(out, &format!("{line}\n"));
    }
}
