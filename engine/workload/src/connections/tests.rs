//! What both ends do, through what networks and balancers do to segments.

use super::counts::Counts;
use super::doubles::*;
use super::outages::{Manner, Outage};
use super::payload::Answer;
use super::plan::{Mix, Plan, Requests};
use super::schedule::Schedule;
use super::segment::{FIN, Incoming, PSH, SYN};
use super::server::{Server, Strays};
use super::timers::Retry;
use std::net::Ipv4Addr;

fn run(plan: Plan, schedule: Schedule, between: impl Between) -> Counts {
    Net::new(client(plan, schedule), server(), between)
        .run()
        .client
        .counts()
        .clone()
}

/// Counts of `count` connections of which all went as they should.
fn all_well(count: u64, most_open: u64) -> Counts {
    Counts {
        opened: count,
        established: count,
        answered: count,
        completed: count,
        most_open,
        ..Counts::default()
    }
}

#[test]
fn on_a_wire_every_connection_is_opened_answered_and_closed() {
    for requests in [1, 2, 7] {
        let plan = Plan {
            requests: Requests {
                count: requests,
                len: 64,
            },
            ..plan()
        };
        let net = Net::new(client(plan, schedule(1_000)), server(), Wire).run();
        let counts = net.client.counts();
        assert_eq!(*counts, all_well(1_000, counts.most_open));
        assert_eq!(net.client.answered().backends(), [1_000]);
        let backend = net.server.backends()[0];
        assert_eq!(
            (backend.syns, backend.fins, backend.closed),
            (1_000, 1_000, 1_000)
        );
        assert_eq!(backend.requests, 1_000 * u64::from(requests));
        assert_eq!(*net.server.strays(), Strays::default());
    }
}

#[test]
fn sources_are_those_that_the_backend_saw() {
    let net = Net::new(client(plan(), schedule(1_000)), server(), Wire).run();
    let clients = (1..=4).map(|last| (Ipv4Addr::new(16, 0, 0, last).into(), 250));
    assert_eq!(
        net.client.answered().local().sorted(),
        clients.clone().collect::<Vec<_>>()
    );
    assert_eq!(net.server.sources().sorted(), clients.collect::<Vec<_>>());
}

#[test]
fn latencies_count_from_the_planned_time() {
    let net = Net::new(client(plan(), schedule(1_000)), server(), Wire).run();
    let times = net.client.times().clone();
    // Opened when it is due, or a step later where the product is rounded; a step for each crossing.
    for (recorder, crossings) in [(times.connect, 2), (times.answer, 4), (times.close, 6)] {
        let histogram = recorder.into_histogram();
        assert_eq!(histogram.len(), 1_000);
        let (least, most) = (histogram.min(), histogram.max());
        assert!(least >= crossings * STEP_NS, "{crossings}: {least}");
        assert!(most < (crossings + 2) * STEP_NS, "{crossings}: {most}");
    }
}

#[test]
fn a_tuple_is_used_again_and_again_and_each_connection_is_told_apart() {
    let plan = Plan {
        client_count: 1,
        port_count: 200,
        ..plan()
    };
    let counts = run(plan, schedule(200 * 400), Wire);
    assert_eq!(counts, all_well(200 * 400, counts.most_open));
}

#[test]
fn each_kind_of_connection_ends_as_it_should() {
    for (weights, resets) in [([1, 0, 0, 0], 0), ([0, 1, 0, 0], 0), ([0, 0, 1, 0], 1_000)] {
        let plan = Plan {
            mix: Mix::new(weights).unwrap(),
            ..plan()
        };
        let net = Net::new(client(plan, schedule(1_000)), server(), Wire).run();
        let counts = net.client.counts();
        let expected = all_well(1_000, counts.most_open);
        assert_eq!(
            *counts,
            Counts {
                answered: 0,
                ..expected
            }
        );
        assert_eq!(net.server.backends()[0].resets, resets);
    }
}

