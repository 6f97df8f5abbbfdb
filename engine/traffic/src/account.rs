//! The account of what was received.
//!
//! Every frame that a port delivers ends in exactly one count: in its
//! stream's `received`, `duplicated` or `corrupt`, or in its port's `late` or
//! `foreign`.

use crate::latency::LatencyRecorder;
use crate::window::{Arrival, SequenceWindow};
use pinchpoint_wire::signature::{self, Reading, Signature};
use pinchpoint_wire::verify;

/// Counts of one stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StreamCounts {
    /// Distinct intact frames.
    pub received: u64,
    /// Further copies of frames already received.
    pub duplicated: u64,
    /// Frames received after one with a higher sequence number.
    pub reordered: u64,
    /// Largest difference between a reordered frame's sequence number and the
    /// highest one received before it.
    pub reorder_distance_max: u64,
    /// Frames of ours that arrived damaged.
    pub corrupt: u64,
}

/// Counts of one port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortCounts {
    /// Frames of this trial: distinct ones, copies and damaged ones.
    pub received: u64,
    /// Frames of an earlier trial, or too far behind to be told from a copy.
    pub late: u64,
    /// Frames without our signature, or of a stream not expected here.
    pub foreign: u64,
}

/// Receive side of one stream.
#[derive(Debug, Clone)]
struct Stream {
    rx_port: usize,
    counts: StreamCounts,
    /// Sequence numbers below this one have been handed to a port.
    horizon: u64,
    window: SequenceWindow,
    latency: LatencyRecorder,
}

const NO_STREAM: u16 = u16::MAX;

/// The receive side of a trial.
#[derive(Debug, Clone)]
pub struct Account {
    epoch: u8,
    verify_checksums: bool,
    streams: Vec<Stream>,
    ports: Vec<PortCounts>,
    by_id: [u16; 256],
    /// The stream that a damaged frame is charged to when its id is damaged.
    default_stream: Vec<u16>,
}

impl Account {
    /// An empty account. `streams` holds each stream's id and the index of
    /// the port that expects it. With `verify_checksums`, frames with a wrong
    /// IPv4 or UDP checksum are corrupt.
    pub fn new(epoch: u8, verify_checksums: bool, streams: &[(u8, usize)], ports: usize) -> Self {
        let mut by_id = [NO_STREAM; 256];
        let mut default_stream = vec![NO_STREAM; ports];
        for (index, &(id, rx_port)) in streams.iter().enumerate().rev() {
            by_id[usize::from(id)] = index as u16;
            default_stream[rx_port] = index as u16;
        }
        let stream = |&(_, rx_port): &(u8, usize)| Stream {
            rx_port,
            counts: StreamCounts::default(),
            horizon: 0,
            window: SequenceWindow::new(),
            latency: LatencyRecorder::new(),
        };
        Self {
            epoch,
            verify_checksums,
            streams: streams.iter().map(stream).collect(),
            ports: vec![PortCounts::default(); ports],
            by_id,
            default_stream,
        }
    }

    /// Tells the account that the stream at `index` has sent the sequence
    /// numbers below `sent`.
    #[inline(always)]
    pub fn sent(&mut self, index: usize, sent: u64) {
        self.streams[index].horizon = sent;
    }

    /// Accounts one frame that `port` delivered at `now_ns`.
    #[inline(always)]
    pub fn frame(&mut self, port: usize, frame: &[u8], now_ns: u64) {
        match signature::read(frame) {
            Reading::Intact(signature) => self.signed(port, frame, signature, now_ns),
            Reading::Corrupt { stream } => self.corrupt(port, stream),
            Reading::Foreign => self.ports[port].foreign += 1,
        }
    }

