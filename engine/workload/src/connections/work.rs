//! Clients and servers as a workload of one core: a client behind the first port, if
//! there is one, and the same servers behind each of the others.

mod answers;

use super::client::Client;
use super::end::End;
use super::options::StampClock;
use super::parts::{Handed, Part};
use super::plan::Plan;
use super::samples::Samples;
use super::schedule::Schedule;
use super::segment::{Incoming, Outgoing, Unfit};
use super::sender::Listed;
use super::server::Server;
use pinchpoint_port::{BURST, Port, Uniform};
use pinchpoint_wire::ethernet::Mac;
use pinchpoint_wire::{answer, ask};
use pinchpoint_worker::replies::Offer;
use pinchpoint_worker::standing::Standing;
use pinchpoint_worker::watched::{LoopAccount, PortAccount, Watched};
use pinchpoint_worker::{Core, Replies, Step, Workload};
use std::net::IpAddr;

/// How long a question where the next hop is waits before it is repeated.
const ASK_AGAIN_NS: u64 = 100_000_000;
/// The longest segment that either end sends: an MTU of 1,500 and the Ethernet header.
pub const LONGEST: usize = 1514;

/// Where a client's frames go first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextHop {
    /// This address.
    At(Mac),
    /// Whoever says that it has this address (ARP, neighbour discovery).
    Of(IpAddr),
}

/// A client that may not know its next hop yet.
#[derive(Debug, Clone)]
pub struct ClientEnd {
    plan: Plan,
    schedule: Schedule,
    own: Mac,
    next_hop: NextHop,
    by_tuple: bool,
    in_order: bool,
    lead_ns: u64,
    answer_len: u32,
    clock: Option<StampClock>,
    /// Where other cores have connections of the same client.
    part: Option<Part>,
    asked_ns: u64,
    /// From when the next hop is known.
    client: Option<Client>,
}

/// Frames by what they were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Others {
    /// Neither TCP over IP nor a question that was answered.
    pub other: u64,
    /// Headers that do not fit.
    pub malformed: u64,
    /// Fragments.
    pub fragments: u64,
    /// Segments with a wrong checksum.
    pub checksum: u64,
    /// ARP requests and neighbour solicitations that were answered.
    pub answered: u64,
    /// TCP segments with right headers and checksums.
    pub segments: u64,
}

/// What has happened since the start.
#[derive(Debug, Clone)]
pub struct Account {
    /// How the loop ran.
    pub ran: LoopAccount,
    /// How the ports were.
    pub ports: Vec<PortAccount>,
    /// The client, once it knew its next hop.
    pub client: Option<Client>,
    /// The servers.
    pub server: Option<Server>,
    /// By port.
    pub others: Vec<Others>,
    /// Segments that backends gave to the client past the device; none without direct return.
    pub returned: Option<u64>,
    /// Segments for other cores; none if there is no other.
    pub handed: Option<Handed>,
}

/// The workload.
#[derive(Debug)]
pub struct Connections {
    client: Option<ClientEnd>,
    server: Option<Server>,
    /// By port; ports beyond these are links to other cores.
    others: Vec<Others>,
    returned: u64,
    handed: Handed,
    /// What is due without being asked for.
    timed: Vec<Outgoing>,
    samples: Option<Samples>,
    start_ns: u64,
    watched: Watched,
}

impl ClientEnd {
    /// A client with the MAC `own`.
    pub fn new(plan: Plan, schedule: Schedule, own: Mac, next_hop: NextHop) -> Self {
        Self {
            plan,
            schedule,
            own,
            next_hop,
            by_tuple: false,
            in_order: false,
            lead_ns: 0,
            answer_len: 0,
            clock: None,
            part: None,
            asked_ns: 0,
            client: None,
        }
    }

    /// The same client; with `by_tuple` it keeps in mind which backend answered each tuple.
    #[must_use]
    pub fn by_tuple(self, by_tuple: bool) -> Self {
        Self { by_tuple, ..self }
    }

    /// The same client; with `in_order` it keeps in mind which backend each connection reaches.
    #[must_use]
    pub fn in_order(self, in_order: bool) -> Self {
        Self { in_order, ..self }
    }

