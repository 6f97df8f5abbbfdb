//! What a reader of a result should know, in plain words.

use super::numbers::{duration, grouped, scaled};
use crate::protocol::{
    RunRequest, StreamRequest, StreamResult, Template, TrialResult, WorkerWitness,
};

/// Above this a cache line crosses more than one core complex or socket, or
/// the host has placed the cores apart.
const FAR_NS: f64 = 100.0;
/// A loss within this time of a gap of the engine may be its own.
const NEAR_S: f64 = 0.001;

/// What to know about `result`, a sentence each.
pub(super) fn warnings(result: &TrialResult, request: &RunRequest) -> Vec<String> {
    let mut found = Vec::new();
    found.extend(too_slow(result));
    found.extend(refused(result));
    found.extend(nothing_back(result, request));
    found.extend(ours(result));
    found.extend(disturbed(result));
    found.extend(late(result));
    found.extend(far(result));
    found
}

/// Rates below this share of the intended one are reported; a smaller gap is rounding.
const REACHED: f64 = 0.999;

/// A core busy for more than this share of the time has no capacity left.
const EXHAUSTED: f64 = 0.9;

fn too_slow(result: &TrialResult) -> Option<String> {
    let streams = result.streams.iter();
    let paced = streams.filter_map(|stream| Some((stream.intended?, stream.offered)));
    let (intended, offered) = paced.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    if offered as f64 >= intended as f64 * REACHED || result.duration_s <= 0.0 {
        return None;
    }
    let workers = result.witness.workers.iter();
    let exhausted = workers.clone().any(|worker| worker.busy_share > EXHAUSTED);
    let cores = workers.map(|worker| {
        let busy = format!(
            "core {} was {:.0} % busy",
            worker.core,
            worker.busy_share * 100.0
        );
        if worker.gaps == 0 {
            return busy;
        }
        let still = duration(worker.gap_total_ns as f64);
        format!(
            "{busy} and stood still for {still} in {} gaps",
            grouped(worker.gaps)
        )
    });
    let relief = if exhausted {
        "use more cores (--cores with --queues), longer frames or a lower --rate"
    } else {
        "use a core that nothing else runs on (--cores)"
    };
    Some(format!(
        "the generator did not reach the rate: offered {}fps of {}fps; {}; {relief}",
        scaled(offered as f64 / result.duration_s),
        scaled(intended as f64 / result.duration_s),
        cores.collect::<Vec<_>>().join(", ")
    ))
}

fn refused(result: &TrialResult) -> Vec<String> {
    let ports = result.ports.iter().filter(|port| port.refused > 0);
    ports
        .map(|port| {
            format!(
                "{} frames were not sent because the transmit ring of {} was full when they were \
                 due: the receiver of that ring is slower than the rate, or pauses; lower --rate or \
                 enlarge --tx-ring",
                grouped(port.refused),
                port.name
            )
        })
        .collect()
}

fn nothing_back(result: &TrialResult, request: &RunRequest) -> Vec<String> {
    let silent = |stream: &&StreamResult| stream.sent > 0 && stream.received == Some(0);
    let mut found: Vec<String> = Vec::new();
    for stream in result.streams.iter().filter(silent) {
        let to = stream.rx_port.as_deref().unwrap_or_default();
        found.push(format!(
            "no frame of stream {} arrived at {to}: check that the path is up and forwards these \
             addresses to it (--dst-mac, --dst; --capture keeps the first frames)",
            stream.id
        ));
    }
    let is_replay = |stream: &StreamRequest| matches!(stream.template, Template::Capture { .. });
    let mut streams = request.streams.iter();
    let unstamped = streams.any(|stream| !stream.stamped && !is_replay(stream));
    if unstamped
        && request
            .streams
            .iter()
            .any(|stream| stream.rx_port.is_some())
    {
        found.push(
            "frames sent without the signature are counted as foreign where they arrive".into(),
        );
    }
    found
}

/// Losses that happened, or may have happened, in the engine.
fn ours(result: &TrialResult) -> Vec<String> {
    let mut found = Vec::new();
    for port in &result.ports {
        let Some(missed) = port.rx_missed.filter(|missed| *missed > 0) else {
            continue;
        };
        found.push(format!(
            "{} frames were lost in the engine's own receive ring of {}, not in the path: use more \
             --cores or a larger --rx-ring",
            grouped(missed),
            port.name
        ));
    }
    for stream in &result.streams {
        let lost = stream.lost.filter(|lost| *lost > 0);
        let (Some(lost), Some(jump)) = (lost, &stream.largest_jump) else {
            continue;
        };
        if let Some((core, ns)) = gap_at(&result.witness.workers, jump.at_s) {
            found.push(format!(
                "of the {} frames that stream {} lost, {} in a row were missing at {:.4} s, when \
                 core {core} of the engine stood still for {}: the engine may have lost them itself",
                grouped(lost),
                stream.id,
                grouped(jump.frames),
                jump.at_s,
                duration(ns as f64)
            ));
        }
    }
    found
}

/// The core and length of the engine's gap during which a frame that arrived at `at_s` waited.
fn gap_at(workers: &[WorkerWitness], at_s: f64) -> Option<(usize, u64)> {
    workers.iter().find_map(|worker| {
        let near = |&&(begin_s, ns): &&(f64, u64)| {
            let end_s = begin_s + ns as f64 / 1e9;
            ns >= worker.gap_threshold_ns && (begin_s - NEAR_S..end_s + NEAR_S).contains(&at_s)
        };
        let gap = worker.gaps_longest.iter().find(near)?;
        Some((worker.core, gap.1))
    })
}

fn disturbed(result: &TrialResult) -> Vec<String> {
    let workers = result.witness.workers.iter();
    let stolen = workers.filter_map(|worker| {
        let steal_s = worker.steal_s.filter(|steal_s| *steal_s > 0.0)?;
        Some(format!(
            "the host took core {} away for {} of the trial (steal time)",
            worker.core,
            duration(steal_s * 1e9)
        ))
    });
    stolen.collect()
}

fn late(result: &TrialResult) -> Vec<String> {
    if result.streams.is_empty() {
        // Whoever only listens has no trial of its own that frames could be of.
        return Vec::new();
    }
    let ports = result.ports.iter().filter(|port| port.late > 0);
    ports
        .map(|port| {
            format!(
                "{} frames of an earlier trial arrived at {}: use a longer --drain",
                grouped(port.late),
                port.name
            )
        })
        .collect()
}

fn far(result: &TrialResult) -> Option<String> {
    let lines = result.witness.cache_lines.iter();
    let probes = lines.flat_map(|line| {
        let probes = [line.before_ns, line.after_ns].into_iter().flatten();
        probes.map(|ns| (ns, line.cores))
    });
    let (worst, [one, other]) = probes.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (worst > FAR_NS).then(|| {
        format!(
            "cores {one} and {other} are far apart (a cache line takes {}): rates across them are \
             lower than between near cores, and change when the host moves a core",
            duration(worst)
        )
    })
}
