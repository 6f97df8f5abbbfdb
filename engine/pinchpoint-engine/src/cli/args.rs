//! The command line, and its help.

use super::balance_args::BalanceArgs;
use super::balance_xdp::BalanceXdpArgs;
use super::connect_args::{ConnectArgs, ServeArgs};
use super::engine_args::{EngineArgs, OutputArgs};
use super::forward_args::ForwardArgs;
use super::inspect::InspectArgs;
use super::numbers::{self, Pace};
use super::ports::{self, PortArg, Target};
use super::ranges;
use super::reflect::ReflectArgs;
use super::relay_args::RelayArgs;
use super::sockets_args::{CrrArgs, RrArgs, StreamArgs};
use crate::protocol::{FieldRequest, Mac, Size, TcpFlag};
use crate::text::{self, Addresses};
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use std::path::PathBuf;

/// What stands behind the options of `--help`.
const EXAMPLES: &str = "\
Ports are written BACKEND:DEVICE[@NETNS]: af_packet:veth0@ns1, af_xdp:eth0,queue=2,
xdp_live:veth2, dpdk:0000:01:00.0, dpdk:net_virtio_user0,path=S,server=1, mem:pair.

Examples:
  Which backends can be used here:
    pinchpoint-engine backends
  A million frames a second from one end of a switch to the other, for 10 s:
    pinchpoint-engine send --from af_packet:veth0@ns1 --to af_packet:veth1@ns2 --rate 1M
  65,536 flows of a mix of sizes at half the line rate, both ways:
    pinchpoint-engine send --from dpdk:0000:01:00.0 --to dpdk:0000:01:00.1 --both-ways \\
        --rate 50% --size imix:simple --flows 65536
  As fast as the core allows, without a receiver:
    pinchpoint-engine send --from xdp_live:veth2 --rate max --time 5s
  Count what arrives, until Ctrl-C:
    pinchpoint-engine listen af_packet:veth1@ns2
  Transactions a second through the kernel, from one namespace to another:
    pinchpoint-engine rr --client ns1 --server ns2 --address 10.0.0.2 --repeats 5
  New connections through a balancer, 20,000 a second; see connect --help:
    pinchpoint-engine connect af_packet:veth1@ns1 af_packet:veth2@ns2 --to 10.0.0.100:80 \\
        --backend 10.1.0.1:80 --rate 20k
  The engine alone, without a device:
    pinchpoint-engine send --from mem:pair --to mem:pair --rate max --time 1s

Without arguments the engine speaks JSON lines on stdin and stdout; see --help-protocol.

Exit status: 0 done, 1 failed or aborted, 2 bad command line, 3 a port could not be
opened, 130 after Ctrl-C (the trial stops in order and is reported), 143 after SIGTERM.";

/// What stands behind the options of `send` and `listen`.
const DRY_RUN: &str = "With --json, --dry-run prints a line {\"notes\": [...]} first.";

/// Sends, receives, counts and times frames.
#[derive(Debug, Parser)]
#[command(
    name = "pinchpoint-engine",
    version,
    after_help = EXAMPLES,
    disable_help_subcommand = true,
    max_term_width = 100
)]
pub struct Cli {
    /// Explain the JSON lines protocol, with an example to pipe in
    #[arg(long)]
    pub help_protocol: bool,
    /// What to do.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Send frames, and account for those that arrive
    Send(Box<SendArgs>),
    /// Only receive, and count what arrives
    Listen(Box<ListenArgs>),
    /// Measure requests and responses on standing connections over kernel sockets
    Rr(Box<RrArgs>),
    /// Measure connections over kernel sockets: connect, request, response, close
    Crr(Box<CrrArgs>),
    /// Measure throughput from a client to a server over kernel sockets
    Stream(Box<StreamArgs>),
    /// Open TCP connections over frames, and account for each
    Connect(Box<ConnectArgs>),
    /// Answer TCP connections over frames, as any number of backends
    Serve(Box<ServeArgs>),
    /// Join ports in pairs: what arrives at one leaves through the other
    Relay(Box<RelayArgs>),
    /// Say what arrives: rate, bursts, sizes, flows and checksums
    Inspect(Box<InspectArgs>),
    /// Send frames back with source and destination swapped
    Reflect(Box<ReflectArgs>),
    /// Forward between two ports as a device of known rate, ring, losses and pauses
    Forward(Box<ForwardArgs>),
    /// Balance TCP connections between two ports as a device of known limits, time-outs and faults
    Balance(Box<BalanceArgs>),
    /// Balance TCP connections in the kernel by an XDP program: Maglev's hash, direct return
    BalanceXdp(Box<BalanceXdpArgs>),
    /// List the backends: which can be used here, why others cannot, and what to do about it
    Backends(BackendsArgs),
    /// Print a completion script for a shell
    #[command(alias = "completions")]
    Completion {
        /// For which shell
        shell: Shell,
    },
}

