//! A stream's frames: a template and the field programs that vary it.

use crate::general::General;
use crate::layout::Layout;
use crate::plain::Plain;
use crate::replay::{Replay, Replaying};
use crate::sizes::SizePattern;
use crate::spec::{MAX_LEN, Op, SpecError, StreamSpec, Template, check};
pub use crate::writer::{BurstSender, FrameWriter};
use crate::{build, dissect};
use std::sync::Arc;

/// A stream's frames in order.
///
/// The same specification always gives the same frames, but for the transmit
/// time in their signatures. Checksums are right in every frame, unless they
/// are to be wrong.
#[derive(Debug, Clone)]
pub struct FrameProgram {
    way: Way,
    /// Bytes of the shortest and of the longest frame, and on average.
    lens: (usize, usize, f64),
    stamped: bool,
    first_flow: u64,
    flows: u64,
    /// Whether the sequence number alone says which flow a frame is of.
    has_flows: bool,
}

/// How frames are written; chosen once, told apart once a burst.
#[derive(Debug, Clone)]
enum Way {
    Plain(Plain),
    General(Box<General>),
    Replay(Replaying),
}

impl FrameProgram {
    /// The program that starts with frame 0.
    ///
    /// # Errors
    /// [`SpecError`] names the key of the specification that cannot be met.
    pub fn new(spec: &StreamSpec) -> Result<Self, SpecError> {
        let layout = layout(spec)?;
        let way = match Plain::new(spec, &layout) {
            Some(plain) => Way::Plain(plain),
            None => Way::General(Box::new(General::new(spec, layout)?)),
        };
        Ok(Self::with(spec, way))
    }

    fn with(spec: &StreamSpec, way: Way) -> Self {
        let is_draw = |op: &Op| matches!(op, Op::Zipf { .. });
        let sizes = SizePattern::new(&spec.sizes, spec.draw_seed());
        Self {
            way,
            lens: (sizes.min_len(), sizes.max_len(), sizes.mean_len()),
            stamped: spec.stamped,
            first_flow: spec.first_flow,
            flows: spec.flows,
            has_flows: !spec.fields.iter().any(|program| is_draw(&program.op)),
        }
    }

    /// The program that sends a capture's frames again and again, with `id` and
    /// `epoch` in their signatures.
    pub fn replay(replay: Arc<Replay>, id: u16, epoch: u8) -> Self {
        Self {
            lens: replay.lens(),
            stamped: replay.counts().1 > 0,
            first_flow: 0,
            flows: 1,
            has_flows: false,
            way: Way::Replay(Replaying::new(replay, id, epoch)),
        }
    }

    /// Sequence number of the next frame; in a replay its number among all frames.
    #[inline]
    pub fn next(&self) -> u64 {
        match &self.way {
            Way::Plain(plain) => plain.next(),
            Way::General(general) => general.next(),
            Way::Replay(replaying) => replaying.next(),
        }
    }

    /// Whether the frames that were sent have the sequence numbers from 0 on, all
    /// of them.
    pub fn is_contiguous(&self) -> bool {
        match &self.way {
            Way::Plain(_) | Way::General(_) => true,
            Way::Replay(replaying) => {
                let (frames, signed) = replaying.replay().counts();
                frames == signed
            }
        }
    }

    /// Bytes of the longest frame in the buffer.
    pub fn max_len(&self) -> usize {
        self.lens.1
    }

    /// Bytes of the shortest frame in the buffer.
    pub fn min_len(&self) -> usize {
        self.lens.0
    }

    /// Bytes of a frame in the buffer on average, exact over the whole pattern
    /// of sizes; of random sizes, the mean they tend to.
    pub fn mean_len(&self) -> f64 {
        self.lens.2
    }

    /// Whether frames end in a signature.
    pub fn is_stamped(&self) -> bool {
        self.stamped
    }

    /// Tuple index of frame `sequence`; none if a field is drawn for each frame
    /// and tuples have no index.
    #[inline]
    pub fn flow_of(&self, sequence: u64) -> Option<u64> {
        let flow = || self.first_flow + sequence % self.flows;
        self.has_flows.then(flow)
    }

    /// Sends a burst of frames from the next one on, all with the transmit
    /// time `time_ns`; the program goes on behind those that `sender` says were
    /// taken. Returns their number.
    #[inline(always)]
    pub fn send<B: BurstSender>(&mut self, time_ns: u64, sender: B) -> u64 {
        match &mut self.way {
            Way::Plain(plain) if plain.is_stamped() => {
                let mut burst = plain.burst::<true>(time_ns);
                let taken = sender.send(&mut burst);
                let place = burst.place();
                plain.go_on(place, taken);
                taken
            }
            Way::Plain(plain) => {
                let mut burst = plain.burst::<false>(time_ns);
                let taken = sender.send(&mut burst);
                let place = burst.place();
                plain.go_on(place, taken);
                taken
            }
            Way::General(general) => {
                let sent = general.next();
                let taken = sender.send(&mut general.burst(time_ns));
                if general.next() != sent + taken {
                    general.seek(sent + taken);
                }
                taken
            }
            Way::Replay(replaying) => {
                let sent = replaying.next();
                let taken = sender.send(&mut replaying.burst(time_ns));
                if replaying.next() != sent + taken {
                    replaying.seek(sent + taken);
                }
                taken
            }
        }
    }

    #[cfg(test)]
    fn seek(&mut self, sequence: u64) {
        match &mut self.way {
            Way::Plain(plain) => plain.seek(sequence),
            Way::General(general) => general.seek(sequence),
            Way::Replay(replaying) => replaying.seek(sequence),
        }
    }

    /// The program that takes the general way whatever the specification.
    #[cfg(test)]
    fn general(spec: &StreamSpec) -> Result<Self, SpecError> {
        let general = General::new(spec, layout(spec)?)?;
        Ok(Self::with(spec, Way::General(Box::new(general))))
    }

    /// Whether frames take the fast path.
    #[cfg(test)]
    fn is_plain(&self) -> bool {
        matches!(self.way, Way::Plain(_))
    }
}

/// The template's headers; with it all of the specification has been checked
/// but that the fields are there.
pub(crate) fn layout(spec: &StreamSpec) -> Result<Layout, SpecError> {
    spec.validate()?;
    let layout = match &spec.template {
        Template::Layers(layers) => build::build(layers)?,
        Template::Bytes(bytes) => {
            check(
                bytes.len() <= MAX_LEN,
                "bytes",
                format!("expected at most {MAX_LEN} bytes, got {}", bytes.len()),
            )?;
            dissect::dissect(bytes)
        }
    };
    spec.check_room(layout.headers_len)?;
    Ok(layout)
}

#[cfg(test)]
#[path = "program_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "template_tests/mod.rs"]
mod template_tests;