    #[inline(always)]
    fn signed(&mut self, port: usize, frame: &[u8], signature: Signature, now_ns: u64) {
        let counts = &mut self.ports[port];
        if signature.epoch != self.epoch {
            counts.late += 1;
            return;
        }
        let index = usize::from(self.by_id[usize::from(signature.stream)]);
        let Some(stream) = self.streams.get_mut(index) else {
            counts.foreign += 1;
            return;
        };
        if stream.rx_port != port || signature.sequence >= stream.horizon {
            counts.foreign += 1;
            return;
        }
        if self.verify_checksums && !verify::checksums_right(frame) {
            counts.received += 1;
            stream.counts.corrupt += 1;
            return;
        }
        match stream.window.record(signature.sequence) {
            Arrival::InOrder => {}
            Arrival::Reordered(distance) => {
                stream.counts.reordered += 1;
                let max = &mut stream.counts.reorder_distance_max;
                *max = distance.max(*max);
            }
            Arrival::Duplicate => {
                counts.received += 1;
                stream.counts.duplicated += 1;
                return;
            }
            Arrival::BeyondWindow => {
                counts.late += 1;
                return;
            }
        }
        counts.received += 1;
        stream.counts.received += 1;
        stream.latency.record(signature.time_ns, now_ns);
    }

    #[cold]
    fn corrupt(&mut self, port: usize, claimed: u8) {
        let claimed = usize::from(self.by_id[usize::from(claimed)]);
        let index = match self.streams.get(claimed) {
            Some(stream) if stream.rx_port == port => claimed,
            _ => usize::from(self.default_stream[port]),
        };
        if let Some(stream) = self.streams.get_mut(index) {
            self.ports[port].received += 1;
            stream.counts.corrupt += 1;
        } else {
            self.ports[port].foreign += 1;
        }
    }

    /// Distinct intact frames of all streams.
    pub fn received(&self) -> u64 {
        self.streams
            .iter()
            .map(|stream| stream.counts.received)
            .sum()
    }

    /// The final counts, by stream with its latencies and by port.
    pub fn close(self) -> (Vec<(StreamCounts, LatencyRecorder)>, Vec<PortCounts>) {
        let streams = self.streams.into_iter();
        let streams = streams.map(|stream| (stream.counts, stream.latency));
        (streams.collect(), self.ports)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(epoch: u8, stream: u8, sequence: u64) -> [u8; 60] {
        let signature = Signature {
            epoch,
            stream,
            sequence,
            time_ns: 0,
        };
        let mut frame = [0; 60];
        signature.emit(frame.last_chunk_mut().unwrap());
        frame
    }

    fn account() -> Account {
        let mut account = Account::new(1, false, &[(5, 1), (6, 0)], 2);
        account.sent(0, 100);
        account.sent(1, 100);
        account
    }

    #[test]
    fn every_frame_ends_in_exactly_one_count() {
        let mut account = account();
        let mut damaged = frame(1, 5, 9);
        damaged[50] ^= 4;
        for bytes in [
            &frame(1, 5, 0)[..],
            &frame(1, 5, 2),
            &frame(1, 5, 1),
            &frame(1, 5, 1),
            &frame(0, 5, 7),
            &frame(1, 9, 7),
            &frame(1, 6, 7),
            &frame(1, 5, 100),
            &damaged,
            &[0; 60],
            &[0; 3],
        ] {
            account.frame(1, bytes, 10);
        }
        let (streams, ports) = account.close();
        let expected = StreamCounts {
            received: 3,
            duplicated: 1,
            reordered: 1,
            reorder_distance_max: 1,
            corrupt: 1,
        };
        assert_eq!(streams[0].0, expected);
        assert_eq!(streams[1].0, StreamCounts::default());
        let expected = PortCounts {
            received: 5,
            late: 1,
            foreign: 5,
        };
        assert_eq!(ports[1], expected);
    }

    #[test]
    fn a_damaged_stream_id_is_charged_to_the_port_s_own_stream() {
        let mut account = account();
        let mut damaged = frame(1, 5, 3);
        damaged[60 - signature::LEN + 3] ^= 0x80;
        account.frame(1, &damaged, 0);
        let (streams, ports) = account.close();
        assert_eq!((streams[0].0.corrupt, ports[1].received), (1, 1));
    }

    #[test]
    fn wrong_checksums_are_corrupt_only_when_verified() {
        for (verify, corrupt) in [(true, 1), (false, 0)] {
            let mut account = Account::new(1, verify, &[(5, 0)], 1);
            account.sent(0, 1);
            let mut bytes = frame(1, 5, 0);
            bytes[12..15].copy_from_slice(&[8, 0, 0x45]);
            account.frame(0, &bytes, 0);
            assert_eq!(account.close().0[0].0.corrupt, corrupt);
        }
    }
}
