//! Memory that is far from the cores that use it.

/// What to know of workers on these cores; none where all are of one NUMA node, as far as the kernel
/// tells (`node_of`). The buffers of a session are in one pool, which lies on one node.
pub(super) fn warning(cores: &[usize], node_of: impl Fn(usize) -> Option<usize>) -> Option<String> {
    let mut nodes: Vec<usize> = cores.iter().filter_map(|&core| node_of(core)).collect();
    nodes.sort_unstable();
    nodes.dedup();
    if nodes.len() < 2 {
        return None;
    }
    let nodes: Vec<String> = nodes.iter().map(ToString::to_string).collect();
    Some(format!(
        "the cores {cores:?} are on NUMA nodes {}, and the packet buffers of all ports on one of them: for \
         the others they are remote; use cores of the node of the NICs",
        nodes.join(" and ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_of_several_nodes_are_warned_of() {
        let of_two = |core: usize| Some(core / 4);
        assert_eq!(warning(&[0, 3, 1], of_two), None);
        assert_eq!(warning(&[0, 9], |_| None), None);
        let told = warning(&[1, 4, 5], of_two).unwrap();
        assert!(
            told.contains("cores [1, 4, 5] are on NUMA nodes 0 and 1"),
            "{told}"
        );
    }
}
