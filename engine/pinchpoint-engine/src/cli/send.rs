//! `send` and `listen`: one trial, from options to its account.

use super::args::{ListenArgs, MeasureArgs, Probe, SendArgs};
use super::client::Client;
use super::engine_args::{EngineArgs, OutputArgs};
use super::live::{Line, Outlook, Progress};
use super::ports::Ports;
use super::ranges::Side;
use super::streams::{self, Leg, Source};
use super::table::Paint;
use super::{Failure, account, print, print_json, warnings};
use crate::protocol::{
    CaptureRequest, OpenReply, OpenRequest, OpenedPort, Rate, Reply, Request, RunRequest, Status,
};
use crate::session::allowed_cores;
use crate::usage;
use std::fs::File;
use std::io::IsTerminal;

/// The longest trial: what `listen` does until it is interrupted.
const DAY_S: f64 = 86_400.0;

/// A trial to be run: its `open`, and what its `run` is made of once the
/// ports' addresses are known.
struct Trial<'a, R: Fn(&[OpenedPort]) -> Result<RunRequest, Failure>> {
    open: OpenRequest,
    output: &'a OutputArgs,
    run: R,
    notes: Vec<String>,
}

/// Runs `send`; returns the exit status.
///
/// # Errors
/// What is wrong with the command line, or what could not be done.
pub(super) fn send(args: &SendArgs, out: &mut File) -> Result<u8, Failure> {
    let mut ports = Ports::default();
    let legs = legs(args, &mut ports)?;
    let source = Source::read(args)?;
    let allowed = allowed_cores();
    let mut open = ports.open(&args.engine, &allowed)?;
    let planned = streams::streams(args, &source, &legs, &unopened(&open))?;
    open.longest_frame_bytes = streams::longest(&planned);
    let cores: Vec<usize> = open.workers.iter().map(|worker| worker.core).collect();
    let duration_s = duration_s(args, &source);
    let base = run_request(&args.engine, &args.measure, duration_s);
    let base = RunRequest {
        tx_burst: args.load.tx_burst,
        probe_cores: probe_cores(args.measure.probe, &cores, &allowed)?,
        ..base
    };
    let notes = source.notes(args.both_ways, &args.load);
    let run = |opened: &[OpenedPort]| {
        Ok(RunRequest {
            streams: streams::streams(args, &source, &legs, opened)?,
            ..base.clone()
        })
    };
    let trial = Trial {
        open,
        output: &args.output,
        run,
        notes,
    };
    trial.go(out)
}

/// Runs `listen`; returns the exit status.
///
/// # Errors
/// As [`send`].
pub(super) fn listen(args: &ListenArgs, out: &mut File) -> Result<u8, Failure> {
    let mut ports = Ports::default();
    for port in &args.ports {
        ports.add(port, Side::To);
    }
    let open = ports.open(&args.engine, &allowed_cores())?;
    let measure = MeasureArgs {
        drain: 0.0,
        latency_every: 1,
        no_verify: false,
        probe: None,
        epoch: None,
    };
    let base = run_request(&args.engine, &measure, args.time.unwrap_or(DAY_S));
    let trial = Trial {
        open,
        output: &args.output,
        run: |_: &[OpenedPort]| Ok(base.clone()),
        notes: Vec::new(),
    };
    trial.go(out)
}

/// A run without streams.
fn run_request(engine: &EngineArgs, measure: &MeasureArgs, duration_s: f64) -> RunRequest {
    // Frames of the run before are recognised by their epoch.
    let epoch = (std::process::id() % 255) as u8 + 1;
    let capture = engine.capture.as_ref().map(|file| CaptureRequest {
        file: file.clone(),
        frames: engine.capture_frames,
    });
    RunRequest {
        trial: "cli".to_owned(),
        epoch: measure.epoch.unwrap_or(epoch),
        duration_s,
        drain_s: measure.drain,
        sample_interval_s: Some(1.0),
        probe_cores: Vec::new(),
        quiet_within_s: 0.0,
        wall_clock: false,
        on_go: false,
        verify_checksums: !measure.no_verify,
        tx_burst: 64,
        latency_every: measure.latency_every,
        loopback: true,
        capture,
        slices: None,
        streams: Vec::new(),
    }
}

/// `--time`; with a profile that says how long, that; with a capture at a
/// multiple of its speed, once the capture.
fn duration_s(args: &SendArgs, source: &Source) -> f64 {
    let of_source = match (source, &args.load.rate.0) {
        (Source::Profile(profile), _) => profile.duration_s,
        (Source::Replay(replayed), Some(Rate::Speed(speed))) => {
            Some(replayed.period_s / speed).filter(|duration_s| *duration_s > 0.0)
        }
        _ => None,
    };
    args.load.time.or(of_source).unwrap_or(10.0)
}

