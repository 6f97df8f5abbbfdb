//! Options of the commands that run until somebody stops them.

use super::engine_args::EngineArgs;
use super::numbers;
use super::ports::{self, PortArg};
use clap::Args;
use pinchpoint_worker::Idle;
use std::time::Duration;

/// The most cores of a workload.
const MOST_CORES: usize = 64;

/// The cores of a workload that may have several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoreList(pub Vec<usize>);

/// What `relay`, `reflect`, `forward` and `balance` have in common.
#[derive(Debug, Args)]
pub struct StandingArgs {
    /// Ports, as `send` has them
    #[arg(value_name = "PORT", required = true, num_args = 1.., value_parser = ports::port)]
    pub ports: Vec<PortArg>,
    /// The core that drives all of them [default: the first core]
    #[arg(long, value_name = "N")]
    pub core: Option<usize>,
    /// What to do when nothing has arrived: yield the core, spin, or sleep:TIME
    #[arg(long, value_name = "HOW", default_value = "yield", value_parser = idle)]
    pub idle: Idle,
    /// Frames in each receive ring
    #[arg(long, value_name = "N", default_value_t = 1024)]
    pub rx_ring: u32,
    /// Frames in each transmit ring
    #[arg(long, value_name = "N", default_value_t = 1024)]
    pub tx_ring: u32,
    /// Arguments for DPDK's environment layer, as `send` has them
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true)]
    pub eal: Option<String>,
    /// How long to wait for links to come up
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = numbers::seconds)]
    pub link_timeout: f64,
    /// End at the end of stdin as well; each line 'counters' there prints the account so far
    #[arg(long)]
    pub until_eof: bool,
    /// Print accounts as a line of JSON instead of a table
    #[arg(long)]
    pub json: bool,
}

impl StandingArgs {
    /// As options of the engine in general.
    pub(super) fn engine(&self) -> EngineArgs {
        EngineArgs {
            cores: self.core.into_iter().collect(),
            queues: false,
            rx_ring: self.rx_ring,
            tx_ring: self.tx_ring,
            eal: self.eal.clone(),
            answer: Vec::new(),
            link_timeout: self.link_timeout,
            capture: None,
            capture_frames: 0,
        }
    }
}

/// Reads `0-3`, `0,2` or both; a core may come again.
///
/// # Errors
/// What was expected.
pub(super) fn cores(text: &str) -> Result<CoreList, String> {
    let expected = || format!("expected at most {MOST_CORES} cores, as in 0-3 or 0,2");
    let mut all = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.parse::<usize>().map_err(|_| expected());
        let (first, last) = (number(first)?, number(last)?);
        if last < first || last - first >= MOST_CORES - all.len().min(MOST_CORES) {
            return Err(expected());
        }
        all.extend(first..=last);
    }
    Ok(CoreList(all))
}

fn idle(text: &str) -> Result<Idle, String> {
    match text {
        "spin" => Ok(Idle::Spin),
        "yield" => Ok(Idle::Yield),
        _ => {
            let time = text
                .strip_prefix("sleep:")
                .ok_or_else(|| "expected yield, spin or sleep:TIME, as in sleep:50us".to_owned())?;
            let time = Duration::try_from_secs_f64(numbers::seconds(time)?);
            let time = time.map_err(|error| error.to_string())?;
            Ok(Idle::Sleep(time))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::standing::idle_word;

    #[test]
    fn cores_are_listed_one_by_one_or_from_the_first_to_the_last() {
        for (text, expected) in [
            ("3", vec![3]),
            ("0-3", vec![0, 1, 2, 3]),
            ("0,2-3,0", vec![0, 2, 3, 0]),
            ("0-63", (0..64).collect()),
        ] {
            assert_eq!(cores(text), Ok(CoreList(expected)));
        }
        for text in ["", "a", "1-", "-1", "3-1", "0,", "0-64", "0-63,1"] {
            assert!(cores(text).unwrap_err().contains("0-3"), "{text}");
        }
    }

    #[test]
    fn what_an_idle_loop_does_is_read_and_written_the_same_way() {
        for (text, expected) in [
            ("spin", Idle::Spin),
            ("yield", Idle::Yield),
            ("sleep:50us", Idle::Sleep(Duration::from_micros(50))),
        ] {
            assert_eq!(idle(text), Ok(expected));
            assert_eq!(idle_word(expected), text);
        }
        for text in ["", "sleep", "sleep:", "sleep:-1s", "nap"] {
            assert!(idle(text).unwrap_err().contains("expected"), "{text}");
        }
    }
}
