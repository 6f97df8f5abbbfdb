//! The account of what was received.
//!
//! Every frame that a port delivers ends in exactly one count of its port,
//! `received`, `late` or `foreign`. A stream's `received`, `duplicated` and
//! `corrupt` frames are its port's `received`, its `late` ones are part of
//! its port's.

use crate::counts::{Closed, PortCounts, StreamAccount, StreamCounts};
use crate::flows::{FlowMap, FlowTracker};
use crate::latency::LatencyRecorder;
use crate::replay::invariant;
use crate::sent_bound::{LEAD, SentBound};
use crate::window::{Arrival, SequenceWindow};
use pinchpoint_wire::signature::{self, Reading, Signature};
use pinchpoint_wire::verify;
use std::sync::Arc;

/// What an account looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The trial, as in its signatures.
    pub epoch: u8,
    /// The latency of every n-th frame is recorded, by sequence number.
    pub latency_every: u64,
    /// Whether jitter is recorded.
    pub jitter: bool,
}

/// Who sends a stream.
#[derive(Debug, Clone)]
pub enum Sender {
    /// The worker that keeps the account: it says so with [`Account::sent`].
    Here,
    /// Another worker, which says how far it is.
    Elsewhere(Arc<SentBound>),
}

/// One stream of the trial.
#[derive(Debug, Clone)]
pub struct Expected {
    /// Stream id carried in the signature.
    pub id: u16,
    /// The ports of this account that expect it: a frame may come out of any of
    /// them. None if no port here does, or if its frames carry no signature:
    /// nothing is reported of the stream then, and frames of it are foreign
    /// wherever they arrive.
    pub rx_ports: Vec<usize>,
    /// Whether any port expects it, here or elsewhere: then it is misdelivered at
    /// the others.
    pub is_expected: bool,
    /// How many flows take turns in its frames; none if the sequence number does
    /// not say which flow a frame is of.
    pub flow_count: Option<u64>,
    /// How many frames it has at most; none if that is not known.
    pub frames: Option<u64>,
    /// Who sends it.
    pub sender: Sender,
    /// Whether frames of it with a wrong checksum inside are corrupt.
    pub verify_checksums: bool,
    /// The flows to follow one by one, and how many of the first.
    pub flows: Option<(FlowMap, usize)>,
    /// Of a replay: the sorted hashes of its frames without signature
    /// ([`invariant`]).
    pub unsigned: Option<Arc<[u64]>>,
}

/// Receive side of one stream.
#[derive(Debug, Clone)]
struct Stream {
    rx_ports: Vec<usize>,
    flow_count: Option<u64>,
    counts: StreamCounts,
    /// Sequence numbers below this one may have been handed to a port.
    sent_bound: u64,
    sender: Sender,
    verify_checksums: bool,
    window: SequenceWindow,
    /// Which of the account's recorders has its latencies.
    latency: usize,
    flows: Option<FlowTracker>,
    unsigned: Option<Arc<[u64]>>,
}

const NO_STREAM: u16 = u16::MAX;

/// The receive side of a trial.
#[derive(Debug, Clone)]
pub struct Account {
    epoch: u8,
    /// The streams that a port here expects.
    streams: Vec<Stream>,
    /// One for all parts of a stream: it is larger than all else that is kept of them.
    latencies: Vec<LatencyRecorder>,
    /// Where in `streams` each stream of the trial is.
    places: Vec<u16>,
    ports: Vec<PortCounts>,
    /// By port and id: the stream, where the port expects it.
    by_id: Vec<Vec<u16>>,
    /// By id: which of the trial's streams it is, if any port expects it.
    expected: Vec<u16>,
    misdelivered: Vec<u64>,
    /// The stream that a damaged frame is charged to when its id is damaged.
    default_stream: Vec<u16>,
}

impl Account {
    /// An empty account of the trial's streams, with an id each, and of `ports`
    /// ports.
    pub fn new(settings: &Settings, expected: &[Expected], ports: usize) -> Self {
        let each: Vec<usize> = (0..expected.len()).collect();
        Self::of_parts(settings, expected, &each, ports)
    }

