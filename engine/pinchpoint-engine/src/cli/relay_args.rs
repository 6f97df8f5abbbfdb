//! `relay`: its options.

use super::numbers;
use super::standing_args::StandingArgs;
use clap::Args;

/// What stands behind the options of `relay --help`.
const EXAMPLES: &str = "\
The host's interface on one side, the switch's vhost-user port on the other:
    pinchpoint-engine relay af_packet:outer@bench \\
        dpdk:net_virtio_user0,path=/run/host.sock,server=1 --core 0

Prints 'ready' once all links are up. SIGTERM and Ctrl-C end it: it prints its
account and exits with 0. SIGUSR1 prints the account so far, and the relay continues.
Exit status otherwise: 2 bad command line, 3 a port could not be opened.";

/// `relay`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RelayArgs {
    #[command(flatten)]
    #[allow(missing_docs)]
    pub standing: StandingArgs,
    /// How long a frame that the other port does not accept is retried before it is
    /// dropped
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = numbers::seconds)]
    pub patience: f64,
}
