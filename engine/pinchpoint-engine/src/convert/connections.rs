//! A load of connections: from what is asked for to what runs.

mod plan;
mod servers;

pub use servers::Servers;

use super::{Known, MAX_NAME, check, invalid};
use crate::protocol::connections::ConnectionsRequest;
use crate::protocol::{ErrorReply, Mac};
use crate::text;
use pinchpoint_port::{Backend, Port, Stamps};
use pinchpoint_wire::{FCS_LEN, answer, ethernet, ipv4, ipv6, tcp};
use pinchpoint_worker::WorkerPort;
use pinchpoint_workload::connections::options::{STAMP_LEN, StampClock};
use pinchpoint_workload::connections::parts::Part;
use pinchpoint_workload::connections::plan::Plan;
use pinchpoint_workload::connections::samples::{Sample, Samples};
use pinchpoint_workload::connections::schedule::Schedule;
use pinchpoint_workload::connections::segment::{MSS, STAMPED_MSS};
use pinchpoint_workload::connections::work::{ClientEnd, Connections, NextHop};
use plan::Named;
use std::sync::mpsc::Sender;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A client without an address of its own has this (locally administered).
const CLIENT_MAC: ethernet::Mac = ethernet::Mac([0x02, 0, 0, 0, 0, 0x01]);
const MIN_FRAME: usize = 64 - FCS_LEN;
/// Bytes of the option that says the largest segment, in a SYN.
const MSS_OPTION_LEN: usize = 4;
const MOST_S: f64 = 1_000_000.0;
/// The loop looks about once in a millisecond.
const LEAST_SAMPLED_S: f64 = 0.01;
const SECOND_NS: f64 = 1e9;

/// What runs: the same on every core, but for each one's part.
#[derive(Debug)]
pub struct Load {
    client: Client,
    sample_ns: Option<u64>,
    servers: Option<Servers>,
    /// By core; none where there is one.
    parts: Vec<Option<Part>>,
}

/// Who opens the connections.
#[derive(Debug, Clone, Copy)]
struct Client {
    plan: Plan,
    schedule: Schedule,
    next_hop: NextHop,
    mac: Option<ethernet::Mac>,
    lead_ns: u64,
    answer_len: u32,
    clock: Option<StampClock>,
    by_tuple: bool,
    in_order: bool,
}

/// A load in the session `known`, and the ports that it uses, in its order.
///
/// # Errors
/// Code `invalid`, naming the key.
pub fn connections(
    request: &ConnectionsRequest,
    known: &Known,
) -> Result<(Load, Vec<usize>), ErrorReply> {
    check(
        request.trial.len() <= MAX_NAME,
        "trial",
        "expected at most 256 bytes",
    )?;
    let ports = ports(request, known)?;
    let load = Load::new(request, known.cores.len())?;
    let longest = load.longest_frame();
    for (place, &index) in ports.iter().enumerate() {
        let port = &known.ports[index];
        check(
            port.max_len >= longest,
            format!("ports[{place}]"),
            format!(
                "'{}' carries frames of up to {} bytes, this load has some of {}; ask for them with \
                 longest_frame_bytes of open",
                port.name,
                port.max_len + FCS_LEN,
                longest + FCS_LEN
            ),
        )?;
    }
    Ok((load, ports))
}

/// The named ports: each is driven by every worker.
fn ports(request: &ConnectionsRequest, known: &Known) -> Result<Vec<usize>, ErrorReply> {
    let mut found = Vec::new();
    for (place, name) in request.ports.iter().enumerate() {
        let key = format!("ports[{place}]");
        let index = known.ports.iter().position(|port| port.name == *name);
        let index = index.ok_or_else(|| invalid(&key, format!("no port is named '{name}'")))?;
        let port = &known.ports[index];
        check(
            !found.contains(&index),
            &key,
            format!("'{name}' is listed twice"),
        )?;
        check(
            port.workers.len() == known.cores.len(),
            &key,
            format!(
                "expected a port of every worker, '{name}' is not; list it in each of workers[].ports"
            ),
        )?;
        check(
            port.rx_ring > 0 && port.backend != Backend::XdpLive,
            &key,
            format!("expected a port that sends and receives, '{name}' does not"),
        )?;
        check(
            port.stamps == Stamps::Engine,
            &key,
            format!("expected a port without time stamps of others; open '{name}' without stamps="),
        )?;
        found.push(index);
    }
    Ok(found)
}

impl Load {
    /// What `request` asks for, on this many cores. Its ports only count.
    ///
    /// # Errors
    /// Code `invalid`, naming the key.
    pub fn new(request: &ConnectionsRequest, cores: usize) -> Result<Self, ErrorReply> {
        check(
            !request.ports.is_empty(),
            "ports",
            "expected at least the client's",
        )?;
        let has_servers = request.ports.len() > 1;
        check(
            !has_servers || !request.backends.is_empty(),
            "backends",
            "a second port needs servers; expected at least one",
        )?;
        check(
            has_servers || request.backends.is_empty(),
            "ports",
            "'backends' needs a second port, at which they answer",
        )?;
        let named = Named::new(request)?;
        let client = Client {
            plan: plan::plan(request, &named)?,
            schedule: plan::schedule(request, &named)?,
            next_hop: next_hop(request, &named)?,
            mac: request.mac.map(|Mac(mac)| mac),
            lead_ns: nanoseconds(request.lead_s, "lead_s")?,
            answer_len: request.answer_bytes as u32,
            clock: clock(request.timestamps),
            by_tuple: request.by_tuple,
            in_order: request.order,
        };
        Ok(Self {
            client,
            sample_ns: request.sample_interval_s.map(sampled).transpose()?,
            servers: Servers::of_load(request, &named.to, client.schedule.retry)?,
            parts: parts(request, cores, &client)?,
        })
    }

