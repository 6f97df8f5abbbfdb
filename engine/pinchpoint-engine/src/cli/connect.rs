//! `connect` and `serve`: TCP connections over frames.

use super::Failure;
use super::connect_args::{Closer, ConnectArgs, ServeArgs, ServerArgs};
use super::connect_samples::Printed;
use super::standing::{self, Cores};
use super::standing_args::{CoreList, StandingArgs};
use pinchpoint_port::Port;
use pinchpoint_wire::ethernet::Mac;
use pinchpoint_worker::WorkerPort;
use pinchpoint_workload::connections::end::End;
use pinchpoint_workload::connections::options::StampClock;
use pinchpoint_workload::connections::parts::Part;
use pinchpoint_workload::connections::plan::{Plan, mix};
use pinchpoint_workload::connections::samples::Samples;
use pinchpoint_workload::connections::schedule::Schedule;
use pinchpoint_workload::connections::server::Server;
use pinchpoint_workload::connections::timers::Retry;
use pinchpoint_workload::connections::work::{ClientEnd, Connections};
use std::fs::File;
use std::sync::mpsc::channel;
use std::time::{SystemTime, UNIX_EPOCH};

/// A reply that does not fit is lost, as in a device: nothing waits for it.
const REPLY_TIMEOUT_NS: u64 = 0;
/// A port without an address of its own has this (locally administered).
const CLIENT_MAC: Mac = Mac([0x02, 0, 0, 0, 0, 0x01]);
const SERVER_MAC: Mac = Mac([0x02, 0, 0, 0, 0, 0x02]);

/// Runs `connect`; returns the exit status.
///
/// # Errors
/// What is wrong with the command line, or which port could not be opened.
pub(super) fn connect(args: &ConnectArgs, out: &mut File) -> Result<u8, Failure> {
    let (plan, schedule) = (args.plan()?, args.schedule()?);
    let has_servers = args.standing.ports.len() > 1;
    if has_servers == args.servers.backend.is_empty() {
        return Err(Failure::usage(if has_servers {
            "a second port needs servers: add --backend IP:PORT"
        } else {
            "--backend needs a second port, at which it answers"
        }));
    }
    let (mac, next_hop) = (args.mac, args.first_hop());
    let direct = direct(args)?;
    let closes_after = (args.close == Closer::Backend).then_some(args.requests);
    let first_seq = args.sequence.map(|(_, servers)| servers);
    let clock = clock(&args.servers);
    let servers = servers(&args.servers, first_seq, direct, closes_after, args.retry)?;
    let (to, samples) = channel();
    let (by_tuple, in_order, lead_ns) = (args.by_tuple, args.order, args.lead);
    let answer_len = args.servers.answer_size;
    let parts = parts(args, &plan, &schedule)?;
    let make = parts.into_iter().enumerate().map(|(core, part)| {
        let sampler = (args.sample).map(|every_ns| Samples::new(core, every_ns, to.clone()));
        let servers = servers.clone();
        move |ports: &[WorkerPort], now_ns: u64| {
            let own = mac.or_else(|| ports[0].port.mac()).unwrap_or(CLIENT_MAC);
            let client = ClientEnd::new(plan, schedule, own, next_hop);
            let client = client
                .by_tuple(by_tuple)
                .in_order(in_order)
                .with_lead(lead_ns)
                .with_stamps(clock)
                .with_answers(answer_len);
            let client = match part {
                Some(part) => client.with_part(part),
                None => client,
            };
            let servers = servers.and_then(|make| ports.get(1).map(make));
            Connections::new(Some(client), servers, ports.len(), now_ns).with_samples(sampler)
        }
    });
    let make: Vec<_> = make.collect();
    let printed = Printed::new(&args.standing, make.len(), args.sample.map(|_| samples));
    let cores = Cores {
        numbers: cores(args.cores.as_ref(), &args.standing),
        linked: make.len() > 1,
    };
    standing::run_on(&args.standing, &cores, REPLY_TIMEOUT_NS, out, make, printed)
}

/// Runs `serve`; returns the exit status.
///
/// # Errors
/// What is wrong with the command line, or which port could not be opened.
pub(super) fn serve(args: &ServeArgs, out: &mut File) -> Result<u8, Failure> {
    let servers = servers(&args.servers, None, None, None, None)?
        .ok_or_else(|| Failure::usage("no backend: add --backend IP:PORT"))?;
    let cores = cores(args.cores.as_ref(), &args.standing);
    let make = (0..cores.len().max(1)).map(|_| {
        let servers = servers.clone();
        move |ports: &[WorkerPort], now_ns: u64| {
            Connections::new(None, Some(servers(&ports[0])), ports.len(), now_ns)
        }
    });
    let make: Vec<_> = make.collect();
    let printed = Printed::new(&args.standing, make.len(), None);
    let cores = Cores {
        numbers: cores,
        linked: false,
    };
    standing::run_on(&args.standing, &cores, REPLY_TIMEOUT_NS, out, make, printed)
}

