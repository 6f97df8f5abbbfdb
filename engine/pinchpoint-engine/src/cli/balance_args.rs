//! `balance`: its options.

use super::Failure;
use super::numbers;
use super::standing_args::StandingArgs;
use crate::text::{self, Addresses, Ports};
use clap::{Args, ValueEnum};
use pinchpoint_devices::balancer::settings::{
    LocalEnds, MOST_BACKENDS, MOST_CONNECTIONS, MOST_LOCAL_ENDS, Scheduler, Settings, Timeouts,
    Wrongs,
};
use std::net::SocketAddr;

/// What stands behind the options of `balance --help`.
const EXAMPLES: &str = "\
Full-NAT to two backends, which see ports 1025 to 65535 of four addresses; 20 us for each
new connection, so that 50,000 a second are the limit:
    pinchpoint-engine balance af_packet:veth1@dut af_packet:veth2@dut --service 10.0.0.100:80 \\
        --backend 10.1.0.1:8080 --backend 10.1.0.2:8080 --local 10.1.0.240-10.1.0.243 \\
        --new-connection-cost 20us --toa --until-eof --json

The clients are behind the first port, the backends behind the second. Without --local the
backends see the clients (destination NAT), whose replies must come back to it; with --direct
they see the service's address, too, and answer the clients past it. All addresses are of one family.
Prints 'ready' once both links are up. SIGTERM and Ctrl-C end it: it prints its account
and exits with 0. SIGUSR1, or a line 'counters' on stdin with --until-eof, prints the
account so far; SIGUSR2, or a line 'flush', has it forget all connections.
Exit status otherwise: 2 bad command line, 3 a port could not be opened.";

/// The most frames that may wait.
const MAX_RING: u64 = 1 << 16;
/// The most connections of a round that is unfair.
const MAX_WEIGHT: u16 = 1000;
const SECOND_NS: f64 = 1e9;

/// `balance`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct BalanceArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub standing: StandingArgs,
    /// The virtual server
    #[arg(long, value_name = "IP:PORT")]
    pub service: SocketAddr,
    /// A backend; several are numbered from 0 on, in this order
    #[arg(long, value_name = "IP:PORT", required = true)]
    pub backend: Vec<SocketAddr>,
    /// Addresses that backends see (full-NAT): one, a range A-B, or the hosts of a network A/N
    /// [default: none, destination NAT]
    #[arg(long, value_name = "IP", value_parser = text::addresses)]
    pub local: Option<Addresses>,
    /// Leave addresses and ports as they are: backends are reached by their Ethernet addresses, and
    /// answer the clients themselves (direct return)
    #[arg(long, conflicts_with = "local")]
    pub direct: bool,
    /// Ports of each local address: one or a range
    #[arg(long, value_name = "PORT", default_value = "1025-65535", value_parser = text::ports, requires = "local")]
    pub local_ports: Ports,
    /// Which backend gets a connection
    #[arg(long, value_enum, default_value = "round-robin")]
    pub scheduler: SchedulerArg,
    /// Connections that are remembered; SYNs of further ones are dropped
    #[arg(long, value_name = "N", default_value = "65536", value_parser = places)]
    pub connections: usize,
    /// How long a connection is remembered that the client has not established
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = nanoseconds)]
    pub opening_timeout: u64,
    /// How long one is remembered on which nothing is sent
    #[arg(long, value_name = "TIME", default_value = "90s", value_parser = nanoseconds)]
    pub established_timeout: u64,
    /// How long one is remembered after the second FIN or a reset
    #[arg(long, value_name = "TIME", default_value = "7s", value_parser = nanoseconds)]
    pub closed_timeout: u64,
    /// Frames served per second, of both directions together [default: as they come]
    #[arg(long, value_name = "FPS", value_parser = positive)]
    pub rate: Option<u64>,
    /// Frames that wait for service at most; further ones are dropped
    #[arg(long, value_name = "N", default_value = "1024", value_parser = ring)]
    pub ring: u32,
    /// What the SYN of a new connection takes longer
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = nanoseconds)]
    pub new_connection_cost: u64,
    /// Tell backends the client's address and port in a TOA option (254): in the SYN and in
    /// what acknowledges no more than the backend's SYN
    #[arg(long, requires = "local")]
    pub toa: bool,
    /// Rewrite the client's sequence numbers; SYNs then offer no selective acknowledgment
    #[arg(long)]
    pub rewrite_seq: bool,
    /// Seed of hashes and of what sequence numbers are rewritten by
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    #[command(flatten, next_help_heading = "Wrong on purpose")]
    #[allow(missing_docs)]
    pub wrongs: WrongArgs,
}

/// What it does wrong on purpose.
#[derive(Debug, Args)]
pub struct WrongArgs {
    /// Be unfair: connections of each backend in a round, as in 5,1,1 or 1,0,0
    #[arg(long, value_name = "N,N,..", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(..=i64::from(MAX_WEIGHT)))]
    pub weights: Vec<u16>,
    /// Never forget a connection
    #[arg(long)]
    pub leak: bool,
    /// Begin again with the first local address and port after this number of connections to a
    /// backend, whether in use or not
    #[arg(long, value_name = "N", requires = "local", value_parser = clap::value_parser!(u32).range(1..))]
    pub reuse_after: Option<u32>,
    /// Change a bit of the payload of every N-th segment to a client, and its checksum
    #[arg(long, value_name = "N", value_parser = positive)]
    pub break_payload: Option<u64>,
    /// Drop every N-th SYN
    #[arg(long, value_name = "N", value_parser = positive)]
    pub drop_syn: Option<u64>,
    /// Hold what is sent to a backend, by its number, for this long
    #[arg(long, value_name = "NUMBER:TIME", value_parser = slow)]
    pub slow_backend: Option<(u16, u64)>,
}

