//! A bottleneck and a delay line: where a simulated slow device holds frames.
//!
//! A frame that arrives joins a queue that is served at a constant rate; one
//! that finds the queue full is dropped (tail drop). What was served takes a
//! constant delay and a random one on top, and leaves in the order it came
//! in: a frame waits for the one before it, as on a wire.

use std::collections::VecDeque;
use std::time::Instant;

/// Frames that a bottleneck's queue holds unless something else is asked for.
pub const QUEUE: u32 = 1024;
/// Longest queue.
pub const QUEUE_MAX: u32 = 1 << 16;
/// Bytes that a buffer has room for to begin with.
const USUAL_LEN: usize = 2048;
/// Sums of service times are not exact; this much more than a whole number of
/// frames or nanoseconds is that number.
const ROUNDING: f64 = 1e-4;

/// A source of the time.
pub trait Clock {
    /// Nanoseconds since some instant; never less than before.
    fn now_ns(&self) -> u64;
}

/// The system's monotonic clock.
#[derive(Debug, Clone, Copy)]
pub struct Monotonic(Instant);

impl Default for Monotonic {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock for Monotonic {
    fn now_ns(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }
}

/// What a frame has to wait for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Impairment {
    /// Frames served per second, more than zero; none for no bottleneck.
    pub capacity_fps: Option<f64>,
    /// Frames that the bottleneck holds, the one being served included.
    pub queue: u32,
    /// Constant delay, in nanoseconds.
    pub delay_ns: u64,
    /// Most of a random delay on top, evenly distributed, in nanoseconds.
    pub jitter_ns: u64,
}

impl Default for Impairment {
    /// Nothing to wait for.
    fn default() -> Self {
        Self {
            capacity_fps: None,
            queue: QUEUE,
            delay_ns: 0,
            jitter_ns: 0,
        }
    }
}

impl Impairment {
    /// Whether frames have to wait at all.
    pub fn waits(&self) -> bool {
        self.capacity_fps.is_some() || self.delay_ns > 0 || self.jitter_ns > 0
    }
}

/// Buffers that are used again; one is made only when more are in use than
/// ever before.
#[derive(Default)]
pub(crate) struct Pool(Vec<Vec<u8>>);

impl Pool {
    pub(crate) fn with(count: usize) -> Self {
        let buffer = || Vec::with_capacity(USUAL_LEN);
        Self(std::iter::repeat_with(buffer).take(count).collect())
    }

    pub(crate) fn copy(&mut self, frame: &[u8]) -> Vec<u8> {
        let mut buffer = self.0.pop().unwrap_or_default();
        buffer.extend_from_slice(frame);
        buffer
    }

    pub(crate) fn give_back(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        self.0.push(buffer);
    }
}

/// Numbers that look random (SplitMix64: Steele, Lea and Flood, 2014).
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// At least 0 and less than 1.
    pub(crate) fn share(&mut self) -> f64 {
        const STEPS: f64 = (1u64 << 53) as f64;
        (self.draw() >> 11) as f64 / STEPS
    }
}

/// A frame on its way, with what its owner wants to remember of it.
struct Waiting<T> {
    leaves_ns: u64,
    frame: Vec<u8>,
    tag: T,
}

/// Frames that have arrived and not left yet.
pub(crate) struct Line<T> {
    impairment: Impairment,
    random: Random,
    waiting: VecDeque<Waiting<T>>,
    pool: Pool,
    /// When the bottleneck has served what it holds, in nanoseconds.
    served_ns: f64,
    /// When the last frame leaves.
    last_leaves_ns: u64,
}

impl<T> Line<T> {
    /// An empty line; `seed` is that of the random delays.
    pub(crate) fn new(impairment: Impairment, seed: u64) -> Self {
        let held = match impairment.capacity_fps {
            Some(_) => impairment.queue as usize,
            None => 0,
        };
        Self {
            impairment,
            random: Random::new(seed),
            waiting: VecDeque::with_capacity(held),
            pool: Pool::with(held),
            served_ns: 0.0,
            last_leaves_ns: 0,
        }
    }

    /// Takes a frame that arrives now; false if it is dropped.
    pub(crate) fn enter(&mut self, now_ns: u64, frame: &[u8], tag: T) -> bool {
        let Some(served_ns) = self.serve(now_ns) else {
            return false;
        };
        let Impairment {
            delay_ns,
            jitter_ns,
            ..
        } = self.impairment;
        let mut leaves_ns = served_ns + delay_ns;
        if jitter_ns > 0 {
            leaves_ns += self.random.draw() % (jitter_ns + 1);
        }
        self.last_leaves_ns = self.last_leaves_ns.max(leaves_ns);
        self.waiting.push_back(Waiting {
            leaves_ns: self.last_leaves_ns,
            frame: self.pool.copy(frame),
            tag,
        });
        true
    }

    /// When the bottleneck has served a frame that arrives now; none if its
    /// queue is full.
    fn serve(&mut self, now_ns: u64) -> Option<u64> {
        let Some(capacity_fps) = self.impairment.capacity_fps else {
            return Some(now_ns);
        };
        let service_ns = 1e9 / capacity_fps;
        let queue = f64::from(self.impairment.queue);
        let begin_ns = self.served_ns.max(now_ns as f64);
        // A frame that has been served in part still takes its place.
        let held = ((begin_ns - now_ns as f64) / service_ns - ROUNDING).ceil();
        if held >= queue {
            return None;
        }
        self.served_ns = begin_ns + service_ns;
        Some((self.served_ns - ROUNDING).ceil() as u64)
    }

