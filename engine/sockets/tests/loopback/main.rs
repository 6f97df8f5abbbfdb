//! What workloads promise, on loopback in this namespace.

mod apart;
mod failures;
mod runs;
mod transactions;

use pinchpoint_sockets::{Kind, Live, Outcome, Run, Status, Transport, Workload, run};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
/// A thread that shares its core may wait this long for its turn, and no longer.
const LONG: Duration = Duration::from_secs(60);

/// A short one.
fn work(kind: Kind, transport: Transport) -> Workload {
    Workload {
        warm_up: 20 * MS,
        duration: 100 * MS,
        timeout: LONG,
        ..Workload::loopback(kind, transport)
    }
}

/// One that ends after `transactions`, however long a busy machine takes for them.
fn counted(kind: Kind, transport: Transport, transactions: u64) -> Workload {
    Workload {
        duration: LONG,
        transactions: Some(transactions),
        ..work(kind, transport)
    }
}

fn outcome(work: &Workload) -> Outcome {
    run(work, &Live::default()).unwrap()
}

/// Runs it to its end without any failure.
fn completed(work: &Workload) -> Run {
    let outcome = outcome(work);
    assert_eq!(outcome.status, Status::Completed, "{:?}", outcome.reason);
    assert_eq!(outcome.runs.len(), 1);
    let run = outcome.runs.into_iter().next().unwrap();
    assert_eq!(
        (run.faults.total(), run.unfinished),
        (0, 0),
        "{:?}",
        run.faults
    );
    run
}

/// What must hold of every run of transactions.
fn assert_identities(work: &Workload, run: &Run) {
    assert!(run.transactions > 0, "{work:?}");
    assert_eq!(run.latency.len(), run.transactions);
    assert_eq!(
        run.received_bytes,
        run.transactions * work.request_bytes as u64
    );
    assert_eq!(run.failed_share(), Some(0.0));
    let counted: u64 = run.per_second.iter().sum();
    // Transactions that began in the window may end after its last second.
    assert!(counted <= run.transactions && counted > 0);
    if work.kind == Kind::Rr {
        let each = run.connections.iter().map(|one| one.transactions.unwrap());
        assert_eq!(each.sum::<u64>(), run.transactions);
        assert_eq!(run.connections.len(), work.connections);
    } else {
        assert!(run.connections.is_empty());
    }
}
