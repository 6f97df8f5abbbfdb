//! Tries a workload:
//!
//! ```text
//! cargo run --release --example rr -- rr --client nsA --server nsB \
//!     --listen 10.0.0.2 --cores 0,1 --duration 5
//! ```

use pinchpoint_sockets::{Close, Kind, Live, Outcome, Run, Transport, Wait, Workload, run};
use std::error::Error;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

const USAGE: &str = "rr (stream|rr|crr) [--udp] [--spin] [--client NETNS] [--server NETNS]
    [--listen ADDRESS] [--port PORT] [--target ADDRESS:PORT] [--sources ADDRESS,...]
    [--cores CLIENT,SERVER] [--connections N] [--request BYTES] [--response BYTES] [--rate TPS]
    [--warm-up S] [--duration S] [--transactions N] [--timeout S] [--close client|server|reset]
    [--repeats N]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let work = match parse(&arguments) {
        Ok(work) => work,
        Err(error) => {
            eprintln!("{error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(&work, &Live::default()) {
        Ok(outcome) => {
            show(&outcome);
            ExitCode::SUCCESS
        }
        Err(failure) => {
            eprintln!("{failure}\n{}", failure.hint.as_deref().unwrap_or(""));
            ExitCode::FAILURE
        }
    }
}

fn parse(arguments: &[String]) -> Result<Workload, Box<dyn Error>> {
    let mut words = arguments.iter().map(String::as_str);
    let kind = match words.next() {
        Some("stream") => Kind::Stream,
        Some("rr") => Kind::Rr,
        Some("crr") => Kind::Crr,
        _ => return Err("expected stream, rr or crr".into()),
    };
    let mut work = Workload::loopback(kind, Transport::Tcp);
    while let Some(option) = words.next() {
        match option {
            "--udp" => work.transport = Transport::Udp,
            "--spin" => work.wait = Wait::Spin,
            _ => {
                let value = words
                    .next()
                    .ok_or_else(|| format!("{option}: expected a value"))?;
                set(&mut work, option, value)
                    .map_err(|error| format!("{option} {value}: {error}"))?;
            }
        }
    }
    Ok(work)
}

fn set(work: &mut Workload, option: &str, value: &str) -> Result<(), Box<dyn Error>> {
    match option {
        "--client" => work.client.netns = Some(value.to_owned()),
        "--server" => work.server.netns = Some(value.to_owned()),
        "--listen" => work.listen = Some(value.parse()?),
        "--port" => work.port = value.parse()?,
        "--target" => work.target = Some(value.parse()?),
        "--sources" => work.sources = list(value)?,
        "--cores" => {
            let cores: Vec<usize> = list(value)?;
            let [client, server] = cores[..] else {
                return Err("expected two".into());
            };
            (work.client.core, work.server.core) = (client, server);
        }
        "--connections" => work.connections = value.parse()?,
        "--request" => work.request_bytes = value.parse()?,
        "--response" => work.response_bytes = value.parse()?,
        "--rate" => work.rate_tps = Some(value.parse()?),
        "--warm-up" => work.warm_up = Duration::from_secs_f64(value.parse()?),
        "--duration" => work.duration = Duration::from_secs_f64(value.parse()?),
        "--transactions" => work.transactions = Some(value.parse()?),
        "--timeout" => work.timeout = Duration::from_secs_f64(value.parse()?),
        "--close" => {
            work.close = match value {
                "client" => Close::Client,
                "server" => Close::Server,
                "reset" => Close::Reset,
                _ => return Err("expected client, server or reset".into()),
            }
        }
        "--repeats" => work.repeats = value.parse()?,
        _ => return Err("no such option".into()),
    }
    Ok(())
}

fn list<T: FromStr<Err: Error + 'static>>(value: &str) -> Result<Vec<T>, Box<dyn Error>> {
    value.split(',').map(|item| Ok(item.parse()?)).collect()
}

fn show(outcome: &Outcome) {
    println!(
        "{:?} {}",
        outcome.status,
        outcome.reason.as_deref().unwrap_or("")
    );
    println!("client {:?}, server {:?}", outcome.client, outcome.server);
    for run in &outcome.runs {
        show_run(run);
    }
    for (name, summary) in [
        ("transactions/s", outcome.transactions_per_s),
        ("goodput bit/s", outcome.goodput_bps),
    ] {
        if let Some(summary) = summary {
            println!("{name}: {summary:?}");
        }
    }
    if let Some(hint) = &outcome.hint {
        println!("{hint}");
    }
}

fn show_run(run: &Run) {
    println!(
        "{:.0} transactions/s, {:.0} bit/s",
        run.transactions_per_s(),
        run.goodput_bps()
    );
    for (name, histogram) in [("latency", &run.latency), ("service", &run.service)] {
        if histogram.is_empty() {
            continue;
        }
        let us = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
        println!(
            "{name} us: min {:.1} mean {:.1} p50 {:.1} p90 {:.1} p99 {:.1} p99.9 {:.1} p99.99 {:.1} \
             max {:.1}",
            histogram.min() as f64 / 1e3,
            histogram.mean() / 1e3,
            us(0.5),
            us(0.9),
            us(0.99),
            us(0.999),
            us(0.9999),
            histogram.max() as f64 / 1e3,
        );
    }
    println!(
        "intended {:?} shortfall {:?} latest_ns {:?} {:?} unfinished {}",
        run.intended, run.shortfall, run.latest_ns, run.faults, run.unfinished
    );
    println!("by second {:?}", run.per_second);
    println!("client {:?}\nserver {:?}", run.client, run.server);
    println!(
        "time_wait {:?} cache_line_ns {:?}",
        run.time_wait, run.cache_line_ns
    );
    let most = run.connections.iter().take(8);
    println!("connections {:?}", most.collect::<Vec<_>>());
}