    /// The same where what is expected are parts of streams: those with the same number in `streams`
    /// are of one, and their latencies are with the first of them.
    pub fn of_parts(
        settings: &Settings,
        expected: &[Expected],
        streams: &[usize],
        ports: usize,
    ) -> Self {
        let mut known = Vec::new();
        let ids = expected.iter().map(|stream| usize::from(stream.id) + 1);
        let by_id = vec![NO_STREAM; ids.max().unwrap_or(0)];
        let mut account = Self {
            epoch: settings.epoch,
            streams: Vec::new(),
            latencies: Vec::new(),
            places: Vec::new(),
            ports: vec![PortCounts::default(); ports],
            by_id: vec![by_id.clone(); ports],
            expected: by_id,
            misdelivered: vec![0; expected.len()],
            default_stream: vec![NO_STREAM; ports],
        };
        for (index, stream) in expected.iter().enumerate() {
            let place = if stream.rx_ports.is_empty() {
                NO_STREAM
            } else {
                let of = streams[index];
                let latency = known.iter().position(|&stream| stream == of);
                let latency = latency.unwrap_or_else(|| {
                    known.push(of);
                    account.record(settings)
                });
                account.add(stream, latency)
            };
            account.places.push(place);
            let entry = &mut account.expected[usize::from(stream.id)];
            if stream.is_expected && *entry == NO_STREAM {
                *entry = index as u16;
            }
        }
        account
    }

    /// Adds a recorder; returns its number.
    fn record(&mut self, settings: &Settings) -> usize {
        let recorder = LatencyRecorder::new(settings.latency_every, settings.jitter);
        self.latencies.push(recorder);
        self.latencies.len() - 1
    }

    fn add(&mut self, expected: &Expected, latency: usize) -> u16 {
        let place = self.streams.len() as u16;
        let frames = expected.frames.unwrap_or(u64::MAX);
        for &port in &expected.rx_ports {
            for entry in [
                &mut self.by_id[port][usize::from(expected.id)],
                &mut self.default_stream[port],
            ] {
                if *entry == NO_STREAM {
                    *entry = place;
                }
            }
        }
        self.streams.push(Stream {
            rx_ports: expected.rx_ports.clone(),
            flow_count: expected.flow_count,
            counts: StreamCounts {
                reordered_in_flow: expected.flow_count.map(|_| 0),
                ..StreamCounts::default()
            },
            sent_bound: 0,
            sender: expected.sender.clone(),
            verify_checksums: expected.verify_checksums,
            window: SequenceWindow::of(frames.saturating_add(LEAD)),
            latency,
            flows: expected
                .flows
                .map(|(map, tracked)| FlowTracker::new(map, tracked)),
            unsigned: expected.unsigned.clone(),
        });
        place
    }

    /// Informs the account that the stream at `index` of those expected, which
    /// is sent here, has sent the sequence numbers below `sent`.
    #[inline(always)]
    pub fn sent(&mut self, index: usize, sent: u64) {
        if let Some(stream) = self.streams.get_mut(usize::from(self.places[index])) {
            stream.sent_bound = sent;
        }
    }

    /// Notes that `port` delivered a burst at `now_ns`.
    #[inline(always)]
    pub fn burst(&mut self, port: usize, now_ns: u64) {
        self.ports[port].heard(now_ns);
    }

    /// Accounts one frame that `port` delivered at `now_ns`; false if it has no
    /// signature. It is foreign then.
    #[inline(always)]
    pub fn frame(&mut self, port: usize, frame: &[u8], now_ns: u64) -> bool {
        match signature::read(frame) {
            Reading::Intact(signature) => self.signed(port, frame, signature, now_ns),
            Reading::Corrupt { stream } => self.corrupt(port, stream),
            Reading::Foreign => {
                self.ports[port].foreign += 1;
                return false;
            }
        }
        true
    }

