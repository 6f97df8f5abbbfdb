//! Whatever happens to segments: one end for each connection.

use super::doubles::*;
use super::end::End;
use super::plan::{Mix, Plan, Requests};
use super::schedule::Schedule;
use super::segment::Incoming;
use super::timers::Retry;
use proptest::prelude::*;
use std::net::Ipv4Addr;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is lost, doubled or overtaken: every connection has one end, and no
    /// answer counts twice.
    #[test]
    fn every_connection_ends_once(
        random: u64,
        lost in 0.0..0.4f64,
        doubled in 0.0..0.4f64,
        spread in 1..200u64,
        requests in 1..4u32,
        times in 0..4u32,
        hold_ns in prop_oneof![Just(0), Just(300_000u64)],
        hold_before in 0..3u16,
        weights in prop::array::uniform4(0..3u32).prop_filter("a mix", |all| all.iter().sum::<u32>() > 0),
    ) {
        let requests = Requests { count: requests, len: 40 };
        let plan = Plan { mix: Mix::new(weights).unwrap(), requests, ..plan_of(500) };
        let retry = Retry { after_ns: 100_000, times };
        let schedule = Schedule { hold_ns, hold_before, retry, ..schedule(1_000) };
        let mut net = Net::new(client(plan, schedule), server(), Careless { random, lost, doubled });
        net.spread = spread;
        let net = net.run();
        let counts = net.client.counts();
        prop_assert_eq!((counts.opened, counts.unfinished), (1_000, 0));
        prop_assert!(counts.established <= counts.opened && counts.answered <= counts.established);
        prop_assert_eq!(net.client.answered().backends().iter().sum::<u64>(), counts.answered);
        prop_assert_eq!((counts.foreign, counts.wrong_payload, counts.wrong_backend), (0, 0, 0));
    }

    /// Numbers and tuples are two names of one connection.
    #[test]
    fn a_connection_is_found_by_what_acknowledges_it(
        n in 0..1u64 << 40,
        since in 0..100_000u64,
        len in 1..60_000u32,
        share in 0.0..1.0f64,
        key: u64,
        first_round: u16,
        one_isn: bool,
        client_count in 1..300u32,
        port_count in 1..60_000u32,
    ) {
        let requests = Requests { count: 1, len };
        let plan = Plan { client_count, port_count, requests, key, first_round, one_isn, ..plan() };
        let sent = 1 + (f64::from(len + 1) * share) as u32;
        // Older ones of the tuple are those of 2^16 rounds ago.
        let next = plan.place(n + 1 + since.min(plan.tuples().saturating_mul(0xfffd)));
        let place = plan.place(n);
        let ack = plan.first_seq(place).wrapping_add(sent);
        prop_assert_eq!(plan.find(plan.tuple(place), ack, next), Some((place, sent)));
        prop_assert_eq!(plan.after(place), plan.place(n + 1));
    }

    /// Frames of any content, and segments of any numbers, change no account but counts.
    #[test]
    fn no_frame_is_fatal(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        flags in 0..0x1000u16,
        numbers: (u32, u32),
        port: u16,
        payload in prop::collection::vec(any::<u8>(), 0..100),
        options in prop::collection::vec(any::<u8>(), 0..10),
    ) {
        let mut net = Net::new(client(plan(), schedule(100)), server(), Wire);
        for _ in 0..50 {
            net.step();
        }
        let _ = Incoming::read(&bytes);
        let options: Vec<u8> = options.iter().flat_map(|&byte| [byte; 4]).collect();
        let segment = Incoming {
            from: mac(5),
            to: mac(6),
            src: service(),
            dst: End::new(Ipv4Addr::new(16, 0, 0, 1), 1025 + port % 64),
            seq: numbers.0,
            ack: numbers.1,
            flags,
            window: 1,
            options: &options,
            payload: &payload,
        };
        let _ = segment.toa();
        let backwards = Incoming { src: segment.dst, dst: segment.src, ..segment };
        for segment in [&segment, &backwards] {
            let reply = net.client.react(segment, net.now_ns);
            let other = net.server.react(segment);
            for one in reply.iter().chain(&other) {
                prop_assert!(Incoming::read(&written(one)).is_ok());
            }
        }
        let counts = net.run().client.counts().clone();
        prop_assert_eq!(counts.opened, 100);
    }
}
