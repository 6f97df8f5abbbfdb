//! libFuzzer's entry into the target `frame`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| pinchpoint_fuzz::frame(input));