/// `send`.
#[derive(Debug, Args)]
#[command(after_help = DRY_RUN)]
pub struct SendArgs {
    /// Where frames come from. Several: --from A --to B --from C --to D
    #[arg(long, value_name = "PORT", required = true, value_parser = ports::port)]
    #[arg(help_heading = "Path")]
    pub from: Vec<PortArg>,
    /// Where they are expected. 'none', or no --to at all: frames are only sent
    #[arg(long, value_name = "PORT", value_parser = ports::target, help_heading = "Path")]
    pub to: Vec<Target>,
    /// Send from each --to to its --from as well, with source and destination swapped;
    /// frames of --layers and --pcap are the same both ways, those of --trex the server's
    #[arg(long, help_heading = "Path")]
    pub both_ways: bool,
    #[command(flatten, next_help_heading = "Load")]
    #[allow(missing_docs)]
    pub load: LoadArgs,
    #[command(flatten, next_help_heading = "Frames")]
    #[allow(missing_docs)]
    pub frames: FrameArgs,
    #[command(flatten, next_help_heading = "Flows")]
    #[allow(missing_docs)]
    pub flows: FlowArgs,
    #[command(flatten, next_help_heading = "Engine")]
    #[allow(missing_docs)]
    pub engine: EngineArgs,
    #[command(flatten, next_help_heading = "Measurement")]
    #[allow(missing_docs)]
    pub measure: MeasureArgs,
    #[command(flatten, next_help_heading = "Output")]
    #[allow(missing_docs)]
    pub output: OutputArgs,
}

/// How much to send.
#[derive(Debug, Args)]
pub struct LoadArgs {
    /// Of each stream, or of all frames of --pcap together: frames a second (1M), bits a
    /// second at L1 (10Gbit) or L2 (10Gbit-l2), a share of the line rate (50%), or max; with
    /// --replay also 1x, at the times of the capture, 2x, twice as fast [default: 100k, or 1x
    /// with --replay]
    #[arg(long, default_value = "100k", hide_default_value = true, value_parser = numbers::pace)]
    #[arg(default_value_if("replay", "true", Some("1x")))]
    pub rate: Pace,
    /// How long to send: 10s, 500ms, 2m [default: 10s, the duration of the --trex profile, or
    /// once the capture with --replay at 1x or another multiple]
    #[arg(long, value_parser = numbers::seconds)]
    pub time: Option<f64>,
    /// Send in bursts of N frames, at the same mean rate
    #[arg(long, value_name = "N", value_parser = numbers::count, conflicts_with = "ramp")]
    pub burst: Option<u64>,
    /// Send at random times that do not depend on each other, at the same mean rate
    #[arg(long, conflicts_with_all = ["burst", "ramp"])]
    pub poisson: bool,
    /// Raise the rate linearly from this share of --rate to --rate
    #[arg(long, value_name = "SHARE", value_parser = numbers::share)]
    pub ramp: Option<f64>,
    /// Hand at most N frames to a port at once
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub tx_burst: usize,
}

