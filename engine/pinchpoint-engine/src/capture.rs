//! Frames kept for a person to look at.

use crate::convert::Known;
use crate::protocol::{CaptureRequest, CaptureResult, ErrorCode, ErrorReply};
use pinchpoint_worker::Outcome;
use std::fs::File;

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
}