    /// The same client, whose first connection is due so long after its next hop is known.
    #[must_use]
    pub fn with_lead(self, lead_ns: u64) -> Self {
        Self { lead_ns, ..self }
    }

    /// The same client, as far as one of several cores has its connections; links to the others
    /// follow the ports of that core.
    #[must_use]
    pub fn with_part(self, part: Part) -> Self {
        Self {
            plan: part.plan(),
            schedule: part.schedule(&self.schedule),
            part: Some(part),
            ..self
        }
    }

    fn begin(&mut self, next_hop: Mac, now_ns: u64) {
        let at = (next_hop, now_ns + self.lead_ns);
        let begun = (self.part.as_ref()).map(|part| (part.begin(at.0, at.1), part.phase()));
        let ((next_hop, start_ns), phase) = begun.unwrap_or((at, 0.0));
        let macs = (self.own, next_hop);
        let client = Client::new(self.plan, self.schedule, macs, start_ns);
        let client = client.in_phase(phase).with_stamps(self.clock);
        let mut client = client.with_answers(self.answer_len);
        if self.by_tuple {
            client.remember_tuples();
        }
        if self.in_order {
            client.remember_order();
        }
        self.client = Some(client);
    }

    /// Whether its clients, on this core or others, have that address.
    fn has_client(&self, address: IpAddr) -> bool {
        let part = self.part.as_ref();
        self.plan.has_client(address) || part.is_some_and(|part| part.has_client(address))
    }

    /// Whether every connection has ended, on all cores.
    fn has_ended(&mut self) -> bool {
        let is_done = self.client.as_ref().is_some_and(Client::is_done);
        is_done && self.part.as_mut().is_none_or(Part::end)
    }
}

impl Connections {
    /// The workload of a core with `ports` ports, the first of which is the client's,
    /// if there is one. Links to other cores do not count.
    pub fn new(
        mut client: Option<ClientEnd>,
        server: Option<Server>,
        ports: usize,
        now_ns: u64,
    ) -> Self {
        if let Some(end) = &mut client
            && let NextHop::At(mac) = end.next_hop
        {
            end.begin(mac, now_ns);
        }
        Self {
            client,
            server,
            others: vec![Others::default(); ports],
            returned: 0,
            handed: Handed::default(),
            timed: Vec::with_capacity(BURST),
            samples: None,
            start_ns: now_ns,
            watched: Watched::new(ports, now_ns),
        }
    }

    /// The same workload, which takes samples.
    #[must_use]
    pub fn with_samples(self, samples: Option<Samples>) -> Self {
        Self { samples, ..self }
    }

    /// Lets backends go down and come back, once there is something to answer.
    #[inline(always)]
    fn pass(&mut self, now_ns: u64) {
        let Some(server) = &mut self.server else {
            return;
        };
        let start_ns = match &self.client {
            None => Some(self.start_ns),
            Some(end) => end.client.as_ref().map(Client::start_ns),
        };
        if let Some(start_ns) = start_ns {
            server.pass(now_ns.saturating_sub(start_ns));
        }
    }

    fn is_client(&self, port: usize) -> bool {
        (port == 0 || port >= self.others.len()) && self.client.is_some()
    }

    /// The port to the core that has the client's end `at`; none where that is this core, or none.
    #[inline(always)]
    fn link_to(&self, at: End) -> Option<usize> {
        let part = self.client.as_ref()?.part.as_ref()?;
        Some(self.others.len() + part.link_to(at)?)
    }

    /// Gives a frame of `len` bytes to another core.
    fn hand(
        &mut self,
        link: usize,
        len: usize,
        replies: &mut Replies,
        write: impl FnOnce(&mut [u8]),
    ) {
        let is_handed = replies.push(link, len, write);
        self.handed.segments += u64::from(is_handed);
        self.handed.lost += u64::from(!is_handed);
    }