#[test]
fn connections_with_the_same_first_sequence_numbers_can_be_continued_by_others() {
    let plan = Plan {
        mix: Mix::new([0, 1, 0, 0]).unwrap(),
        same_first_seq: Some(u32::MAX),
        ..plan()
    };
    let syn = client(plan, schedule(1)).syns().nth(99).unwrap();
    assert_eq!(syn.seq, u32::MAX);
    let answer = server()
        .with_first_seq(Some(7_000))
        .react(&Incoming::read(&written(&syn)).unwrap())
        .unwrap();
    assert_eq!((answer.seq, answer.ack), (7_000, 0));
    let every = plan.tuples();
    let net = Net::new(
        client(plan, schedule(every)),
        server().with_first_seq(Some(7_000)),
        Wire,
    );
    let counts = net.run().client.counts().clone();
    assert_eq!((counts.completed, counts.foreign), (every, 0));
}

#[test]
fn connections_that_are_late_are_opened_where_that_was_asked_for() {
    for (opens_late, expected) in [(false, 64), (true, 256)] {
        let schedule = Schedule {
            opens_late,
            rate: 1e5,
            timeout_ns: 1_000_000_000,
            ..schedule(256)
        };
        assert_eq!(client(plan(), schedule).due(3_000_000), expected);
    }
}

#[test]
fn a_mix_has_the_shares_that_were_asked_for() {
    let plan = Plan {
        mix: Mix::new([10, 0, 20, 70]).unwrap(),
        ..plan()
    };
    let net = Net::new(client(plan, schedule(20_000)), server(), Wire).run();
    let (counts, backend) = (net.client.counts(), net.server.backends()[0]);
    assert_eq!(counts.completed, 20_000);
    // Five standard deviations of a binomial distribution.
    let near = |count: u64, share: f64| {
        let deviation = (20_000.0 * share * (1.0 - share)).sqrt();
        assert!(
            (count as f64 - 20_000.0 * share).abs() < 5.0 * deviation,
            "{count}, {share}"
        );
    };
    near(counts.answered, 0.7);
    near(backend.resets, 0.2);
    assert_eq!(backend.requests, counts.answered);
}

#[test]
fn weights_that_are_all_zero_are_no_mix() {
    assert_eq!(Mix::new([0; 4]), None);
}

#[test]
fn through_full_nat_answers_come_from_backends_in_turn_and_name_the_local_address() {
    let between = FullNat::new(backends(3));
    let server = Server::new(&backends(3), mac(3), ANSWER_LEN, 11);
    let mut opening = client(plan(), schedule(240));
    opening.remember_order();
    let net = Net::new(opening, server, between).run();
    let counts = net.client.counts();
    let expected = all_well(240, counts.most_open);
    assert_eq!(
        *counts,
        Counts {
            toa_right: 240,
            ..expected
        }
    );
    assert_eq!(net.client.answered().backends(), [80, 80, 80]);
    let order = net.client.order().unwrap().backends();
    assert!(order.eq((0..240).map(|n| Some(n % 3))));
    assert_eq!(
        net.client.answered().local().sorted(),
        [(LOCAL.into(), 240)]
    );
    assert!(
        net.server
            .backends()
            .iter()
            .all(|one| one.toa == 80 && one.closed == 80)
    );
}

#[test]
fn a_toa_option_with_another_address_is_counted_as_wrong() {
    let between = FullNat::lying(backends(1));
    let server = Server::new(&backends(1), mac(3), ANSWER_LEN, 11);
    let net = Net::new(client(plan(), schedule(100)), server, between).run();
    assert_eq!(
        (net.client.counts().toa_right, net.client.counts().toa_wrong),
        (0, 100)
    );
}

#[test]
fn a_closed_window_is_waited_for() {
    let counts = run(plan(), schedule(200), SynProxy::default());
    assert_eq!(counts, all_well(200, counts.most_open));
}

#[test]
fn refused_and_reset_connections_are_told_apart() {
    let refused = run(plan(), schedule(500), Resetting { at_once: true });
    assert_eq!(
        (refused.refused, refused.reset, refused.established),
        (500, 0, 0)
    );
    let reset = run(plan(), schedule(500), Resetting { at_once: false });
    assert_eq!(
        (reset.refused, reset.reset, reset.established),
        (0, 500, 500)
    );
}

