//! What became of connections.

use crate::protocol::connections::{
    BackendTold, ClientTold, ConnectionsAccount, ConnectionsCounts, HandedTold, OthersTold,
    PortTold, Ran, ServerTold, SourceTold, SourcesTold, TimesTold,
};
use pinchpoint_traffic::latency::LatencyRecorder;
use pinchpoint_workload::connections::client::Client;
use pinchpoint_workload::connections::counts::Counts;
use pinchpoint_workload::connections::samples::Sample;
use pinchpoint_workload::connections::server::Server;
use pinchpoint_workload::connections::sources::Sources;
use pinchpoint_workload::connections::work::{Account, Others};

/// Addresses that are listed; the rest are summed up.
const MOST_LISTED: usize = 256;
const SECOND_NS: f64 = 1e9;

impl ConnectionsAccount {
    /// Of all cores, whose accounts these are; none of none.
    pub fn new(accounts: &[Account], cores: &[usize], idle: &str) -> Option<Self> {
        let (first, rest) = accounts.split_first()?;
        let mut merged = (!rest.is_empty()).then(|| first.clone());
        if let Some(whole) = &mut merged {
            for other in rest {
                whole.merge(other);
            }
        }
        let account = merged.as_ref().unwrap_or(first);
        let ran = accounts.iter().zip(cores);
        let ran = ran.map(|(account, &core)| Ran::new(&account.ran, core, idle.to_owned()));
        let ran: Vec<Ran> = ran.collect();
        let others = account.ports.iter().zip(&account.others);
        let Ran {
            core,
            idle,
            elapsed_s,
            busy_share,
            away_share,
            longest_away_s,
            turns,
            gaps,
        } = Ran::of_all(&ran)?;
        Some(Self {
            core,
            idle,
            elapsed_s,
            busy_share,
            away_share,
            longest_away_s,
            turns,
            gaps,
            cores: if rest.is_empty() { Vec::new() } else { ran },
            ports: account.ports.iter().map(PortTold::new).collect(),
            client: account.client.as_ref().map(ClientTold::new),
            next_hop: account.next_hop().map(|mac| mac.to_string()),
            server: account.server.as_ref().map(ServerTold::new),
            others: others
                .map(|(port, others)| OthersTold::new(&port.name, others))
                .collect(),
            returned: account.returned,
            handed: account.handed.map(|handed| HandedTold {
                segments: handed.segments,
                lost: handed.lost,
            }),
        })
    }

    /// How the loops of all cores ran.
    pub fn ran(&self) -> Ran {
        Ran {
            core: self.core,
            idle: self.idle.clone(),
            elapsed_s: self.elapsed_s,
            busy_share: self.busy_share,
            away_share: self.away_share,
            longest_away_s: self.longest_away_s,
            turns: self.turns,
            gaps: self.gaps.clone(),
        }
    }
}

impl ConnectionsCounts {
    /// Of a sample of all cores.
    pub fn new(sample: Sample) -> Self {
        let counts = sample.counts;
        Self {
            elapsed_s: sample.passed_ns as f64 / SECOND_NS,
            opened: counts.opened,
            shortfall: counts.shortfall,
            established: counts.established,
            answered: counts.answered,
            completed: counts.completed,
            refused: counts.refused,
            reset: counts.reset,
            timed_out_connecting: counts.timed_out_connecting,
            timed_out_answering: counts.timed_out_answering,
            timed_out_closing: counts.timed_out_closing,
            wrong_backend: counts.wrong_backend,
            backends: sample.backends,
            kept: sample.kept,
            left: sample.left,
            down: sample.down,
        }
    }
}

impl ClientTold {
    fn new(client: &Client) -> Self {
        let Counts {
            opened,
            shortfall,
            established,
            stamped,
            answered,
            completed,
            refused,
            reset,
            timed_out_connecting,
            timed_out_answering,
            timed_out_closing,
            unfinished,
            most_open,
            retransmitted,
            duplicated,
            early,
            stale,
            late,
            foreign,
            wrong_payload,
            wrong_backend,
            toa_right,
            toa_wrong,
            unsent,
        } = *client.counts();
        let (times, delivered) = (client.times(), client.delivered());
        let lasted_ns = delivered.last_ns.checked_sub(client.start_ns());
        let lasted_ns = lasted_ns.filter(|&ns| ns > 0 && delivered.bytes > 0);
        Self {
            opened,
            shortfall,
            established,
            stamped,
            answered,
            completed,
            refused,
            reset,
            timed_out_connecting,
            timed_out_answering,
            timed_out_closing,
            unfinished,
            most_open,
            retransmitted,
            duplicated,
            early,
            stale,
            late,
            foreign,
            wrong_payload,
            wrong_backend,
            toa_right,
            toa_wrong,
            unsent,
            reused: client.reused(),
            connect_ns: TimesTold::new(&times.connect),
            answer_ns: TimesTold::new(&times.answer),
            close_ns: TimesTold::new(&times.close),
            first_byte_ns: TimesTold::new(&times.first_byte),
            delivered_bytes: delivered.bytes,
            goodput_bps: lasted_ns.map(|ns| 8e9 * delivered.bytes as f64 / ns as f64),
            backends: client.answered().backends().to_vec(),
            local: SourcesTold::new(client.answered().local()),
            order: client.order().map(|order| order.backends().collect()),
        }
    }
}

impl ServerTold {
    fn new(server: &Server) -> Self {
        let strays = server.strays();
        let backends = server.backends().iter();
        Self {
            backends: backends
                .map(|one| BackendTold {
                    syns: one.syns,
                    requests: one.requests,
                    fins: one.fins,
                    closed: one.closed,
                    resets: one.resets,
                    toa: one.toa,
                    down: one.down,
                    retransmitted: one.retransmitted,
                    stamped: one.stamped,
                })
                .collect(),
            elsewhere: strays.elsewhere,
            unacknowledged: strays.unacknowledged,
            wrong_payload: strays.wrong_payload,
            unsent: strays.unsent,
            sources: SourcesTold::new(server.sources()),
        }
    }
}

impl OthersTold {
    fn new(port: &str, others: &Others) -> Self {
        Self {
            port: port.to_owned(),
            other: others.other,
            malformed: others.malformed,
            fragments: others.fragments,
            wrong_checksums: others.checksum,
            answered: others.answered,
            segments: others.segments,
        }
    }
}

impl TimesTold {
    fn new(times: &LatencyRecorder) -> Option<Self> {
        let found = times.clone().into_histogram();
        (!found.is_empty()).then(|| Self {
            count: found.len(),
            min: found.min(),
            mean: found.mean(),
            p50: found.value_at_quantile(0.5),
            p90: found.value_at_quantile(0.9),
            p99: found.value_at_quantile(0.99),
            p999: found.value_at_quantile(0.999),
            max: found.max(),
        })
    }
}

impl SourcesTold {
    fn new(sources: &Sources) -> Self {
        let mut sorted = sources.sorted();
        let rest = sorted.split_off(sorted.len().min(MOST_LISTED));
        Self {
            listed: sorted
                .into_iter()
                .map(|(address, count)| SourceTold { address, count })
                .collect(),
            unlisted: rest.len(),
            others: sources.others + rest.iter().map(|(_, count)| count).sum::<u64>(),
        }
    }
}