    /// Whether samples are taken.
    pub fn is_sampled(&self) -> bool {
        self.sample_ns.is_some()
    }

    /// Bytes of the longest frame that it sends or expects, without check sequence.
    fn longest_frame(&self) -> usize {
        let Client {
            plan,
            clock,
            answer_len,
            ..
        } = self.client;
        let servers_v4 = self.servers.as_ref().is_none_or(Servers::is_v4);
        let (ip, shortest) = if plan.clients.is_ipv4() && servers_v4 {
            (ipv4::HEADER_LEN, MIN_FRAME)
        } else {
            // The longest answer where an address is.
            (ipv6::HEADER_LEN, answer::MAX_LEN)
        };
        let (mss, stamp) = match clock {
            Some(_) => (STAMPED_MSS, STAMP_LEN),
            None => (MSS, 0),
        };
        let content = if plan.mix.has_requests() {
            plan.requests.len.max(answer_len.min(mss)) as usize
        } else {
            0
        };
        let segment = tcp::HEADER_LEN + stamp + content.max(MSS_OPTION_LEN);
        (ethernet::HEADER_LEN + ip + segment).max(shortest)
    }

    /// What makes the workload of each core; samples, if there are any, go to `to`.
    pub fn makers(
        self,
        to: &Sender<Sample>,
    ) -> Vec<impl FnOnce(&[WorkerPort], u64) -> Connections + Send + use<>> {
        let Self {
            client,
            sample_ns,
            servers,
            parts,
        } = self;
        let makers = parts.into_iter().enumerate().map(|(core, part)| {
            let sampler = sample_ns.map(|every_ns| Samples::new(core, every_ns, to.clone()));
            let servers = servers.clone();
            move |ports: &[WorkerPort], now_ns: u64| {
                let client = client.at(&ports[0], part);
                let servers = servers.zip(ports.get(1));
                let server = servers.map(|(servers, port)| servers.at(port));
                Connections::new(Some(client), server, ports.len(), now_ns).with_samples(sampler)
            }
        });
        makers.collect()
    }
}

impl Client {
    /// The client at `port`, as far as one core has its connections.
    fn at(&self, port: &WorkerPort, part: Option<Part>) -> ClientEnd {
        let own = self.mac.or_else(|| port.port.mac()).unwrap_or(CLIENT_MAC);
        let client = ClientEnd::new(self.plan, self.schedule, own, self.next_hop);
        let client = client
            .by_tuple(self.by_tuple)
            .in_order(self.in_order)
            .with_lead(self.lead_ns)
            .with_stamps(self.clock)
            .with_answers(self.answer_len);
        match part {
            Some(part) => client.with_part(part),
            None => client,
        }
    }
}

fn next_hop(request: &ConnectionsRequest, named: &Named) -> Result<NextHop, ErrorReply> {
    let Some(text) = &request.next_hop else {
        return Ok(NextHop::Of(named.to.first.ip()));
    };
    text::next_hop(text).map_err(|what| invalid("next_hop", what))
}

fn sampled(interval_s: f64) -> Result<u64, ErrorReply> {
    check(
        interval_s >= LEAST_SAMPLED_S,
        "sample_interval_s",
        format!("expected at least {LEAST_SAMPLED_S} s"),
    )?;
    nanoseconds(interval_s, "sample_interval_s")
}

/// What each core has of the connections; none where there is one core.
fn parts(
    request: &ConnectionsRequest,
    cores: usize,
    client: &Client,
) -> Result<Vec<Option<Part>>, ErrorReply> {
    if cores < 2 {
        return Ok(vec![None]);
    }
    let (plan, schedule) = (&client.plan, &client.schedule);
    check(
        !request.order,
        "order",
        format!("connections are opened in order by one core only; 'workers' has {cores}"),
    )?;
    let parts = Part::all(plan, cores as u32).ok_or_else(|| {
        invalid(
            "client_ports",
            format!(
                "{cores} cores for {} client ports and {} addresses; expected as many of either",
                plan.port_count, plan.client_count
            ),
        )
    })?;
    let is_used_again = |part: &Part| part.schedule(schedule).count > part.plan().tuples();
    check(
        request.sequence.is_none() || !parts.iter().any(is_used_again),
        "sequence",
        format!(
            "{} connections cannot be divided among {cores} cores so that each uses a tuple once; \
             add 'clients' or 'client_ports'",
            schedule.count
        ),
    )?;
    Ok(parts.into_iter().map(Some).collect())
}

fn nanoseconds(time_s: f64, key: &str) -> Result<u64, ErrorReply> {
    check(
        (0.0..=MOST_S).contains(&time_s),
        key,
        format!("expected 0 to {MOST_S} s, got {time_s}"),
    )?;
    Ok((time_s * SECOND_NS) as u64)
}

/// Of the time stamps, which rise from one load to the next.
fn clock(has_stamps: bool) -> Option<StampClock> {
    has_stamps.then(|| StampClock::new(since_1970(SystemTime::now()).as_millis() as u32))
}

fn since_1970(now: SystemTime) -> Duration {
    now.duration_since(UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
#[path = "connections_tests.rs"]
mod tests;
