//! What a live stream's frames are made of.

use crate::OpenError;
use pinchpoint_wire::ethernet;
use pinchpoint_wire::signature;

/// Most fields that may vary.
pub const MAX_EDITS: usize = 8;
/// Most checksums in a frame.
pub const MAX_CHECKSUMS: usize = 4;
/// Bytes of the longest live frame. Frame, headroom and bookkeeping share one
/// page of 4,096 bytes (Linux, net/bpf/test_run.c).
pub const MAX_LEN: usize = 3_072;

/// One digit of the tuple index: the field takes `base + step * number`,
/// in the bits of `mask`; its other bits stay those of `base`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveEdit {
    /// First byte of the field in the frame.
    pub offset: usize,
    /// Bytes of the field: 1, 2 or 4.
    pub width: usize,
    /// Value of number 0.
    pub base: u32,
    /// Difference between consecutive values, modulo the field's width.
    pub step: u32,
    /// The bits that vary, as in 0x0fff for a VLAN id.
    pub mask: u32,
    /// How many values there are, at least 1.
    pub count: u64,
}

/// An Internet checksum (RFC 1071) that covers edited fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveChecksum {
    /// First byte of the checksum in the frame; even.
    pub offset: usize,
    /// Whether zero is sent as 0xffff (UDP, RFC 768).
    pub udp: bool,
    /// Indices of the edits it covers; their fields start at even bytes
    /// unless they are one byte wide.
    pub edits: Vec<usize>,
}

/// The program of a stream whose frames the kernel is to make.
///
/// Frame `sequence` carries tuple `first_flow + sequence % flows`, whose
/// digits, the first edit's the fastest, choose the values of the edits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveStream {
    /// A complete frame with right checksums and any values in the edited
    /// fields. Its last [`signature::LEN`] bytes are overwritten by the
    /// signature, which changes no checksum.
    pub template: Vec<u8>,
    /// Stream id carried in the signature.
    pub id: u16,
    /// Trial number carried in the signature.
    pub epoch: u8,
    /// Number of tuples before the first one comes again, at least 1.
    pub flows: u64,
    /// Index of the first tuple.
    pub first_flow: u64,
    /// The fields that vary, the fastest first.
    pub edits: Vec<LiveEdit>,
    /// The checksums that follow them.
    pub checksums: Vec<LiveChecksum>,
}

impl LiveEdit {
    /// All bits of the field.
    pub(super) fn full(&self) -> u32 {
        u32::MAX >> (32 - 8 * self.width)
    }

    /// The bits that vary.
    pub(super) fn varying(&self) -> u32 {
        self.mask & self.full()
    }

    /// The bits that stay.
    pub(super) fn fixed(&self) -> u32 {
        self.base & self.full() & !self.mask
    }

    /// The field's value for a number.
    pub(super) fn value(&self, number: u64) -> u32 {
        let moved = self
            .step
            .wrapping_mul(number as u32)
            .wrapping_add(self.base);
        moved & self.varying() | self.fixed()
    }

    /// The field as it stands in a frame.
    pub(super) fn read(&self, frame: &[u8]) -> u32 {
        let bytes = frame[self.offset..][..self.width].iter();
        bytes.fold(0, |value, byte| value << 8 | u32::from(*byte))
    }

    /// How far the field is from the lower end of a 16-bit word, in bits.
    pub(super) fn shift(&self) -> u32 {
        if self.width == 1 && self.offset.is_multiple_of(2) {
            8
        } else {
            0
        }
    }

    /// `end` is where the payload ends.
    fn validate(&self, end: usize) -> Result<(), OpenError> {
        let Self {
            offset,
            width,
            count,
            ..
        } = *self;
        check(matches!(width, 1 | 2 | 4), || {
            format!("a field of {width} bytes, neither 1, 2 nor 4")
        })?;
        check(offset.saturating_add(width) <= end, || {
            format!("a field of {width} bytes at {offset}, past the payload's end at {end}")
        })?;
        check((1..=1 << 32).contains(&count), || {
            format!("a field of {count} values, not 1 to 4294967296")
        })
    }
}

impl LiveStream {
    /// First byte of the signature.
    pub(super) fn signature_at(&self) -> usize {
        self.template.len() - signature::LEN
    }

    /// Whether a program can be made of the stream, which needs no port and no
    /// privileges.
    ///
    /// # Errors
    /// What is wrong, as one phrase that leaves naming the stream to the caller.
    pub fn validate(&self) -> Result<(), OpenError> {
        let len = self.template.len();
        check(len <= MAX_LEN, || {
            format!("a frame of {len} bytes, more than {MAX_LEN}")
        })?;
        let least = ethernet::HEADER_LEN + signature::LEN;
        check(len >= least, || {
            format!("the signature does not fit a frame of {len} bytes, less than {least}")
        })?;
        let (edits, checksums) = (self.edits.len(), self.checksums.len());
        check(edits <= MAX_EDITS, || {
            format!("{edits} edited fields, more than {MAX_EDITS}")
        })?;
        check(checksums <= MAX_CHECKSUMS, || {
            format!("{checksums} checksums, more than {MAX_CHECKSUMS}")
        })?;
        let mut tuples = 1u64;
        for edit in &self.edits {
            edit.validate(self.signature_at())?;
            tuples = tuples.saturating_mul(edit.count);
        }
        let (first, flows) = (self.first_flow, self.flows);
        check(flows >= 1 && flows.saturating_add(first) <= tuples, || {
            format!(
                "{flows} flows from number {first} on; expected at least 1 and none beyond the {tuples} tuples"
            )
        })?;
        let mut checksums = self.checksums.iter();
        checksums.try_for_each(|checksum| self.validate_checksum(checksum))
    }

    fn validate_checksum(&self, checksum: &LiveChecksum) -> Result<(), OpenError> {
        let at = checksum.offset;
        let inside = at.saturating_add(2) <= self.signature_at();
        check(inside && at.is_multiple_of(2), || {
            format!("a misplaced checksum at byte {at}")
        })?;
        for &index in &checksum.edits {
            let edit = self.edits.get(index);
            check(edit.is_some(), || {
                format!("the checksum at byte {at} covers an edited field that does not exist")
            })?;
            let aligned = |edit: &LiveEdit| edit.width == 1 || edit.offset.is_multiple_of(2);
            check(edit.is_some_and(aligned), || {
                format!("the checksum at byte {at} covers a field that begins at an odd byte")
            })?;
        }
        Ok(())
    }
}

fn check(good: bool, what: impl FnOnce() -> String) -> Result<(), OpenError> {
    if good {
        return Ok(());
    }
    Err(OpenError::new(what()))
}