/// The cores that the command line names.
fn cores<'a>(several: Option<&'a CoreList>, args: &'a StandingArgs) -> &'a [usize] {
    let single = || args.core.as_slice();
    several.map_or_else(single, |cores| cores.0.as_slice())
}

/// Of the time stamps, which rise from one run to the next.
fn clock(args: &ServerArgs) -> Option<StampClock> {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    let base = since_1970.unwrap_or_default().as_millis() as u32;
    args.timestamps.then(|| StampClock::new(base))
}

/// What each core has of the connections; none where there is one core.
///
/// # Errors
/// What several cores cannot do.
fn parts(
    args: &ConnectArgs,
    plan: &Plan,
    schedule: &Schedule,
) -> Result<Vec<Option<Part>>, Failure> {
    let cores = args.cores.as_ref().map_or(1, |cores| cores.0.len());
    if cores < 2 {
        return Ok(vec![None]);
    }
    if args.order {
        return Err(Failure::usage(
            "--order: connections are opened in order by one core; leave out --cores",
        ));
    }
    let parts = Part::all(plan, cores as u32).ok_or_else(|| {
        Failure::usage(format!(
            "--cores: {cores} cores for {} client ports and {} addresses; expected as many of either",
            plan.port_count, plan.client_count
        ))
    })?;
    let is_used_again = |part: &Part| part.schedule(schedule).count > part.plan().tuples();
    if args.sequence.is_some() && parts.iter().any(is_used_again) {
        return Err(Failure::usage(format!(
            "--sequence with --cores: {} connections cannot be divided so that each core uses a tuple once; \
             add --clients or --client-ports",
            schedule.count
        )));
    }
    Ok(parts.into_iter().map(Some).collect())
}

/// With direct return, the service that backends answer for.
///
/// # Errors
/// A backend that a device that changes no address cannot reach.
fn direct(args: &ConnectArgs) -> Result<Option<End>, Failure> {
    if !args.direct_return {
        return Ok(None);
    }
    let (to, backends) = (args.to.first, &args.servers.backend);
    if args.to.addresses * args.to.ports > 1 {
        return Err(Failure::usage(
            "--to: expected one address and port with --direct-return",
        ));
    }
    for (number, one) in backends.iter().enumerate() {
        let twice = backends[..number]
            .iter()
            .any(|other| other.ip() == one.ip());
        let expected = if one.port() != to.port() {
            format!("port {}, which --direct-return leaves in place", to.port())
        } else if one.is_ipv4() != to.is_ipv4() {
            format!("an address of the same family as --to {to}")
        } else if twice {
            "each address once with --direct-return".to_owned()
        } else {
            continue;
        };
        return Err(Failure::usage(format!(
            "--backend {one}: expected {expected}"
        )));
    }
    Ok(Some(to.into()))
}

/// What makes the servers of the first port that has them;
/// none if there are none.
fn servers(
    args: &ServerArgs,
    first_seq: Option<u32>,
    direct: Option<End>,
    closes_after: Option<u32>,
    retry: Option<Retry>,
) -> Result<Option<impl Fn(&WorkerPort) -> Server + Clone + use<>>, Failure> {
    let backends: Vec<End> = args.backend.iter().copied().map(End::from).collect();
    if let Some(twice) = (1..backends.len()).find(|&at| backends[..at].contains(&backends[at])) {
        let message = format!(
            "--backend {}: there are two; expected each once",
            args.backend[twice]
        );
        return Err(Failure::usage(message));
    }
    if let Some(wrong) = args
        .backend_down
        .iter()
        .find(|one| usize::from(one.backend) >= backends.len())
    {
        return Err(Failure::usage(format!(
            "--backend-down {}: there is no such backend; expected 0 to {}",
            wrong.backend,
            backends.len().saturating_sub(1)
        )));
    }
    let (answer_len, mac, down) = (args.answer_size, args.server_mac, args.backend_down.clone());
    let clock = clock(args);
    let make = move |port: &WorkerPort| {
        let own = mac.or_else(|| port.port.mac()).unwrap_or(SERVER_MAC);
        // Sequence numbers shall differ from one start to the next, not be secret.
        let key = mix(u64::from(std::process::id()));
        let server = Server::new(&backends, own, answer_len, key).with_first_seq(first_seq);
        let server = server.with_close(closes_after).with_stamps(clock);
        let server = server.with_retry(retry);
        server.with_outages(down.clone()).with_direct(direct)
    };
    Ok((!args.backend.is_empty()).then_some(make))
}
