//! The other end of a session in the same process.
//!
//! What the command form does goes through the protocol: requests enter the
//! session as lines and its replies are read from a pipe, so there is one way
//! to do things.

use super::Failure;
use super::refusal::refused;
use crate::input::{Event, Events};
use crate::protocol::{Empty, Reply, Request};
use crate::{session, usage};
use nix::sys::signal::{SigSet, Signal};
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// What reaches the client.
enum Told {
    Reply(Box<Reply>),
    Interrupted,
    Terminated,
    /// The session has ended.
    Gone,
}

/// A session, spoken to.
pub(super) struct Client {
    requests: Sender<Event>,
    leaving: Arc<AtomicBool>,
    told: Receiver<Told>,
    interrupts: u32,
    terminated: bool,
}

impl Client {
    /// Starts a session in a thread of its own, and takes SIGINT and SIGTERM.
    ///
    /// # Errors
    /// The system's, when pipes, signals or threads cannot be had.
    pub(super) fn start() -> io::Result<Self> {
        let (tell, told) = channel();
        watch_signals(tell.clone())?;
        let (sender, receiver) = channel();
        let leaving = Arc::new(AtomicBool::new(false));
        let events = Events {
            receiver,
            sender: sender.clone(),
            leaving: Arc::clone(&leaving),
        };
        let (replies, out) = io::pipe()?;
        let out = File::from(OwnedFd::from(out));
        let session = thread::Builder::new().name("session".to_owned());
        session.spawn(move || session::run(events, out))?;
        let reader = thread::Builder::new().name("replies".to_owned());
        reader.spawn(move || {
            for line in BufReader::new(replies).lines() {
                let reply = line.ok().and_then(|line| serde_json::from_str(&line).ok());
                let Some(reply) = reply else { break };
                if tell.send(Told::Reply(Box::new(reply))).is_err() {
                    return;
                }
            }
            let _ = tell.send(Told::Gone);
        })?;
        Ok(Self {
            requests: sender,
            leaving,
            told,
            interrupts: 0,
            terminated: false,
        })
    }

    /// Sends `request` and returns the reply that ends it; `on_other` sees
    /// those before it. SIGINT ends what runs in order, a second one or
    /// SIGTERM at once.
    ///
    /// # Errors
    /// The engine's, or that it was interrupted before anything ran.
    pub(super) fn ask(
        &mut self,
        request: &Request,
        mut on_other: impl FnMut(&Reply),
    ) -> Result<Reply, Failure> {
        self.check_signals()?;
        let runs = matches!(request, Request::Run(_) | Request::Sockets(_));
        self.send(request)?;
        loop {
            match self.told.recv().unwrap_or(Told::Gone) {
                Told::Reply(reply) => match *reply {
                    Reply::Sample(_) | Reply::SocketsSample(_) => on_other(&reply),
                    Reply::Error(error) => {
                        self.check_signals()?;
                        return Err(refused(error));
                    }
                    reply => return Ok(reply),
                },
                Told::Interrupted => {
                    self.interrupts += 1;
                    if runs && self.interrupts == 1 {
                        self.send(&Request::Stop(Empty {}))?;
                    } else {
                        self.leave();
                    }
                }
                Told::Terminated => {
                    self.terminated = true;
                    self.leave();
                }
                Told::Gone => {
                    self.check_signals()?;
                    return Err(Failure::failed(
                        "the engine's session thread failed; its message is above",
                    ));
                }
            }
        }
    }

    /// Ends the session and waits until its ports are closed; returns the
    /// exit status that signals ask for, if there were any.
    pub(super) fn close(self) -> Option<u8> {
        let status = self.signalled();
        // One that has ended already needs no telling.
        let _ = self.send(&Request::Bye(Empty {}));
        while !matches!(self.told.recv(), Ok(Told::Gone) | Err(_)) {}
        status
    }

    fn send(&self, request: &Request) -> Result<(), Failure> {
        let line = serde_json::to_string(request);
        let line = line.map_err(|error| Failure::failed(error.to_string()))?;
        // The end of its replies shows that a session is gone.
        let _ = self.requests.send(Event::Line(line));
        Ok(())
    }

    fn leave(&self) {
        self.leaving.store(true, Ordering::Relaxed);
        let _ = self.requests.send(Event::Terminated);
    }

    fn signalled(&self) -> Option<u8> {
        match (self.terminated, self.interrupts) {
            (true, _) => Some(usage::EXIT_TERMINATED),
            (false, 0) => None,
            (false, _) => Some(usage::EXIT_INTERRUPTED),
        }
    }

    fn check_signals(&self) -> Result<(), Failure> {
        match self.signalled() {
            None => Ok(()),
            Some(status) => Err(Failure {
                status,
                message: "interrupted".to_owned(),
                hint: None,
            }),
        }
    }
}

/// Blocks SIGINT and SIGTERM in every thread started later, and reports them.
fn watch_signals(tell: Sender<Told>) -> io::Result<()> {
    let mut awaited = SigSet::empty();
    awaited.add(Signal::SIGINT);
    awaited.add(Signal::SIGTERM);
    awaited.thread_block()?;
    let watcher = thread::Builder::new().name("signals".to_owned());
    watcher.spawn(move || {
        while let Ok(signal) = awaited.wait() {
            let told = match signal {
                Signal::SIGINT => Told::Interrupted,
                _ => Told::Terminated,
            };
            if tell.send(told).is_err() {
                return;
            }
        }
    })?;
    Ok(())
}
