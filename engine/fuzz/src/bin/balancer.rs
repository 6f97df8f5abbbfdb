//! libFuzzer's entry into the target `balancer`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| pinchpoint_fuzz::balancer(input));
