//! From YAML to templates: the profile without its captures.

use super::keys::{self, Keys, describe};
use super::yaml::{self, Node, Value};
use super::{AddressRange, At, ImportedStream, flow};
use crate::pcap;
use std::net::Ipv4Addr;

/// Entries of `cap_info` at most: a stream id is one byte.
const MAX_TEMPLATES: usize = 256;

/// Bytes of the longest path (PATH_MAX, path_resolution(7)).
const MAX_NAME: usize = 4096;

#[derive(Debug)]
pub(super) struct Profile {
    pub(super) duration_s: Option<f64>,
    pub(super) templates: Vec<Template>,
}

/// An entry of `cap_info`; [`ImportedStream`] says what the fields mean.
#[derive(Debug)]
pub(super) struct Template {
    /// Line and path of its name.
    line: usize,
    path: String,
    pcap: String,
    clients: AddressRange,
    servers: AddressRange,
    flows: u64,
    cps: f64,
    ipg_us: f64,
    rtt_us: f64,
    warnings: Vec<String>,
}

pub(super) fn parse(text: &str) -> Result<Profile, At> {
    let root = yaml::parse(text)?;
    let only = match &root.value {
        Value::Sequence(profiles) => match &profiles[..] {
            [only] => only,
            _ => return Err(not_one_profile(&root)),
        },
        _ => return Err(not_one_profile(&root)),
    };
    let profile = Keys::new(only, "", keys::PROFILE)?;
    let duration = profile.optional("duration", "seconds, more than 0", positive)?;
    let common = Common::new(&profile)?;
    let cap_info = profile.node("cap_info")?;
    let templates = match &cap_info.value {
        Value::Sequence(nodes) if (1..=MAX_TEMPLATES).contains(&nodes.len()) => nodes,
        other => {
            let found = describe(other);
            let message =
                format!("cap_info: found {found}, expected a list of 1 to {MAX_TEMPLATES}");
            return Err(At::new(cap_info.line, message));
        }
    };
    let template = |(index, node)| common.template(index, node);
    let templates = templates.iter().enumerate().map(template);
    Ok(Profile {
        duration_s: duration.map(|(duration_s, _)| duration_s),
        templates: templates.collect::<Result<_, _>>()?,
    })
}

fn not_one_profile(root: &Node) -> At {
    let found = describe(&root.value);
    let message = format!("found {found}, expected a list of one profile (\"- duration: ...\")");
    At::new(root.line, message)
}

/// What all templates share.
struct Common {
    clients: AddressRange,
    servers: AddressRange,
    client_pools: Pools,
    server_pools: Pools,
    keep_src_port: bool,
    one_app_server: bool,
    warnings: Vec<String>,
}

/// Ranges of addresses by name.
type Pools = Vec<(String, AddressRange)>;

impl Common {
    fn new(profile: &Keys<'_>) -> Result<Self, At> {
        let generator = profile.node("generator")?;
        let generator = Keys::new(generator, "generator", keys::GENERATOR)?;
        let mut warnings = profile.warnings.clone();
        warnings.extend_from_slice(&generator.warnings);
        let aging = generator.optional("udp_aging", "seconds", not_negative)?;
        if let Some((aging_s, _)) = aging.filter(|(aging_s, _)| *aging_s > 0.0) {
            warnings.push(format!(
                "udp_aging {aging_s}: ignored, flows repeat without a pause between rounds"
            ));
        }
        if generator
            .optional("dual_port_mask", ADDRESS, address)?
            .is_some()
        {
            warnings.push(
                "dual_port_mask: ignored, since only one pair of ports is imported".to_owned(),
            );
        }
        Ok(Self {
            clients: range(&generator, "clients_start", "clients_end")?,
            servers: range(&generator, "servers_start", "servers_end")?,
            client_pools: pools(&generator, "generator_clients", &mut warnings)?,
            server_pools: pools(&generator, "generator_servers", &mut warnings)?,
            keep_src_port: flag(profile, "keep_src_port")?.unwrap_or(false),
            one_app_server: flag(profile, "one_app_server")?.unwrap_or(false),
            warnings,
        })
    }

    fn template(&self, index: usize, node: &Node) -> Result<Template, At> {
        let path = format!("cap_info[{index}]");
        let entry = Keys::new(node, &path, keys::TEMPLATE)?;
        let some = |name: &str| {
            (1..=MAX_NAME)
                .contains(&name.len())
                .then(|| name.to_owned())
        };
        let (pcap, line) = entry.required("name", "a path of 1 to 4096 bytes", some)?;
        let (cps, _) = entry.required("cps", "flows per second, more than 0", positive)?;
        let (ipg_us, _) = entry.required("ipg", MICROSECONDS, not_negative)?;
        let (rtt_us, _) = entry.required("rtt", MICROSECONDS, not_negative)?;
        entry.node("w")?;
        let clients = pool(&entry, "client_pool", &self.client_pools)?.unwrap_or(self.clients);
        let mut servers = pool(&entry, "server_pool", &self.server_pools)?.unwrap_or(self.servers);
        if flag(&entry, "one_app_server")?.unwrap_or(self.one_app_server) {
            let (first, _) = entry.required("server_addr", ADDRESS, address)?;
            servers = AddressRange { first, last: first };
        }
        let mut warnings = self.warnings.clone();
        warnings.extend_from_slice(&entry.warnings);
        if !flag(&entry, "keep_src_port")?.unwrap_or(self.keep_src_port) {
            warnings.push(
                "every flow has the source port of the capture; TRex gives each flow its own"
                    .to_owned(),
            );
        }
        Ok(Template {
            line,
            path,
            pcap,
            flows: flows(&entry, clients, servers, &mut warnings)?,
            clients,
            servers,
            cps,
            ipg_us,
            rtt_us,
            warnings,
        })
    }
}

