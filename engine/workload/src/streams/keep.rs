//! Keeps the first frames that a worker sends and receives.

use super::outcome::Captured;

/// Bytes kept of a frame at most.
const SNAP: usize = 9216;

/// One frame kept, as long as the bytes are in the pool.
#[derive(Clone, Copy)]
struct Entry {
    port: usize,
    sent: bool,
    at_ns: u64,
    begin: usize,
    len: usize,
}

/// Room for the first frames of either direction, taken before the trial.
pub(crate) struct Recorder {
    /// Frames still wanted of those sent and of those received.
    wanted: [usize; 2],
    entries: Vec<Entry>,
    pool: Vec<u8>,
    /// Where the burst that is being sent began.
    burst: (usize, usize),
    now: (usize, u64),
}

impl Recorder {
    /// Keeps the first `frames` sent and the first `frames` received.
    pub(crate) fn new(frames: usize) -> Self {
        Self {
            wanted: [frames; 2],
            entries: Vec::with_capacity(2 * frames),
            // The pool's pages are touched as they fill: short frames cost little.
            pool: Vec::with_capacity(2 * frames * SNAP),
            burst: (0, 0),
            now: (0, 0),
        }
    }

    /// Whether it still wants frames.
    #[inline(always)]
    pub(crate) fn is_open(&self) -> bool {
        self.wanted != [0, 0]
    }

    fn keep(&mut self, port: usize, sent: bool, at_ns: u64, frame: &[u8]) {
        let wanted = &mut self.wanted[usize::from(sent)];
        if *wanted == 0 {
            return;
        }
        *wanted -= 1;
        let frame = &frame[..frame.len().min(SNAP)];
        self.entries.push(Entry {
            port,
            sent,
            at_ns,
            begin: self.pool.len(),
            len: frame.len(),
        });
        self.pool.extend_from_slice(frame);
    }

    /// Keeps a frame that `port` received at `at_ns`.
    pub(crate) fn received(&mut self, port: usize, at_ns: u64, frame: &[u8]) {
        self.keep(port, false, at_ns, frame);
    }

    /// A burst is about to be written for `port`, at `at_ns`.
    pub(crate) fn sending(&mut self, port: usize, at_ns: u64) {
        self.burst = (self.entries.len(), self.pool.len());
        self.now = (port, at_ns);
    }

    /// Keeps a frame of the burst.
    pub(crate) fn written(&mut self, frame: &[u8]) {
        let (port, at_ns) = self.now;
        self.keep(port, true, at_ns, frame);
    }

    /// Of the burst, the first `taken` frames were sent: forgets the others.
    pub(crate) fn sent(&mut self, taken: u64) {
        let (first, _) = self.burst;
        let kept = self.entries.len().min(first + taken as usize);
        let forgotten = self.entries.len() - kept;
        if let Some(entry) = self.entries.get(kept) {
            self.pool.truncate(entry.begin);
        }
        self.entries.truncate(kept);
        self.wanted[1] += forgotten;
    }

    /// The frames.
    pub(crate) fn close(self) -> Vec<Captured> {
        let frame = |entry: &Entry| Captured {
            port: entry.port,
            sent: entry.sent,
            at_ns: entry.at_ns,
            bytes: self.pool[entry.begin..entry.begin + entry.len].to_vec(),
        };
        self.entries.iter().map(frame).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_frames_are_kept_and_those_not_taken_are_not() {
        let mut recorder = Recorder::new(3);
        recorder.sending(1, 10);
        for byte in 0..4 {
            recorder.written(&[byte; 60]);
        }
        recorder.sent(2);
        recorder.received(0, 11, &[9; 61]);
        recorder.sending(1, 12);
        recorder.written(&[2; 60]);
        recorder.written(&[3; 60]);
        recorder.sent(2);
        assert!(recorder.is_open(), "two received frames are still wanted");
        let kept = recorder.close();
        let seen: Vec<_> = kept
            .iter()
            .map(|f| (f.port, f.sent, f.at_ns, f.bytes[0]))
            .collect();
        let expected = [
            (1, true, 10, 0),
            (1, true, 10, 1),
            (0, false, 11, 9),
            (1, true, 12, 2),
        ];
        assert_eq!(seen, expected);
        assert_eq!(kept[2].bytes.len(), 61);
    }
}