    /// A frame that another core received: it has been counted, and is for a connection of this one.
    #[inline(never)]
    fn on_handed(&mut self, frame: &[u8], now_ns: u64, replies: &mut Replies) {
        let client = self.client.as_mut().and_then(|end| end.client.as_mut());
        if let (Some(client), Ok(segment)) = (client, Incoming::read(frame))
            && let Some(reply) = client.react(&segment, now_ns)
        {
            replies.push(0, reply.frame_len(), |out| reply.write(out));
        }
    }

    /// The MAC at which `address` is, behind `port`.
    fn mac_of(&self, port: usize, address: IpAddr) -> Option<Mac> {
        match &self.client {
            Some(end) if port == 0 => end.has_client(address).then_some(end.own),
            _ => self.server.as_ref()?.mac_of(address),
        }
    }

    /// A frame that is no segment: a question or an answer where an address is, or nothing that matters.
    #[inline(never)]
    fn on_other(&mut self, port: usize, frame: &[u8], now_ns: u64, replies: &mut Replies) {
        let asked = answer::target(frame).and_then(|one| Some((one, self.mac_of(port, one)?)));
        if let Some(own) = asked {
            let mut buffer = [0; answer::MAX_LEN];
            if let Some(len) = answer::reply(frame, own, &mut buffer) {
                self.others[port].answered += 1;
                replies.push(port, len, |out| out.copy_from_slice(&buffer[..len]));
            }
            return;
        }
        if port == 0
            && let Some(end) = &mut self.client
            && let NextHop::Of(address) = end.next_hop
            && let Some(mac) = ask::told(frame, address)
        {
            if end.client.is_none() {
                end.begin(mac, now_ns);
            }
            return;
        }
        self.others[port].other += 1;
    }

    fn is_direct(&self) -> bool {
        self.server.as_ref().is_some_and(Server::is_direct)
    }

    /// A backend's answer reaches the client past the device, as a frame; what the client sends then.
    #[inline(never)]
    fn hand_over(&mut self, answer: &Outgoing, now_ns: u64) -> Option<Outgoing> {
        let client = self.client.as_mut()?.client.as_mut()?;
        let mut buffer = [0; LONGEST];
        let frame = buffer.get_mut(..answer.frame_len())?;
        answer.write(frame);
        let segment = Incoming::read(frame).ok()?;
        self.returned += 1;
        client.react(&segment, now_ns)
    }

    /// Opens what is due; how many bursts that took.
    #[inline(always)]
    fn open(&mut self, core: &mut Core<'_>) -> usize {
        let Some(end) = &mut self.client else {
            return 0;
        };
        let Some(client) = &mut end.client else {
            return match end.part.as_ref().and_then(Part::begun) {
                Some((mac, _)) => {
                    end.begin(mac, core.now_ns);
                    0
                }
                None => ask(end, core),
            };
        };
        let port = &mut core.ports[0].port;
        let due = client.due(core.now_ns).min(BURST as u64) as usize;
        if due > 0 {
            let mut syns = client.syns();
            let len = client.syn_len();
            let write = |_: usize, frame: &mut [u8]| {
                if let Some(syn) = syns.next() {
                    syn.write(frame);
                }
            };
            let taken = port.send(due, Uniform(len, write));
            client.opened(taken as u64);
        }
        self.timed.clear();
        client.timed(core.now_ns, BURST, &mut self.timed);
        let timed = self.timed.len();
        if timed > 0 {
            let taken = port.send(timed, Listed(&self.timed));
            client.unsent((timed - taken) as u64);
        }
        usize::from(due > 0) + usize::from(timed > 0)
    }
}

/// Asks for the next hop, unless that was done just now.
#[inline(never)]
fn ask(end: &mut ClientEnd, core: &mut Core<'_>) -> usize {
    let NextHop::Of(address) = end.next_hop else {
        return 0;
    };
    if end.asked_ns != 0 && core.now_ns < end.asked_ns + ASK_AGAIN_NS {
        return 0;
    }
    end.asked_ns = core.now_ns;
    let mut frame = [0; ask::MAX_LEN];
    let Some(len) = ask::question(address, (end.plan.clients, end.own), &mut frame) else {
        return 0;
    };
    let write = |_: usize, out: &mut [u8]| out.copy_from_slice(&frame[..len]);
    core.ports[0].port.send(1, Uniform(len, write))
}

