//! The speed of an interface's link (ethtool's ioctl).
#![allow(unsafe_code)]

use super::socket::{Name, Socket};
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
/// it and reports it. Virtual interfaces name speeds that nothing obeys (veth
/// 10 Gbit/s, tap 10 Mbit/s).
pub(super) fn speed_bps(socket: &Socket, index: libc::c_int) -> Option<u64> {
    let name = socket.interface_name(index).ok()?;
    if !is_device(socket, name) {
        return None;
    }
    match told_mbps(socket, name).ok()? {
        0 | u32::MAX => None,
        mbps => Some(u64::from(mbps) * 1_000_000),
    }
}

/// Whether the interface has a place on a bus, which unlike its link in sysfs
/// can be asked in any network namespace.
fn is_device(socket: &Socket, name: Name) -> bool {
    // SAFETY: the structure consists of integers, valid when zero.
    let mut info: DriverInfo = unsafe { std::mem::zeroed() };
    info.cmd = ETHTOOL_GDRVINFO;
    let told = ask(socket, name, &mut info).is_ok();
    // The tun driver calls its kind of interface a bus.
    told && info.bus_info[0] != 0 && !info.driver.starts_with(b"tun\0")
}

/// What the kernel says, in Mbit/s.
pub(super) fn told_mbps(socket: &Socket, name: Name) -> io::Result<u32> {
    // SAFETY: the structure consists of integers, valid when zero.
    let mut settings: LinkSettings = unsafe { std::mem::zeroed() };
    settings.cmd = ETHTOOL_GLINKSETTINGS;
    ask(socket, name, &mut settings)?;
    // The first answer says, negated, how many words a mask has.
    if settings.mask_words < 0 {
        settings.cmd = ETHTOOL_GLINKSETTINGS;
        settings.mask_words = -settings.mask_words;
        ask(socket, name, &mut settings)?;
    }
    Ok(settings.speed)
}

/// Has the kernel fill `structure`, one of the two above.
fn ask<T>(socket: &Socket, name: Name, structure: &mut T) -> io::Result<()> {
    socket.ask(name, libc::SIOCETHTOOL, |question| {
        question.ifr_ifru.ifru_data = std::ptr::from_mut(structure).cast();
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structures_have_the_lengths_of_linux_ethtool_h() {
        assert_eq!(size_of::<DriverInfo>(), 196);
        assert_eq!(size_of::<LinkSettings>(), 48 + 3 * 4 * MAX_MASK_WORDS);
        assert_eq!(std::mem::offset_of!(LinkSettings, mask_words), 15);
    }

    #[test]
    #[ignore = "needs root"]
    fn the_loopback_is_no_device() {
        let socket = Socket::new().unwrap();
        let lo = crate::af_packet::socket::name("lo").unwrap();
        assert!(!is_device(&socket, lo));
        let index = socket.interface_index(lo).unwrap();
        assert_eq!(speed_bps(&socket, index), None);
    }
}