fn legs(args: &SendArgs, ports: &mut Ports) -> Result<Vec<Leg>, Failure> {
    if !args.to.is_empty() && args.to.len() != args.from.len() {
        return Err(Failure::usage(format!(
            "--to: {} for {} --from; give each --from its own --to ('none' for nobody), or none \
             at all",
            args.to.len(),
            args.from.len()
        )));
    }
    let mut legs = Vec::new();
    for (k, from) in args.from.iter().enumerate() {
        let from = ports.take(from, Side::From);
        let to = args.to.get(k).and_then(|target| target.0.as_ref());
        let to = to.map(|to| ports.take(to, Side::To));
        legs.push(Leg {
            from,
            to,
            swapped: false,
        });
        match to {
            Some(to) if args.both_ways => legs.push(Leg {
                from: to,
                to: Some(from),
                swapped: true,
            }),
            None if args.both_ways => {
                return Err(Failure::usage(
                    "--both-ways: every --from needs a --to other than 'none'",
                ));
            }
            _ => {}
        }
    }
    Ok(legs)
}

/// The cores to measure between: one pair, or none.
fn probe_cores(
    probe: Option<Probe>,
    cores: &[usize],
    allowed: &[usize],
) -> Result<Vec<[usize; 2]>, Failure> {
    match probe {
        None => Ok(Vec::new()),
        Some(Probe::Between(one, other)) => Ok(vec![[one, other]]),
        Some(Probe::Auto) => {
            let first = cores.first().copied();
            let second = cores.get(1).copied();
            let second = second.or_else(|| allowed.iter().copied().find(|&c| Some(c) != first));
            match (first, second) {
                (Some(one), Some(other)) => Ok(vec![[one, other]]),
                _ => Err(Failure::usage(
                    "--probe: needs two cores, but this process may use only one (taskset, cgroup)",
                )),
            }
        }
    }
}

/// The ports of `open` before they are open: they have no addresses.
fn unopened(open: &OpenRequest) -> Vec<OpenedPort> {
    let ports = open.ports.iter().map(|port| OpenedPort {
        name: port.name.clone(),
        mac: None,
        mode: String::new(),
        link_up: true,
        queues: 1,
        rx_ring: port.rx_ring,
        tx_ring: port.tx_ring,
        max_frame_bytes: 0,
        speed_bps: None,
    });
    ports.collect()
}

impl<R: Fn(&[OpenedPort]) -> Result<RunRequest, Failure>> Trial<'_, R> {
    fn go(&self, out: &mut File) -> Result<u8, Failure> {
        for note in &self.notes {
            eprintln!("pinchpoint-engine: note: {note}");
        }
        if self.output.dry_run {
            return self.dry_run(out);
        }
        let mut client = Client::start()?;
        let told = self.converse(&mut client);
        let signalled = client.close();
        let (opened, request, reply) = told?;
        let Reply::Result(result) = &reply else {
            return Err(Failure::failed(
                "the engine sent an unexpected answer to 'run'",
            ));
        };
        if self.output.json {
            print_json(out, &reply);
            for warning in warnings::warnings(result, &request) {
                eprintln!("pinchpoint-engine: warning: {warning}");
            }
        } else {
            let paint = Paint::of(out.is_terminal());
            print(out, &account::account(result, &request, &opened, paint));
        }
        Ok(signalled.unwrap_or(match result.status {
            Status::Aborted => usage::EXIT_LOST,
            Status::Completed | Status::Stopped => usage::EXIT_DONE,
        }))
    }

    fn converse(&self, client: &mut Client) -> Result<(OpenReply, RunRequest, Reply), Failure> {
        let reply = client.ask(&Request::Open(self.open.clone()), |_| ())?;
        let Reply::Open(opened) = reply else {
            return Err(Failure::failed(
                "the engine sent an unexpected answer to 'open'",
            ));
        };
        let request = (self.run)(&opened.ports)?;
        let streams = &request.streams;
        let outlook = Outlook {
            duration_s: request.duration_s,
            sends: !streams.is_empty(),
            expects: streams.is_empty()
                || streams
                    .iter()
                    .any(|stream| stream.stamped && stream.rx_port.is_some()),
        };
        let mut line = Line::new(self.output.quiet);
        let mut progress = Progress::default();
        let reply = client.ask(&Request::Run(request.clone()), |reply| {
            if let Reply::Sample(sample) = reply {
                line.show(&progress.told(sample, &outlook));
            }
        });
        line.clear();
        Ok((opened, request, reply?))
    }

    /// Prints what would be sent to ports that have no addresses.
    fn dry_run(&self, out: &mut File) -> Result<u8, Failure> {
        let request = (self.run)(&unopened(&self.open))?;
        if self.output.json {
            print_json(out, &serde_json::json!({ "notes": self.notes }));
        }
        print_json(out, &Request::Open(self.open.clone()));
        print_json(out, &Request::Run(request));
        Ok(usage::EXIT_DONE)
    }
}
