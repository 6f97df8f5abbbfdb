//! Ports driven by DPDK.
//!
//! The environment layer is initialised once per process, by the first
//! session that needs it; devices come and go with their ports. The queues whose
//! cores are on one NUMA node share a pool of buffers there.
#![allow(unsafe_code)]

mod attach;
mod eal;
mod ffi;
mod numa;
mod pool;

use crate::ahead::{AHEAD, prefetch_frame};
use crate::{BURST, Deadline, OpenError, Port, PortSpec, SessionSpec, Sink, Source, sched};
use ffi::{Info, Mbuf, Xstat, XstatName};
use numa::Node;
use pinchpoint_wire::ethernet::Mac;
use pool::{Pool, max_len, mtu};
use std::ffi::{CStr, c_char, c_int, c_uint};
use std::ptr;
use std::sync::Arc;

pub(crate) use eal::Registration;

/// The driver whose peer, a vhost-user switch, reads and writes our buffers from its own core.
const SHARING: &str = "net_virtio_user";

/// The version of DPDK, as `DPDK 22.11.11`.
pub(crate) fn version() -> String {
    // SAFETY: returns a static string and needs no initialisation.
    text(unsafe { ffi::pp_version() })
}

/// The C string at `text`.
fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the callers pass strings that end with a zero byte, static or
    // inside a structure that they hold.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}

fn strerror(code: c_int) -> String {
    // SAFETY: returns a string that lives as long as the thread.
    text(unsafe { ffi::pp_strerror(code) })
}

fn warn(warning: &str) {
    eprintln!("pinchpoint-engine: warning: {warning}");
}

/// A started ethdev; it stops when the last of its queues goes.
struct Device {
    id: u16,
    mode: String,
    mac: Option<Mac>,
    is_vdev: bool,
    /// Whether its peer shares its buffers, from another core.
    shared: bool,
    /// Whether its driver knows the state of its link.
    knows_link: bool,
    max_len: usize,
    rings: (u32, u32),
    /// The node of a NIC.
    node: Node,
    /// By queue; dropped after the device is closed, hence the last field.
    pools: Vec<Arc<Pool>>,
}

/// One receive and one transmit queue of an ethdev.
pub struct DpdkPort {
    device: Arc<Device>,
    queue: u16,
    mbufs: [*mut Mbuf; BURST],
    data: [*mut u8; BURST],
    lens: [u16; BURST],
    /// Frames for which the pool had no buffers.
    starved: u64,
    pool: Arc<Pool>,
}

// SAFETY: a queue may be used by one thread at a time, which `&mut self`
// ensures; the pointers are scratch space of one call.
unsafe impl Send for DpdkPort {}

/// Opens the devices of a session; returns the queues of each.
pub(crate) fn open(
    session: &SessionSpec,
    specs: &[&PortSpec],
    deadline: Deadline<'_>,
) -> Result<Vec<Vec<DpdkPort>>, OpenError> {
    eal::init(session)?;
    let nodes = numa::of_queues(session, specs, sched::numa_node);
    let pools = pool::of_nodes(session, specs, &nodes)?;
    let open = |(spec, nodes): (&&PortSpec, &Vec<Node>)| {
        let own = nodes.iter().map(|node| Arc::clone(&pools[node])).collect();
        let device = Device::open(spec, own, deadline).map_err(|error| error.at(&spec.name))?;
        if let Some(warning) = numa::remote(&spec.name, device.node, nodes) {
            warn(&warning);
        }
        let device = Arc::new(device);
        let queue = |(queue, pool): (usize, &Arc<Pool>)| {
            DpdkPort::new(&device, queue as u16, Arc::clone(pool))
        };
        Ok(device.pools.iter().enumerate().map(queue).collect())
    };
    specs.iter().zip(&nodes).map(open).collect()
}

impl DpdkPort {
    fn new(device: &Arc<Device>, queue: u16, pool: Arc<Pool>) -> Self {
        Self {
            device: Arc::clone(device),
            queue,
            mbufs: [ptr::null_mut(); BURST],
            data: [ptr::null_mut(); BURST],
            lens: [0; BURST],
            starved: 0,
            pool,
        }
    }
}

