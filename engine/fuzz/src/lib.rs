//! What is fuzzed, and what must hold whatever the input is.
//!
//! Each target is one function over bytes that panics if the engine breaks a
//! promise. The same functions run in the ordinary tests (`tests/short.rs`,
//! the corpus and changed copies of it) and under libFuzzer (`./run`).

// Targets exist to panic; what about is their documentation.
#![allow(clippy::missing_panics_doc)]

mod balancer;
mod connections;
mod receive;
mod text;

pub use balancer::balancer;
pub use connections::connections;
pub use receive::{account, frame};
pub use text::{pcap, protocol, trex};

/// A fuzz target.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name, and that of its folder in `corpus/`.
    pub name: &'static str,
    /// Runs one input; panics if a promise is broken.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: [Target; 7] = [
    Target {
        name: "account",
        run: account,
    },
    Target {
        name: "balancer",
        run: balancer,
    },
    Target {
        name: "connections",
        run: connections,
    },
    Target {
        name: "frame",
        run: frame,
    },
    Target {
        name: "pcap",
        run: pcap,
    },
    Target {
        name: "protocol",
        run: protocol,
    },
    Target {
        name: "trex",
        run: trex,
    },
];