/// Which backend gets a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SchedulerArg {
    /// One after the other
    RoundRobin,
    /// By a hash of the client's address and port
    Hash,
}

impl BalanceArgs {
    /// What is true of the balancer.
    ///
    /// # Errors
    /// Which options do not fit together.
    pub(super) fn settings(&self) -> Result<Settings, Failure> {
        let backends = &self.backend;
        self.check_backends()?;
        Ok(Settings {
            service: self.service.into(),
            backends: backends.iter().copied().map(Into::into).collect(),
            local: self.local_ends()?,
            direct: self.direct,
            scheduler: match self.scheduler {
                SchedulerArg::RoundRobin => Scheduler::RoundRobin,
                SchedulerArg::Hash => Scheduler::Hash,
            },
            connections: self.connections,
            timeouts: Timeouts {
                opening_ns: self.opening_timeout,
                established_ns: self.established_timeout,
                closed_ns: self.closed_timeout,
            },
            rate_fps: self.rate.map(|rate| rate as f64),
            ring: self.ring,
            new_connection_ns: self.new_connection_cost,
            toa: self.toa,
            rewrites_seq: self.rewrite_seq,
            wrongs: Wrongs {
                weights: self.wrongs.weights.clone(),
                leaks: self.wrongs.leak,
                reuse_after: self.wrongs.reuse_after,
                break_every: self.wrongs.break_payload,
                drop_syn_every: self.wrongs.drop_syn,
                slow: self.wrongs.slow_backend,
            },
            seed: self.seed,
        })
    }

    fn check_backends(&self) -> Result<(), Failure> {
        let backends = &self.backend;
        let count = backends.len();
        let refused = |message: String| Err(Failure::usage(message));
        if count > MOST_BACKENDS {
            return refused(format!(
                "--backend: {count}; expected at most {MOST_BACKENDS}"
            ));
        }
        if let Some(twice) = (1..count).find(|&at| backends[..at].contains(&backends[at])) {
            let twice = backends[twice];
            return refused(format!(
                "--backend {twice}: there are two; expected each once"
            ));
        }
        if let Some(other) = backends
            .iter()
            .find(|one| one.is_ipv4() != self.service.is_ipv4())
        {
            let message = format!(
                "--backend {other}: expected the family of --service {}",
                self.service
            );
            return refused(message);
        }
        let weights = &self.wrongs.weights;
        if !weights.is_empty() && (weights.len() != count || weights.iter().all(|&one| one == 0)) {
            return refused(format!(
                "--weights: expected {count} numbers, one for each --backend, and not only zeros"
            ));
        }
        match self.wrongs.slow_backend {
            Some((number, _)) if usize::from(number) >= count => refused(format!(
                "--slow-backend {number}: expected at most {}, the last --backend",
                count - 1
            )),
            _ => Ok(()),
        }
    }

    fn local_ends(&self) -> Result<Option<LocalEnds>, Failure> {
        let Some(local) = self.local else {
            return Ok(None);
        };
        if local.first.is_ipv4() != self.service.is_ipv4() {
            return Err(Failure::usage(format!(
                "--local {}: expected the family of --service {}",
                local.first, self.service
            )));
        }
        let ends = local.count.saturating_mul(self.local_ports.count);
        let all = ends.saturating_mul(self.backend.len() as u64);
        if all > MOST_LOCAL_ENDS {
            return Err(Failure::usage(format!(
                "--local and --local-ports: {ends} local ends for each backend, {all} in all; expected at most \
                 {MOST_LOCAL_ENDS}"
            )));
        }
        Ok(Some(LocalEnds {
            first: local.first,
            count: local.count as u32,
            port: self.local_ports.first,
            port_count: self.local_ports.count as u32,
        }))
    }
}

fn within(text: &str, most: u64) -> Result<u64, String> {
    let count = numbers::count(text)?;
    if !(1..=most).contains(&count) {
        return Err(format!("expected 1 to {most}"));
    }
    Ok(count)
}

fn positive(text: &str) -> Result<u64, String> {
    within(text, u64::MAX).map_err(|_| "expected a number above 0, as in 500k".to_owned())
}

fn ring(text: &str) -> Result<u32, String> {
    Ok(within(text, MAX_RING)? as u32)
}

fn places(text: &str) -> Result<usize, String> {
    Ok(within(text, MOST_CONNECTIONS as u64)? as usize)
}

fn nanoseconds(text: &str) -> Result<u64, String> {
    Ok((numbers::seconds(text)? * SECOND_NS).round() as u64)
}

fn slow(text: &str) -> Result<(u16, u64), String> {
    let expected = || "expected NUMBER:TIME, as in 0:50ms".to_owned();
    let (number, time) = text.split_once(':').ok_or_else(expected)?;
    let number = number.parse().map_err(|_| expected())?;
    Ok((number, nanoseconds(time)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_backend_has_a_number_and_a_time() {
        assert_eq!(slow("2:50ms"), Ok((2, 50_000_000)));
        for text in ["", "2", "x:1s", "-1:1s", "2:soon"] {
            assert!(slow(text).unwrap_err().contains("expected"), "{text}");
        }
    }

    #[test]
    fn tables_and_rings_have_a_largest_size() {
        assert_eq!(places("4194304"), Ok(MOST_CONNECTIONS));
        assert_eq!(places("5M"), Err("expected 1 to 4194304".to_owned()));
        assert_eq!(ring("0"), Err("expected 1 to 65536".to_owned()));
    }
}