impl Device {
    fn open(
        spec: &PortSpec,
        pools: Vec<Arc<Pool>>,
        deadline: Deadline<'_>,
    ) -> Result<Self, OpenError> {
        let mut device = Self {
            id: attach::attach(&spec.device, deadline)?,
            mode: String::new(),
            mac: None,
            is_vdev: false,
            shared: false,
            knows_link: attach::knows_link(&spec.device),
            max_len: 0,
            rings: (0, 0),
            node: None,
            pools,
        };
        device.start(spec)?;
        Ok(device)
    }

    fn start(&mut self, spec: &PortSpec) -> Result<(), OpenError> {
        let mut info = Info {
            rx_ring: 0,
            tx_ring: 0,
            mtu: 0,
            is_vdev: 0,
            has_mac: 0,
            mac: [0; 6],
            driver: [0; 64],
            max_queues: 0,
            node: 0,
            settings: [0; 160],
        };
        let (rx_ring, tx_ring) = (spec.rx_ring as u16, spec.tx_ring as u16);
        let room = self.pools.iter().map(|pool| pool.room).min();
        let mtu = mtu(room.unwrap_or(pool::STANDARD_ROOM));
        let pools: Vec<_> = self.pools.iter().map(|pool| pool.raw).collect();
        // SAFETY: the port exists; `pools` has one for each queue, which outlives the port; `pools`
        // and `info` outlive the call.
        let rc = unsafe {
            ffi::pp_start(
                self.id,
                pools.as_ptr(),
                pools.len() as u16,
                rx_ring,
                tx_ring,
                mtu,
                &raw mut info,
            )
        };
        if rc < 0 {
            return Err(refusal(spec, rc, info.max_queues));
        }
        self.mode = text(info.driver.as_ptr());
        self.shared = self.mode == SHARING;
        if info.is_vdev == 0 {
            self.mode += ", ";
            self.mode += &text(info.settings.as_ptr());
        }
        self.mac = (info.has_mac != 0).then_some(Mac(info.mac));
        self.is_vdev = info.is_vdev != 0;
        let node = usize::try_from(info.node).ok();
        self.node = node.filter(|_| !self.is_vdev);
        // A device may accept less than it was asked for.
        self.max_len = max_len(mtu.min(info.mtu));
        self.rings = (u32::from(info.rx_ring), u32::from(info.tx_ring));
        Ok(())
    }
}

fn refusal(spec: &PortSpec, rc: c_int, max_queues: u16) -> OpenError {
    let error = OpenError::new(format!("cannot start {}: {}", spec.device, strerror(rc)));
    if spec.queues > max_queues {
        return error.hint(format!(
            "{} workers need a queue each, and the device has {max_queues}: use fewer workers, or \
             add queues=N to the device's arguments (vhost-user and others)",
            spec.queues
        ));
    }
    error
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: the port exists, and nothing uses its queues any more.
        unsafe { ffi::pp_close(self.id) }
    }
}

impl Port for DpdkPort {
    #[inline]
    fn send<S: Source>(&mut self, count: usize, mut source: S) -> usize {
        let count = count.min(BURST);
        let device = &*self.device;
        for (i, len) in self.lens[..count].iter_mut().enumerate() {
            *len = source.len(i).min(device.max_len) as u16;
        }
        // SAFETY: the three arrays have room for a burst, and `max_len` is at
        // most the room of a buffer.
        let got = unsafe {
            ffi::pp_alloc(
                self.pool.raw,
                self.mbufs.as_mut_ptr(),
                self.data.as_mut_ptr(),
                self.lens.as_ptr(),
                count as u16,
            )
        };
        if usize::from(got) != count {
            self.starved += count as u64;
            return 0;
        }
        for (i, (&data, &len)) in self.data[..count].iter().zip(&self.lens).enumerate() {
            // SAFETY: the first `count` entries point at the data of distinct
            // buffers, `len` bytes long, that this port holds alone.
            let frame = unsafe { std::slice::from_raw_parts_mut(data, usize::from(len)) };
            source.frame(i, frame);
        }
        // SAFETY: the first `count` entries are buffers this port holds; the
        // call takes or frees every one of them.
        let taken = unsafe {
            ffi::pp_tx(
                device.id,
                self.queue,
                self.mbufs.as_mut_ptr(),
                count as u16,
                u8::from(device.shared),
            )
        };
        usize::from(taken)
    }

