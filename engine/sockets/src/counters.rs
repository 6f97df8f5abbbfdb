//! What the kernel counts for a whole namespace (proc(5), `/proc/PID/net`).

use std::fs;

/// Ports that the kernel may choose from in the namespace of the calling
/// thread: `ip_local_port_range` without `ip_local_reserved_ports` (ip(7)).
/// Empty if the kernel does not report them.
pub(crate) fn source_ports() -> Vec<u16> {
    let setting = |name: &str| fs::read_to_string(format!("/proc/sys/net/ipv4/{name}"));
    let range = setting("ip_local_port_range").unwrap_or_default();
    let reserved = setting("ip_local_reserved_ports").unwrap_or_default();
    free_ports(&range, &reserved)
}

fn free_ports(range: &str, reserved: &str) -> Vec<u16> {
    let mut ends = range.split_whitespace().map(str::parse::<u16>);
    let (Some(Ok(first)), Some(Ok(last))) = (ends.next(), ends.next()) else {
        return Vec::new();
    };
    let spans: Vec<(u16, u16)> = reserved
        .trim()
        .split(',')
        .filter_map(|part| {
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            Some((from.parse().ok()?, to.parse().ok()?))
        })
        .collect();
    let is_free = |port: &u16| !spans.iter().any(|(from, to)| (from..=to).contains(&port));
    (first..=last).filter(is_free).collect()
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
    fn reserved_ports_are_left_out() {
        assert_eq!(
            free_ports("40000\t40003\n", "\n"),
            [40000, 40001, 40002, 40003]
        );
        assert_eq!(
            free_ports("40000 40006", "1-9,40001,40003-40005\n"),
            [40000, 40002, 40006]
        );
        assert!(free_ports("", "").is_empty());
    }

    #[test]
    fn this_namespace_counts() {
        let tid = nix::unistd::gettid().as_raw();
        assert!(retransmitted(tid).is_some());
        assert!(time_wait(tid).is_some());
        assert!(!source_ports().is_empty());
    }
}
