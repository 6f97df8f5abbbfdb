//! What the kernel counts for a whole namespace (proc(5), `/proc/PID/net`).

use std::fs;

/// Ports that the kernel may choose from (ip(7), `ip_local_port_range`), as
/// (first, last), in the namespace of the calling thread.
pub(crate) fn port_range() -> Option<(u16, u16)> {
    let text = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
    let mut words = text.split_whitespace();
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

/// TCP segments sent again in the namespace of the thread `tid` (RFC 4022,
/// `tcpRetransSegs`).
pub(crate) fn retransmitted(tid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/self/task/{tid}/net/snmp")).ok()?;
    column(&text, "Tcp:", "RetransSegs")
}

/// Sockets in TIME_WAIT in the namespace of the thread `tid`.
pub(crate) fn time_wait(tid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/self/task/{tid}/net/sockstat")).ok()?;
    after(&text, "TCP:", "tw")
}

/// The number under `name` in a table of two lines that begin with `label`.
fn column(text: &str, label: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.starts_with(label));
    let (names, values) = (lines.next()?, lines.next()?);
    let position = names.split_whitespace().position(|word| word == name)?;
    values.split_whitespace().nth(position)?.parse().ok()
}

/// The number after the word `name` in the line that begins with `label`.
fn after(text: &str, label: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(label))?;
    let mut words = line.split_whitespace().skip_while(|word| *word != name);
    words.nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_by_name() {
        let snmp = "Ip: A B\nIp: 1 2\nTcp: InSegs RetransSegs\nTcp: 10 7\n";
        assert_eq!(column(snmp, "Tcp:", "RetransSegs"), Some(7));
        assert_eq!(column(snmp, "Tcp:", "Missing"), None);
        let sockstat = "sockets: used 9\nTCP: inuse 5 orphan 0 tw 3 alloc 7 mem 0\n";
        assert_eq!(after(sockstat, "TCP:", "tw"), Some(3));
        assert_eq!(after("garbage", "TCP:", "tw"), None);
    }

    #[test]
    fn this_namespace_counts() {
        let tid = nix::unistd::gettid().as_raw();
        assert!(retransmitted(tid).is_some());
        assert!(time_wait(tid).is_some());
        let (first, last) = port_range().unwrap();
        assert!(first < last);
    }
}
