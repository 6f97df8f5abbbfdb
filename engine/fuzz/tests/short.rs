//! A short run of every target: the seeds as they are, then changed copies.

use pinchpoint_fuzz::TARGETS;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, TestRunner};
use std::fs;
use std::path::{Path, PathBuf};

/// Changed copies of each target; more take `make fuzz`.
const CASES: u32 = 3_000;

/// The folders with seeds of a target.
fn folders(target: &str) -> Vec<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![here.join("corpus").join(target)];
    if target == "protocol" {
        folders.push(here.join("../../protocol/golden"));
    }
    folders
}

fn seeds(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let read = |entry: std::io::Result<fs::DirEntry>| {
        let path = entry.unwrap().path();
        let bytes = fs::read(&path).unwrap();
        (path, bytes)
    };
    let list = |folder: PathBuf| {
        fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
    };
    let mut seeds: Vec<_> = folders(target)
        .into_iter()
        .flat_map(list)
        .map(read)
        .collect();
    seeds.sort();
    seeds
}

/// One change of an input.
#[derive(Debug, Clone)]
enum Change {
    Flip(Index, u8),
    Set(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index, usize),
    Repeat(Index, usize),
    Splice(Index, Index, Vec<u8>),
}

impl Change {
    fn any(seeds: Vec<Vec<u8>>) -> impl Strategy<Value = Self> {
        let extreme = select(vec![0, 1, 0x7f, 0x80, 0xff, b'"', b'\n', b'{', b' ']);
        let at = any::<Index>;
        prop_oneof![
            (at(), 0u8..8).prop_map(|(at, bit)| Self::Flip(at, bit)),
            (at(), extreme).prop_map(|(at, byte)| Self::Set(at, byte)),
            (at(), prop::collection::vec(any::<u8>(), 1..9))
                .prop_map(|(at, b)| Self::Insert(at, b)),
            (at(), 1usize..40).prop_map(|(at, len)| Self::Remove(at, len)),
            (at(), 1usize..40).prop_map(|(at, len)| Self::Repeat(at, len)),
            (at(), at(), select(seeds)).prop_map(|(at, cut, other)| Self::Splice(at, cut, other)),
        ]
    }

    fn apply(self, input: &mut Vec<u8>) {
        let len = input.len();
        let stretch = |at: Index, wanted: usize| {
            let at = at.index(len + 1);
            at..(at + wanted).min(len)
        };
        match self {
            Self::Flip(at, bit) if len > 0 => input[at.index(len)] ^= 1 << bit,
            Self::Set(at, byte) if len > 0 => input[at.index(len)] = byte,
            Self::Flip(..) | Self::Set(..) => {}
            Self::Insert(at, bytes) => {
                let at = at.index(len + 1);
                input.splice(at..at, bytes);
            }
            Self::Remove(at, wanted) => drop(input.drain(stretch(at, wanted))),
            Self::Repeat(at, wanted) => {
                let copied = stretch(at, wanted);
                let (at, copy) = (copied.end, input[copied].to_vec());
                input.splice(at..at, copy);
            }
            Self::Splice(at, cut, other) => {
                input.truncate(at.index(len + 1));
                input.extend_from_slice(&other[cut.index(other.len() + 1)..]);
            }
        }
    }
}

#[test]
fn every_seed_keeps_its_target_s_promises() {
    for target in TARGETS {
        let seeds = seeds(target.name);
        assert!(!seeds.is_empty(), "{} has no seeds", target.name);
        for (path, bytes) in seeds {
            println!("{}", path.display());
            (target.run)(&bytes);
        }
    }
}

#[test]
fn changed_seeds_keep_their_target_s_promises() {
    for target in TARGETS {
        let seeds: Vec<_> = seeds(target.name)
            .into_iter()
            .map(|(_, bytes)| bytes)
            .collect();
        let changes = prop::collection::vec(Change::any(seeds.clone()), 1..6);
        let inputs = (select(seeds), changes).prop_map(|(mut input, changes)| {
            for change in changes {
                change.apply(&mut input);
            }
            input
        });
        let config = Config {
            failure_persistence: None,
            ..Config::with_cases(CASES)
        };
        let outcome = TestRunner::new(config).run(&inputs, |input| {
            (target.run)(&input);
            Ok(())
        });
        if let Err(error) = outcome {
            panic!("target {}: {error}", target.name);
        }
    }
}
