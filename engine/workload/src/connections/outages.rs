//! Times at which a backend is down.

/// How a backend is down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// It answers nothing, as a machine that has lost its power.
    Silent,
    /// It answers every segment by a reset, as a machine on which nothing listens.
    Reset,
}

/// A time at which one backend is down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outage {
    /// The backend's number.
    pub backend: u16,
    /// When it begins, since the first connection was due.
    pub from_ns: u64,
    /// When it ends.
    pub until_ns: u64,
    /// How the backend is down.
    pub manner: Manner,
}

/// All outages of the backends behind one port, and which of them are down now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outages {
    all: Vec<Outage>,
    /// By the backend's number; empty as long as none is down.
    down: Vec<Option<Manner>>,
    /// When this changes.
    next_ns: u64,
}

impl Outages {
    /// These; of two that overlap, the later one in the list counts.
    pub fn new(all: Vec<Outage>) -> Self {
        Self {
            all,
            ..Self::default()
        }
    }

    /// How a backend is down now; none if it is not.
    #[inline(always)]
    pub fn of(&self, backend: u16) -> Option<Manner> {
        *self.down.get(usize::from(backend))?
    }

    /// So much time has passed.
    #[inline(always)]
    pub fn pass(&mut self, passed_ns: u64) {
        if passed_ns >= self.next_ns {
            self.renew(passed_ns);
        }
    }

    #[inline(never)]
    fn renew(&mut self, passed_ns: u64) {
        self.down.clear();
        for one in &self.all {
            if (one.from_ns..one.until_ns).contains(&passed_ns) {
                let backend = usize::from(one.backend);
                self.down.resize(self.down.len().max(backend + 1), None);
                self.down[backend] = Some(one.manner);
            }
        }
        let changes = self.all.iter().flat_map(|one| [one.from_ns, one.until_ns]);
        self.next_ns = changes
            .filter(|&at_ns| at_ns > passed_ns)
            .min()
            .unwrap_or(u64::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backend_is_down_from_the_beginning_of_its_outage_to_the_end() {
        let outage = |backend, from_ns, until_ns, manner| Outage {
            backend,
            from_ns,
            until_ns,
            manner,
        };
        let mut outages = Outages::new(vec![
            outage(1, 10, 20, Manner::Silent),
            outage(0, 15, 30, Manner::Reset),
        ]);
        for (passed_ns, expected) in [
            (0, [None, None]),
            (9, [None, None]),
            (10, [None, Some(Manner::Silent)]),
            (15, [Some(Manner::Reset), Some(Manner::Silent)]),
            (20, [Some(Manner::Reset), None]),
            (31, [None, None]),
        ] {
            outages.pass(passed_ns);
            assert_eq!([outages.of(0), outages.of(1)], expected, "{passed_ns}");
        }
    }
}
