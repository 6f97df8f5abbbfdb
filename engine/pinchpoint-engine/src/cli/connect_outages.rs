//! What happens to connections in time, as the command line has it: backends are down, segments repeated.

use super::numbers;
use crate::protocol::connections::{OutageRequest, RetryRequest};

/// `2@3s-6s`, `2@3s-6s:reset`, `2@3s-`.
pub(super) fn outage(text: &str) -> Result<OutageRequest, String> {
    let expected = || {
        "expected BACKEND@FROM-UNTIL or BACKEND@FROM-UNTIL:reset, as in 2@3s-6s:reset; \
         without UNTIL the backend stays down"
            .to_owned()
    };
    let (when, resets) = match text.split_once(':') {
        None | Some((_, "silent")) => (text, false),
        Some((_, "reset")) => (text, true),
        Some(_) => return Err(expected()),
    };
    let when = when.split(':').next().unwrap_or_default();
    let (backend, times) = when.split_once('@').ok_or_else(expected)?;
    let (from, until) = times.split_once('-').ok_or_else(expected)?;
    let from_s = numbers::seconds(from)?;
    let until_s = (!until.is_empty()).then(|| numbers::seconds(until));
    Ok(OutageRequest {
        backend: backend.parse().map_err(|_| expected())?,
        from_s,
        until_s: until_s.transpose()?,
        resets,
    })
}

/// `200ms:3`.
pub(super) fn retry(text: &str) -> Result<RetryRequest, String> {
    let expected = || "expected TIME:TIMES, as in 200ms:3".to_owned();
    let (time, times) = text.split_once(':').ok_or_else(expected)?;
    Ok(RetryRequest {
        after_s: numbers::seconds(time)?,
        times: times.parse().map_err(|_| expected())?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_have_a_time_and_a_number() {
        assert_eq!(
            retry("200ms:3"),
            Ok(RetryRequest {
                after_s: 0.2,
                times: 3
            })
        );
        for text in ["", "200ms", "200ms:", "200ms:-1", ":3", "x:3"] {
            assert!(retry(text).unwrap_err().contains("expected"), "{text}");
        }
    }

    #[test]
    fn an_outage_has_a_backend_a_time_and_a_manner() {
        let down = |from_s, until_s, resets| {
            Ok(OutageRequest {
                backend: 2,
                from_s,
                until_s,
                resets,
            })
        };
        assert_eq!(outage("2@3s-6s"), down(3.0, Some(6.0), false));
        assert_eq!(outage("2@500ms-1s:reset"), down(0.5, Some(1.0), true));
        assert_eq!(outage("2@0s-:silent"), down(0.0, None, false));
        for text in ["", "2", "2@", "2@3s", "@3s-6s", "2@3s-6s:fire", "x@1s-2s"] {
            assert!(outage(text).unwrap_err().contains("expected"), "{text}");
        }
    }
}
