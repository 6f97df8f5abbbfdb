//! How many frames a second one core writes, by kind of stream. Rounds over all
//! kinds are repeated, so that a noisy machine shows as spread, not as a
//! difference between kinds.
//!
//! `cargo run --release -p pinchpoint-traffic --example frames_per_second [rounds]`

use pinchpoint_traffic::program::{BurstSender, FrameProgram, FrameWriter};
use pinchpoint_traffic::spec::{
    FieldProgram, FieldRef, Layer, Op, Sizes, StreamSpec, Template, Wrong, imix,
};
use pinchpoint_wire::ethernet::Mac;
use std::hint::black_box;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

const BURST: usize = 64;
const SLOT: usize = 2048;
const TURN: Duration = Duration::from_millis(100);

/// Takes every frame of a burst.
struct Discard<'a>(&'a mut [u8]);

impl BurstSender for Discard<'_> {
    #[inline(always)]
    fn send<W: FrameWriter>(self, writer: &mut W) -> u64 {
        for (index, slot) in self.0.chunks_exact_mut(SLOT).enumerate() {
            let len = writer.len(index);
            writer.write(index, &mut slot[..len]);
        }
        black_box(self.0);
        BURST as u64
    }
}

fn eth() -> Layer {
    Layer::Ethernet {
        src: Mac([2, 0, 0, 0, 0, 1]),
        dst: Mac([2, 0, 0, 0, 0, 2]),
        ethertype: None,
    }
}

fn ipv4() -> Layer {
    Layer::Ipv4 {
        src: Ipv4Addr::new(16, 0, 0, 1),
        dst: Ipv4Addr::new(48, 0, 0, 1),
        ttl: 64,
        dscp: 0,
        ecn: 0,
        identification: 0,
        dont_fragment: true,
        protocol: None,
        options: Vec::new(),
    }
}

fn ipv6() -> Layer {
    Layer::Ipv6 {
        src: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1),
        dst: Ipv6Addr::new(0xfd00, 1, 0, 0, 0, 0, 0, 1),
        hop_limit: 64,
        traffic_class: 0,
        flow_label: 0,
        next_header: None,
        extensions: Vec::new(),
    }
}

fn udp(dst: u16) -> Layer {
    Layer::Udp { src: 1025, dst }
}

fn syn() -> Layer {
    Layer::Tcp {
        src: 1025,
        dst: 80,
        seq: 1,
        ack: 0,
        flags: 2,
        window: 65_535,
        options: Vec::new(),
    }
}

fn op(step: i64, count: u64) -> Op {
    Op::Increment { step, count }
}

fn spec(sizes: Sizes, layers: Vec<Layer>, fields: Vec<(&str, Op)>) -> StreamSpec {
    let counts = fields.iter().map(|(_, op)| match op {
        Op::Increment { count, .. } | Op::Random { count, .. } => *count,
        Op::List(values) => values.len() as u64,
        Op::Zipf { .. } => 1,
    });
    let flows = counts.product();
    let field = |(field, op): (&str, Op)| FieldProgram {
        field: field.parse::<FieldRef>().expect("a field"),
        op,
    };
    StreamSpec {
        together: false,
        id: 1,
        epoch: 1,
        seed: 1,
        part: 0,
        stamped: true,
        sizes,
        template: Template::Layers(layers),
        wrong: Wrong::default(),
        flows,
        first_flow: 0,
        fields: fields.into_iter().map(field).collect(),
    }
}

fn kinds() -> Vec<(&'static str, StreamSpec)> {
    let clients = |prefix: &str| {
        let (src, dst) = match prefix {
            "ipv4" => ("ipv4.src", "ipv4.dst"),
            _ => ("ipv6.src", "ipv6.dst"),
        };
        vec![(dst, op(1, 65_535)), (src, op(1, 255))]
    };
    let random = |min, max, count| Op::Random { min, max, count };
    let zipf = Op::Zipf {
        count: 1_000_000,
        exponent: 1.1,
        step: 1,
    };
    let vxlan = vec![
        eth(),
        ipv4(),
        udp(4789),
        Layer::Vxlan { vni: 7 },
        eth(),
        ipv4(),
        udp(12),
    ];
    let five_random = vec![
        ("ipv4.src", random(0, u64::from(u32::MAX), 1 << 24)),
        ("udp.src", op(1, 3)),
    ];
    let fixed = Sizes::Fixed;
    let v4 = || vec![eth(), ipv4(), udp(12)];
    vec![
        (
            "UDP/IPv4 60 B, the fast path",
            spec(fixed(60), v4(), clients("ipv4")),
        ),
        (
            "UDP/IPv4 60 B, ttl: general",
            spec(fixed(60), v4(), vec![("ipv4.ttl", op(1, 200))]),
        ),
        (
            "TCP SYN 72 B",
            spec(fixed(72), vec![eth(), ipv4(), syn()], clients("ipv4")),
        ),
        (
            "UDP/IPv6 80 B",
            spec(fixed(80), vec![eth(), ipv6(), udp(12)], clients("ipv6")),
        ),
        (
            "VXLAN 110 B, inner and outer",
            spec(
                fixed(110),
                vxlan,
                vec![("ipv4[1].dst", op(1, 65_535)), ("vxlan.vni", op(1, 255))],
            ),
        ),
        (
            "UDP/IPv4 60 B, random sources",
            spec(fixed(60), v4(), five_random),
        ),
        (
            "UDP/IPv4 60 B, Zipf",
            spec(fixed(60), v4(), vec![("ipv4.dst", zipf)]),
        ),
        (
            "simple IMIX",
            spec(imix("simple").expect("a mix"), v4(), clients("ipv4")),
        ),
        (
            "random 60 to 1514 B",
            spec(Sizes::Random { min: 60, max: 1514 }, v4(), clients("ipv4")),
        ),
    ]
}

/// Frames per second over one turn.
#[inline(never)]
fn measure(program: &mut FrameProgram, slots: &mut [u8]) -> f64 {
    let start = Instant::now();
    let mut frames = 0;
    loop {
        for _ in 0..256 {
            frames += program.send(frames, Discard(slots));
        }
        let elapsed = start.elapsed();
        if elapsed >= TURN {
            return frames as f64 / elapsed.as_secs_f64();
        }
    }
}

fn main() {
    let rounds = std::env::args().nth(1).and_then(|text| text.parse().ok());
    let rounds: usize = rounds.unwrap_or(9);
    let mut slots = vec![0; BURST * SLOT];
    let kinds = kinds();
    let programs = kinds
        .iter()
        .map(|(_, spec)| FrameProgram::new(spec).expect("a stream"));
    let mut programs: Vec<_> = programs.collect();
    let mut rates = vec![Vec::new(); kinds.len()];
    for _ in 0..rounds {
        for (program, rates) in programs.iter_mut().zip(&mut rates) {
            rates.push(measure(program, &mut slots) / 1e6);
        }
    }
    println!(
        "{:<34} {:>8} {:>8} {:>8}  M frames/s",
        "", "least", "median", "most"
    );
    for ((name, _), rates) in kinds.iter().zip(&mut rates) {
        rates.sort_by(f64::total_cmp);
        let (least, most) = (rates[0], rates[rates.len() - 1]);
        println!(
            "{name:<34} {least:>8.1} {:>8.1} {most:>8.1}",
            rates[rates.len() / 2]
        );
    }
}
