//! What the engine refused, in the words of the command line.

use super::Failure;
use crate::protocol::{ErrorCode, ErrorReply};
use crate::usage;

/// Which option a key of the protocol comes from.
const OPTIONS: &[(&str, &str)] = &[
    ("client.core", "--client-core"),
    ("client", "--client"),
    ("server.core", "--server-core"),
    ("server", "--server"),
    (".rate", "--rate"),
    (".shape", "--burst, --poisson or --ramp"),
    (".size", "--size"),
    (".template", "--template, --layers or --pcap"),
    (".fields", "--field"),
    (".flows", "--flows"),
    (".tracked_flows", "--tracked-flows"),
    (".rx_port", "--to"),
    (".tx_port", "--from"),
    (".rx_ring", "--rx-ring"),
    (".tx_ring", "--tx-ring"),
    (".device", "--from or --to"),
    (".netns", "--from or --to"),
    (".answers", "--answer"),
    (".core", "--cores"),
    ("capture", "--capture"),
    ("duration_s", "--time"),
    ("drain_s", "--drain"),
    ("latency_every", "--latency-every"),
    ("link_timeout_s", "--link-timeout"),
    ("probe_cores", "--probe"),
    ("tx_burst", "--tx-burst"),
    ("workers", "--cores"),
    ("streams", "--from"),
    ("sources", "--source"),
    ("listen", "--address"),
    ("target", "--target"),
    ("connections", "--connections"),
    ("request_bytes", "--request or --write"),
    ("response_bytes", "--response"),
    ("rate_tps", "--rate"),
    ("warm_up_s", "--warm-up"),
    ("transactions", "--transactions"),
    ("timeout_s", "--timeout"),
    ("repeats", "--repeats"),
    ("wait", "--spin"),
];

/// An engine's refusal, in the words of the command line.
pub(super) fn refused(error: ErrorReply) -> Failure {
    let (status, message) = match error.code {
        ErrorCode::Invalid => (usage::EXIT_USAGE, by_option(&error.message)),
        ErrorCode::PortOpen | ErrorCode::LinkDown | ErrorCode::NoMemory => {
            (usage::EXIT_MISSING, error.message)
        }
        _ => (usage::EXIT_LOST, error.message),
    };
    Failure {
        status,
        message,
        hint: error.hint,
    }
}

/// `message` with the option that its key comes from in front.
fn by_option(message: &str) -> String {
    let Some((key, _)) = message.split_once(": ") else {
        return message.to_owned();
    };
    let found = OPTIONS.iter().find(|(part, _)| {
        if part.starts_with('.') {
            let follows = key.split_once(part).map(|(_, rest)| rest);
            follows.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        } else {
            key.starts_with(part)
        }
    });
    match found {
        Some((_, option)) => format!("{option}: {message}"),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_key_names_its_option() {
        for (key, option) in [
            ("streams[0].size.fixed", "--size"),
            ("streams[3].fields[1].op.increment.count", "--field"),
            ("streams[0].tracked_flows", "--tracked-flows"),
            ("streams[0].flows", "--flows"),
            ("workers[0].core", "--cores"),
            ("ports[1].rx_ring", "--rx-ring"),
            ("capture.file", "--capture"),
            ("duration_s", "--time"),
            ("client.core", "--client-core"),
            ("sources[2]", "--source"),
        ] {
            let told = by_option(&format!("{key}: is wrong"));
            assert_eq!(told, format!("{option}: {key}: is wrong"));
        }
        assert_eq!(by_option("no key"), "no key");
    }
}