    /// Whether the frame without signature that `port` delivered last is of a
    /// replay. It is counted as one of its stream's then, and is not foreign; of
    /// several streams with such frames the first one has it.
    pub fn unsigned(&mut self, port: usize, frame: &[u8]) -> bool {
        let mut hash = None;
        let has = |stream: &&mut Stream| {
            let known = stream.unsigned.as_deref().unwrap_or_default();
            let expects = !known.is_empty() && stream.rx_ports.contains(&port);
            let is_known = |hash: u64| known.binary_search(&hash).is_ok();
            expects && is_known(*hash.get_or_insert_with(|| invariant(frame)))
        };
        let Some(stream) = self.streams.iter_mut().find(has) else {
            return false;
        };
        stream.counts.received += 1;
        self.ports[port].received += 1;
        self.ports[port].foreign -= 1;
        true
    }

    /// The frame without signature that `port` delivered last was meant for the
    /// engine: it is not foreign.
    pub fn not_foreign(&mut self, port: usize) {
        self.ports[port].foreign -= 1;
    }

    #[inline(always)]
    fn signed(&mut self, port: usize, frame: &[u8], signature: Signature, now_ns: u64) {
        if signature.epoch != self.epoch {
            self.late(port, signature.stream);
            return;
        }
        let index = usize::from(self.place(port, signature.stream));
        let Some(stream) = self.streams.get_mut(index) else {
            self.unexpected(port, signature.stream);
            return;
        };
        let counts = &mut self.ports[port];
        let sequence = signature.sequence;
        if sequence >= stream.sent_bound && !stream.was_sent(sequence) {
            counts.foreign += 1;
            return;
        }
        if stream.verify_checksums && !verify::checksums_right(frame) {
            counts.received += 1;
            stream.counts.corrupt += 1;
            return;
        }
        match stream.window.record(sequence) {
            Arrival::InOrder => {}
            Arrival::Ahead(missing) => stream.counts.jumped(missing, now_ns),
            Arrival::Reordered(distance) => stream.reordered(sequence, distance),
            Arrival::Duplicate => {
                counts.received += 1;
                stream.counts.duplicated += 1;
                return;
            }
            Arrival::BeyondWindow => {
                counts.late += 1;
                stream.counts.late += 1;
                return;
            }
        }
        counts.received += 1;
        stream.counts.received += 1;
        stream.counts.sequence_sum = stream.counts.sequence_sum.wrapping_add(sequence);
        self.latencies[stream.latency].record(sequence, signature.time_ns, now_ns);
        if let Some(flows) = &mut stream.flows {
            flows.record(sequence);
        }
    }

    /// Where the stream with this id is, if `port` expects it.
    #[inline(always)]
    fn place(&self, port: usize, id: u16) -> u16 {
        let place = self.by_id[port].get(usize::from(id));
        place.copied().unwrap_or(NO_STREAM)
    }

    /// A frame of another trial.
    #[cold]
    fn late(&mut self, port: usize, id: u16) {
        self.ports[port].late += 1;
        let index = usize::from(self.place(port, id));
        if let Some(stream) = self.streams.get_mut(index) {
            stream.counts.late += 1;
        }
    }

    /// A frame of this trial whose stream `port` does not expect.
    #[cold]
    fn unexpected(&mut self, port: usize, id: u16) {
        self.ports[port].foreign += 1;
        let index = self.expected.get(usize::from(id)).copied();
        let index = usize::from(index.unwrap_or(NO_STREAM));
        if let Some(count) = self.misdelivered.get_mut(index) {
            *count += 1;
            self.ports[port].misdelivered += 1;
        }
    }

    /// A damaged frame of the stream that it claims; of its first part, if there
    /// is no such part, and otherwise of the port's own.
    #[cold]
    fn corrupt(&mut self, port: usize, claimed: u16) {
        let claims = [claimed, claimed & 0xff].map(|id| self.place(port, id));
        let known = claims.into_iter().find(|&place| place != NO_STREAM);
        let index = known.unwrap_or(self.default_stream[port]);
        if let Some(stream) = self.streams.get_mut(usize::from(index)) {
            self.ports[port].received += 1;
            stream.counts.corrupt += 1;
        } else {
            self.ports[port].foreign += 1;
        }
    }

