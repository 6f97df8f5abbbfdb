//! A stream's frames described instead of written, for something else that
//! makes them: which bytes vary how, and which checksums follow.

use crate::general::{General, Slot, taps};
use crate::program::{FrameWriter, layout};
use crate::spec::{FieldProgram, Op, Sizes, SpecError, StreamSpec, check};

/// A field that is to be varied: `base + step * number` in the bits of `mask`,
/// where the number is a digit of the tuple index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecipeField {
    /// First byte in the frame.
    pub offset: usize,
    /// Bytes: 1, 2 or 4.
    pub width: usize,
    /// What the bytes hold at number 0.
    pub base: u32,
    /// Difference between consecutive values, modulo the width.
    pub step: u32,
    /// The bits that vary.
    pub mask: u32,
    /// How many values there are.
    pub count: u64,
}

impl RecipeField {
    /// Whether both stand in one byte.
    fn touches(&self, other: &Self) -> bool {
        self.offset < other.offset + other.width && other.offset < self.offset + self.width
    }
}

/// A checksum field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecipeChecksum {
    /// First byte in the frame.
    pub offset: usize,
    /// Whether zero is written as 0xffff.
    pub avoids_zero: bool,
    /// The fields it covers, by index.
    pub fields: Vec<usize>,
}

/// All that determines a stream's frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recipe {
    /// The first frame, with right checksums.
    pub frame: Vec<u8>,
    /// The fields that vary, the fastest first.
    pub fields: Vec<RecipeField>,
    /// The checksums that cover one of them.
    pub checksums: Vec<RecipeChecksum>,
}

impl Recipe {
    /// The recipe of a stream whose frames have one size, carry a signature
    /// and vary by increments alone.
    ///
    /// # Errors
    /// [`SpecError`] names what cannot be met, or has no recipe.
    pub fn new(spec: &StreamSpec) -> Result<Self, SpecError> {
        check(
            matches!(spec.sizes, Sizes::Fixed(_)),
            "sizes",
            "expected one size: frames made by the kernel cannot vary it",
        )?;
        check(
            spec.stamped,
            "stamped",
            "expected true: frames made by the kernel always carry a signature",
        )?;
        let plan = layout(spec)?;
        let mut bytes = plan.bytes.clone();
        let mut general = General::new(spec, layout(spec)?)?;
        let mut burst = general.burst(0);
        let len = burst.len(0);
        let mut frame = vec![0; len];
        burst.write(0, &mut frame);
        bytes.resize(len, 0);
        let mut sized = plan;
        sized.bytes = bytes;
        check(
            !spec.together || spec.fields.len() < 2,
            "together",
            "expected false: frames made by the kernel vary their fields as digits",
        )?;
        let mut fields = Vec::new();
        let mut covered = vec![Vec::new(); sized.checks.len()];
        for (k, program) in spec.fields.iter().enumerate() {
            let slot = Slot::new(&sized, program.field, &format!("fields[{k}]"))?;
            for tap in taps(spec, &sized, &slot, len) {
                covered[tap.check].push(fields.len());
            }
            let varies = field(&slot, program, &sized.bytes, k)?;
            check(
                fields
                    .iter()
                    .all(|other: &RecipeField| !other.touches(&varies)),
                format!("fields[{k}].field"),
                "shares a byte with another varied field; frames made by the kernel cannot vary both",
            )?;
            fields.push(varies);
        }
        let checks = sized.checks.iter().zip(covered);
        let checksums = checks.filter(|(_, fields)| !fields.is_empty());
        let checksums = checksums.map(|(check, fields)| RecipeChecksum {
            offset: check.at,
            avoids_zero: check.avoids_zero(),
            fields,
        });
        Ok(Self {
            frame,
            fields,
            checksums: checksums.collect(),
        })
    }
}

