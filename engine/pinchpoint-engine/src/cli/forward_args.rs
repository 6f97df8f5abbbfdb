//! `forward`: its options, and the words for what it drops.

use super::numbers;
use super::standing_args::StandingArgs;
use clap::{Args, ValueEnum};
use pinchpoint_devices::reference::{Hardware, Loss, Match, Pause, Rule, Truth};
use std::str::FromStr;

/// What stands behind the options of `forward --help`.
const EXAMPLES: &str = "\
A device that serves 500,000 frames a second from rings of 64 frames, loses every
1,000th frame when it sends, and says that it offloads:
    pinchpoint-engine forward af_packet:veth1@dut af_packet:veth2@dut --rate 500k \\
        --ring 64 --loss tx:every=1000 --offloaded --until-eof --json

Frames pass rx, ring, table and tx, in each direction. A rule of --drop is a list of
stream=ID, protocol=udp|tcp|icmp|NUMBER, src=IP, dst=IP, src-port=N, dst-port=N and every=N.
Prints 'ready' once both links are up. SIGTERM and Ctrl-C end it: it prints its
account and exits with 0. SIGUSR1, or a line 'counters' on stdin with --until-eof,
prints the account so far. In it 'directions' is what the device says of itself, and
'truth' what is true.
Exit status otherwise: 2 bad command line, 3 a port could not be opened.";

/// The most frames that may wait.
const MAX_RING: u64 = 1 << 16;
/// The most flows that may be remembered: 32 MiB.
const MAX_FLOWS: u64 = 1 << 21;

/// `forward`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ForwardArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub standing: StandingArgs,
    /// Frames served per second in each direction [default: as they come]
    #[arg(long, value_name = "FPS", value_parser = positive)]
    pub rate: Option<u64>,
    /// Frames that wait for service at most; further ones are dropped
    #[arg(long, value_name = "N", default_value = "1024", value_parser = ring)]
    pub ring: u32,
    /// What a frame of a new flow takes longer
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = nanoseconds)]
    pub new_flow_cost: u64,
    /// Flows that are remembered; further ones stay new
    #[arg(long, value_name = "N", default_value = "65536", value_parser = flows)]
    pub flow_table: usize,
    /// Drop frames that match; several: the first that matches decides
    #[arg(long, value_name = "RULE", value_parser = rule)]
    pub drop: Vec<Rule>,
    /// Lose frames at a place: rx, table or tx, every N-th or a share of them
    #[arg(long, value_name = "PLACE:every=N|PLACE:share=P", value_parser = loss)]
    pub loss: Vec<(LossPlace, Loss)>,
    /// Stand still for LENGTH at the end of every PERIOD
    #[arg(long, value_name = "PERIOD:LENGTH", value_parser = pause)]
    pub pause: Option<Pause>,
    /// Seed of the losses that are drawn
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Offload flows: their frames are served by hardware, past the software
    #[arg(long, value_name = "WHICH", value_enum)]
    pub offload: Option<Offload>,
    /// Frames that the hardware serves per second in each direction [default: as they come]
    #[arg(long, value_name = "FPS", value_parser = positive, requires = "offload")]
    pub offload_rate: Option<u64>,
    /// Say that every flow is offloaded, whatever is true
    #[arg(long)]
    pub offloaded: bool,
    /// Report 0 for the drops at a place; the truth still has them
    #[arg(long, value_name = "PLACE", value_enum)]
    pub hide: Vec<Place>,
}

/// Which flows are offloaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Offload {
    /// All, from their second frame on
    All,
    /// Those whose reply was seen
    TwoWay,
}

/// Where a loss can be planted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossPlace {
    /// Behind the port's ring.
    Rx,
    /// Once served.
    Table,
    /// Before the other port.
    Tx,
}

/// Where drops are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Place {
    /// Lost behind the port's ring, or too long for the other port
    Rx,
    /// Found the ring full
    Ring,
    /// Lost once served
    Table,
    /// Dropped by rules
    Rules,
    /// Lost before the other port, or not taken by it
    Tx,
}

