//! Which faults there shall be, and how they are written.

use crate::impair::{Impairment, QUEUE_MAX};

/// Frames that overtake one held back, unless something else is asked for.
const REORDER_BY: u32 = 5;
/// Longest distance of reordering: an account remembers about 2^20 frames.
const REORDER_BY_MAX: u32 = 1 << 19;
/// Longest delay, in microseconds.
const DELAY_MAX_US: f64 = 1e7;

/// What [`Faults::parse`] expects.
pub const OPTIONS: &str = "expected loss, duplicate, reorder or corrupt =0..1 (together at most 1), \
    reorder_by=1..524288, delay_us or jitter_us =0..10000000, capacity_fps=0.001..1e12, \
    queue=1..65536 (with capacity_fps) or seed=N";

/// How often which fault strikes, each between 0 and 1, their sum at most 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Faults {
    /// The frame disappears.
    pub loss: f64,
    /// The frame is shown twice.
    pub duplicate: f64,
    /// The frame is held back until others have overtaken it; at most 64 are
    /// held back at once.
    pub reorder: f64,
    /// One bit behind the Ethernet header is flipped; one that a checksum or
    /// the signature's check covers, if the frame has a signature.
    pub corrupt: f64,
    /// Undamaged frames of its stream that overtake a frame held back, unless
    /// traffic ends before.
    pub reorder_by: u32,
    /// What frames wait for before all this.
    pub impairment: Impairment,
    /// Seed of the generator.
    pub seed: u64,
}

impl Default for Faults {
    /// None.
    fn default() -> Self {
        Self {
            loss: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            corrupt: 0.0,
            reorder_by: REORDER_BY,
            impairment: Impairment::default(),
            seed: 0,
        }
    }
}

impl Faults {
    /// Reads faults from `key=value` pairs with commas between them, as in
    /// `loss=0.01,reorder=0.1,reorder_by=8,seed=3`. The keys are the fields'
    /// names and, of the impairment, `delay_us`, `jitter_us` (microseconds),
    /// `capacity_fps` and `queue`.
    ///
    /// # Errors
    /// What cannot be met; [`OPTIONS`] says what can.
    pub fn parse(options: &str) -> Result<Self, String> {
        let mut faults = Self::default();
        for option in options.split(',') {
            let read = option
                .split_once('=')
                .and_then(|(key, value)| faults.set(key, value));
            read.ok_or_else(|| format!("cannot read '{option}'"))?;
        }
        let sum = faults.loss + faults.duplicate + faults.reorder + faults.corrupt;
        // Shares such as 0.7, 0.2 and 0.1 add up to a little more than 1.
        if sum > 1.0 + 1e-9 {
            return Err(format!("the shares add up to {sum:.3}, expected at most 1"));
        }
        if options.contains("queue=") && faults.impairment.capacity_fps.is_none() {
            return Err("queue needs capacity_fps: without it no queue fills".to_owned());
        }
        Ok(faults)
    }

    /// Sets one field; none if there is no such key or value.
    fn set(&mut self, key: &str, value: &str) -> Option<()> {
        let number = |least: f64, most: f64| {
            let number: f64 = value.parse().ok()?;
            (least..=most).contains(&number).then_some(number)
        };
        let count = |most: u32| {
            let count: u32 = value.parse().ok()?;
            (1..=most).contains(&count).then_some(count)
        };
        let delay_ns = || Some((number(0.0, DELAY_MAX_US)? * 1000.0).round() as u64);
        let impairment = &mut self.impairment;
        match key {
            "loss" => self.loss = number(0.0, 1.0)?,
            "duplicate" => self.duplicate = number(0.0, 1.0)?,
            "reorder" => self.reorder = number(0.0, 1.0)?,
            "corrupt" => self.corrupt = number(0.0, 1.0)?,
            "reorder_by" => self.reorder_by = count(REORDER_BY_MAX)?,
            "delay_us" => impairment.delay_ns = delay_ns()?,
            "jitter_us" => impairment.jitter_ns = delay_ns()?,
            "capacity_fps" => {
                impairment.capacity_fps = Some(number(0.001, 1e12)?);
            }
            "queue" => impairment.queue = count(QUEUE_MAX)?,
            "seed" => self.seed = value.parse().ok()?,
            _ => return None,
        }
        Some(())
    }

    /// The faults of queue `index` of a device with `queues` of them, which
    /// share its capacity, each with a queue of its own and other dice.
    #[must_use]
    pub fn of_queue(mut self, index: u16, queues: u16) -> Self {
        let capacity_fps = &mut self.impairment.capacity_fps;
        *capacity_fps = capacity_fps.map(|fps| fps / f64::from(queues.max(1)));
        self.seed = self.seed.wrapping_add(u64::from(index));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_read() {
        let faults = Faults::parse(
            "loss=0.1,duplicate=0.2,reorder=0.3,corrupt=0.4,reorder_by=8,delay_us=1.5,\
             jitter_us=2,capacity_fps=3e6,queue=64,seed=7",
        );
        let expected = Faults {
            loss: 0.1,
            duplicate: 0.2,
            reorder: 0.3,
            corrupt: 0.4,
            reorder_by: 8,
            impairment: Impairment {
                capacity_fps: Some(3e6),
                queue: 64,
                delay_ns: 1500,
                jitter_ns: 2000,
            },
            seed: 7,
        };
        assert_eq!(faults, Ok(expected));
    }

    #[test]
    fn what_cannot_be_met_is_named() {
        for (options, named) in [
            ("loss=2", "loss=2"),
            ("loss=0.1,lost=1", "lost=1"),
            ("loss", "loss"),
            ("", "''"),
            ("seed=-1", "seed=-1"),
            ("capacity_fps=0", "capacity_fps=0"),
            ("capacity_fps=1e-9", "capacity_fps=1e-9"),
            ("capacity_fps=inf", "capacity_fps=inf"),
            ("delay_us=NaN", "delay_us=NaN"),
            ("reorder_by=0", "reorder_by=0"),
            ("capacity_fps=1,queue=65537", "queue=65537"),
            ("queue=5", "capacity"),
            ("loss=0.6,corrupt=0.5", "1.100"),
        ] {
            let error = Faults::parse(options).unwrap_err();
            assert!(error.contains(named), "{options}: {error}");
        }
        assert!(Faults::parse("loss=0.7,corrupt=0.2,reorder=0.1").is_ok());
    }

    #[test]
    fn queues_share_the_capacity_and_draw_other_dice() {
        let faults = Faults::parse("capacity_fps=3e6,loss=0.1,seed=5").unwrap();
        let last = faults.of_queue(2, 3);
        assert_eq!(last.impairment.capacity_fps, Some(1e6));
        assert_eq!((last.loss, last.seed), (0.1, 7));
    }
}
