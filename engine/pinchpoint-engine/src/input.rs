//! What reaches the session: lines, signals, and the end of a trial.

use nix::sys::signal::{SigSet, Signal};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

/// Bytes of the longest line that is read.
pub const MAX_LINE: usize = 1 << 20;

/// Something the session reacts to.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// A line, without its end.
    Line(String),
    /// A line that cannot be a message, and why.
    BadLine(&'static str),
    /// The end of input.
    End,
    /// SIGTERM.
    Terminated,
    /// The running trial has sent everything.
    TrialSent,
    /// The running trial has ended.
    TrialEnded,
    /// The workload's server listens there; its client is another engine's.
    Listening(SocketAddr),
}

/// Where events come from, and what a long wait looks at meanwhile.
pub struct Events {
    /// Events in order.
    pub receiver: Receiver<Event>,
    /// For those who report an event themselves.
    pub sender: Sender<Event>,
    /// Set as soon as the input has ended or SIGTERM came.
    pub leaving: Arc<AtomicBool>,
}

/// Starts listening to stdin and signals, and takes stdout for the protocol:
/// file descriptor 1 becomes a copy of stderr, so that a library that prints
/// cannot break a line.
///
/// # Errors
/// The system's, when descriptors, signals or threads cannot be had.
pub fn start() -> io::Result<(Events, File)> {
    let out = File::from(nix::unistd::dup(io::stdout())?);
    nix::unistd::dup2_stdout(io::stderr())?;
    let (sender, receiver) = channel();
    let leaving = Arc::new(AtomicBool::new(false));
    watch_signals(sender.clone(), Arc::clone(&leaving))?;
    let (lines, over) = (sender.clone(), Arc::clone(&leaving));
    std::thread::Builder::new()
        .name("stdin".to_owned())
        .spawn(move || {
            read_lines(BufReader::new(io::stdin()), |event| {
                if event == Event::End {
                    over.store(true, Ordering::Relaxed);
                }
                lines.send(event).is_ok()
            });
        })?;
    let events = Events {
        receiver,
        sender,
        leaving,
    };
    Ok((events, out))
}

/// Blocks SIGINT and SIGTERM in every thread started later. SIGTERM becomes an
/// event; SIGINT, which a terminal sends to the lab and the engine alike, is
/// left to the lab.
fn watch_signals(sender: Sender<Event>, leaving: Arc<AtomicBool>) -> io::Result<()> {
    let mut blocked = SigSet::empty();
    blocked.add(Signal::SIGINT);
    blocked.add(Signal::SIGTERM);
    blocked.thread_block()?;
    let mut awaited = SigSet::empty();
    awaited.add(Signal::SIGTERM);
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            if awaited.wait().is_ok() {
                leaving.store(true, Ordering::Relaxed);
                let _ = sender.send(Event::Terminated);
            }
        })?;
    Ok(())
}

/// Cuts `input` into lines until it ends or `emit` returns false. A line that
/// is too long is passed over without being kept.
pub fn read_lines<R: BufRead>(mut input: R, mut emit: impl FnMut(Event) -> bool) {
    let mut line = Vec::new();
    loop {
        line.clear();
        let limit = MAX_LINE as u64 + 1;
        let read = input.by_ref().take(limit).read_until(b'\n', &mut line);
        if !matches!(read, Ok(count) if count > 0) {
            emit(Event::End);
            return;
        }
        let complete = line.last() == Some(&b'\n');
        let event = if !complete && line.len() > MAX_LINE {
            skip_line(&mut input);
            Event::BadLine("the line is longer than 1 MiB")
        } else {
            match std::str::from_utf8(&line) {
                Ok(text) if text.trim().is_empty() => continue,
                Ok(text) => Event::Line(text.trim().to_owned()),
                Err(_) => Event::BadLine("the line is not UTF-8"),
            }
        };
        if !emit(event) {
            return;
        }
    }
}

fn skip_line<R: BufRead>(input: &mut R) {
    while let Ok(chunk) = input.fill_buf() {
        if chunk.is_empty() {
            return;
        }
        let end = chunk.iter().position(|&byte| byte == b'\n');
        let used = end.map_or(chunk.len(), |at| at + 1);
        input.consume(used);
        if end.is_some() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(input: &[u8]) -> Vec<Event> {
        let mut events = Vec::new();
        read_lines(BufReader::with_capacity(7, input), |event| {
            events.push(event);
            true
        });
        events
    }

    #[test]
    fn lines_are_cut_trimmed_and_empty_ones_skipped() {
        let expected = [
            Event::Line("a".to_owned()),
            Event::BadLine("the line is not UTF-8"),
            Event::Line("b".to_owned()),
            Event::End,
        ];
        assert_eq!(events(b"a\r\n\n  \n\xff\nb"), expected);
    }

    #[test]
    fn a_line_too_long_is_passed_over() {
        let mut input = vec![b'x'; MAX_LINE + 2];
        input.extend(b"\nnext\n");
        let expected = [
            Event::BadLine("the line is longer than 1 MiB"),
            Event::Line("next".to_owned()),
            Event::End,
        ];
        assert_eq!(events(&input), expected);
    }
}