/// A field within whole bytes; of one wider than 32 bits the low ones, if it
/// never carries into the others.
fn field(
    slot: &Slot,
    program: &FieldProgram,
    bytes: &[u8],
    k: usize,
) -> Result<RecipeField, SpecError> {
    let Op::Increment { step, count } = program.op else {
        return Err(SpecError {
            key: format!("fields[{k}].op"),
            what: "expected increment: frames made by the kernel vary in no other way".to_owned(),
        });
    };
    let (first, end) = slot.bits();
    let (first_byte, end_byte) = (first / 8, end.div_ceil(8));
    // A word of 3 bytes begins one byte earlier.
    let width = match end_byte - first_byte {
        1 => 1,
        2 => 2,
        _ => 4,
    };
    let offset = end_byte - width;
    let shift = (end_byte * 8 - end) as u32;
    let base = bytes[offset..end_byte].iter();
    let base = base.fold(0u32, |value, byte| value << 8 | u32::from(*byte));
    if end - first > 32 {
        let last = i128::from(base) + i128::from(step) * i128::from(count - 1);
        check(
            u32::try_from(last).is_ok(),
            format!("fields[{k}].op.count"),
            "expected values within the low 32 bits of the field, as frames made by the kernel vary them",
        )?;
    }
    let varying = (slot.max() << shift) as u32;
    Ok(RecipeField {
        offset,
        width,
        base,
        step: (step << shift) as u32,
        mask: varying,
        count,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{BurstSender, FrameProgram};
    use crate::spec::{FieldRef, Layer, Template, Wrong};
    use pinchpoint_wire::ethernet::Mac;
    use pinchpoint_wire::{checksum, signature};

    fn spec(layers: Vec<Layer>, fields: &[(&str, i64, u64)], len: usize) -> StreamSpec {
        let fields = fields.iter().map(|&(name, step, count)| FieldProgram {
            field: name.parse::<FieldRef>().unwrap(),
            op: Op::Increment { step, count },
        });
        let fields: Vec<_> = fields.collect();
        StreamSpec {
            together: false,
            id: 3,
            epoch: 1,
            seed: 0,
            part: 0,
            stamped: true,
            sizes: Sizes::Fixed(len),
            template: Template::Layers(layers),
            wrong: Wrong::default(),
            flows: fields.iter().filter_map(|one| one.op.digit()).product(),
            first_flow: 0,
            fields,
        }
    }

    fn ethernet() -> Layer {
        Layer::Ethernet {
            src: Mac([2, 0, 0, 0, 0, 1]),
            dst: Mac([2, 0, 0, 0, 0, 2]),
            ethertype: None,
        }
    }

    fn ipv4() -> Layer {
        Layer::Ipv4 {
            src: [16, 0, 0, 1].into(),
            dst: [48, 0, 0, 1].into(),
            ttl: 64,
            dscp: 0,
            ecn: 0,
            identification: 0,
            dont_fragment: true,
            protocol: None,
            options: Vec::new(),
        }
    }

    struct Collect<'a>(&'a mut Vec<Vec<u8>>, usize);

    impl BurstSender for Collect<'_> {
        fn send<W: FrameWriter>(self, writer: &mut W) -> u64 {
            for index in 0..self.1 {
                let mut frame = vec![0; writer.len(index)];
                writer.write(index, &mut frame);
                self.0.push(frame);
            }
            self.1 as u64
        }
    }

    /// What someone who follows the recipe makes.
    fn cook(recipe: &Recipe, mut index: u64) -> Vec<u8> {
        let mut frame = recipe.frame.clone();
        let read = |frame: &[u8], field: &RecipeField| {
            let bytes = frame[field.offset..][..field.width].iter();
            bytes.fold(0u32, |value, byte| value << 8 | u32::from(*byte))
        };
        for (k, field) in recipe.fields.iter().enumerate() {
            let number = (index % field.count) as u32;
            index /= field.count;
            let moved = field.base.wrapping_add(field.step.wrapping_mul(number));
            let old = read(&frame, field);
            let new = moved & field.mask | field.base & !field.mask;
            let bytes = &new.to_be_bytes()[4 - field.width..];
            frame[field.offset..][..field.width].copy_from_slice(bytes);
            for check in recipe
                .checksums
                .iter()
                .filter(|check| check.fields.contains(&k))
            {
                let shift = if field.width == 1 && field.offset % 2 == 0 {
                    8
                } else {
                    0
                };
                let at = check.offset;
                let before = u64::from(u16::from_be_bytes([frame[at], frame[at + 1]]));
                let sum = (!before & 0xffff)
                    + (u64::from(!old) << shift) % 65_535
                    + (u64::from(new) << shift) % 65_535;
                // The complement of a 32-bit number within 2^32 - 1 is a
                // multiple of 65,535 away from its complement.
                let mut value = checksum::finish(sum);
                if check.avoids_zero && value == 0 {
                    value = 0xffff;
                }
                frame[at..at + 2].copy_from_slice(&value.to_be_bytes());
            }
        }
        frame
    }

    #[test]
    fn who_follows_the_recipe_makes_the_program_s_frames() {
        let udp = |src, dst| Layer::Udp { src, dst };
        let vlan = Layer::Vlan {
            tpid: 0x8100,
            id: 5,
            pcp: 3,
            dei: false,
        };
        let vxlan = Layer::Vxlan { vni: 7 };
        let cases = [
            (
                vec![ethernet(), ipv4(), udp(1025, 12)],
                vec![("ipv4.dst", 1, 300), ("ipv4.src", -1, 5), ("udp.src", 7, 2)],
                60,
            ),
            (
                vec![ethernet(), vlan, ipv4(), udp(1, 2)],
                vec![
                    ("vlan.id", 1, 40),
                    ("ipv4.ttl", -1, 3),
                    ("ipv4.dscp", 3, 9),
                    ("eth.src", 1, 4),
                ],
                100,
            ),
            (
                vec![
                    ethernet(),
                    ipv4(),
                    udp(49_152, 4789),
                    vxlan,
                    ethernet(),
                    ipv4(),
                    udp(1, 2),
                ],
                vec![
                    ("ipv4[1].src", 1, 17),
                    ("vxlan.vni", 1, 30),
                    ("udp.src", 1, 3),
                ],
                128,
            ),
        ];
        for (layers, fields, len) in cases {
            let spec = spec(layers, &fields, len);
            let recipe = Recipe::new(&spec).unwrap();
            let mut program = FrameProgram::new(&spec).unwrap();
            let mut frames = Vec::new();
            program.send(0, Collect(&mut frames, spec.flows as usize));
            for (index, frame) in frames.iter().enumerate() {
                let end = len - signature::LEN;
                let cooked = cook(&recipe, index as u64);
                assert_eq!(cooked[..end], frame[..end], "frame {index} of {fields:?}");
            }
        }
    }

    #[test]
    fn what_has_no_recipe_is_named() {
        let layers = || vec![ethernet(), ipv4(), Layer::Udp { src: 1, dst: 2 }];
        let good = spec(layers(), &[("udp.src", 1, 2)], 60);
        let random = Op::Random {
            min: 0,
            max: 9,
            count: 2,
        };
        let mut cases = vec![
            ("stamped", good.clone()),
            ("sizes", good.clone()),
            ("fields[0].op", good),
        ];
        cases[0].1.stamped = false;
        cases[1].1.sizes = Sizes::Random { min: 60, max: 70 };
        cases[2].1.fields[0].op = random;
        let vlan = Layer::Vlan {
            tpid: 0x8100,
            id: 5,
            pcp: 0,
            dei: false,
        };
        let tagged = vec![ethernet(), vlan, ipv4(), Layer::Udp { src: 1, dst: 2 }];
        let shared = spec(tagged, &[("vlan.pcp", 1, 2), ("vlan.id", 1, 4)], 100);
        cases.push(("fields[1].field", shared));
        for (key, spec) in cases {
            assert_eq!(Recipe::new(&spec).unwrap_err().key, key);
        }
    }
}
