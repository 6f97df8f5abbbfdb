//! libFuzzer's entry into the target `account`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| pinchpoint_fuzz::account(input));
