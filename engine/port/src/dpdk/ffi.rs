//! Declarations of `shim.c`; nothing else in the crate calls into DPDK.

use std::ffi::{c_char, c_int, c_uint};

/// `struct rte_mbuf`, never looked into from here.
#[repr(C)]
pub(super) struct Mbuf {
    opaque: [u8; 0],
}

/// `struct rte_mempool`, never looked into from here.
#[repr(C)]
pub(super) struct Mempool {
    opaque: [u8; 0],
}

/// `struct pp_info`.
#[repr(C)]
pub(super) struct Info {
    pub(super) rx_ring: u16,
    pub(super) tx_ring: u16,
    pub(super) mtu: u16,
    pub(super) is_vdev: u8,
    pub(super) has_mac: u8,
    pub(super) mac: [u8; 6],
    pub(super) driver: [c_char; 64],
    pub(super) max_queues: u16,
    pub(super) node: i16,
    pub(super) settings: [c_char; 160],
}

/// `struct rte_eth_xstat_name`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct XstatName {
    pub(super) name: [c_char; 64],
}

/// `struct rte_eth_xstat`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Xstat {
    /// Index of its name.
    pub(super) id: u64,
    pub(super) value: u64,
}

unsafe extern "C" {
    pub(super) fn pp_version() -> *const c_char;
    pub(super) fn pp_strerror(code: c_int) -> *const c_char;
    pub(super) fn pp_eal_init(argc: c_int, argv: *mut *mut c_char) -> c_int;
    pub(super) fn pp_thread_register() -> c_int;
    pub(super) fn pp_thread_unregister();
    pub(super) fn pp_heap_free() -> usize;
    pub(super) fn pp_pool_bytes(mbufs: c_uint, room: u16) -> usize;
    pub(super) fn pp_pool_create(
        node: c_int,
        mbufs: c_uint,
        cache: c_uint,
        room: u16,
    ) -> *mut Mempool;
    #[cfg(debug_assertions)]
    pub(super) fn pp_pool_in_use(pool: *const Mempool) -> c_uint;
    pub(super) fn pp_pool_free(pool: *mut Mempool);
    pub(super) fn pp_attach(devargs: *const c_char, port: *mut u16) -> c_int;
    pub(super) fn pp_start(
        port: u16,
        pools: *const *mut Mempool,
        queues: u16,
        rx_ring: u16,
        tx_ring: u16,
        mtu: u16,
        info: *mut Info,
    ) -> c_int;
    pub(super) fn pp_link_up(port: u16) -> c_int;
    pub(super) fn pp_speed_mbps(port: u16) -> u32;
    pub(super) fn pp_close(port: u16);
    pub(super) fn pp_alloc(
        pool: *mut Mempool,
        mbufs: *mut *mut Mbuf,
        data: *mut *mut u8,
        lens: *const u16,
        n: u16,
    ) -> u16;
    pub(super) fn pp_tx(port: u16, queue: u16, mbufs: *mut *mut Mbuf, n: u16, shared: u8) -> u16;
    pub(super) fn pp_rx(
        port: u16,
        queue: u16,
        mbufs: *mut *mut Mbuf,
        data: *mut *mut u8,
        lens: *mut u16,
        n: u16,
    ) -> u16;
    pub(super) fn pp_free(mbufs: *mut *mut Mbuf, n: u16, shared: u8);
    pub(super) fn pp_missed(port: u16, missed: *mut u64) -> c_int;
    pub(super) fn pp_xstats_names(port: u16, names: *mut XstatName, max: c_uint) -> c_int;
    pub(super) fn pp_xstats(port: u16, values: *mut Xstat, max: c_uint) -> c_int;
}
