//! Groups of streams that take turns.

use super::{check, invalid};
use crate::protocol::{ErrorReply, RunRequest, Shape, SlicesRequest};
use pinchpoint_worker::hold::Hold;
use pinchpoint_worker::plan::Part;
use pinchpoint_worker::slices::{Pattern, Schedule, Slices};
use std::collections::HashSet;
use std::sync::Arc;

const MAX_GROUPS: usize = 16;
const MAX_ORDER: usize = 256;
const MIN_LENGTH_NS: u64 = 1_000_000;
const MAX_LENGTH_NS: u64 = 60_000_000_000;
/// Each has an entry in the result.
const MAX_SLICES: u64 = 65_536;
const MAX_HELD: usize = 64;

/// A trial's slices, and the group of each of its streams.
pub(super) struct Turns {
    schedule: Schedule,
    groups: Vec<usize>,
}

impl Turns {
    /// Those that `request` asks for in `duration_ns`, if any.
    pub(super) fn new(request: &RunRequest, duration_ns: u64) -> Result<Option<Self>, ErrorReply> {
        let Some(slices) = &request.slices else {
            return Ok(None);
        };
        check_times(slices, duration_ns)?;
        let groups = groups(request, slices)?;
        check_order(slices)?;
        check_hold(slices)?;
        let pattern = Pattern {
            order: &slices.order,
            length_ns: slices.length_ns,
            settle_ns: slices.settle_ns,
            discard_ns: slices.discard_ns,
        };
        let schedule = Schedule::new(&pattern, duration_ns);
        Ok(Some(Self { schedule, groups }))
    }

    /// How long the stream at `index` is sent, in seconds.
    pub(super) fn sent_s(&self, index: usize) -> f64 {
        let sent_ns = self.schedule.sent_ns(self.groups[index], u64::MAX);
        sent_ns as f64 / 1e9
    }

    /// The same for the workers, whose streams have these `parts`. No process is held yet.
    pub(super) fn of_parts(self, parts: &[Part]) -> Slices {
        let groups = parts.iter().map(|part| self.groups[part.stream]);
        Slices {
            groups: groups.collect(),
            schedule: self.schedule,
            hold: None,
        }
    }
}

/// The processes that `request` asks to hold, if any; none is stopped yet.
///
/// # Errors
/// Code `invalid`, naming the key.
pub fn hold(request: &RunRequest) -> Result<Option<Arc<Hold>>, ErrorReply> {
    let Some(pids) = request.slices.as_ref().and_then(|it| it.hold.as_ref()) else {
        return Ok(None);
    };
    match Hold::new(pids) {
        Ok(hold) => Ok(Some(Arc::new(hold))),
        Err(error) => {
            let key = format!("slices.hold[{}][{}]", error.group, error.place);
            Err(invalid(key, error.what))
        }
    }
}

fn check_times(slices: &SlicesRequest, duration_ns: u64) -> Result<(), ErrorReply> {
    let length_ns = slices.length_ns;
    check(
        (MIN_LENGTH_NS..=MAX_LENGTH_NS).contains(&length_ns),
        "slices.length_ns",
        format!("expected {MIN_LENGTH_NS} to {MAX_LENGTH_NS}, got {length_ns}"),
    )?;
    let unmeasured_ns = slices.settle_ns.checked_add(slices.discard_ns);
    check(
        unmeasured_ns.is_some_and(|ns| ns < length_ns),
        "slices.discard_ns",
        format!(
            "expected settle_ns and discard_ns together to be less than length_ns ({length_ns})"
        ),
    )?;
    let count = duration_ns.div_ceil(length_ns);
    check(
        count <= MAX_SLICES,
        "slices.length_ns",
        format!("expected at most {MAX_SLICES} slices in a trial, got {count}"),
    )
}

/// The group of each stream of `request`.
fn groups(request: &RunRequest, slices: &SlicesRequest) -> Result<Vec<usize>, ErrorReply> {
    check(
        (1..=MAX_GROUPS).contains(&slices.groups.len()),
        "slices.groups",
        format!("expected 1 to {MAX_GROUPS}, got {}", slices.groups.len()),
    )?;
    let mut found = vec![None; request.streams.len()];
    for (group, ids) in slices.groups.iter().enumerate() {
        let key = format!("slices.groups[{group}]");
        check(!ids.is_empty(), &key, "expected at least one stream")?;
        for id in ids {
            let index = request.streams.iter().position(|stream| stream.id == *id);
            let index = index.ok_or_else(|| invalid(&key, format!("no stream has the id {id}")))?;
            check(
                found[index].replace(group).is_none(),
                &key,
                format!("stream {id} is in a group already"),
            )?;
        }
    }
    for (k, stream) in request.streams.iter().enumerate() {
        check(
            stream.shape == (Shape::Steady {}),
            format!("streams[{k}].shape"),
            "expected steady: slices cannot send another shape",
        )?;
        check(
            found[k].is_some(),
            "slices.groups",
            format!(
                "stream {} belongs to no group; put every stream into one",
                stream.id
            ),
        )?;
    }
    Ok(found.into_iter().flatten().collect())
}

fn check_order(slices: &SlicesRequest) -> Result<(), ErrorReply> {
    let groups = slices.groups.len();
    check(
        (1..=MAX_ORDER).contains(&slices.order.len()),
        "slices.order",
        format!(
            "expected 1 to {MAX_ORDER} groups, got {}",
            slices.order.len()
        ),
    )?;
    if let Some(unknown) = slices.order.iter().find(|&&group| group >= groups) {
        let what = format!(
            "group {unknown} does not exist; expected 0 to {}",
            groups - 1
        );
        return Err(invalid("slices.order", what));
    }
    let missing = (0..groups).find(|group| !slices.order.contains(group));
    check(
        missing.is_none(),
        "slices.order",
        format!("group {} never has its turn", missing.unwrap_or(0)),
    )
}

/// Checks that no process is listed twice; whether they exist is checked later.
fn check_hold(slices: &SlicesRequest) -> Result<(), ErrorReply> {
    let Some(hold) = &slices.hold else {
        return Ok(());
    };
    let (groups, got) = (slices.groups.len(), hold.len());
    check(
        got == groups,
        "slices.hold",
        format!("expected the processes of each of {groups} groups, got {got} lists"),
    )?;
    let mut known = HashSet::new();
    for (group, pids) in hold.iter().enumerate() {
        let key = format!("slices.hold[{group}]");
        check(
            pids.len() <= MAX_HELD,
            &key,
            format!("expected at most {MAX_HELD} processes, got {}", pids.len()),
        )?;
        for pid in pids {
            check(
                *pid > 1,
                &key,
                format!(
                    "{pid} is not a process that may be stopped; expected a process id above 1"
                ),
            )?;
            check(
                known.insert(*pid),
                &key,
                format!("process {pid} is held twice"),
            )?;
        }
    }
    Ok(())
}
