//! Options that commands have in common.

use super::numbers;
use super::ranges::{self, Answer};
use clap::Args;

/// How ports are driven.
#[derive(Debug, Args)]
pub struct EngineArgs {
    /// Cores to use, with one worker each. Ports are assigned to them in turn
    /// [default: the first core]
    #[arg(long, value_name = "N,N", value_delimiter = ',')]
    pub cores: Vec<usize>,
    /// Give every core a queue of every port instead; each sends its part of a stream
    #[arg(long)]
    pub queues: bool,
    /// Frames in each receive ring
    #[arg(long, value_name = "N", default_value_t = 1024)]
    pub rx_ring: u32,
    /// Frames in each transmit ring
    #[arg(long, value_name = "N", default_value_t = 1024)]
    pub tx_ring: u32,
    /// Arguments for DPDK's environment layer, as one word [default: --in-memory; for
    /// virtual devices also --no-pci --single-file-segments -m 256]
    #[arg(long, value_name = "ARGS", allow_hyphen_values = true)]
    pub eal: Option<String>,
    /// Answer ARP and neighbour solicitations for an address. @from or @to: only the ports
    /// of that side answer
    #[arg(long, value_name = "IP=MAC", value_parser = ranges::answer)]
    pub answer: Vec<Answer>,
    /// How long to wait for links to come up
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = numbers::seconds)]
    pub link_timeout: f64,
    /// Keep the first frames sent and received in a new pcapng file. Meanwhile frames leave in bursts,
    /// and those of a burst have one time stamp
    #[arg(long, value_name = "FILE")]
    pub capture: Option<String>,
    /// Number of sent and of received frames to keep, each
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub capture_frames: usize,
}

/// What is reported, and where.
#[derive(Debug, Args)]
pub struct OutputArgs {
    /// Print the protocol's result line instead of the table
    #[arg(long)]
    pub json: bool,
    /// Print the protocol lines that would be sent, and stop
    #[arg(long)]
    pub dry_run: bool,
    /// Print no progress on stderr
    #[arg(long, short)]
    pub quiet: bool,
}
