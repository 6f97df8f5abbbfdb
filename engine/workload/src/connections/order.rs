//! Which backend each connection reached, in the order in which they were opened.

use super::payload::NOBODY;

/// Connections that are listed; those after them are not.
const MOST: u64 = 1 << 16;

/// Backends by connection, from the first.
#[derive(Debug, Clone)]
pub struct Order {
    backends: Vec<u16>,
}

impl Order {
    /// Of `count` connections, none of which has been answered.
    pub(super) fn new(count: u64) -> Self {
        Self {
            backends: vec![NOBODY; count.min(MOST) as usize],
        }
    }

    /// Backend number `backend` gave the first answer to connection `n`.
    pub(super) fn note(&mut self, n: u64, backend: u16) {
        if let Some(noted) = self.backends.get_mut(n as usize) {
            *noted = backend;
        }
    }

    /// Backend by connection; none where the first answer did not come or was wrong.
    pub fn backends(&self) -> impl Iterator<Item = Option<u16>> + '_ {
        let backends = self.backends.iter();
        backends.map(|&backend| (backend != NOBODY).then_some(backend))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_listed_by_number_whenever_they_were_answered() {
        let mut order = Order::new(4);
        for (n, backend) in [(2, 0), (0, 2), (3, 1), (4, 1)] {
            order.note(n, backend);
        }
        let listed: Vec<_> = order.backends().collect();
        assert_eq!(listed, [Some(2), None, Some(0), Some(1)]);
        assert_eq!(Order::new(u64::MAX).backends().count(), 1 << 16);
    }
}
