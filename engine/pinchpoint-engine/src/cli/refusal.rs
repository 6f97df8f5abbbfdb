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

/// The options of `connect` and `serve` that keys of a load come from.
const LOAD_OPTIONS: &[(&str, &str)] = &[
    ("answer_bytes", "--answer-size"),
    ("backends", "--backend"),
    ("by_tuple", "--by-tuple"),
    ("client_ports", "--client-ports"),
    ("clients", "--clients"),
    ("close", "--close"),
    ("count", "--count or --time"),
    ("direct_return", "--direct-return"),
    ("down", "--backend-down"),
    ("hold_before", "--hold-before"),
    ("hold_s", "--hold"),
    ("lead_s", "--lead"),
    ("next_hop", "--next-hop"),
    ("order", "--order"),
    ("ports", "PORT"),
    ("ramp_s", "--ramp"),
    ("rate_cps", "--rate"),
    ("request_bytes", "--request-size"),
    ("requests", "--requests"),
    ("retry", "--retry"),
    ("sample_interval_s", "--sample"),
    ("sequence", "--sequence"),
    ("timeout_s", "--timeout"),
    ("timestamps", "--timestamps"),
    ("to", "--to"),
    ("work", "--work"),
    ("workers", "--cores"),
];

/// The refusal of a load, whose keys are named by their options.
pub(super) fn refused_load(error: &ErrorReply) -> Failure {
    let (key, what) = error
        .message
        .split_once(": ")
        .unwrap_or(("", &error.message));
    let first = key.split(['.', '[']).next();
    let option = LOAD_OPTIONS.iter().find(|(name, _)| first == Some(*name));
    let option = option.map_or(key, |(_, option)| option);
    let what = LOAD_OPTIONS
        .iter()
        .fold(what.to_owned(), |what, (name, option)| {
            what.replace(&format!("'{name}'"), option)
        });
    Failure::usage(format!("{option}: {what}"))
}

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
    fn a_load_is_refused_by_its_options() {
        for (message, told) in [
            (
                "clients: fd00::1: expected addresses of the family of 'to' 10.0.0.1:80",
                "--clients: fd00::1: expected addresses of the family of --to 10.0.0.1:80",
            ),
            (
                "down[2].until_s: expected it",
                "--backend-down: expected it",
            ),
            (
                "retry.times: expected 1 to 100",
                "--retry: expected 1 to 100",
            ),
        ] {
            let error = ErrorReply {
                code: ErrorCode::Invalid,
                message: message.to_owned(),
                hint: None,
            };
            assert_eq!(refused_load(&error), Failure::usage(told));
        }
    }

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
