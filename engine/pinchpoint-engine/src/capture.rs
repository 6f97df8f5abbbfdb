//! Frames kept for a person to look at.

use crate::convert::Known;
use crate::protocol::{CaptureRequest, CaptureResult, ErrorCode, ErrorReply};
use pinchpoint_import::capture::{CaptureBuffer, Direction};
use pinchpoint_worker::{Clock, Outcome};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::time::{SystemTime, UNIX_EPOCH};

/// A file that waits for the frames of a trial.
pub struct Capture {
    name: String,
    file: File,
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
            hint: Some("name a file that does not exist, in a folder that does".to_owned()),
        })?;
        Ok(Self {
            name: request.file.clone(),
            file,
        })
    }

    /// Writes the frames that the trial kept.
    ///
    /// # Errors
    /// Code `internal`, naming the file, if it cannot be written.
    pub fn write(
        self,
        outcome: &Outcome,
        known: &Known,
        clock: &Clock,
    ) -> Result<CaptureResult, ErrorReply> {
        let failed = |error: &dyn std::fmt::Display| ErrorReply {
            code: ErrorCode::Internal,
            message: format!("capture.file: {}: {error}", self.name),
            hint: None,
        };
        let frames = &outcome.captured;
        let longest = frames.iter().map(|frame| frame.bytes.len()).max();
        let buffer = CaptureBuffer::new(frames.len().max(1), longest.unwrap_or(1));
        let mut buffer = buffer.map_err(|error| failed(&error))?;
        let epoch_ns = epoch_ns(clock);
        for frame in frames {
            let direction = if frame.sent {
                Direction::Sent
            } else {
                Direction::Received
            };
            let at_ns = epoch_ns.saturating_add(frame.at_ns);
            buffer.record(direction, frame.port as u16, at_ns, &frame.bytes);
        }
        let names: Vec<&str> = known.ports.iter().map(|port| port.name.as_str()).collect();
        let mut out = BufWriter::new(&self.file);
        buffer
            .write_to(&mut out, &names)
            .and_then(|()| out.flush())
            .map_err(|error| failed(&error))?;
        let sent = frames.iter().filter(|frame| frame.sent).count();
        Ok(CaptureResult {
            file: self.name.clone(),
            sent,
            received: frames.len() - sent,
        })
    }
}

/// When the engine's clock was zero, in nanoseconds of Unix time.
fn epoch_ns(clock: &Clock) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_ns = now.map_or(0, |now| now.as_nanos() as u64);
    now_ns.saturating_sub(clock.now_ns())
}
