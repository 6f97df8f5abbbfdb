//! A balancer in XDP: a table of Maglev's hash, and direct return.
//!
//! A TCP segment to the virtual server gets the Ethernet address of the backend that the hash of
//! its client's address and port leads to, and leaves by another interface. Nothing else of it
//! changes, and nothing is remembered; the backend answers the client itself. All other frames go
//! on to the stack, which answers questions where the virtual server is.
//!
//! The program runs in the stack ("generic"), behind the driver: it then needs nothing of the
//! interface by which frames leave, and receive packet steering says on which processor it runs.

use crate::bpf::asm::{Assembler, Helper, If, Instruction, Op, Reg, Width};
use crate::bpf::attach::{self, Place};
use crate::bpf::{AttachMode, Link, Program, ProgramKind, SharedArray};
use crate::xdp_sink::{LINE_SHIFT, WORDS_PER_LINE, possible_processors};
use crate::{OpenError, interface, netns};
use pinchpoint_wire::ethernet::{ETHERTYPE_IPV4, Mac};
use std::net::SocketAddrV4;

/// Places of the table: 2 to this power.
const TABLE_BITS: i32 = 12;
const PLACES: usize = 1 << TABLE_BITS;
/// Ethernet, IPv4 without options, TCP without options.
const HEADERS: i32 = 14 + 20 + 20;
/// `XDP_PASS` (linux/bpf.h).
const PASS: i32 = 2;
const TCP: i32 = 6;
/// Version 4, five words of header.
const PLAIN_IPV4: i32 = 0x45;
/// More fragments, and the offset of one, in the two bytes as the processor reads them.
const FRAGMENT: i32 = 0xff3f;
/// Of the hash: 2^64 over the golden ratio.
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
/// Free places of a table in the making.
const FREE: u16 = u16::MAX;

/// A virtual server and what is behind it.
#[derive(Debug, Clone)]
pub struct Virtual {
    /// Its address and port.
    pub service: SocketAddrV4,
    /// The Ethernet address from which its frames leave.
    pub own: Mac,
    /// Those of the backends, by number.
    pub backends: Vec<Mac>,
}

/// An interface that balances, until this value goes.
pub struct XdpBalancer {
    counters: SharedArray,
    processors: usize,
    _table: SharedArray,
    _link: Link,
}

impl XdpBalancer {
    /// Attaches to the interface `from`, whose frames leave by `to`, in the network namespace
    /// `netns` if given.
    ///
    /// # Errors
    /// [`OpenError`], also if another program is attached there.
    pub fn attach(
        from: &str,
        to: &str,
        netns: Option<&str>,
        wanted: &Virtual,
    ) -> Result<Self, OpenError> {
        netns::within(netns, || Self::attach_here(from, to, netns, wanted))
    }

    fn attach_here(
        from: &str,
        to: &str,
        netns: Option<&str>,
        wanted: &Virtual,
    ) -> Result<Self, OpenError> {
        let mut place = Place {
            device: from,
            netns,
            index: 0,
        };
        let index = |device: &str, place: Place<'_>| {
            interface::index_of(device).map_err(|error| place.failed("interface", &error))
        };
        place.index = index(from, place)?;
        let leaving = Place {
            device: to,
            ..place
        };
        let out = index(to, leaving)?;
        let failed = |error| place.failed("XDP program", &error);
        let processors = possible_processors();
        let counters = SharedArray::new(processors * WORDS_PER_LINE).map_err(failed)?;
        let table = SharedArray::new(PLACES).map_err(failed)?;
        fill(&table, &wanted.backends);
        let code = program(&table, &counters, processors, wanted, out);
        let program = Program::load(ProgramKind::Xdp, "pinchpoint_lb", &code).map_err(failed)?;
        let (link, _) = attach::attach(&program, place, Some(AttachMode::Generic))?;
        Ok(Self {
            counters,
            processors,
            _table: table,
            _link: link,
        })
    }

    /// Segments that were sent to a backend.
    pub fn balanced(&self) -> u64 {
        let lines = 0..self.processors;
        lines
            .map(|line| self.counters.get(line * WORDS_PER_LINE))
            .sum()
    }
}

/// Writes each place's Ethernet address into the table.
fn fill(table: &SharedArray, backends: &[Mac]) {
    let words: Vec<u64> = backends.iter().map(|&mac| word(mac)).collect();
    for (place, backend) in maglev(&words, PLACES).into_iter().enumerate() {
        table.set(place, words[usize::from(backend)]);
    }
}

