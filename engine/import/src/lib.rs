//! Files of other tools: packet captures in and out, TRex profiles in.
//!
//! * [`pcap`]: the frames of a pcap or pcapng file, as templates for streams;
//! * [`capture`]: what ports sent and received, written as pcapng
//!   for Wireshark;
//! * [`replay`]: those of one side of a capture, with their times;
//! * [`trex`]: TRex stateful-template profiles and the captures they name.
//!
//! Everything read here is hostile until it has been checked: each reader
//! works on bytes it is given, bounds what it keeps, and answers with an error
//! that names file, place, value and what was expected. Only the thin `read`
//! and `write` functions touch the file system.

pub mod capture;
pub mod pcap;
pub mod replay;
pub mod trex;