/// What frames look like.
#[derive(Debug, Args)]
pub struct FrameArgs {
    /// Bytes with check sequence: 64, a list with weights 64:7,594:4,1518, a range
    /// 64-1518 or imix:simple [default: 64, or the least that holds the headers]
    #[arg(long, value_parser = numbers::size)]
    pub size: Option<Size>,
    /// The headers [default: udp, or udp6 for IPv6 addresses]
    #[arg(long, value_name = "NAME")]
    #[arg(conflicts_with = "whole")]
    pub template: Option<Preset>,
    /// Source Ethernet address [default: that of the sending port]
    #[arg(long, value_name = "MAC", value_parser = ranges::mac)]
    pub src_mac: Option<Mac>,
    /// Destination Ethernet address [default: that of the --to port]
    #[arg(long, value_name = "MAC", value_parser = ranges::mac)]
    pub dst_mac: Option<Mac>,
    /// VLAN id; two, OUTER,INNER, for QinQ
    #[arg(long, value_name = "ID", value_delimiter = ',', num_args = 1)]
    #[arg(conflicts_with = "whole")]
    pub vlan: Vec<u16>,
    /// Differentiated services code point of every IP header
    #[arg(long, value_name = "0..63", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u8).range(0..64))]
    #[arg(conflicts_with = "whole")]
    pub dscp: u8,
    /// Flags of TCP headers: syn,ack
    #[arg(long, value_name = "FLAGS", value_delimiter = ',', value_parser = tcp_flag)]
    #[arg(conflicts_with = "whole")]
    pub tcp_flags: Vec<TcpFlag>,
    /// Network identifier (or GRE key) of a tunnel
    #[arg(long, value_name = "ID", default_value_t = 1)]
    #[arg(conflicts_with = "whole")]
    pub vni: u32,
    /// Source address of a tunnel's outer header
    #[arg(long, value_name = "IP", default_value = "10.0.0.1")]
    #[arg(conflicts_with = "whole")]
    pub outer_src: std::net::Ipv4Addr,
    /// Destination address of a tunnel's outer header
    #[arg(long, value_name = "IP", default_value = "10.0.0.2")]
    #[arg(conflicts_with = "whole")]
    pub outer_dst: std::net::Ipv4Addr,
    /// Headers from a file: the protocol's "layers", as a JSON array
    #[arg(long, value_name = "FILE", group = "whole")]
    #[arg(conflicts_with_all = ["src_mac", "dst_mac"])]
    pub layers: Option<PathBuf>,
    /// All frames of a capture (pcap, pcapng), at most 256, at low rates in their order; or one of
    /// them
    #[arg(long, value_name = "FILE[:FRAME]", group = "whole")]
    pub pcap: Option<String>,
    /// Send the frames of --pcap one after the other, as they are, with a signature where the
    /// payload allows it: one stream, again and again until the --time is over
    #[arg(long, requires = "pcap")]
    #[arg(conflicts_with_all = [
        "src_mac", "dst_mac", "size", "flows", "field", "wrong_checksum", "tracked_flows",
    ])]
    pub replay: bool,
    /// Replay the frames that this side sent, with --both-ways the others on the way back: an
    /// IP address or network, an Ethernet address, or interface:N of a pcapng file
    #[arg(long, value_name = "SIDE", requires = "replay")]
    pub source: Option<String>,
    /// Streams of a TRex stateful-template profile, at its rates
    #[arg(long, value_name = "FILE", group = "whole")]
    #[arg(conflicts_with_all = ["rate", "size", "flows", "order", "field"])]
    pub trex: Option<PathBuf>,
    /// Send checksums that are wrong: ipv4, l4
    #[arg(long, value_name = "WHICH", value_delimiter = ',')]
    pub wrong_checksum: Vec<WrongArg>,
    /// Send frames without the signature; loss (but with --replay) and latency are then unknown
    #[arg(long)]
    pub unstamped: bool,
}

/// What varies from frame to frame.
#[derive(Debug, Args)]
pub struct FlowArgs {
    /// Source addresses: one, a range A-B, or the hosts of a network A/N
    /// [default: 16.0.0.1, or fd00::1]
    #[arg(long, visible_alias = "clients", value_name = "IP", value_parser = text::addresses)]
    #[arg(conflicts_with = "whole")]
    pub src: Option<Addresses>,
    /// Destination addresses [default: 48.0.0.1, or fd00:1::1]
    #[arg(long, visible_alias = "servers", value_name = "IP", value_parser = text::addresses)]
    #[arg(conflicts_with = "whole")]
    pub dst: Option<Addresses>,
    /// Source ports: one or a range [default: 1025]
    #[arg(long, value_name = "PORT", value_parser = text::ports, conflicts_with = "whole")]
    pub src_port: Option<text::Ports>,
    /// Destination ports: one or a range [default: 12]
    #[arg(long, value_name = "PORT", value_parser = text::ports, conflicts_with = "whole")]
    pub dst_port: Option<text::Ports>,
    /// Number of flows before the first one repeats [default: all combinations]. Without
    /// address ranges, ranges are made for it, with 65535 destinations per source
    #[arg(long, value_name = "N", value_parser = numbers::count)]
    pub flows: Option<u64>,
    /// Which range varies fastest, which next
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "dst,src,src-port,dst-port"
    )]
    pub order: Vec<Axis>,
    /// Vary any field: udp.src=increment:STEP:COUNT, ipv4.dst=list:A,B,
    /// udp.src=random:LEAST-GREATEST:COUNT, ipv4.dst=zipf:COUNT:EXPONENT
    #[arg(long, value_name = "FIELD=OP", value_parser = ranges::field)]
    pub field: Vec<FieldRequest>,
    /// Seed of everything random: the same seed gives the same frames
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Count the first N flows one by one, and list those that lost frames
    #[arg(long, value_name = "N", default_value = "0", value_parser = numbers::count)]
    pub tracked_flows: u64,
}

