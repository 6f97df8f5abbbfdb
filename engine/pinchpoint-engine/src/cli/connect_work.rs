//! `connect --work`: kinds of work with weights.

use pinchpoint_workload::connections::plan::{KINDS, Mix, Work};

/// The word for a kind of work.
fn word(work: Work) -> &'static str {
    match work {
        Work::Syn => "syn",
        Work::Abandon => "abandon",
        Work::Reset => "reset",
        Work::Request => "request",
        Work::Datagram => "udp",
    }
}

/// Reads them, as in `request:98,reset:2`.
///
/// # Errors
/// What was expected.
pub(super) fn work(text: &str) -> Result<Mix, String> {
    if text == word(Work::Datagram) {
        return Ok(Mix::datagrams());
    }
    let mut weights = [0; KINDS.len()];
    for part in text.split(',') {
        let (name, weight) = part.split_once(':').unwrap_or((part, "1"));
        let kind = KINDS.iter().position(|&kind| word(kind) == name);
        let weight = weight.parse::<u32>().ok();
        let (kind, weight) = kind.zip(weight).ok_or_else(|| {
            format!("'{part}': expected syn, abandon, reset or request, with a weight (request:98,reset:2), or udp alone")
        })?;
        weights[kind] = weight;
    }
    Mix::new(weights).ok_or_else(|| "expected a weight that is not 0".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_work_have_weights() {
        assert_eq!(work("request"), Ok(Mix::new([0, 0, 0, 1]).unwrap()));
        assert_eq!(
            work("request:98,reset:2"),
            Ok(Mix::new([0, 0, 2, 98]).unwrap())
        );
        assert_eq!(work("syn,abandon:3"), Ok(Mix::new([1, 3, 0, 0]).unwrap()));
        for text in ["", "syn:", "syn:-1", "nap", "request:1:2", "udp,syn"] {
            assert!(work(text).unwrap_err().contains("expected syn"), "{text}");
        }
        assert!(work("syn:0").unwrap_err().contains("not 0"));
        assert_eq!(work("udp"), Ok(Mix::datagrams()));
    }
}
