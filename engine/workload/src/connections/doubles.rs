//! Both ends joined in memory; in between, what networks and balancers do to segments.

use super::client::Client;
use super::end::End;
use super::plan::{Mix, Plan, Requests, mix};
use super::schedule::Schedule;
use super::segment::{ACK, Incoming, Outgoing, PSH, RST, SYN};
use super::server::Server;
use super::timers::Retry;
use pinchpoint_wire::ethernet::{self, Mac};
use pinchpoint_wire::{ipv4, ipv6, tcp};
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(crate) const STEP_NS: u64 = 1_000;
/// Longer than any test takes: 10 s.
pub(crate) const MOST_STEPS: u64 = 10_000_000;
pub(crate) const ANSWER_LEN: u32 = 100;
pub(crate) const LOCAL: Ipv4Addr = Ipv4Addr::new(192, 168, 0, 1);
pub(crate) fn service() -> End {
    End::new(Ipv4Addr::new(10, 0, 0, 100), 80)
}

pub(crate) fn backends(count: u8) -> Vec<End> {
    (1..=count)
        .map(|last| End::new(Ipv4Addr::new(10, 1, 0, last), 8080))
        .collect()
}

pub(crate) fn mac(last: u8) -> Mac {
    Mac([2, 0, 0, 0, 0, last])
}

pub(crate) fn plan() -> Plan {
    Plan {
        clients: Ipv4Addr::new(16, 0, 0, 1).into(),
        client_count: 4,
        ports: 1025,
        port_count: 64,
        service: service(),
        service_addresses: 1,
        service_ports: 1,
        mix: Mix::new([0, 0, 0, 1]).unwrap(),
        requests: Requests { count: 1, len: 64 },
        key: 7,
        first_round: 0xfff0,
        one_isn: false,
        same_first_seq: None,
    }
}

pub(crate) fn plan_of(tuples: u32) -> Plan {
    Plan {
        client_count: 1,
        port_count: tuples,
        ..plan()
    }
}

/// The same over IPv6.
pub(crate) fn plan_v6() -> Plan {
    let service = End::new(Ipv6Addr::new(0xfd00, 1, 0, 0, 0, 0, 0, 0x64), 80);
    let clients = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1).into();
    Plan {
        clients,
        service,
        ..plan()
    }
}

pub(crate) fn schedule(count: u64) -> Schedule {
    Schedule {
        rate: 1e6,
        ramp_ns: 0,
        count,
        timeout_ns: 1_000_000,
        hold_ns: 0,
        hold_before: 0,
        retry: Retry::default(),
        server_closes: false,
        opens_late: false,
    }
}

pub(crate) fn client(plan: Plan, schedule: Schedule) -> Client {
    Client::new(plan, schedule, (mac(1), mac(2)), 0)
}

/// A server that is reached at the service's own address: nothing is in between.
pub(crate) fn server() -> Server {
    Server::new(&[service()], mac(3), ANSWER_LEN, 11)
}

pub(crate) fn written(segment: &Outgoing) -> Vec<u8> {
    let mut frame = vec![0xaa; segment.frame_len()];
    segment.write(&mut frame);
    frame
}

/// The same segment with other ends, numbers and options.
pub(crate) fn rewritten(
    segment: &Incoming<'_>,
    (src, dst): (End, End),
    (seq, ack): (u32, u32),
    options: &[u8],
) -> Vec<u8> {
    let body = tcp::HEADER_LEN + options.len() + segment.payload.len();
    let mut frame = vec![0; ethernet::HEADER_LEN];
    let v4 = src.v4().zip(dst.v4());
    let ethertype = match v4 {
        Some(_) => ethernet::ETHERTYPE_IPV4,
        None => ethernet::ETHERTYPE_IPV6,
    };
    let link = ethernet::Header {
        dst: mac(9),
        src: mac(8),
        ethertype,
    };
    link.emit(frame.first_chunk_mut().unwrap());
    frame.extend(ip_header((src, dst), body));
    let mut rest = vec![0; body];
    rest[tcp::HEADER_LEN + options.len()..].copy_from_slice(segment.payload);
    let header = tcp::Header {
        src: src.port,
        dst: dst.port,
        seq,
        ack,
        flags: segment.flags,
        window: segment.window,
        urgent: 0,
        options,
    };
    match v4 {
        Some((src, dst)) => header.emit(&mut rest, src, dst).unwrap(),
        None => header.emit(&mut rest, src.v6(), dst.v6()).unwrap(),
    }
    frame.extend(rest);
    frame.resize(frame.len().max(60), 0);
    frame
}

