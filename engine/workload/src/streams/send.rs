//! How the frames of one burst get from their program into a port.

use super::keep::Recorder;
use pinchpoint_port::{AnyPort, Port, Source};
use pinchpoint_traffic::program::{BurstSender, FrameWriter};

/// Writes straight into the port's buffers.
struct Writer<'a, W>(&'a mut W);

impl<W: FrameWriter> Source for Writer<'_, W> {
    #[inline(always)]
    fn len(&self, index: usize) -> usize {
        self.0.len(index)
    }

    #[inline(always)]
    fn frame(&mut self, index: usize, frame: &mut [u8]) {
        self.0.write(index, frame);
    }
}

/// Sends the `due` next frames to `port`.
pub(crate) struct Plain<'a> {
    pub(crate) port: &'a mut AnyPort,
    pub(crate) due: u64,
}

impl BurstSender for Plain<'_> {
    #[inline(always)]
    fn send<W: FrameWriter>(self, writer: &mut W) -> u64 {
        self.port.send(self.due as usize, Writer(writer)) as u64
    }
}

/// The same, and keeps a copy of each frame.
pub(crate) struct Keeping<'a> {
    pub(crate) port: &'a mut AnyPort,
    pub(crate) due: u64,
    pub(crate) recorder: &'a mut Recorder,
}

struct KeepingWriter<'a, W> {
    writer: &'a mut W,
    recorder: &'a mut Recorder,
}

impl<W: FrameWriter> Source for KeepingWriter<'_, W> {
    fn len(&self, index: usize) -> usize {
        self.writer.len(index)
    }

    fn frame(&mut self, index: usize, frame: &mut [u8]) {
        self.writer.write(index, frame);
        self.recorder.written(frame);
    }
}

impl BurstSender for Keeping<'_> {
    #[inline(never)]
    fn send<W: FrameWriter>(self, writer: &mut W) -> u64 {
        let source = KeepingWriter {
            writer,
            recorder: self.recorder,
        };
        self.port.send(self.due as usize, source) as u64
    }
}