/// An Ethernet address as the low bytes of a word that a little-endian processor stores.
fn word(Mac([a, b, c, d, e, f]): Mac) -> u64 {
    u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
}

/// The backend of each place (Eisenbud et al., Maglev, NSDI 2016, section 3.4): they choose in
/// turn, each by an order of its own, so that a backend that leaves hardly moves the others.
///
/// Their steps are odd, so that each order of a power of two of places has all of them.
fn maglev(names: &[u64], places: usize) -> Vec<u16> {
    let mut table = vec![FREE; places];
    let mut next: Vec<(usize, usize)> = names
        .iter()
        .map(|&name| {
            let hash = mixed(name);
            (hash as usize % places, ((hash >> 32) as usize % places) | 1)
        })
        .collect();
    let mut free = if next.is_empty() { 0 } else { places };
    while free > 0 {
        for (number, (at, step)) in next.iter_mut().enumerate().take(free) {
            while table[*at] != FREE {
                *at = (*at + *step) % places;
            }
            table[*at] = number as u16;
            free -= 1;
        }
    }
    table
}

/// As the program mixes.
fn mixed(name: u64) -> u64 {
    let once = (name ^ (name >> 32)).wrapping_mul(ODD);
    (once ^ (once >> 29)).wrapping_mul(ODD)
}

fn program(
    table: &SharedArray,
    counters: &SharedArray,
    processors: usize,
    wanted: &Virtual,
    out: u32,
) -> Vec<Instruction> {
    const FRAME: Reg = Reg::R7;
    let mut asm = Assembler::new();
    let (pass, counted) = (asm.label(), asm.label());
    asm.load(Width::W4, FRAME, Reg::R1, 0)
        .load(Width::W4, Reg::R8, Reg::R1, 4)
        .mov(Reg::R2, FRAME)
        .op(Op::Add, Reg::R2, HEADERS)
        .jump_if(If::Greater, Reg::R2, Reg::R8, pass);
    let ethertype = u16::from_le_bytes(ETHERTYPE_IPV4.to_be_bytes());
    let port = u16::from_le_bytes(wanted.service.port().to_be_bytes());
    for (width, at, value) in [
        (Width::W2, 12, i32::from(ethertype)),
        (Width::W1, 14, PLAIN_IPV4),
        (Width::W1, 23, TCP),
        (Width::W2, 36, i32::from(port)),
    ] {
        asm.load(width, Reg::R3, FRAME, at)
            .jump_if(If::NotEqual, Reg::R3, value, pass);
    }
    let address = u32::from_le_bytes(wanted.service.ip().octets());
    asm.load(Width::W2, Reg::R3, FRAME, 20)
        .op(Op::And, Reg::R3, FRAGMENT)
        .jump_if(If::NotEqual, Reg::R3, 0, pass)
        .load(Width::W4, Reg::R3, FRAME, 30)
        .number(Reg::R4, address.into())
        .jump_if(If::NotEqual, Reg::R3, Reg::R4, pass);
    hash(&mut asm, FRAME);
    // The place is below `PLACES` for the verifier, too: the shift says so.
    asm.op(Op::Rsh, Reg::R3, 64 - TABLE_BITS)
        .op(Op::Lsh, Reg::R3, 3)
        .map_value(Reg::R2, table.fd(), 0)
        .op(Op::Add, Reg::R2, Reg::R3)
        .load(Width::W8, Reg::R3, Reg::R2, 0);
    let own = word(wanted.own);
    asm.store(Width::W4, FRAME, 0, Reg::R3)
        .op(Op::Rsh, Reg::R3, 32)
        .store(Width::W2, FRAME, 4, Reg::R3)
        .store(Width::W4, FRAME, 6, own as i32)
        .store(Width::W2, FRAME, 10, (own >> 32) as i32);
    asm.call(Helper::GetSmpProcessorId)
        // Never so, but the verifier wants to see it.
        .jump_if(If::Greater, Reg::R0, processors as i32 - 1, counted)
        .op(Op::Lsh, Reg::R0, LINE_SHIFT)
        .map_value(Reg::R1, counters.fd(), 0)
        .op(Op::Add, Reg::R1, Reg::R0)
        .load(Width::W8, Reg::R2, Reg::R1, 0)
        .op(Op::Add, Reg::R2, 1)
        .store(Width::W8, Reg::R1, 0, Reg::R2)
        .place(counted)
        .mov(Reg::R1, out as i32)
        .mov(Reg::R2, 0)
        .call(Helper::Redirect)
        .exit()
        .place(pass)
        .mov(Reg::R0, PASS)
        .exit();
    asm.finish()
}