    /// How many frames have left by now, at most `limit`.
    pub(crate) fn left(&self, now_ns: u64, limit: usize) -> usize {
        let first = self.waiting.iter().take(limit);
        first.take_while(|frame| frame.leaves_ns <= now_ns).count()
    }

    /// Takes the frame that leaves first.
    pub(crate) fn leave(&mut self) -> Option<(Vec<u8>, T)> {
        let first = self.waiting.pop_front()?;
        Some((first.frame, first.tag))
    }

    /// Takes back a frame's buffer.
    pub(crate) fn give_back(&mut self, frame: Vec<u8>) {
        self.pool.give_back(frame);
    }

    /// Frames that have not left.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// When frames leave that arrive at these times; none if dropped.
    fn leave(impairment: Impairment, arrivals: &[u64]) -> Vec<Option<u64>> {
        let mut line = Line::new(impairment, 1);
        let mut taken = Vec::new();
        for (k, &now_ns) in arrivals.iter().enumerate() {
            taken.push(line.enter(now_ns, &[k as u8; 60], k));
        }
        let mut times = vec![None; arrivals.len()];
        let leaves_ns: Vec<_> = line.waiting.iter().map(|frame| frame.leaves_ns).collect();
        for leaves_ns in leaves_ns {
            assert_eq!(line.left(leaves_ns - 1, 1), 0);
            assert_eq!(line.left(leaves_ns, 1), 1);
            let (frame, k) = line.leave().unwrap();
            assert_eq!(frame, [k as u8; 60]);
            times[k] = Some(leaves_ns);
        }
        assert!(
            taken
                .iter()
                .zip(&times)
                .all(|(taken, time)| *taken == time.is_some())
        );
        times
    }

    #[test]
    fn a_full_queue_drops_what_arrives_and_is_served_at_its_capacity() {
        let impairment = Impairment {
            capacity_fps: Some(1e6),
            queue: 3,
            ..Impairment::default()
        };
        let arrivals = [5_000, 5_000, 5_000, 5_000, 5_999, 6_000, 6_001, 20_000];
        let expected = [
            Some(6_000),
            Some(7_000),
            Some(8_000),
            None,
            None,
            Some(9_000),
            None,
            Some(21_000),
        ];
        assert_eq!(leave(impairment, &arrivals), expected);
    }

    #[test]
    fn a_capacity_that_is_no_whole_number_of_nanoseconds_a_frame_is_kept_to() {
        let impairment = Impairment {
            capacity_fps: Some(3e6),
            queue: QUEUE_MAX,
            ..Impairment::default()
        };
        let times = leave(impairment, &vec![0; 30_000]);
        assert_eq!(times.last(), Some(&Some(10_000_000)));
    }

    #[test]
    fn a_constant_delay_is_the_same_for_all() {
        let impairment = Impairment {
            delay_ns: 700,
            ..Impairment::default()
        };
        let expected = [Some(710), Some(710), Some(799)];
        assert_eq!(leave(impairment, &[10, 10, 99]), expected);
    }

    proptest! {
        #[test]
        fn random_delays_keep_the_order_and_their_bounds(
            spacings in proptest::collection::vec(0u64..3000, 1..200),
            jitter_ns in 0u64..5000,
        ) {
            let sum = |at: &mut u64, spacing: &u64| { *at += spacing; Some(*at) };
            let arrivals: Vec<u64> = spacings.iter().scan(0, sum).collect();
            let impairment = Impairment { delay_ns: 1000, jitter_ns, ..Impairment::default() };
            let times: Vec<_> = leave(impairment, &arrivals).into_iter().flatten().collect();
            prop_assert!(times.is_sorted());
            for (arrived, left) in arrivals.iter().zip(&times) {
                let delay_ns = left - arrived;
                prop_assert!((1000..=1000 + jitter_ns).contains(&delay_ns));
            }
        }

        /// Event by event: serve what was due before, then look at the queue.
        #[test]
        fn drops_are_those_of_a_queue_played_through(
            spacings in proptest::collection::vec(0u64..30, 1..400),
            service_ns in 1u64..40,
            queue in 1u32..8,
        ) {
            let impairment = Impairment {
                capacity_fps: Some(1e9 / service_ns as f64),
                queue,
                ..Impairment::default()
            };
            let mut line = Line::new(impairment, 0);
            let (mut now_ns, mut held, mut next_ns) = (0, 0, 0);
            for spacing in spacings {
                for _ in 0..spacing {
                    now_ns += 1;
                    if held > 0 && now_ns == next_ns {
                        held -= 1;
                        next_ns = now_ns + service_ns;
                    }
                }
                let room = held < queue;
                if room && held == 0 {
                    next_ns = now_ns + service_ns;
                }
                held += u32::from(room);
                prop_assert_eq!(line.enter(now_ns, &[0; 60], ()), room, "at {} ns", now_ns);
            }
        }
    }
}
