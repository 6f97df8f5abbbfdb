//! What the program says of itself.

use super::{json, output, pair, stderr, stdout};

#[test]
fn the_help_lists_every_command_and_its_examples_are_commands() {
    let help = stdout(&output(&["--help"]));
    for command in [
        "send",
        "listen",
        "rr",
        "crr",
        "stream",
        "relay",
        "inspect",
        "reflect",
        "forward",
        "backends",
        "completion",
    ] {
        assert!(help.contains(&format!("\n  {command} ")), "{command}");
        let own = output(&[command, "--help"]);
        assert_eq!(own.status.code(), Some(0));
        assert!(stdout(&own).contains(&format!("Usage: pinchpoint-engine {command}")));
    }
    let mut examples = 0;
    for line in help.replace("\\\n", " ").lines() {
        let Some(args) = line.trim().strip_prefix("pinchpoint-engine ") else {
            continue;
        };
        let mut args: Vec<&str> = args.split_whitespace().collect();
        if args[0] == "send" {
            args.push("--dry-run");
            assert_eq!(output(&args).status.code(), Some(0), "{line}");
        }
        examples += 1;
    }
    assert!(examples >= 5, "{help}");
}

#[test]
fn completion_knows_the_commands_and_their_options() {
    for shell in ["bash", "zsh", "fish"] {
        let script = stdout(&output(&["completion", shell]));
        assert_eq!(
            script,
            stdout(&output(&["completions", shell])),
            "its former name"
        );
        for word in ["both-ways", "listen", "tcp-syn"] {
            assert!(script.contains(word), "{word} in {shell}");
        }
    }
}

#[test]
fn the_backends_are_told_as_a_table_or_as_the_hello_line() {
    let table = stdout(&output(&["backends"]));
    assert!(
        table.contains("mem ") && table.contains("two ends in this process"),
        "{table}"
    );
    assert_eq!(json(&output(&["backends", "--json"]))["type"], "hello");
}

#[test]
fn nothing_is_coloured_in_a_pipe_and_quiet_is_quiet() {
    let sent = pair(&["--time", "1100ms", "--rate", "100", "--quiet"]);
    assert!(
        !sent.stdout.contains(&0x1b) && sent.stderr.is_empty(),
        "{}",
        stderr(&sent)
    );
}
