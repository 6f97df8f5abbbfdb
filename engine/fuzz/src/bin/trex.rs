//! libFuzzer's entry into the target `trex`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| pinchpoint_fuzz::trex(input));
