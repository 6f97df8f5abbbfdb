//! libFuzzer's entry into the target `pcap`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| pinchpoint_fuzz::pcap(input));
