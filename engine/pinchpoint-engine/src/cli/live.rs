//! The progress line of a trial, once a second.

use super::numbers::{grouped, scaled};
use crate::protocol::Sample;
use std::io::{IsTerminal, Write};

/// How the line is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    Hidden,
    /// A line after the other.
    Lines,
    /// One line that is written over.
    Over,
}

/// The line on stderr.
pub(super) struct Line {
    manner: Manner,
    shown: bool,
}

impl Line {
    /// A line that is written over on a terminal, lines otherwise, or none.
    pub(super) fn new(quiet: bool) -> Self {
        let manner = match (quiet, std::io::stderr().is_terminal()) {
            (true, _) => Manner::Hidden,
            (false, true) => Manner::Over,
            (false, false) => Manner::Lines,
        };
        Self {
            manner,
            shown: false,
        }
    }

    /// Shows `text`.
    pub(super) fn show(&mut self, text: &str) {
        let mut out = std::io::stderr();
        // Nobody has to be there to read it.
        let _ = match self.manner {
            Manner::Hidden => Ok(()),
            Manner::Lines => writeln!(out, "{text}"),
            // Back to the first column, and away with what stood there.
            Manner::Over => {
                let shown: String = text.chars().take(columns()).collect();
                write!(out, "\r\x1b[K{shown}").and_then(|()| out.flush())
            }
        };
        self.shown = true;
    }

    /// Makes room for what follows.
    pub(super) fn clear(&mut self) {
        if self.manner == Manner::Over && self.shown {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
        self.shown = false;
    }
}

/// Columns of a line that does not run over the end of the terminal's.
fn columns() -> usize {
    let size = terminal_size::terminal_size_of(std::io::stderr());
    size.map_or(usize::MAX, |(width, _)| {
        usize::from(width.0).saturating_sub(1)
    })
}

/// What one sample adds to those before it.
#[derive(Debug, Default)]
pub(super) struct Progress {
    last: Option<Sample>,
}

/// What the progress line needs to know of a trial.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outlook {
    /// How long it lasts.
    pub duration_s: f64,
    /// Whether anything is sent.
    pub sends: bool,
    /// Whether frames are expected to arrive, and can be distinguished from others.
    pub expects: bool,
}

impl Progress {
    /// What to show when `sample` has come.
    pub(super) fn told(&mut self, sample: &Sample, outlook: &Outlook) -> String {
        let before = self.last.replace(sample.clone());
        let earlier = before.as_ref();
        let elapsed_s = sample.elapsed_s - earlier.map_or(0.0, |earlier| earlier.elapsed_s);
        let rate = |of: fn(&Sample) -> u64| {
            let more = of(sample).saturating_sub(earlier.map_or(0, of));
            scaled(more as f64 / elapsed_s.max(1e-9))
        };
        let mut parts = Vec::new();
        if outlook.sends {
            parts.push(format!("offered {}fps", rate(|sample| sample.offered)));
            parts.push(format!("sent {}fps", rate(|sample| sample.sent)));
        }
        if outlook.expects {
            parts.push(format!("received {}fps", rate(|sample| sample.received)));
        }
        if outlook.expects && outlook.sends {
            let missing = sample.sent.saturating_sub(sample.received);
            parts.push(format!("missing {}", grouped(missing)));
        }
        if !outlook.sends {
            parts.push(format!("{} so far", grouped(sample.received)));
        }
        let left_s = (outlook.duration_s - sample.elapsed_s).max(0.0);
        format!(
            "{:6.1} s  {}  {left_s:.0} s left",
            sample.elapsed_s,
            parts.join("  ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(elapsed_s: f64, sent: u64, received: u64) -> Sample {
        Sample {
            trial: String::new(),
            elapsed_s,
            offered: sent,
            sent,
            received,
            lost: Some(sent - received),
            gaps_ns: 0,
            gap_max_ns: 0,
            streams: Vec::new(),
        }
    }

    #[test]
    fn rates_are_those_since_the_line_before() {
        let outlook = Outlook {
            duration_s: 10.0,
            sends: true,
            expects: true,
        };
        let mut progress = Progress::default();
        progress.told(&sample(1.0, 1_000_000, 1_000_000), &outlook);
        let told = progress.told(&sample(2.0, 3_000_000, 2_999_000), &outlook);
        let expected = "   2.0 s  offered 2.000 Mfps  sent 2.000 Mfps  received 1.999 Mfps  \
                        missing 1,000  8 s left";
        assert_eq!(told, expected);
    }

    #[test]
    fn what_is_not_expected_is_not_told_as_lost() {
        let outlook = Outlook {
            duration_s: 1.0,
            sends: true,
            expects: false,
        };
        let told = Progress::default().told(&sample(1.0, 1000, 0), &outlook);
        assert!(
            !told.contains("missing") && !told.contains("received"),
            "{told}"
        );
    }
}
