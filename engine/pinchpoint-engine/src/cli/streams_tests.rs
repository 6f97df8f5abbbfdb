use super::*;

#[test]
fn a_mix_has_no_more_sizes_and_frames_than_a_list() {
    let frames =
        |lens: &[usize]| -> Vec<Vec<u8>> { lens.iter().map(|&len| vec![0; len]).collect() };
    let few = mixed(&frames(&[60, 100, 60]));
    assert_eq!(few, Size::List(vec![(64, 2), (104, 1)]));
    assert_eq!(mixed(&frames(&[40, 60])), Size::Fixed(64));
    let many: Vec<usize> = (0..100_000).map(|k| 60 + k % 200).collect();
    let Size::List(list) = mixed(&frames(&many)) else {
        panic!("one size of many");
    };
    let period: u32 = list.iter().map(|(_, count)| count).sum();
    assert!((2..=MAX_SIZES).contains(&list.len()) && period as usize <= MAX_PERIOD);
    assert_eq!(list.last().map(|(bytes, _)| *bytes), Some(263));
}

#[test]
fn whose_frames_are_one_stream_is_told_of_each_way() {
    let address = std::net::Ipv4Addr::LOCALHOST;
    let range = trex::AddressRange {
        first: address,
        last: address,
    };
    let stream = trex::ImportedStream {
        pcap: "x".to_owned(),
        frames: vec![vec![0; 60]],
        replies: vec![vec![0; 60]; 300],
        clients: range,
        servers: range,
        flows: 1,
        cps: 1.0,
        rate_fps: 1.0,
        ipg_us: 0.0,
        rtt_us: 0.0,
        warnings: Vec::new(),
    };
    let both = told(&stream, true, true);
    assert_eq!(both.len(), 1, "{both:?}");
    assert!(both[0].starts_with("x: its 300 frames from the server are one stream"));
    assert_eq!(told(&stream, true, false), [""; 0]);
}
