//! libFuzzer's entry into the target `connections`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| pinchpoint_fuzz::connections(input));
