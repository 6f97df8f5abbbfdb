//! The speed of an interface's link (ethtool's ioctl).
#![allow(unsafe_code)]

use super::socket::Socket;
use std::io;

/// Commands of `linux/ethtool.h`.
const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GLINKSETTINGS: u32 = 0x4c;

/// Masks of link modes that the kernel can have at most, in words.
const MAX_MASK_WORDS: usize = 127;

/// `struct ethtool_drvinfo`.
#[repr(C)]
struct DriverInfo {
    cmd: u32,
    driver: [u8; 32],
    version: [u8; 32],
    fw_version: [u8; 32],
    bus_info: [u8; 32],
    rest: [u8; 64],
}

/// `struct ethtool_link_settings` with room for its three masks.
#[repr(C)]
struct LinkSettings {
    cmd: u32,
    speed: u32,
    duplex_to_mdix_ctrl: [u8; 7],
    mask_words: i8,
    rest: [u32; 8 + 3 * MAX_MASK_WORDS],
}

/// Bits per second of the link of interface `index`, if a device is behind
/// it and tells. Virtual interfaces name speeds that nothing obeys (veth
/// 10 Gbit/s, tap 10 Mbit/s); they are told apart by having no place on a bus,
/// which unlike sysfs can be asked in any network namespace.
pub(super) fn speed_bps(socket: &Socket, index: libc::c_int) -> Option<u64> {
    let name = socket.interface_name(index).ok()?;
    // SAFETY: both structures consist of integers, valid when zero.
    let (mut info, mut settings): (DriverInfo, LinkSettings) = unsafe { std::mem::zeroed() };
    info.cmd = ETHTOOL_GDRVINFO;
    let ask = |data: *mut libc::c_char| -> io::Result<()> {
        socket.ask(name, libc::SIOCETHTOOL, |question| {
            question.ifr_ifru.ifru_data = data;
        })?;
        Ok(())
    };
    ask((&raw mut info).cast()).ok()?;
    // The tun driver calls its kind of interface a bus.
    if info.bus_info[0] == 0 || info.driver.starts_with(b"tun\0") {
        return None;
    }
    settings.cmd = ETHTOOL_GLINKSETTINGS;
    ask((&raw mut settings).cast()).ok()?;
    // The first answer says, negated, how many words a mask has.
    if settings.mask_words < 0 {
        settings.cmd = ETHTOOL_GLINKSETTINGS;
        settings.mask_words = -settings.mask_words;
        ask((&raw mut settings).cast()).ok()?;
    }
    match settings.speed {
        0 | u32::MAX => None,
        mbps => Some(u64::from(mbps) * 1_000_000),
    }
}
