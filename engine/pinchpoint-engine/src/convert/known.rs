//! The ports of the open session, as trials refer to them.

use super::check;
use crate::protocol::{ErrorReply, OpenRequest};
use pinchpoint_port::{AnyPort, Backend, Port, PortSpec, Stamps};
use pinchpoint_wire::ethernet::Mac;
use pinchpoint_worker::WorkerPort;
use pinchpoint_workload::streams::WorkersPorts;
use std::collections::HashMap;
use std::net::IpAddr;

/// A port of the open session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownPort {
    /// The name the lab gave it.
    pub name: String,
    /// Who drives it.
    pub backend: Backend,
    /// Bytes of the longest frame it carries, without check sequence.
    pub max_len: usize,
    /// Descriptors of each receive ring; none if it cannot receive.
    pub rx_ring: u32,
    /// Frames of the smallest ring that takes what is sent: its own, or one
    /// behind it.
    pub smallest_ring: u32,
    /// Whose clock says when its frames arrived.
    pub stamps: Stamps,
    /// Bits per second of its link, if it has a speed.
    pub speed_bps: Option<u64>,
    /// The workers that drive it, and its place among each one's ports.
    pub workers: Vec<(usize, usize)>,
}

/// The open session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Its ports, in the order of the request.
    pub ports: Vec<KnownPort>,
    /// Its workers' cores.
    pub cores: Vec<usize>,
}

impl Known {
    /// The session of `request`, whose ports have these queues.
    pub fn new(request: &OpenRequest, specs: &[PortSpec], queues: &mut [Vec<AnyPort>]) -> Self {
        let ports = specs.iter().zip(queues).map(|(spec, queues)| {
            let max_len = queues.iter().map(Port::max_len).min().unwrap_or(0);
            let rx_ring = queues.iter().map(|queue| queue.rings().0).min();
            let tx_ring = queues.iter().map(|queue| queue.rings().1).min();
            let asked = request.ports.iter().find(|port| port.name == spec.name);
            let behind = asked.and_then(|port| port.ring_behind);
            let workers = request.workers.iter().enumerate();
            let place = |name: &String| *name == spec.name;
            let workers =
                workers.filter_map(|(k, worker)| Some((k, worker.ports.iter().position(place)?)));
            KnownPort {
                name: spec.name.clone(),
                backend: spec.backend,
                max_len,
                rx_ring: rx_ring.unwrap_or(0),
                smallest_ring: tx_ring.into_iter().chain(behind).min().unwrap_or(0),
                stamps: queues.first().map(Port::stamps).unwrap_or_default(),
                speed_bps: queues.first_mut().and_then(Port::speed_bps),
                workers: workers.collect(),
            }
        });
        Self {
            ports: ports.collect(),
            cores: request.workers.iter().map(|worker| worker.core).collect(),
        }
    }

    /// Only a port that receives can be asked for an address.
    ///
    /// # Errors
    /// Code `invalid`, naming the key.
    pub fn check_answers(&self, request: &OpenRequest) -> Result<(), ErrorReply> {
        for (k, (port, wanted)) in self.ports.iter().zip(&request.ports).enumerate() {
            check(
                wanted.answers.is_empty() || (port.rx_ring > 0 && port.backend != Backend::XdpLive),
                format!("ports[{k}].answers"),
                format!(
                    "port '{}' cannot answer: that needs a backend that sends and receives; xdp_live does not",
                    port.name
                ),
            )?;
        }
        Ok(())
    }

    /// Gives each worker its queue of each of its ports.
    pub fn hand_out(&self, request: &OpenRequest, queues: Vec<Vec<AnyPort>>) -> WorkersPorts {
        let mut queues: Vec<_> = queues.into_iter().map(Vec::into_iter).collect();
        let own = |name: &String| {
            let index = self.ports.iter().position(|port| port.name == *name)?;
            let answers = request.ports[index].answers.iter();
            let answers: HashMap<IpAddr, Mac> = answers.map(|own| (own.ip, own.mac.0)).collect();
            Some(WorkerPort {
                index,
                name: name.clone(),
                port: queues[index].next()?,
                answers,
            })
        };
        let mut own = own;
        let workers = request.workers.iter();
        workers
            .map(|worker| worker.ports.iter().filter_map(&mut own).collect())
            .collect()
    }
}
