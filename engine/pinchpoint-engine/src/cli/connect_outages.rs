//! What happens to connections in time, as the command line has it: backends are down, segments repeated.

use super::numbers;
use pinchpoint_workload::connections::outages::{Manner, Outage};
use pinchpoint_workload::connections::timers::Retry;

const SECOND_NS: f64 = 1e9;

/// `2@3s-6s`, `2@3s-6s:reset`, `2@3s-`.
pub(super) fn outage(text: &str) -> Result<Outage, String> {
    let expected = || {
        "expected BACKEND@FROM-UNTIL or BACKEND@FROM-UNTIL:reset, as in 2@3s-6s:reset; \
         without UNTIL the backend stays down"
            .to_owned()
    };
    let (when, manner) = match text.split_once(':') {
        None | Some((_, "silent")) => (text, Manner::Silent),
        Some((_, "reset")) => (text, Manner::Reset),
        Some(_) => return Err(expected()),
    };
    let when = when.split(':').next().unwrap_or_default();
    let (backend, times) = when.split_once('@').ok_or_else(expected)?;
    let (from, until) = times.split_once('-').ok_or_else(expected)?;
    let from_ns = nanoseconds(from)?;
    let until_ns = if until.is_empty() {
        u64::MAX
    } else {
        nanoseconds(until)?
    };
    if until_ns <= from_ns {
        return Err(format!("expected an end after {from}, found {until}"));
    }
    Ok(Outage {
        backend: backend.parse().map_err(|_| expected())?,
        from_ns,
        until_ns,
        manner,
    })
}

/// `200ms:3`.
pub(super) fn retry(text: &str) -> Result<Retry, String> {
    let expected = || "expected TIME:TIMES, as in 200ms:3".to_owned();
    let (time, times) = text.split_once(':').ok_or_else(expected)?;
    let times = times.parse().ok().filter(|times| (1..=100).contains(times));
    Ok(Retry {
        after_ns: nanoseconds(time)?,
        times: times.ok_or("expected 1 to 100 times, as in 200ms:3")?,
    })
}

fn nanoseconds(text: &str) -> Result<u64, String> {
    Ok((numbers::seconds(text)? * SECOND_NS) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_have_a_time_and_a_number() {
        assert_eq!(
            retry("200ms:3"),
            Ok(Retry {
                after_ns: 200_000_000,
                times: 3
            })
        );
        for text in ["", "200ms", "200ms:", "200ms:0", "200ms:101", ":3", "x:3"] {
            assert!(retry(text).unwrap_err().contains("expected"), "{text}");
        }
    }

    #[test]
    fn an_outage_has_a_backend_a_time_and_a_manner() {
        let down = |from_ns, until_ns, manner| {
            Ok(Outage {
                backend: 2,
                from_ns,
                until_ns,
                manner,
            })
        };
        let seconds = 1_000_000_000;
        assert_eq!(
            outage("2@3s-6s"),
            down(3 * seconds, 6 * seconds, Manner::Silent)
        );
        assert_eq!(
            outage("2@500ms-1s:reset"),
            down(seconds / 2, seconds, Manner::Reset)
        );
        assert_eq!(outage("2@0s-:silent"), down(0, u64::MAX, Manner::Silent));
        for text in [
            "",
            "2",
            "2@",
            "2@3s",
            "@3s-6s",
            "2@3s-6s:fire",
            "x@1s-2s",
            "2@6s-3s",
        ] {
            assert!(outage(text).unwrap_err().contains("expected"), "{text}");
        }
    }
}