    #[inline]
    fn receive<S: Sink>(&mut self, sink: &mut S) -> usize {
        // SAFETY: the three arrays have room for a burst.
        let got = unsafe {
            ffi::pp_rx(
                self.device.id,
                self.queue,
                self.mbufs.as_mut_ptr(),
                self.data.as_mut_ptr(),
                self.lens.as_mut_ptr(),
                BURST as u16,
            )
        };
        if got == 0 {
            return 0;
        }
        let count = usize::from(got).min(BURST);
        let frames = self.data[..count].iter().zip(&self.lens);
        for (&data, &len) in frames.clone().take(AHEAD) {
            prefetch_frame(data, usize::from(len));
        }
        sink.arrived(count);
        let mut ahead = frames.clone().skip(AHEAD);
        for (&data, &len) in frames {
            if let Some((&data, &len)) = ahead.next() {
                prefetch_frame(data, usize::from(len));
            }
            // SAFETY: entry `i` points at `lens[i]` bytes of a buffer that is
            // not freed before the loop ends.
            sink.frame(unsafe { std::slice::from_raw_parts(data, usize::from(len)) });
        }
        // SAFETY: the first `got` entries were received above and are freed
        // once.
        unsafe { ffi::pp_free(self.mbufs.as_mut_ptr(), got, u8::from(self.device.shared)) };
        count
    }

    fn link_up(&mut self) -> bool {
        // SAFETY: the port exists.
        !self.device.knows_link || unsafe { ffi::pp_link_up(self.device.id) != 0 }
    }

    fn failure(&mut self) -> Option<String> {
        (!self.link_up()).then(|| "its link went down".to_owned())
    }

    fn speed_bps(&mut self) -> Option<u64> {
        // SAFETY: the port exists.
        let mbps = unsafe { ffi::pp_speed_mbps(self.device.id) };
        // A virtual device's speed is a constant of its driver.
        (mbps > 0 && !self.device.is_vdev).then(|| u64::from(mbps) * 1_000_000)
    }

    fn mac(&self) -> Option<Mac> {
        self.device.mac
    }

    fn mode(&self) -> &str {
        &self.device.mode
    }

    fn max_len(&self) -> usize {
        self.device.max_len
    }

    fn rings(&self) -> (u32, u32) {
        self.device.rings
    }

    /// None for virtual devices: their drivers report zero without counting.
    fn rx_missed(&mut self) -> Option<u64> {
        let mut missed = 0;
        // SAFETY: the port exists and `missed` outlives the call.
        let rc = unsafe { ffi::pp_missed(self.device.id, &raw mut missed) };
        if self.queue > 0 {
            missed = 0;
        }
        (rc == 0 && !self.device.is_vdev).then_some(missed)
    }

    fn stats(&mut self) -> Vec<(String, u64)> {
        let mut stats = Vec::new();
        if self.queue == 0 {
            stats = self.device.xstats();
        }
        if self.starved > 0 {
            stats.push(("engine_tx_no_buffers".to_owned(), self.starved));
        }
        stats
    }
}

impl Device {
    /// The extended statistics, with their names; nothing if the driver fails
    /// to tell them.
    fn xstats(&self) -> Vec<(String, u64)> {
        let names = all(XstatName { name: [0; 64] }, |names: &mut [XstatName]| {
            // SAFETY: the port exists, and the array has the announced length.
            unsafe { ffi::pp_xstats_names(self.id, names.as_mut_ptr(), names.len() as c_uint) }
        });
        let values = all(Xstat { id: 0, value: 0 }, |values: &mut [Xstat]| {
            // SAFETY: as above.
            unsafe { ffi::pp_xstats(self.id, values.as_mut_ptr(), values.len() as c_uint) }
        });
        let named = values.iter().filter_map(|stat| {
            let name = names.get(usize::try_from(stat.id).ok()?)?;
            Some((text(name.name.as_ptr()), stat.value))
        });
        named.collect()
    }
}

/// All that `fill` has to tell: it returns how much there is, and writes it
/// where there is room for all of it. More may come to be between two calls.
fn all<T: Copy>(empty: T, fill: impl Fn(&mut [T]) -> c_int) -> Vec<T> {
    const TRIES: usize = 4;
    let mut found = Vec::new();
    for _ in 0..TRIES {
        let count = usize::try_from(fill(&mut found)).unwrap_or_default();
        if count <= found.len() {
            found.truncate(count);
            return found;
        }
        found.resize(count, empty);
    }
    Vec::new()
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