#[test]
fn time_outs_are_counted_by_the_stage_that_was_waited_for() {
    struct Swallows(u16);
    impl Between for Swallows {
        fn pass(&mut self, frame: Vec<u8>, to_server: bool) -> Vec<(Vec<u8>, bool)> {
            let flags = Incoming::read(&frame).unwrap().flags;
            let hit = !to_server && flags & self.0 != 0;
            if hit {
                Vec::new()
            } else {
                vec![(frame, to_server)]
            }
        }
    }
    let stages = |flags| {
        let counts = run(plan(), schedule(100), Swallows(flags));
        assert_eq!(counts.timed_out(), 100);
        [
            counts.timed_out_connecting,
            counts.timed_out_answering,
            counts.timed_out_closing,
        ]
    };
    assert_eq!(stages(SYN), [100, 0, 0]);
    assert_eq!(stages(PSH), [0, 100, 0]);
    assert_eq!(stages(FIN), [0, 0, 100]);
}

#[test]
fn what_is_lost_is_repeated_where_that_was_asked_for() {
    let between = || Careless {
        random: 3,
        lost: 0.1,
        doubled: 0.0,
    };
    let lossy = run(plan(), schedule(2_000), between());
    assert!(lossy.timed_out() > 500, "{lossy:?}");
    let retry = Retry {
        after_ns: 50_000,
        times: 19,
    };
    let patient = run(
        plan(),
        Schedule {
            retry,
            ..schedule(2_000)
        },
        between(),
    );
    assert_eq!((patient.completed, patient.timed_out()), (2_000, 0));
    assert!(patient.retransmitted > 200, "{patient:?}");
}

#[test]
fn several_requests_survive_losses_and_are_answered_once_each() {
    let plan = Plan {
        requests: Requests { count: 5, len: 40 },
        ..plan()
    };
    let retry = Retry {
        after_ns: 50_000,
        times: 60,
    };
    let schedule = Schedule {
        retry,
        timeout_ns: 4_000_000,
        ..schedule(1_000)
    };
    let between = Careless {
        random: 5,
        lost: 0.05,
        doubled: 0.05,
    };
    let net = Net::new(client(plan, schedule), server(), between).run();
    let counts = net.client.counts();
    assert_eq!(
        (counts.completed, counts.wrong_backend, counts.wrong_payload),
        (1_000, 0, 0)
    );
    assert_eq!(net.client.answered().backends(), [1_000]);
}

#[test]
fn held_connections_are_open_at_the_same_time_and_asked_afterwards() {
    let schedule = Schedule {
        hold_ns: 5_000_000,
        ..schedule(3_000)
    };
    let counts = run(plan_of(3_000), schedule, Wire);
    assert_eq!(counts, all_well(3_000, 3_000));
}

#[test]
fn connections_held_after_an_answer_are_asked_again_by_those_who_answered() {
    let plan = Plan {
        requests: Requests { count: 3, len: 40 },
        ..plan_of(3_000)
    };
    let schedule = Schedule {
        hold_ns: 5_000_000,
        hold_before: 1,
        ..schedule(3_000)
    };
    let net = Net::new(client(plan, schedule), server(), Wire).run();
    assert_eq!(*net.client.counts(), all_well(3_000, 3_000));
    assert_eq!(net.client.reused(), Some(0));
    // An answer's time counts from when its request was due.
    assert!(net.client.times().answer.clone().into_histogram().max() < 100_000);
}

#[test]
fn a_client_that_could_not_run_says_how_many_it_did_not_open() {
    let mut net = Net::new(client(plan(), schedule(10_000)), server(), Wire);
    net.now_ns = 5_000_000;
    let net = net.run();
    let counts = net.client.counts();
    assert_eq!(counts.opened + counts.shortfall, 10_000);
    assert!((4_000..5_000).contains(&counts.shortfall), "{counts:?}");
    assert_eq!(counts.completed, counts.opened);
}

#[test]
fn an_answer_of_another_backend_within_a_connection_is_noticed() {
    struct Wanders(u64);
    impl Between for Wanders {
        fn pass(&mut self, frame: Vec<u8>, to_server: bool) -> Vec<(Vec<u8>, bool)> {
            let segment = Incoming::read(&frame).unwrap();
            let Some(mut answer) = Answer::read(segment.payload).filter(|_| !to_server) else {
                return vec![(frame, to_server)];
            };
            self.0 += 1;
            answer.backend = (self.0 % 2) as u16;
            let mut payload = segment.payload.to_vec();
            answer.write(&mut payload);
            let segment = Incoming {
                payload: &payload,
                ..segment
            };
            let ends = (segment.src, segment.dst);
            vec![(
                rewritten(&segment, ends, (segment.seq, segment.ack), &[]),
                false,
            )]
        }
    }
    let plan = Plan {
        requests: Requests { count: 2, len: 40 },
        ..plan()
    };
    let one_by_one = Schedule {
        rate: 50_000.0,
        ..schedule(100)
    };
    let counts = run(plan, one_by_one, Wanders(0));
    assert_eq!((counts.completed, counts.wrong_backend), (100, 100));
}