/// How frames that come back are looked at.
#[derive(Debug, Args)]
pub struct MeasureArgs {
    /// How long to receive after the last frame was sent
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = numbers::seconds)]
    pub drain: f64,
    /// Measure the latency of every N-th frame only
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub latency_every: u64,
    /// Do not verify the checksums of frames that arrive
    #[arg(long)]
    pub no_verify: bool,
    /// Measure how far two cores are apart before and after [default: the first two of
    /// --cores, or the core and another]
    #[arg(long, value_name = "A,B", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "auto", value_parser = probe)]
    pub probe: Option<Probe>,
    /// Number of this trial in the signatures, 1 to 255; frames of another are not
    /// counted [default: made from the process id]
    #[arg(long, value_name = "N")]
    pub epoch: Option<u8>,
}

/// `listen`.
#[derive(Debug, Args)]
#[command(after_help = DRY_RUN)]
pub struct ListenArgs {
    /// Where to listen
    #[arg(value_name = "PORT", required = true, value_parser = ports::port)]
    pub ports: Vec<PortArg>,
    /// How long [default: until Ctrl-C, a day at most]
    #[arg(long, value_parser = numbers::seconds)]
    pub time: Option<f64>,
    #[command(flatten, next_help_heading = "Engine")]
    #[allow(missing_docs)]
    pub engine: EngineArgs,
    #[command(flatten, next_help_heading = "Output")]
    #[allow(missing_docs)]
    pub output: OutputArgs,
}

/// `backends`.
#[derive(Debug, Args)]
pub struct BackendsArgs {
    /// Print the protocol's hello line instead of the table
    #[arg(long)]
    pub json: bool,
}

/// Headers by a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Preset {
    /// UDP over IPv4
    Udp,
    /// UDP over IPv6
    Udp6,
    /// TCP over IPv4, with the SYN flag unless --tcp-flags is given
    TcpSyn,
    /// TCP over IPv6
    Tcp6Syn,
    /// ICMP echo requests
    Icmp,
    /// ICMPv6 echo requests
    Icmp6,
    /// ARP requests, broadcast unless --dst-mac is given
    Arp,
    /// UDP over IPv4 in VXLAN
    Vxlan,
    /// UDP over IPv4 in Geneve
    Geneve,
    /// UDP over IPv4 in GRE
    Gre,
    /// An Ethernet header alone, EtherType 0x88b5 (for experiments)
    Ethernet,
}

/// Something that differs between flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Axis {
    /// Destination addresses
    #[value(alias = "servers")]
    Dst,
    /// Source addresses
    #[value(alias = "clients")]
    Src,
    /// Source ports
    SrcPort,
    /// Destination ports
    DstPort,
}

/// A checksum that shall be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WrongArg {
    /// Of every IPv4 header
    Ipv4,
    /// Of UDP, TCP, ICMP or ICMPv6
    L4,
}

/// Between which cores to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    /// Those in use.
    Auto,
    /// These.
    Between(usize, usize),
}

fn probe(text: &str) -> Result<Probe, String> {
    if text == "auto" {
        return Ok(Probe::Auto);
    }
    let cores = text.split_once(',');
    let cores = cores.and_then(|(one, other)| one.parse().ok().zip(other.parse().ok()));
    cores
        .map(|(one, other)| Probe::Between(one, other))
        .ok_or_else(|| "expected two cores, as in --probe=0,1".to_owned())
}

fn tcp_flag(text: &str) -> Result<TcpFlag, String> {
    serde_json::from_value(text.into())
        .map_err(|_| "expected fin, syn, rst, psh, ack, urg, ece or cwr".to_owned())
}