fn ip_header((src, dst): (End, End), payload_len: usize) -> Vec<u8> {
    let payload_len = payload_len as u16;
    let Some((src, dst)) = src.v4().zip(dst.v4()) else {
        let mut header = [0; ipv6::HEADER_LEN];
        ipv6::Header {
            src: src.v6(),
            dst: dst.v6(),
            hop_limit: 63,
            traffic_class: 0,
            flow_label: 0,
            next_header: ipv4::PROTOCOL_TCP,
            payload_len,
        }
        .emit(&mut header);
        return header.to_vec();
    };
    let mut header = vec![0; ipv4::HEADER_LEN];
    let packet = ipv4::Header {
        src,
        dst,
        ttl: 63,
        dscp: 0,
        ecn: 0,
        identification: 0,
        dont_fragment: true,
        protocol: ipv4::PROTOCOL_TCP,
        options: &[],
        payload_len,
    };
    packet.emit(&mut header).unwrap();
    header
}

/// What stands between the ends. Frames go `to_server`, or to the client.
pub(crate) trait Between {
    fn pass(&mut self, frame: Vec<u8>, to_server: bool) -> Vec<(Vec<u8>, bool)>;
}

/// A wire.
pub(crate) struct Wire;

impl Between for Wire {
    fn pass(&mut self, frame: Vec<u8>, to_server: bool) -> Vec<(Vec<u8>, bool)> {
        vec![(frame, to_server)]
    }
}

/// A wire that loses, repeats and delays frames by chance.
pub(crate) struct Careless {
    pub(crate) random: u64,
    pub(crate) lost: f64,
    pub(crate) doubled: f64,
}

impl Careless {
    pub(crate) fn happens(&mut self, chance: f64) -> bool {
        self.random = mix(self.random);
        (self.random >> 11) as f64 / (1u64 << 53) as f64 <= chance
    }
}

impl Between for Careless {
    fn pass(&mut self, frame: Vec<u8>, to_server: bool) -> Vec<(Vec<u8>, bool)> {
        if self.happens(self.lost) {
            return Vec::new();
        }
        let copies = 1 + usize::from(self.happens(self.doubled));
        vec![(frame, to_server); copies]
    }
}

