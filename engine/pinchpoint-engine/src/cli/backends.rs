//! `backends`: what can be used here.

use super::args::BackendsArgs;
use super::client::Client;
use super::ports::BACKENDS;
use super::table::{Paint, Table};
use super::{Failure, print, print_json};
use crate::protocol::{Backend, HelloReply, HelloRequest, Reply, Request, VERSION};
use std::fs::File;
use std::io::IsTerminal;

/// Runs `backends`; returns the exit status.
///
/// # Errors
/// If the engine does not answer.
pub(super) fn backends(args: &BackendsArgs, out: &mut File) -> Result<u8, Failure> {
    let mut client = Client::start()?;
    let hello = Request::Hello(HelloRequest { protocol: VERSION });
    let reply = client.ask(&hello, |_| ());
    let signalled = client.close();
    let reply = reply?;
    let Reply::Hello(hello) = &reply else {
        return Err(Failure::failed(
            "the engine sent an unexpected answer to 'hello'",
        ));
    };
    if args.json {
        print_json(out, &reply);
    } else {
        print(out, &told(hello, Paint::of(out.is_terminal())));
    }
    Ok(signalled.unwrap_or(0))
}

fn told(hello: &HelloReply, paint: Paint) -> String {
    let mut table = Table::new(&[
        "backend",
        "usable",
        "what there is, or why not",
        "what mends it",
    ]);
    for backend in &hello.backends {
        let Backend {
            available,
            detail,
            why,
            hint,
            ..
        } = backend;
        let known = BACKENDS.iter().find(|(_, name)| *name == backend.name);
        table.row([
            known.map_or_else(String::new, |(word, _)| (*word).to_owned()),
            if *available { "yes" } else { "no" }.to_owned(),
            detail.clone().or(why.clone()).unwrap_or_default(),
            hint.clone().unwrap_or_default(),
        ]);
    }
    let cores: Vec<String> = hello.cores.iter().map(ToString::to_string).collect();
    format!(
        "{}\ncores: {}\n",
        table.left(4).render(paint),
        cores.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::BackendName;

    #[test]
    fn a_backend_that_is_missing_says_why_and_what_mends_it() {
        let backend = |name, why: Option<&str>, hint: Option<&str>| Backend {
            name,
            available: why.is_none(),
            detail: why.is_none().then(|| "two ends".to_owned()),
            why: why.map(str::to_owned),
            hint: hint.map(str::to_owned),
        };
        let hello = HelloReply {
            protocol: VERSION,
            engine: "1".to_owned(),
            backends: vec![
                backend(BackendName::Mem, None, None),
                backend(
                    BackendName::AfPacket,
                    Some("not permitted"),
                    Some("run as root"),
                ),
            ],
            cores: vec![0, 3],
            clock_hz: 1,
        };
        let expected = "\
backend    usable  what there is, or why not  what mends it
mem        yes     two ends
af_packet  no      not permitted              run as root

cores: 0, 3
";
        assert_eq!(told(&hello, Paint(false)), expected);
    }
}