impl Workload for Connections {
    type Outcome = Account;

    fn longest_reply(&self, _core: &Core<'_>, _port: usize) -> usize {
        LONGEST
    }

    #[inline(always)]
    fn poll(&mut self, core: &mut Core<'_>) -> Step {
        self.pass(core.now_ns);
        let bursts = self.open(core) + self.continue_answers(core);
        if bursts == 0 && self.client.as_mut().is_some_and(ClientEnd::has_ended) {
            return Step::End;
        }
        Step::Sent(bursts)
    }

    #[inline(always)]
    fn on_burst(&mut self, _port: usize, _count: usize, _now_ns: u64) {}

    #[inline(always)]
    fn on_frame(&mut self, port: usize, frame: &[u8], now_ns: u64, replies: &mut Replies) {
        if port >= self.others.len() {
            return self.on_handed(frame, now_ns, replies);
        }
        let segment = match Incoming::read(frame) {
            Ok(segment) => segment,
            Err(Unfit::Other) => return self.on_other(port, frame, now_ns, replies),
            Err(why) => {
                let others = &mut self.others[port];
                *match why {
                    Unfit::Fragment => &mut others.fragments,
                    Unfit::Checksum => &mut others.checksum,
                    _ => &mut others.malformed,
                } += 1;
                return;
            }
        };
        self.others[port].segments += 1;
        let reply: Option<Outgoing> = if self.is_client(port) {
            if let Some(link) = self.link_to(segment.dst) {
                return self.hand(link, frame.len(), replies, |out| out.copy_from_slice(frame));
            }
            let client = self.client.as_mut().and_then(|end| end.client.as_mut());
            client.and_then(|client| client.react(&segment, now_ns))
        } else {
            self.server
                .as_mut()
                .and_then(|server| server.react_at(port, &segment, now_ns))
        };
        let Some(reply) = &reply else {
            return;
        };
        if self.is_direct() && !self.is_client(port) {
            if let Some(link) = self.link_to(reply.dst) {
                self.returned += 1;
                return self.hand(link, reply.frame_len(), replies, |out| reply.write(out));
            }
            if let Some(next) = self.hand_over(reply, now_ns) {
                replies.push(0, next.frame_len(), |out| next.write(out));
            }
            return;
        }
        replies.push(port, reply.frame_len(), |out| reply.write(out));
    }

    #[inline(always)]
    fn on_replies(&mut self, port: usize, offer: Offer, _fresh: bool) {
        if offer.dropped == 0 {
            return;
        }
        if offer.to >= self.others.len() {
            self.handed.segments -= offer.dropped;
            self.handed.lost += offer.dropped;
            return;
        }
        if self.is_client(port) || self.is_direct() {
            if let Some(client) = self.client.as_mut().and_then(|end| end.client.as_mut()) {
                client.unsent(offer.dropped);
            }
        } else if let Some(server) = &mut self.server {
            server.unsent(offer.dropped);
        }
    }

    fn publish(&mut self, core: &mut Core<'_>) {
        self.watched.look(core);
        if let Some(samples) = &mut self.samples
            && let Some(client) = self.client.as_ref().and_then(|end| end.client.as_ref())
        {
            samples.look(client, self.server.as_ref(), core.now_ns);
        }
    }

    fn close(mut self, mut core: Core<'_>) -> Account {
        if let Some(samples) = &self.samples
            && let Some(client) = self.client.as_ref().and_then(|end| end.client.as_ref())
        {
            samples.end(client, self.server.as_ref(), core.now_ns);
        }
        self.account(&mut core)
    }
}

impl Standing for Connections {
    const LONGEST_FRAME: Option<usize> = Some(LONGEST);

    fn account(&mut self, core: &mut Core<'_>) -> Account {
        Account {
            ran: self.watched.ran(core),
            ports: self.watched.ports(core),
            client: self.client.as_ref().and_then(|end| end.client.clone()),
            server: self.server.clone(),
            others: self.others.clone(),
            returned: self.is_direct().then_some(self.returned),
            handed: (self.client.as_ref())
                .and_then(|end| end.part.as_ref())
                .map(|_| self.handed),
        }
    }
}