fn toa(end: End) -> Vec<u8> {
    let address = match end.ip() {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let len = 4 + address.len() as u8;
    [&[254, len][..], &end.port.to_be_bytes(), &address].concat()
}

/// A balancer in full-NAT: round robin, local ports in turn, other sequence numbers for
/// what the client sends, and the client's address in a TOA option of its first data.
pub(crate) struct FullNat {
    backends: Vec<End>,
    /// Local end and backend by client.
    sessions: HashMap<End, (End, End)>,
    clients: HashMap<End, End>,
    shift: u32,
    lies: bool,
    /// Where the client's side sends.
    service: End,
}

impl FullNat {
    pub(crate) fn new(backends: Vec<End>) -> Self {
        let (sessions, clients) = Default::default();
        Self {
            backends,
            sessions,
            clients,
            shift: 0xfff0_0000,
            lies: false,
            service: service(),
        }
    }

    /// One whose clients use IPv6, its backends IPv4.
    pub(crate) fn nat64(backends: Vec<End>, service: End) -> Self {
        Self {
            service,
            ..Self::new(backends)
        }
    }

    /// One whose TOA options name the service.
    pub(crate) fn lying(backends: Vec<End>) -> Self {
        Self {
            lies: true,
            ..Self::new(backends)
        }
    }

    fn session(&mut self, client: End) -> (End, End) {
        let number = self.sessions.len();
        let local = End::new(LOCAL, 2000 + number as u16);
        let backend = self.backends[number % self.backends.len()];
        let session = *self.sessions.entry(client).or_insert((local, backend));
        self.clients.insert(session.0, client);
        session
    }
}

impl Between for FullNat {
    fn pass(&mut self, frame: Vec<u8>, to_server: bool) -> Vec<(Vec<u8>, bool)> {
        let segment = Incoming::read(&frame).unwrap();
        if !to_server {
            let client = self.clients[&segment.dst];
            let ack = segment.ack.wrapping_sub(self.shift);
            let ends = (self.service, client);
            return vec![(
                rewritten(&segment, ends, (segment.seq, ack), segment.options),
                false,
            )];
        }
        let ends = self.session(segment.src);
        let mut options = segment.options.to_vec();
        if !segment.payload.is_empty() {
            let told = if self.lies { self.service } else { segment.src };
            options.extend(toa(told));
        }
        let seq = segment.seq.wrapping_add(self.shift);
        vec![(
            rewritten(&segment, ends, (seq, segment.ack), &options),
            true,
        )]
    }
}

/// A SYN proxy: answers SYNs itself with a closed window, connects when the client has
/// acknowledged, then opens the window.
#[derive(Default)]
pub(crate) struct SynProxy {
    /// What the proxy's sequence numbers are ahead of the server's, by client.
    ahead: HashMap<End, u32>,
}

pub(crate) const PROXY_SEQ: u32 = 5_000;

impl Between for SynProxy {
    fn pass(&mut self, frame: Vec<u8>, to_server: bool) -> Vec<(Vec<u8>, bool)> {
        let mut segment = Incoming::read(&frame).unwrap();
        let (src, dst) = (segment.src, segment.dst);
        if !to_server {
            let opens = segment.has(SYN);
            if opens {
                self.ahead.insert(dst, PROXY_SEQ.wrapping_sub(segment.seq));
                segment.flags = ACK;
                segment.seq = segment.seq.wrapping_add(1);
            }
            let seq = segment.seq.wrapping_add(self.ahead[&dst]);
            return vec![(
                rewritten(&segment, (src, dst), (seq, segment.ack), &[]),
                false,
            )];
        }
        if segment.has(SYN) {
            (segment.flags, segment.window) = (SYN | ACK, 0);
            let numbers = (PROXY_SEQ, segment.seq.wrapping_add(1));
            return vec![(rewritten(&segment, (dst, src), numbers, &[]), false)];
        }
        let Some(ahead) = self.ahead.get(&src) else {
            segment.flags = SYN;
            let numbers = (segment.seq.wrapping_sub(1), 0);
            return vec![(rewritten(&segment, (src, dst), numbers, &[]), true)];
        };
        let ack = segment.ack.wrapping_sub(*ahead);
        vec![(
            rewritten(&segment, (src, dst), (segment.seq, ack), &[]),
            true,
        )]
    }
}

/// Refuses every connection, or resets each at its first request.
pub(crate) struct Resetting {
    pub(crate) at_once: bool,
}

impl Between for Resetting {
    fn pass(&mut self, frame: Vec<u8>, to_server: bool) -> Vec<(Vec<u8>, bool)> {
        let mut segment = Incoming::read(&frame).unwrap();
        let (src, dst) = (segment.src, segment.dst);
        if !to_server || !(self.at_once || segment.has(PSH)) {
            return vec![(frame, to_server)];
        }
        // A kernel refuses with an acknowledgment, and resets without (RFC 9293, 3.5.2).
        let numbers = if self.at_once {
            (0, segment.end())
        } else {
            (segment.ack, 0)
        };
        segment.flags = if self.at_once { RST | ACK } else { RST };
        segment.payload = &[];
        vec![(rewritten(&segment, (dst, src), numbers, &[]), false)]
    }
}

/// Frames on their way, by the time at which they arrive.
pub(crate) struct Net<B> {
    pub(crate) client: Client,
    pub(crate) server: Server,
    pub(crate) between: B,
    /// Frames are delayed by up to so many steps, each by chance.
    pub(crate) spread: u64,
    flying: BTreeMap<(u64, u64), (Vec<u8>, bool)>,
    launched: u64,
    pub(crate) now_ns: u64,
}

impl<B: Between> Net<B> {
    pub(crate) fn new(client: Client, server: Server, between: B) -> Self {
        let flying = BTreeMap::new();
        Self {
            client,
            server,
            between,
            spread: 1,
            flying,
            launched: 0,
            now_ns: 0,
        }
    }

    pub(crate) fn launch(&mut self, segment: &Outgoing, to_server: bool) {
        for (frame, to_server) in self.between.pass(written(segment), to_server) {
            let delay = 1 + mix(self.launched) % self.spread;
            self.launched += 1;
            let at = (self.now_ns + delay * STEP_NS, self.launched);
            self.flying.insert(at, (frame, to_server));
        }
    }

    pub(crate) fn step(&mut self) {
        self.server.pass(self.now_ns);
        let due = self.client.due(self.now_ns);
        let syns: Vec<Outgoing> = self.client.syns().take(due as usize).collect();
        self.client.opened(due);
        let mut timed = Vec::new();
        self.client.timed(self.now_ns, 64, &mut timed);
        for segment in syns.iter().chain(&timed) {
            self.launch(segment, true);
        }
        let mut answers = Vec::new();
        self.server.send(self.now_ns, 64, &mut answers);
        self.server.sent(&answers, answers.len());
        for segment in &answers {
            self.launch(segment, false);
        }
        while let Some(first) = self
            .flying
            .first_entry()
            .filter(|one| one.key().0 <= self.now_ns)
        {
            let (frame, to_server) = first.remove();
            let segment = Incoming::read(&frame).unwrap();
            let reply = if to_server {
                self.server.react_at(0, &segment, self.now_ns)
            } else {
                self.client.react(&segment, self.now_ns)
            };
            if let Some(reply) = reply {
                self.launch(&reply, !to_server);
            }
        }
        let counts = self.client.counts();
        let ended = counts.completed + counts.refused + counts.reset + counts.timed_out();
        assert_eq!(counts.opened, ended + counts.unfinished);
        self.now_ns += STEP_NS;
    }

    /// Until every connection has ended and every frame has arrived.
    pub(crate) fn run(mut self) -> Self {
        for _ in 0..MOST_STEPS {
            if self.client.is_done() && self.flying.is_empty() {
                return self;
            }
            self.step();
        }
        panic!(
            "not done after {} ns: {:?}",
            self.now_ns,
            self.client.counts()
        );
    }
}
