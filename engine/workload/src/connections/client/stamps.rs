//! A client's time stamps (RFC 7323).

use super::Client;
use crate::connections::options::{Stamp, StampClock};
use crate::connections::segment::{Incoming, Outgoing};

impl Client {
    /// The same client, whose segments have the time stamps of `clock`; none: they have none.
    #[must_use]
    pub fn with_stamps(mut self, clock: Option<StampClock>) -> Self {
        self.sender.clock = clock;
        self
    }

    #[inline(always)]
    pub(super) fn set_clock(&mut self, now_ns: u64) {
        if let Some(clock) = &mut self.sender.clock {
            clock.set(now_ns);
        }
    }

    /// The other side's time stamp; 0 where it has none, or is not to be known.
    #[inline(always)]
    pub(super) fn heard(&self, segment: &Incoming<'_>) -> u32 {
        let clock = self.sender.clock.as_ref();
        clock.map_or(0, |_| segment.stamp().map_or(0, |heard| heard.value))
    }
}

/// The same segment, which answers a time stamp; a side that sends none, 0, gets none (RFC 7323 section 3.2).
#[inline(always)]
pub(super) fn stamped(segment: Outgoing, heard: u32) -> Outgoing {
    let own = segment.stamp.filter(|_| heard != 0);
    let stamp = own.map(|own| Stamp { echo: heard, ..own });
    Outgoing { stamp, ..segment }
}

#[cfg(test)]
mod tests {
    use crate::connections::doubles::*;
    use crate::connections::end::End;
    use crate::connections::options::{Stamp, StampClock};
    use crate::connections::schedule::Schedule;
    use crate::connections::segment::{Incoming, MSS, SYN};
    use crate::connections::server::Server;
    use std::collections::HashMap;

    const BASE: u32 = u32::MAX - 1;

    /// A wire on which each stamp answers the latest of the other side, and rises.
    #[derive(Default)]
    struct Looked {
        latest: HashMap<(bool, End), Stamp>,
        stamped: u64,
        plain: u64,
        longest: usize,
    }

    impl Between for Looked {
        fn pass(&mut self, frame: Vec<u8>, to_server: bool) -> Vec<(Vec<u8>, bool)> {
            let segment = Incoming::read(&frame).unwrap();
            let client = if to_server { segment.src } else { segment.dst };
            self.longest = self.longest.max(frame.len());
            let Some(own) = segment.stamp() else {
                self.plain += 1;
                return vec![(frame, to_server)];
            };
            self.stamped += 1;
            let other = self.latest.get(&(!to_server, client));
            let is_first = to_server && segment.has(SYN);
            assert_eq!(own.echo, if is_first { 0 } else { other.unwrap().value });
            if let Some(before) = self.latest.insert((to_server, client), own) {
                assert!(own.value.wrapping_sub(before.value) < 1 << 31);
            }
            vec![(frame, to_server)]
        }
    }

    /// A device that clears the options.
    struct Cleared;

    impl Between for Cleared {
        fn pass(&mut self, frame: Vec<u8>, to_server: bool) -> Vec<(Vec<u8>, bool)> {
            let segment = Incoming::read(&frame).unwrap();
            let (ends, numbers) = ((segment.src, segment.dst), (segment.seq, segment.ack));
            vec![(rewritten(&segment, ends, numbers, &[]), to_server)]
        }
    }

    fn clock() -> StampClock {
        StampClock::new(BASE)
    }

    #[test]
    fn every_segment_of_both_ends_answers_the_latest_stamp() {
        let held = Schedule {
            hold_ns: 3_000_000,
            timeout_ns: 10_000_000,
            ..schedule(100)
        };
        let client = client(plan(), held).with_stamps(Some(clock()));
        let net = Net::new(
            client,
            server().with_stamps(Some(clock())),
            Looked::default(),
        )
        .run();
        let counts = net.client.counts();
        assert_eq!((counts.completed, counts.stamped), (100, 100));
        assert_eq!(net.server.backends()[0].stamped, 100);
        assert_eq!((net.between.plain, net.between.stamped), (0, 800));
    }

    #[test]
    fn a_long_answer_s_segments_have_room_for_their_stamps() {
        let len = 64 << 10;
        for (plan, headers) in [(plan(), 14 + 20 + 20), (plan_v6(), 14 + 40 + 20)] {
            let patient = Schedule {
                timeout_ns: 20_000_000,
                ..schedule(20)
            };
            let client = client(plan, patient).with_stamps(Some(clock()));
            let server = Server::new(&[plan.service], mac(3), len, 11).with_stamps(Some(clock()));
            let net = Net::new(client.with_answers(len), server, Looked::default()).run();
            assert_eq!(net.client.counts().completed, 20);
            assert_eq!(net.client.delivered().bytes, 20 * u64::from(len));
            assert_eq!(net.between.longest, headers + MSS as usize);
        }
    }

    #[test]
    fn a_side_without_stamps_gets_none_but_in_the_syn() {
        let stamping = || client(plan(), schedule(10)).with_stamps(Some(clock()));
        let net = Net::new(stamping(), server(), Looked::default()).run();
        assert_eq!(
            (net.client.counts().completed, net.client.counts().stamped),
            (10, 0)
        );
        assert_eq!(net.between.stamped, 10);
        let net = Net::new(stamping(), server().with_stamps(Some(clock())), Cleared).run();
        assert_eq!(
            (net.client.counts().completed, net.client.counts().stamped),
            (10, 0)
        );
        assert_eq!(net.server.backends()[0].stamped, 0);
    }
}
