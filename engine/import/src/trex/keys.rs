//! Which keys a profile may have and what becomes of each.

use super::At;
use super::yaml::{Entry, Node, Value, shortened};

/// What becomes of a key.
pub(super) enum Rule {
    /// It is imported.
    Read,
    /// It changes nothing that is sent.
    NoEffect,
    /// Unless it has one of these values, a warning says in what the frames
    /// differ.
    Told(&'static [&'static str], &'static str),
    /// What it asks for cannot be had.
    Refused(&'static str),
}

use Rule::{NoEffect, Read, Refused, Told};

type Table = &'static [(&'static str, Rule)];

const OFF: &[&str] = &["false", "False", "0"];
const GAPS: &str =
    "gaps of the capture are not kept; frames are sent evenly at cps x frames per flow";
const ORDER: &str = "pairs of addresses are taken in order";
const MACS: &str = "MAC addresses belong to the ports that send and receive";
const IPV6: &str = "only IPv4 is imported";
const PAYLOAD: &str = "payloads are sent as they were captured";

/// Keys of the profile itself.
pub(super) const PROFILE: Table = &[
    ("duration", Read),
    ("generator", Read),
    ("cap_info", Read),
    ("cap_ipg", Told(OFF, GAPS)),
    ("cap_ipg_min", Told(&[], GAPS)),
    ("cap_override_ipg", Told(&[], GAPS)),
    ("mac", Told(&[], MACS)),
    // How TRex's own scheduler keeps its time.
    ("tw", NoEffect),
    (
        "mac_override_by_ip",
        Told(OFF, "MAC addresses do not follow the client's address"),
    ),
    ("vlan", Refused("frames keep the VLAN tags of the capture")),
    ("src_ipv6", Refused(IPV6)),
    ("dst_ipv6", Refused(IPV6)),
    ("keep_src_port", Read),
    ("one_app_server", Read),
];

/// Keys of `generator`.
pub(super) const GENERATOR: Table = &[
    ("distribution", Told(&["seq"], ORDER)),
    ("clients_start", Read),
    ("clients_end", Read),
    ("servers_start", Read),
    ("servers_end", Read),
    // TRex itself no longer uses these two.
    ("clients_per_gb", NoEffect),
    ("min_clients", NoEffect),
    // Segments are sent without a connection.
    ("tcp_aging", NoEffect),
    ("udp_aging", Read),
    ("dual_port_mask", Read),
    ("generator_clients", Read),
    ("generator_servers", Read),
    ("mac", Told(&[], MACS)),
];

/// Keys of an entry of `generator_clients` and of `generator_servers`.
pub(super) const POOL: Table = &[
    ("name", Read),
    ("distribution", Told(&["seq"], ORDER)),
    ("ip_start", Read),
    ("ip_end", Read),
    // Ports are those of the captures.
    ("track_ports", NoEffect),
];

/// Keys of an entry of `cap_info`.
pub(super) const TEMPLATE: Table = &[
    ("name", Read),
    ("cps", Read),
    ("ipg", Read),
    ("rtt", Read),
    (
        "w",
        Told(
            &["1"],
            "flows follow each other one by one, not in bursts from one client",
        ),
    ),
    ("limit", Read),
    ("cap_ipg", Told(OFF, GAPS)),
    ("keep_src_port", Read),
    (
        "plugin_id",
        Told(&["0"], "ports and payloads stay those of the capture"),
    ),
    ("dyn_pyload", Refused(PAYLOAD)),
    ("wlength", Refused(PAYLOAD)),
    ("server_addr", Read),
    ("one_app_server", Read),
    ("client_pool", Read),
    ("server_pool", Read),
];

/// A mapping all of whose keys have passed a table.
pub(super) struct Keys<'a> {
    path: String,
    line: usize,
    entries: &'a [Entry],
    /// In what the frames differ from what keys ask for.
    pub(super) warnings: Vec<String>,
}

