//! Attaching an XDP program to an interface, and saying why it cannot be.

use super::{AttachMode, Link, Program, program_name};
use crate::OpenError;
use crate::interface::{Attached, Questions};
use std::io;

/// An interface as the user knows it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) device: &'a str,
    pub(crate) netns: Option<&'a str>,
    pub(crate) index: u32,
}

impl Place<'_> {
    /// `ip`, for this interface's namespace.
    fn ip(&self) -> String {
        match self.netns {
            Some(netns) => format!("ip -n {netns}"),
            None => "ip".to_owned(),
        }
    }

    /// An error about this interface, with what may mend it.
    pub(crate) fn failed(&self, what: &str, error: &io::Error) -> OpenError {
        let hint = match error.raw_os_error() {
            Some(libc::EPERM) => "run as root".to_owned(),
            Some(libc::ENODEV) => format!("list the existing interfaces: {} link", self.ip()),
            _ => format!(
                "see the interface's state: {} -d link show dev {}",
                self.ip(),
                self.device
            ),
        };
        OpenError::new(format!("{} {what}: {error}", self.device)).hint(hint)
    }
}

/// Attaches `program` in the mode `wanted`, or in the better one that works;
/// returns which. Runs in the interface's namespace.
///
/// # Errors
/// Names the program that is already attached, and what removes it.
pub(crate) fn attach(
    program: &Program,
    place: Place<'_>,
    wanted: Option<AttachMode>,
) -> Result<(Link, AttachMode), OpenError> {
    let first = wanted.unwrap_or(AttachMode::Native);
    let error = match program.attach_xdp(place.index, first) {
        Ok(link) => return Ok((link, first)),
        Err(error) => error,
    };
    if let Some(other) = other_program(place) {
        return Err(other);
    }
    if wanted.is_none() && error.raw_os_error() != Some(libc::EPERM) {
        let second = AttachMode::Generic;
        if let Ok(link) = program.attach_xdp(place.index, second) {
            return Ok((link, second));
        }
    }
    Err(place.failed("XDP program", &error))
}

fn other_program(place: Place<'_>) -> Option<OpenError> {
    let state = Questions::new().and_then(|mut questions| questions.ask(place.index));
    let state = state.ok()?;
    let id = state.xdp_program?;
    let name = program_name(id).unwrap_or_default();
    let off = match state.xdp {
        Some(Attached::Generic) => "xdpgeneric off",
        Some(Attached::Native) => "xdpdrv off",
        Some(Attached::Hardware) => "xdpoffload off",
        _ => "xdp off",
    };
    let message = format!(
        "{} has an XDP program already: '{name}', id {id}",
        place.device
    );
    let hint = format!(
        "detach it: {} link set dev {} {off}; if that is refused, find its owner: bpftool link",
        place.ip(),
        place.device
    );
    Some(OpenError::new(message).hint(hint))
}
