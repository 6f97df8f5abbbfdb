//! What becomes due at a fixed distance from a connection's planned time. Planned times
//! rise with the number of a connection, so each timer is a place in their order.

use super::outstanding::State;

/// What is done with connections in which state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Those that are held send the request that they are held before.
    Release,
    /// Those whose SYN was not answered send it again.
    RepeatSyn,
    /// Those that wait for an answer or a FIN repeat what they sent.
    RepeatRest,
}

/// One timer of all connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timer {
    /// Since a connection's planned time.
    pub after_ns: u64,
    /// What is done then.
    pub action: Action,
    /// The first connection whose time has not come.
    pub next: u64,
}

/// How often segments without an answer are repeated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retry {
    /// Between two of the same.
    pub after_ns: u64,
    /// At most, of each segment.
    pub times: u32,
}

impl Action {
    /// Whether it is for a connection in this state.
    #[inline(always)]
    pub fn is_for(self, state: State) -> bool {
        match self {
            Self::Release => state == State::Established,
            Self::RepeatSyn => state == State::Opened,
            Self::RepeatRest => matches!(state, State::Established | State::Answered),
        }
    }
}

/// The timers of connections that are held for `hold_ns` before a request.
pub fn timers(hold_ns: u64, retry: Retry) -> Vec<Timer> {
    let timer = |after_ns, action| Timer {
        after_ns,
        action,
        next: 0,
    };
    let release = (hold_ns > 0).then(|| timer(hold_ns, Action::Release));
    let repeats = (1..=u64::from(retry.times)).flat_map(|number| {
        let after_ns = number * retry.after_ns;
        let syn = timer(after_ns, Action::RepeatSyn);
        [syn, timer(hold_ns + after_ns, Action::RepeatRest)]
    });
    release.into_iter().chain(repeats).collect()
}
