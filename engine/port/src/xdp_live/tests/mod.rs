//! Live frames: what the program makes, what arrives, what the interface does.

mod interface;
mod made;
mod refusals;
mod wire;

use super::*;
use pinchpoint_traffic::program::{BurstSender, FrameProgram, FrameWriter};
use pinchpoint_traffic::recipe::Recipe;
use pinchpoint_traffic::spec::{FieldProgram, Layer, Op, Sizes, StreamSpec, Template, Wrong};
use pinchpoint_wire::signature::{self, Reading, Signature};
use std::net::Ipv4Addr;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(60);
const IP_AT: usize = 14;
const UDP_AT: usize = IP_AT + 20;

type Varying = (&'static str, i64, u64);

fn spec(len: usize, flows: u64, fields: &[Varying]) -> StreamSpec {
    let program = |&(name, step, count): &Varying| FieldProgram {
        field: name.parse().unwrap(),
        op: Op::Increment { step, count },
    };
    let ethernet = Layer::Ethernet {
        src: Mac([2, 0, 0, 0, 0, 1]),
        dst: Mac([2, 0, 0, 0, 0, 2]),
        ethertype: None,
    };
    let ipv4 = Layer::Ipv4 {
        src: Ipv4Addr::new(16, 0, 0, 1),
        dst: Ipv4Addr::new(48, 0, 0, 1),
        ttl: 64,
        dscp: 10,
        ecn: 0,
        identification: 0,
        dont_fragment: true,
        protocol: None,
        options: Vec::new(),
    };
    let udp = Layer::Udp {
        src: 65_530,
        dst: 12,
    };
    StreamSpec {
        together: false,
        id: 7,
        epoch: 3,
        seed: 0,
        part: 0,
        stamped: true,
        sizes: Sizes::Fixed(len),
        template: Template::Layers(vec![ethernet, ipv4, udp]),
        wrong: Wrong::default(),
        flows,
        first_flow: 0,
        fields: fields.iter().map(program).collect(),
    }
}

/// Writes one frame.
struct One<'a>(&'a mut Vec<u8>);

impl BurstSender for One<'_> {
    fn send<W: FrameWriter>(self, writer: &mut W) -> u64 {
        self.0.resize(writer.len(0), 0);
        writer.write(0, self.0);
        1
    }
}

/// The frame that comes next, sent at `time_ns`.
fn written(program: &mut FrameProgram, time_ns: u64) -> Vec<u8> {
    let mut frame = Vec::new();
    program.send(time_ns, One(&mut frame));
    frame
}

fn live(spec: &StreamSpec) -> LiveStream {
    let recipe = Recipe::new(spec).unwrap();
    let edits = recipe.fields.iter().map(|field| LiveEdit {
        offset: field.offset,
        width: field.width,
        base: field.base,
        step: field.step,
        mask: field.mask,
        count: field.count,
    });
    let checksums = recipe.checksums.iter().map(|check| LiveChecksum {
        offset: check.offset,
        udp: check.avoids_zero,
        edits: check.fields.clone(),
    });
    LiveStream {
        id: spec.id,
        epoch: spec.epoch,
        flows: spec.flows,
        first_flow: 0,
        edits: edits.collect(),
        checksums: checksums.collect(),
        template: recipe.frame,
    }
}

fn live_port(device: &str, netns: &str) -> XdpLivePort {
    let spec = PortSpec {
        name: "port".to_owned(),
        backend: Backend::XdpLive,
        device: device.to_owned(),
        netns: Some(netns.to_owned()),
        rx_ring: 4_096,
        tx_ring: 512,
        queues: 1,
    };
    XdpLivePort::open(&spec).unwrap()
}

fn signature_of(frame: &[u8]) -> Signature {
    match signature::read(frame) {
        Reading::Intact(signature) => signature,
        other => panic!("{other:?}"),
    }
}