    /// Distinct intact frames of all streams.
    pub fn received(&self) -> u64 {
        let streams = self.streams.iter();
        streams.map(|stream| stream.counts.received).sum()
    }

    /// Distinct intact frames of the stream at `index` of those expected.
    pub fn received_of(&self, index: usize) -> u64 {
        let stream = self.streams.get(usize::from(self.places[index]));
        stream.map_or(0, |stream| stream.counts.received)
    }

    /// Frames of all streams that were overtaken and have not come yet.
    pub fn missing(&self) -> u64 {
        let missing = |stream: &Stream| {
            let counts = &stream.counts;
            counts.passed_over.saturating_sub(counts.reordered)
        };
        self.streams.iter().map(missing).sum()
    }

    /// Frames of this trial that the ports delivered, copies and corrupt ones too.
    pub fn delivered(&self) -> u64 {
        self.ports.iter().map(|port| port.received).sum()
    }

    /// Frames that the ports delivered, whatever they are.
    pub fn arrived(&self) -> u64 {
        let ports = self.ports.iter();
        ports
            .map(|port| port.received + port.late + port.foreign)
            .sum()
    }

    /// The final counts, by stream as expected and by port.
    pub fn close(mut self) -> Closed {
        for stream in &mut self.streams {
            let mut never_sent = stream.leave_out_never_sent();
            // Of several ports it is not known which one delivered them.
            for &port in &stream.rx_ports {
                let port = &mut self.ports[port];
                let own = never_sent.min(port.received);
                port.received -= own;
                port.foreign += own;
                never_sent -= own;
            }
        }
        let mut latencies: Vec<_> = self.latencies.into_iter().map(Some).collect();
        let mut closed = self.streams.into_iter().map(|stream| {
            let latency = latencies[stream.latency].take();
            stream.close(latency)
        });
        // Those that a port expects are in the order of the places.
        let known = |place: &u16| (*place != NO_STREAM).then(|| closed.next()).flatten();
        Closed {
            streams: self.places.iter().map(known).collect(),
            ports: self.ports,
            misdelivered: self.misdelivered,
        }
    }
}

impl Stream {
    /// A frame came after one with a higher number.
    #[cold]
    fn reordered(&mut self, sequence: u64, distance: u64) {
        self.counts.reordered(distance);
        if let (Some(flows), Some(count)) = (self.flow_count, &mut self.counts.reordered_in_flow) {
            *count += u64::from(self.window.overtaken_in_flow(sequence, flows));
        }
    }

    /// Whether `sequence`, beyond what is known of the sender, was sent
    /// meanwhile. A bound moved elsewhere may be a little too high.
    #[cold]
    fn was_sent(&mut self, sequence: u64) -> bool {
        if let Sender::Elsewhere(sent_bound) = &self.sender {
            self.sent_bound = sent_bound.get();
        }
        sequence < self.sent_bound
    }

    /// Takes back the frames received that the sender, which has ended, never
    /// sent: someone else's with our signature. Returns how many. Copies of
    /// them and what they did to latencies and reordering stays.
    fn leave_out_never_sent(&mut self) -> u64 {
        let Sender::Elsewhere(sent_bound) = &self.sender else {
            return 0;
        };
        let mut never_sent = 0;
        for sequence in self.window.received_from(sent_bound.get()) {
            never_sent += 1;
            if let Some(flows) = &mut self.flows {
                flows.take_back(sequence);
            }
        }
        self.counts.received -= never_sent;
        never_sent
    }

    fn close(self, latency: Option<LatencyRecorder>) -> StreamAccount {
        let mut counts = self.counts;
        counts.shares = u64::from(counts.received > 0);
        StreamAccount {
            counts,
            latency,
            flows: self.flows,
        }
    }
}

#[cfg(test)]
#[path = "account_tests.rs"]
mod tests;
