//! Exit statuses, and how to talk to the engine.

/// Exit status after `bye` or the end of input.
pub const EXIT_DONE: u8 = 0;
/// Exit status when stdout, or the system around the engine, was lost.
pub const EXIT_LOST: u8 = 1;
/// Exit status for a bad command line.
pub const EXIT_USAGE: u8 = 2;
/// Exit status when a port cannot be opened, or its link does not come up.
pub const EXIT_MISSING: u8 = 3;
/// Exit status after SIGINT: 128 + 2.
pub const EXIT_INTERRUPTED: u8 = 130;
/// Exit status after SIGTERM: 128 + 15.
pub const EXIT_TERMINATED: u8 = 143;

/// The text of `--help-protocol`.
pub const PROTOCOL: &str = r#"pinchpoint-engine without arguments talks in JSON lines.

Reads one JSON object a line on stdin, writes one a line on stdout; stderr is
for people. protocol/README.md and protocol/schema.json define the messages:

  hello   versions, cores, and what each backend can do here
  open    take a core and ports; answered when every link is up
  run     one trial; samples while it runs, then its result
  go      begin to send in a trial that waits for it
  sockets one workload over kernel sockets; needs no open ports
  connections one load of connections over the open ports
  stop    end the running trial, workload or load early
  bye     close all ports and exit

The end of input or SIGTERM ends a running trial, closes all ports and exits;
SIGINT is left to the program at the other end of the pipe.

An example to pipe in: half a second between two ports in memory.

{"type":"open","workers":[{"core":0,"ports":["left","right"]}],"eal_args":[],"ports":[{"name":"left","backend":"mem","device":"pair0","netns":null,"rx_ring":1024,"tx_ring":1024,"answers":[]},{"name":"right","backend":"mem","device":"pair0","netns":null,"rx_ring":1024,"tx_ring":1024,"answers":[]}],"link_timeout_s":1.0}
{"type":"run","trial":"first","epoch":1,"duration_s":0.5,"drain_s":0.1,"sample_interval_s":null,"probe_cores":[],"quiet_within_s":0.0,"verify_checksums":true,"tx_burst":64,"latency_every":1,"loopback":true,"capture":null,"slices":null,"streams":[{"id":0,"tx_port":"left","rx_port":"right","rate":{"fps":1000000.0},"shape":{"steady":{}},"size":{"fixed":64},"template":{"layers":[{"ethernet":{"src":"02:00:00:00:00:01","dst":"02:00:00:00:00:02"}},{"ipv4":{"src":"16.0.0.1","dst":"48.0.0.1"}},{"udp":{"src":1025,"dst":12}}]},"stamped":true,"wrong_checksums":[],"seed":1,"flows":65536,"fields":[{"field":"ipv4.dst","op":{"increment":{"step":1,"count":65535}}},{"field":"ipv4.src","op":{"increment":{"step":1,"count":255}}}],"tracked_flows":0}]}

Pipe it as `(pinchpoint-engine --help-protocol | grep '^{'; sleep 1) | pinchpoint-engine`:
the end of input ends a trial, so it must come after the result.

exit status: 0 after bye or the end of input, 1 when stdout or the system was
lost, 143 after SIGTERM
"#;
