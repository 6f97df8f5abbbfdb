//! Who writes the frames of a burst, and who sends them.

/// Writes the frames of one burst.
pub trait FrameWriter {
    /// Bytes of the frame number `index` of the burst.
    fn len(&self, index: usize) -> usize;

    /// Writes the frame number `index` of the burst into `frame`, which has
    /// [`len`](Self::len) bytes; a buffer of any other length is left alone.
    /// To be called in order, from frame 0 on.
    fn write(&mut self, index: usize, frame: &mut [u8]);
}

/// Sends one burst, whatever writes it.
pub trait BurstSender {
    /// Sends frames that `writer` writes; returns how many were taken, always
    /// the first ones, and no more than were written.
    fn send<W: FrameWriter>(self, writer: &mut W) -> u64;
}