/// `R3` = [`mixed`] of the client's address and port; `R4` is lost.
fn hash(asm: &mut Assembler, frame: Reg) {
    asm.load(Width::W4, Reg::R3, frame, 26)
        .load(Width::W2, Reg::R4, frame, 34)
        .op(Op::Lsh, Reg::R4, 32)
        .op(Op::Xor, Reg::R3, Reg::R4);
    for shift in [32, 29] {
        asm.mov(Reg::R4, Reg::R3)
            .op(Op::Rsh, Reg::R4, shift)
            .op(Op::Xor, Reg::R3, Reg::R4)
            .number(Reg::R4, ODD)
            .op(Op::Mul, Reg::R3, Reg::R4);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const REDIRECT: u32 = 4;

    fn macs(count: u8) -> Vec<Mac> {
        (0..count)
            .map(|last| Mac([2, 0, 0, 0, 0x0b, last]))
            .collect()
    }

    fn table_of(backends: &[Mac]) -> Vec<u16> {
        let words: Vec<u64> = backends.iter().map(|&mac| word(mac)).collect();
        maglev(&words, PLACES)
    }

    #[test]
    fn backends_have_equal_parts_of_the_table_and_one_that_leaves_hardly_moves_the_others() {
        let five = table_of(&macs(5));
        for backend in 0..5 {
            let places = five.iter().filter(|&&number| number == backend).count();
            assert!(places.abs_diff(PLACES / 5) <= 1, "{backend}: {places}");
        }
        let four = table_of(&macs(4));
        let stayed = five.iter().zip(&four).filter(|(before, _)| **before < 4);
        let moved = stayed.filter(|(before, after)| before != after).count();
        // A modulo would move three quarters.
        assert!(moved < PLACES / 10, "{moved} of {PLACES}");
    }

    fn segment(client: [u8; 4], port: u16, to: [u8; 4], to_port: u16) -> Vec<u8> {
        let mut frame = vec![0; 60];
        frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
        frame[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
        frame[23] = 6;
        frame[26..30].copy_from_slice(&client);
        frame[30..34].copy_from_slice(&to);
        frame[34..36].copy_from_slice(&port.to_be_bytes());
        frame[36..38].copy_from_slice(&to_port.to_be_bytes());
        frame
    }

    #[test]
    #[ignore = "needs root"]
    fn segments_of_the_service_go_to_the_backend_of_their_hash_and_others_to_the_stack() {
        let vip = [200, 0, 0, 100];
        let wanted = Virtual {
            service: SocketAddrV4::new(Ipv4Addr::from(vip), 80),
            own: Mac([2, 0, 0, 0, 0, 9]),
            backends: macs(3),
        };
        let processors = possible_processors();
        let counters = SharedArray::new(processors * WORDS_PER_LINE).unwrap();
        let table = SharedArray::new(PLACES).unwrap();
        fill(&table, &wanted.backends);
        let code = program(&table, &counters, processors, &wanted, 1);
        let loaded = Program::load(ProgramKind::Xdp, "pinchpoint_lb", &code).unwrap();
        let mut seen = [0; 3];
        for port in 1025..1325 {
            let client = [10, 0, 1, (port % 50) as u8];
            let before = segment(client, port, vip, 80);
            let (result, after) = loaded.run_once(&before).unwrap();
            assert_eq!(result, REDIRECT);
            assert_eq!(after[6..12], wanted.own.0);
            assert_eq!(after[12..], before[12..], "nothing else changes");
            let name = u64::from(u32::from_le_bytes(client));
            let place = mixed(name ^ (u64::from(port.swap_bytes()) << 32)) >> (64 - TABLE_BITS);
            let backend = table_of(&wanted.backends)[place as usize];
            assert_eq!(after[..6], wanted.backends[usize::from(backend)].0);
            seen[usize::from(backend)] += 1;
        }
        assert!(seen.iter().all(|&count| count > 50), "{seen:?}");
        let mut fragment = segment([10, 0, 1, 1], 1025, vip, 80);
        fragment[20] = 0x20;
        for other in [
            segment([10, 0, 1, 1], 1025, vip, 81),
            segment([10, 0, 1, 1], 1025, [10, 0, 0, 1], 80),
            fragment,
        ] {
            let (result, after) = loaded.run_once(&other).unwrap();
            assert_eq!((result, after), (PASS as u32, other));
        }
    }
}
