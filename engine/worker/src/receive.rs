//! What happens to the frames of one received burst.

use crate::clock::Clock;
use crate::keep::Recorder;
use pinchpoint_port::Sink;
use pinchpoint_traffic::account::Account;
use pinchpoint_wire::answer;
use pinchpoint_wire::ethernet::Mac;
use std::collections::HashMap;
use std::net::IpAddr;

/// Accounts the frames of one burst.
pub(crate) struct Receiver<'a> {
    account: &'a mut Account,
    clock: &'a Clock,
    /// The worker's own number of the port.
    port: usize,
    now_ns: u64,
}

impl<'a> Receiver<'a> {
    pub(crate) fn new(account: &'a mut Account, clock: &'a Clock, port: usize) -> Self {
        Self {
            account,
            clock,
            port,
            now_ns: 0,
        }
    }
}

impl Sink for Receiver<'_> {
    #[inline(always)]
    fn arrived(&mut self, _count: usize) {
        self.now_ns = self.clock.now_ns();
        self.account.burst(self.port, self.now_ns);
    }

    #[inline(always)]
    fn frame(&mut self, frame: &[u8]) {
        self.account.frame(self.port, frame, self.now_ns);
    }
}

/// Bytes of the longest answer: a neighbour advertisement with its option.
const ANSWER: usize = answer::MAX_LEN;
/// Answers kept at once; further questions are foreign, and are asked again.
const ANSWERS: usize = 16;

/// Answers waiting to be sent.
#[derive(Default)]
pub(crate) struct Outbox(Vec<Vec<u8>>);

impl Outbox {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn take(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.0)
    }

    /// Adds the answer to `frame` if it asks for one of `own` and there is room.
    /// Such frames are rare, so this may allocate.
    fn answer(&mut self, frame: &[u8], own: &HashMap<IpAddr, Mac>) -> bool {
        let Some(target) = answer::target(frame) else {
            return false;
        };
        let Some(&mac) = own.get(&target) else {
            return false;
        };
        let mut out = [0; ANSWER];
        let Some(len) = answer::reply(frame, (target, mac), &mut out) else {
            return false;
        };
        if self.0.len() == ANSWERS {
            return false;
        }
        self.0.push(out[..len].to_vec());
        true
    }
}

/// A [`Receiver`] that also keeps frames and answers neighbours.
pub(crate) struct Watcher<'a> {
    pub(crate) receiver: Receiver<'a>,
    pub(crate) recorder: &'a mut Recorder,
    /// The session's number of the port.
    pub(crate) port: usize,
    pub(crate) answers: &'a HashMap<IpAddr, Mac>,
    pub(crate) outbox: &'a mut Outbox,
}

impl Sink for Watcher<'_> {
    fn arrived(&mut self, count: usize) {
        self.receiver.arrived(count);
    }

    fn frame(&mut self, frame: &[u8]) {
        self.recorder
            .received(self.port, self.receiver.now_ns, frame);
        if self.answers.is_empty() || !self.outbox.answer(frame, self.answers) {
            self.receiver.frame(frame);
        }
    }
}