fn flows(
    entry: &Keys<'_>,
    clients: AddressRange,
    servers: AddressRange,
    warnings: &mut Vec<String>,
) -> Result<u64, At> {
    let (clients, servers) = (clients.count(), servers.count());
    let pairs = clients.saturating_mul(servers);
    let expected = format!(
        "1 to {pairs}, the {clients} clients times the {servers} servers (a pair is one flow)"
    );
    let within = |text: &str| text.parse().ok().filter(|n| (1..=pairs).contains(n));
    if let Some((limit, _)) = entry.optional("limit", &expected, within)? {
        return Ok(limit);
    }
    warnings.push(format!(
        "without limit TRex keeps making new flows; here the {pairs} pairs repeat"
    ));
    Ok(pairs)
}

fn pools(generator: &Keys<'_>, key: &str, warnings: &mut Vec<String>) -> Result<Pools, At> {
    let pool = |(path, node): (String, &Node)| {
        let keys = Keys::new(node, &path, keys::POOL)?;
        warnings.extend(keys.warnings.iter().map(|told| format!("{path}.{told}")));
        let (name, _) = keys.required("name", "a word", |text| Some(text.to_owned()))?;
        Ok((name, range(&keys, "ip_start", "ip_end")?))
    };
    generator.list(key)?.into_iter().map(pool).collect()
}

/// The range of the pool that an entry names.
fn pool(
    entry: &Keys<'_>,
    key: &str,
    pools: &[(String, AddressRange)],
) -> Result<Option<AddressRange>, At> {
    let named = |text: &str| {
        let pool = pools.iter().find(|(name, _)| name == text);
        pool.map(|(_, range)| *range)
    };
    let pool = entry.optional(key, "the name of a pool of the generator", named)?;
    Ok(pool.map(|(range, _)| range))
}

fn flag(keys: &Keys<'_>, key: &str) -> Result<Option<bool>, At> {
    let flag = keys.optional(key, "true or false", |text| match text {
        "true" | "True" | "1" => Some(true),
        "false" | "False" | "0" => Some(false),
        _ => None,
    })?;
    Ok(flag.map(|(is_set, _)| is_set))
}

fn range(generator: &Keys<'_>, start: &str, end: &str) -> Result<AddressRange, At> {
    let (first, _) = generator.required(start, ADDRESS, address)?;
    let expected = format!("an IPv4 address not below {start} ({first})");
    let not_below = |text: &str| address(text).filter(|last| *last >= first);
    let (last, _) = generator.required(end, &expected, not_below)?;
    Ok(AddressRange { first, last })
}

const ADDRESS: &str = "an IPv4 address";
const MICROSECONDS: &str = "microseconds";

fn address(text: &str) -> Option<Ipv4Addr> {
    text.parse().ok()
}

fn positive(text: &str) -> Option<f64> {
    not_negative(text).filter(|value| *value > 0.0)
}

/// A number; large ones are bounded so that products with them stay finite.
fn not_negative(text: &str) -> Option<f64> {
    let value: f64 = text.parse().ok()?;
    (0.0..=1e15).contains(&value).then_some(value)
}

impl Template {
    /// The stream of this template. `options` are what is left of the bounds
    /// for all captures of the profile.
    pub(super) fn load(
        self,
        options: &mut pcap::Options,
        load: &mut impl FnMut(&str) -> Result<Vec<u8>, String>,
    ) -> Result<ImportedStream, At> {
        let at = |message: String| At::new(self.line, format!("{}.name: {message}", self.path));
        let pcap = &self.pcap;
        let bytes = load(pcap).map_err(|why| at(format!("{pcap}: {why}")))?;
        let frames = pcap::parse(pcap, &bytes, options).map_err(|error| at(error.to_string()))?;
        options.frames -= frames.len();
        options.bytes -= frames.iter().map(|frame| frame.bytes.len()).sum::<usize>();
        let flow = flow::split(frames).map_err(|why| at(format!("{pcap}: {why}")))?;
        let mut warnings = self.warnings;
        warnings.extend(flow.warnings);
        Ok(ImportedStream {
            rate_fps: self.cps * flow.frames.len() as f64,
            pcap: self.pcap,
            frames: flow.frames,
            replies: flow.replies,
            clients: self.clients,
            servers: self.servers,
            flows: self.flows,
            cps: self.cps,
            ipg_us: self.ipg_us,
            rtt_us: self.rtt_us,
            warnings,
        })
    }
}
