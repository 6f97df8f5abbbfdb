//! What several of these test programs need.

use pinchpoint_sockets::{Live, Run, Status, Workload, run};

/// Runs it to its end; returns the first of its runs.
pub(crate) fn completed(work: &Workload) -> Run {
    let outcome = run(work, &Live::default()).unwrap();
    assert_eq!(outcome.status, Status::Completed, "{:?}", outcome.reason);
    outcome.runs.into_iter().next().unwrap()
}
