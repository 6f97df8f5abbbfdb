//! Frames kept for a person to look at.

use crate::convert::Known;
use crate::protocol::{CaptureRequest, CaptureResult, ErrorCode, ErrorReply};
use pinchpoint_import::capture::{Direction, Frame, write_pcapng};
use pinchpoint_worker::Clock;
use pinchpoint_workload::streams::Outcome;
use pinchpoint_workload::streams::outcome::Captured;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::time::{SystemTime, UNIX_EPOCH};

/// A file that waits for the frames of a trial; it goes unless it gets them.
pub struct Capture {
    name: String,
    file: File,
    is_written: bool,
}

impl Capture {
    /// Makes the file, before anything is sent.
    ///
    /// # Errors
    /// Code `invalid` if it exists or cannot be made.
    pub fn create(request: &CaptureRequest) -> Result<Self, ErrorReply> {
        let file = File::create_new(&request.file).map_err(|error| ErrorReply {
            code: ErrorCode::Invalid,
            message: format!("capture.file: {}: {error}", request.file),
            hint: Some("name a new file in an existing folder".to_owned()),
        })?;
        Ok(Self {
            name: request.file.clone(),
            file,
            is_written: false,
        })
    }

    /// Writes the frames that the trial kept; says how many, or why not.
    pub fn write(mut self, outcome: &Outcome, known: &Known, clock: &Clock) -> CaptureResult {
        let frames = &outcome.captured;
        let epoch_ns = epoch_ns(clock);
        let names: Vec<&str> = known.ports.iter().map(|port| port.name.as_str()).collect();
        let mut out = BufWriter::new(&self.file);
        let written = write_pcapng(
            &mut out,
            &names,
            frames.iter().map(|kept| frame(kept, epoch_ns)),
        )
        .and_then(|()| out.flush());
        drop(out);
        self.is_written = written.is_ok();
        let sent = frames.iter().filter(|frame| frame.sent).count();
        CaptureResult {
            file: self.name.clone(),
            sent,
            received: frames.len() - sent,
            error: written.err().map(|error| error.to_string()),
        }
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        if !self.is_written {
            // Whoever took the file away meanwhile has done the same.
            let _ = std::fs::remove_file(&self.name);
        }
    }
}

fn frame(kept: &Captured, epoch_ns: u64) -> Frame<'_> {
    Frame {
        direction: if kept.sent {
            Direction::Sent
        } else {
            Direction::Received
        },
        port: kept.port as u16,
        time_ns: epoch_ns.saturating_add(kept.at_ns),
        bytes: &kept.bytes,
    }
}

/// When the engine's clock was zero, in nanoseconds of Unix time.
fn epoch_ns(clock: &Clock) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_ns = now.map_or(0, |now| now.as_nanos() as u64);
    now_ns.saturating_sub(clock.now_ns())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A full disk costs the capture, not the account, and leaves no file.
    #[test]
    fn a_file_that_cannot_be_written_is_told_and_goes() {
        let name = format!("pinchpoint-capture-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, "").unwrap();
        let full = File::options().write(true).open("/dev/full").unwrap();
        let capture = Capture {
            name: path.display().to_string(),
            file: full,
            is_written: false,
        };
        let outcome = Outcome {
            stopped: false,
            failure: None,
            duration_ns: 1,
            drain_ns: 0,
            streams: Vec::new(),
            slices: Vec::new(),
            ports: Vec::new(),
            workers: Vec::new(),
            captured: Vec::new(),
            start_ns: 0,
        };
        let known = Known {
            ports: Vec::new(),
            cores: Vec::new(),
        };
        let told = capture.write(&outcome, &known, &Clock::new());
        assert!(told.error.unwrap().contains("No space left"));
        assert!(!path.exists());
    }
}