impl ForwardArgs {
    /// What is true of the device.
    pub(super) fn truth(&self) -> Truth {
        let at = |place| {
            let planted = self.loss.iter().rfind(|(other, _)| *other == place);
            planted.map(|&(_, loss)| loss)
        };
        Truth {
            rate_fps: self.rate.map(|rate| rate as f64),
            ring: self.ring,
            new_flow_ns: self.new_flow_cost,
            flows: self.flow_table,
            rules: self.drop.clone(),
            rx: at(LossPlace::Rx),
            table: at(LossPlace::Table),
            tx: at(LossPlace::Tx),
            pause: self.pause,
            hardware: self.offload.map(|which| Hardware {
                rate_fps: self.offload_rate.map(|rate| rate as f64),
                needs_reply: which == Offload::TwoWay,
            }),
            seed: self.seed,
        }
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

fn flows(text: &str) -> Result<usize, String> {
    Ok(within(text, MAX_FLOWS)? as usize)
}

fn nanoseconds(text: &str) -> Result<u64, String> {
    Ok((numbers::seconds(text)? * 1e9).round() as u64)
}

fn pause(text: &str) -> Result<Pause, String> {
    let expected = "expected PERIOD:LENGTH, the period the longer one, as in 10ms:1ms";
    let (period, length) = text.split_once(':').ok_or(expected)?;
    let pause = Pause {
        period_ns: nanoseconds(period)?,
        length_ns: nanoseconds(length)?,
    };
    if pause.length_ns >= pause.period_ns {
        return Err(expected.to_owned());
    }
    Ok(pause)
}

fn loss(text: &str) -> Result<(LossPlace, Loss), String> {
    let expected = || "expected PLACE:every=N or PLACE:share=P, as in rx:every=1000".to_owned();
    let (place, loss) = text.split_once(':').ok_or_else(expected)?;
    let place = match place {
        "rx" => LossPlace::Rx,
        "table" => LossPlace::Table,
        "tx" => LossPlace::Tx,
        _ => return Err(format!("'{place}' is no place; expected rx, table or tx")),
    };
    let loss = match loss.split_once('=') {
        Some(("every", n)) => Loss::Every(positive(n)?),
        Some(("share", share)) => Loss::Share(numbers::share(share)?),
        _ => return Err(expected()),
    };
    Ok((place, loss))
}

fn rule(text: &str) -> Result<Rule, String> {
    let mut rule = Rule {
        matches: Match::default(),
        every: 1,
    };
    let matches = &mut rule.matches;
    for item in text.split(',') {
        match item.split_once('=') {
            Some(("stream", id)) => matches.stream = Some(number(item, id)?),
            Some(("protocol", word)) => matches.protocol = Some(protocol(item, word)?),
            Some(("src", ip)) => matches.src = Some(number(item, ip)?),
            Some(("dst", ip)) => matches.dst = Some(number(item, ip)?),
            Some(("src-port", port)) => matches.src_port = Some(number(item, port)?),
            Some(("dst-port", port)) => matches.dst_port = Some(number(item, port)?),
            Some(("every", n)) => rule.every = positive(n)?,
            _ => {
                return Err(format!(
                    "'{item}': expected stream=, protocol=, src=, dst=, src-port=, dst-port= or every="
                ));
            }
        }
    }
    Ok(rule)
}

fn protocol(item: &str, word: &str) -> Result<u8, String> {
    match word {
        "icmp" => Ok(1),
        "tcp" => Ok(6),
        "udp" => Ok(17),
        _ => number(item, word),
    }
}

fn number<T: FromStr>(item: &str, text: &str) -> Result<T, String> {
    let refused = |_| format!("'{item}': '{text}' is no value for it");
    text.parse().map_err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_losses_and_pauses_are_read() {
        let found = rule("stream=3,protocol=udp,dst=10.0.0.2,dst-port=53,every=2").unwrap();
        let matches = Match {
            stream: Some(3),
            protocol: Some(17),
            dst: Some("10.0.0.2".parse().unwrap()),
            dst_port: Some(53),
            ..Match::default()
        };
        assert_eq!(found, Rule { matches, every: 2 });
        assert_eq!(
            loss("tx:every=1000"),
            Ok((LossPlace::Tx, Loss::Every(1000)))
        );
        assert_eq!(loss("rx:share=0.5"), Ok((LossPlace::Rx, Loss::Share(0.5))));
        let expected = Pause {
            period_ns: 10_000_000,
            length_ns: 500_000,
        };
        assert_eq!(pause("10ms:500us"), Ok(expected));
    }

    #[test]
    fn what_is_wrong_says_what_was_expected() {
        for text in [
            "",
            "stream",
            "stream=300",
            "dst=here",
            "every=0",
            "color=red",
        ] {
            assert!(rule(text).is_err(), "{text}");
        }
        for text in ["", "rx", "rx:", "ring:every=2", "rx:every=0", "rx:share=2"] {
            assert!(loss(text).is_err(), "{text}");
        }
        for text in ["", "10ms", "1ms:1ms", "1ms:2ms"] {
            assert!(pause(text).is_err(), "{text}");
        }
    }
}
