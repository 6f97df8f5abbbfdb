//! The parts of the binary, as a library so that tests can reach them.
//!
//! * [`protocol`]: the messages, as they stand on the wire;
//! * [`parse`]: a line to a message, with errors that name the key;
//! * [`convert`]: messages to what the worker runs, with every check;
//! * [`report`]: what the worker did to messages;
//! * [`text`]: values that are written as text, for people and messages alike;
//! * [`standing`]: the threads of a workload that runs until it is stopped;
//! * [`input`], [`session`]: the conversation;
//! * [`cli`]: the command form, a client of it.

pub mod capture;
pub mod cli;
pub mod convert;
pub mod input;
pub mod parse;
pub mod protocol;
pub mod report;
pub mod session;
pub mod standing;
pub mod text;
pub mod usage;