impl<'a> Keys<'a> {
    /// The mapping `node`, called `path` in errors.
    pub(super) fn new(node: &'a Node, path: &str, table: Table) -> Result<Self, At> {
        let Value::Mapping(entries) = &node.value else {
            let message = format!(
                "{path}: found {}, expected a mapping",
                describe(&node.value)
            );
            return Err(At::new(node.line, message));
        };
        let mut keys = Self {
            path: path.to_owned(),
            line: node.line,
            entries,
            warnings: Vec::new(),
        };
        for entry in entries {
            let warning = keys.check(entry, table)?;
            keys.warnings.extend(warning);
        }
        Ok(keys)
    }

    fn check(&self, entry: &Entry, table: Table) -> Result<Option<String>, At> {
        let value = describe(&entry.node.value);
        let is_one_of = |values: &[&str]| match &entry.node.value {
            Value::Scalar(text) => values.contains(&text.as_str()),
            _ => false,
        };
        let why = match table.iter().find(|(key, _)| *key == entry.key) {
            Some((_, Read | NoEffect)) => return Ok(None),
            Some((_, Told(values, _))) if is_one_of(values) => return Ok(None),
            Some((key, Told(_, why))) => return Ok(Some(format!("{key} {value}: ignored, {why}"))),
            Some((_, Refused(why))) => format!("not supported: {why}"),
            None => {
                let known: Vec<_> = table.iter().map(|(key, _)| *key).collect();
                format!("unknown key, expected one of {}", known.join(", "))
            }
        };
        Err(self.error(entry, &format!("{value}: {why}")))
    }

    fn error(&self, entry: &Entry, message: &str) -> At {
        let dot = if self.path.is_empty() { "" } else { "." };
        let path = &self.path;
        let key = shortened(&entry.key);
        At::new(entry.line, format!("{path}{dot}{key}: {message}"))
    }

    fn entry(&self, key: &str) -> Option<&'a Entry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// The nodes of the list at `key`, each with what it is called in errors;
    /// none if the key is not there.
    pub(super) fn list(&self, key: &str) -> Result<Vec<(String, &'a Node)>, At> {
        let Some(entry) = self.entry(key) else {
            return Ok(Vec::new());
        };
        let Value::Sequence(nodes) = &entry.node.value else {
            let value = describe(&entry.node.value);
            return Err(self.error(entry, &format!("{value}: expected a list")));
        };
        let path = |index| format!("{}.{key}[{index}]", self.path);
        let named = nodes.iter().enumerate();
        Ok(named.map(|(index, node)| (path(index), node)).collect())
    }

    /// The value of `key`, which must be there.
    pub(super) fn node(&self, key: &str) -> Result<&'a Node, At> {
        let found = self.entry(key).map(|entry| &entry.node);
        found.ok_or_else(|| {
            let dot = if self.path.is_empty() { "" } else { "." };
            At::new(self.line, format!("{}{dot}{key}: missing", self.path))
        })
    }

    /// The value of `key` as `convert` reads it, and its line; none if the key
    /// is not there. `expected` says what would have been right.
    pub(super) fn optional<T>(
        &self,
        key: &str,
        expected: &str,
        convert: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<(T, usize)>, At> {
        let Some(entry) = self.entry(key) else {
            return Ok(None);
        };
        let converted = match &entry.node.value {
            Value::Scalar(text) => convert(text),
            _ => None,
        };
        let Some(value) = converted else {
            let value = describe(&entry.node.value);
            return Err(self.error(entry, &format!("{value}: expected {expected}")));
        };
        Ok(Some((value, entry.line)))
    }

    /// As [`optional`](Self::optional), of a key that must be there.
    pub(super) fn required<T>(
        &self,
        key: &str,
        expected: &str,
        convert: impl FnOnce(&str) -> Option<T>,
    ) -> Result<(T, usize), At> {
        self.node(key)?;
        let found = self.optional(key, expected, convert)?;
        found.ok_or_else(|| At::new(self.line, format!("{key}: missing")))
    }
}

/// A value in an error.
pub(super) fn describe(value: &Value) -> String {
    match value {
        Value::Sequence(nodes) => format!("a list of {}", nodes.len()),
        Value::Mapping(entries) => format!("a mapping of {} keys", entries.len()),
        Value::Scalar(text) => format!("{:?}", shortened(text)),
    }
}