#[test]
fn an_answer_to_another_request_is_noticed() {
    struct Spoils;
    impl Between for Spoils {
        fn pass(&mut self, frame: Vec<u8>, to_server: bool) -> Vec<(Vec<u8>, bool)> {
            let segment = Incoming::read(&frame).unwrap();
            if to_server || segment.payload.is_empty() {
                return vec![(frame, to_server)];
            }
            let mut payload = segment.payload.to_vec();
            payload[20] ^= 1;
            let segment = Incoming {
                payload: &payload,
                ..segment
            };
            let ends = (segment.src, segment.dst);
            vec![(
                rewritten(&segment, ends, (segment.seq, segment.ack), &[]),
                false,
            )]
        }
    }
    let net = Net::new(client(plan(), schedule(100)), server(), Spoils).run();
    let counts = net.client.counts();
    assert_eq!((counts.completed, counts.wrong_payload), (100, 100));
    assert_eq!(net.client.delivered().bytes, 0);
    assert!(net.client.answered().backends().is_empty());
}

#[test]
fn connections_run_over_ipv6() {
    let server = Server::new(&[plan_v6().service], mac(3), ANSWER_LEN, 11);
    let net = Net::new(client(plan_v6(), schedule(1_000)), server, Wire).run();
    let counts = net.client.counts();
    assert_eq!(*counts, all_well(1_000, counts.most_open));
    let clients = net.client.answered().local().sorted();
    assert_eq!(clients[0].0, plan_v6().clients);
    assert_eq!(clients.iter().map(|(_, count)| count).sum::<u64>(), 1_000);
}

#[test]
fn through_nat64_the_backend_sees_an_ipv4_address_and_learns_the_client_s() {
    let between = FullNat::nat64(backends(2), plan_v6().service);
    let server = Server::new(&backends(2), mac(3), ANSWER_LEN, 11);
    let net = Net::new(client(plan_v6(), schedule(200)), server, between).run();
    let counts = net.client.counts();
    let expected = all_well(200, counts.most_open);
    assert_eq!(
        *counts,
        Counts {
            toa_right: 200,
            ..expected
        }
    );
    assert_eq!(
        net.client.answered().local().sorted(),
        [(LOCAL.into(), 200)]
    );
}

#[test]
fn a_ramp_opens_fewer_at_first() {
    let slow = Schedule {
        ramp_ns: 1_000_000,
        ..schedule(1_000)
    };
    let mut net = Net::new(client(plan(), slow), server(), Wire);
    for _ in 0..=500 {
        net.step();
    }
    assert_eq!(net.client.counts().opened, 126);
    let counts = net.run().client.counts().clone();
    assert_eq!(counts, all_well(1_000, counts.most_open));
}

#[test]
fn a_backend_that_is_down_answers_nothing_or_resets_what_comes() {
    let outage = |manner| Outage {
        backend: 0,
        from_ns: 100_000,
        until_ns: 300_000,
        manner,
    };
    for manner in [Manner::Silent, Manner::Reset] {
        let down = server().with_outages(vec![outage(manner)]);
        let net = Net::new(client(plan(), schedule(1_000)), down, Wire).run();
        let counts = net.client.counts();
        assert!(net.server.backends()[0].down > 100, "{manner:?}");
        assert_eq!(counts.opened, 1_000);
        let failed = match manner {
            Manner::Silent => counts.timed_out(),
            Manner::Reset => counts.refused + counts.reset,
        };
        // One is opened in each microsecond.
        assert!((195..=205).contains(&failed), "{manner:?}: {counts:?}");
        assert_eq!(counts.completed + failed, 1_000, "{manner:?}: {counts:?}");
    }
}
