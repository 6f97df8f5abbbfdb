//! Memory near the cores that use it.

use crate::{PortSpec, SessionSpec};
use std::collections::BTreeSet;

/// A NUMA node; none: not known, or any.
pub(super) type Node = Option<usize>;

/// By port, the node of each of its queues: that of the core that drives it, as far as the kernel
/// tells (`node_of`).
pub(super) fn of_queues(
    session: &SessionSpec,
    specs: &[&PortSpec],
    node_of: impl Fn(usize) -> Node,
) -> Vec<Vec<Node>> {
    let of_port = |spec: &&PortSpec| {
        let workers = session.worker_cores.iter().zip(&session.worker_ports);
        let own = workers.filter(|(_, ports)| ports.contains(&spec.name));
        let mut nodes: Vec<Node> = own.map(|(&core, _)| node_of(core)).collect();
        nodes.resize(usize::from(spec.queues), None);
        nodes
    };
    specs.iter().map(of_port).collect()
}

/// What to know where cores of other nodes drive queues of a port whose NIC is on `nic`.
pub(super) fn remote(port: &str, nic: Node, queues: &[Node]) -> Option<String> {
    let nic = nic?;
    let others: BTreeSet<usize> = queues.iter().copied().flatten().collect();
    let others: Vec<String> = others
        .iter()
        .filter(|&&node| node != nic)
        .map(ToString::to_string)
        .collect();
    (!others.is_empty()).then(|| {
        format!(
            "{port}: its NIC is on NUMA node {nic}, and cores that drive it on {}: each frame \
             crosses between nodes; use cores of node {nic}",
            others.join(" and ")
        )
    })
}

/// What to know where the packet buffers of cores on `node` lie elsewhere.
pub(super) fn without_memory(node: usize) -> String {
    format!(
        "NUMA node {node} has no memory for the packet buffers of its cores: they are on another \
         one; reserve hugepages in /sys/devices/system/node/node{node}/hugepages"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(name: &str, queues: u16) -> PortSpec {
        PortSpec {
            name: name.to_owned(),
            backend: crate::Backend::Dpdk,
            device: String::new(),
            netns: None,
            rx_ring: 64,
            tx_ring: 64,
            queues,
        }
    }

    #[test]
    fn queues_are_on_the_nodes_of_the_cores_that_drive_them() {
        let ports =
            |names: &[&str]| -> Vec<String> { names.iter().map(|&name| name.to_owned()).collect() };
        let session = SessionSpec {
            worker_cores: vec![0, 9, 1],
            worker_ports: vec![ports(&["a"]), ports(&["b", "a"]), ports(&["b"])],
            ..SessionSpec::default()
        };
        let (a, b) = (port("a", 2), port("b", 2));
        let of_two = |core: usize| Some(core / 4);
        assert_eq!(
            of_queues(&session, &[&a, &b], of_two),
            [[Some(0), Some(2)], [Some(2), Some(0)]]
        );
        let nobody = SessionSpec::default();
        assert_eq!(of_queues(&nobody, &[&a], of_two), [[None::<usize>, None]]);
    }

    #[test]
    fn a_nic_of_another_node_than_its_cores_is_warned_of() {
        assert_eq!(remote("a", Some(1), &[Some(1), None]), None);
        assert_eq!(remote("a", None, &[Some(1)]), None);
        let told = remote("a", Some(1), &[Some(0), Some(1), Some(0)]).unwrap();
        assert!(
            told.starts_with("a: its NIC is on NUMA node 1, and cores that drive it on 0: "),
            "{told}"
        );
    }
}
