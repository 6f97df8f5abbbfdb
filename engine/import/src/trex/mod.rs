//! TRex stateful-template profiles (the `-f` file of a stateful TRex run) as
//! streams of frames.
//!
//! What can be said honestly with streams is imported: captures of UDP or TCP
//! over IPv4 between two hosts, whose client frames repeat over pairs of addresses at
//! the profile's rate. Everything else is an error that names the key, its line
//! and its value: a profile that is not sent as it says must not look as if
//! it were. What is merely told differently is a warning of its stream.
//!
//! Pairs of addresses are taken in order, servers fastest: `limit: 255` is one
//! client with 255 servers; with 65,535 servers `limit: 131070` is two clients
//! with each of them.

mod flow;
mod keys;
mod profile;
mod yaml;

use crate::pcap;
use std::fmt;
use std::net::Ipv4Addr;
use std::path::{Component, Path, PathBuf};

/// What a profile asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportedProfile {
    /// How long TRex would send, in seconds, if the profile says.
    pub duration_s: Option<f64>,
    /// One stream for each entry of `cap_info`, in order.
    pub streams: Vec<ImportedStream>,
}

/// One entry of `cap_info`.
#[derive(Debug, Clone, PartialEq)]
pub struct ImportedStream {
    /// The capture, as the profile names it.
    pub pcap: String,
    /// The frames from client to server, in order, at least one,
    /// without frame check sequence; addresses, ports and checksums are still
    /// those of the capture.
    pub frames: Vec<Vec<u8>>,
    /// The frames from server to client.
    pub replies: Vec<Vec<u8>>,
    /// Client addresses.
    pub clients: AddressRange,
    /// Server addresses.
    pub servers: AddressRange,
    /// Distinct flows, repeated in a loop: at most `clients` x `servers`.
    pub flows: u64,
    /// Flows started in a second.
    pub cps: f64,
    /// Frames sent from client to server in a second: `cps` times the number
    /// of `frames`.
    pub rate_fps: f64,
    /// Time between two frames of a flow in TRex, microseconds.
    pub ipg_us: f64,
    /// Time in which the direction changes in TRex, microseconds.
    pub rtt_us: f64,
    /// In what the stream differs from what TRex would send, a phrase each.
    pub warnings: Vec<String>,
}

impl ImportedStream {
    /// Client and server of flow number `index`, from 0, modulo `flows`.
    pub fn pair(&self, index: u64) -> (Ipv4Addr, Ipv4Addr) {
        let index = index % self.flows.max(1);
        let servers = self.servers.count();
        (
            self.clients.get(index / servers),
            self.servers.get(index % servers),
        )
    }
}

/// Addresses in a row, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressRange {
    /// The lowest.
    pub first: Ipv4Addr,
    /// The highest, not below the first.
    pub last: Ipv4Addr,
}

impl AddressRange {
    /// How many addresses there are.
    pub fn count(self) -> u64 {
        u64::from(self.last.to_bits().saturating_sub(self.first.to_bits())) + 1
    }

    fn get(self, index: u64) -> Ipv4Addr {
        Ipv4Addr::from_bits(
            self.first
                .to_bits()
                .wrapping_add((index % self.count()) as u32),
        )
    }
}

/// A profile that cannot be imported, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrexError {
    /// The profile.
    pub file: String,
    /// Its line, from 1.
    pub line: usize,
    /// The key, its value and what was expected or is not supported.
    pub message: String,
}

impl fmt::Display for TrexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: line {}: {}", self.file, self.line, self.message)
    }
}

impl std::error::Error for TrexError {}

/// An error that does not know its file yet.
#[derive(Debug, PartialEq, Eq)]
struct At {
    line: usize,
    message: String,
}

impl At {
    fn new(line: usize, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { line, message }
    }
}

/// Bytes of the longest profile that is read.
pub const MAX_PROFILE: u64 = 1 << 20;

/// Imports the profile in the file at `path`. The captures it names are looked
/// for beside it, in the current directory, as TRex does, and in the folders
/// above the profile. Names that lead out of such a folder are refused.
///
/// # Errors
/// As [`import`], and if a file cannot be read.
pub fn read(path: &Path) -> Result<ImportedProfile, TrexError> {
    let file = path.display().to_string();
    let error = |message| TrexError {
        file: file.clone(),
        line: 1,
        message,
    };
    let bytes = pcap::read_file(path, MAX_PROFILE).map_err(error)?;
    let text = String::from_utf8(bytes).map_err(|_| error("not UTF-8".to_owned()))?;
    let limit = pcap::Options::default().file_bytes;
    let folders = folders(path);
    import(&file, &text, |name| {
        let plain = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        if !Path::new(name).components().all(plain) {
            return Err("not a path below the profile's or the current folder".to_owned());
        }
        let places: Vec<PathBuf> = folders.iter().map(|folder| folder.join(name)).collect();
        let Some(place) = places.iter().find(|place| place.exists()) else {
            let tried = places.iter().map(|place| place.display().to_string());
            let tried = tried.collect::<Vec<_>>().join(", ");
            return Err(format!("no such file; tried {tried}"));
        };
        pcap::read_file(place, limit)
    })
}

/// The folder of a profile, the current one, and those above the profile's.
fn folders(profile: &Path) -> Vec<PathBuf> {
    let here = std::env::current_dir().unwrap_or_default();
    let profile = std::path::absolute(profile).unwrap_or_else(|_| profile.to_owned());
    let mut folders: Vec<PathBuf> = profile.ancestors().skip(1).map(Path::to_owned).collect();
    folders.retain(|folder| *folder != here);
    let at = folders
        .len()
        .min(usize::from(profile.parent() != Some(here.as_path())));
    folders.insert(at, here);
    folders
}

/// Imports the profile `text`; `file` is its name in errors. `load` returns
/// the content of a capture by the name the profile gives it, or why not.
///
/// # Errors
/// [`TrexError`] if the profile is not such a profile, asks for what streams
/// cannot do, or names a capture that cannot be a template.
pub fn import(
    file: &str,
    text: &str,
    mut load: impl FnMut(&str) -> Result<Vec<u8>, String>,
) -> Result<ImportedProfile, TrexError> {
    // An error at the end of the file may count a line more than there is.
    let lines = text.replace("\r\n", "\n").matches(['\n', '\r']).count() + 1;
    let placed = |at: At| TrexError {
        file: file.to_owned(),
        line: at.line.clamp(1, lines),
        message: one_line(&at.message),
    };
    let profile = profile::parse(text).map_err(placed)?;
    let mut options = pcap::Options::default();
    let mut streams = Vec::with_capacity(profile.templates.len());
    for template in profile.templates {
        let stream = template.load(&mut options, &mut load).map_err(placed)?;
        streams.push(stream);
    }
    Ok(ImportedProfile {
        duration_s: profile.duration_s,
        streams,
    })
}

/// The same text without line breaks and other control characters, which
/// quoted keys and names may hold.
fn one_line(text: &str) -> String {
    let escaped = |c: char| {
        let control = c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
        let escaped = control.then(|| c.escape_default());
        let plain = (!control).then_some(c);
        escaped.into_iter().flatten().chain(plain)
    };
    text.chars().flat_map(escaped).collect()
}

#[cfg(test)]
mod tests;
