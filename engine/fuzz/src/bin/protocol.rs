//! libFuzzer's entry into the target `protocol`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| pinchpoint_fuzz::protocol(input));
