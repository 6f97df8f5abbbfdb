//! What cannot be sent is refused before anything is loaded.

use super::*;
use pinchpoint_wire::{checksum, verify};

#[test]
fn batches_are_whole_bulks() {
    for batch in ["0", "8", "20", "272", "x"] {
        let spec = PortSpec {
            name: "port".to_owned(),
            backend: Backend::XdpLive,
            device: format!("v0,batch={batch}"),
            netns: None,
            rx_ring: 16,
            tx_ring: 16,
            queues: 1,
        };
        let error = XdpLivePort::open(&spec).err().unwrap();
        assert!(
            error.message.contains(&format!("'batch={batch}'")),
            "{error}"
        );
    }
}

#[test]
fn streams_that_cannot_be_made_are_refused() {
    let good = live(&spec(60, 6, &[("ipv4.dst", 1, 3), ("udp.src", 1, 2)]));
    good.validate().unwrap();
    let refused = |what: &str, change: fn(&mut LiveStream)| {
        let mut stream = good.clone();
        change(&mut stream);
        let error = stream.validate().unwrap_err();
        assert!(error.message.contains(what), "{error}");
        assert!(!error.message.contains("stream"), "{error}");
    };
    refused("does not fit", |stream| stream.template.truncate(20));
    refused("4000 bytes, more than 3072", |stream| {
        stream.template.resize(4000, 0);
    });
    refused("7 flows", |stream| stream.flows = 7);
    refused("0 flows", |stream| stream.flows = 0);
    refused(
        "from number 1 on; expected at least 1 and none beyond the 6 tuples",
        |stream| {
            stream.first_flow = 1;
        },
    );
    refused("number 18446744073709551615", |stream| {
        stream.first_flow = u64::MAX;
    });
    refused("9 edited fields", |stream| {
        stream.edits = vec![stream.edits[0]; 9];
    });
    refused("5 checksums", |stream| {
        stream.checksums = vec![stream.checksums[0].clone(); 5];
    });
    refused("1, 2 nor 4", |stream| stream.edits[0].width = 3);
    refused("payload", |stream| stream.edits[0].offset = 40);
    refused("past", |stream| stream.edits[0].offset = usize::MAX);
    refused("0 values", |stream| stream.edits[1].count = 0);
    refused("odd", |stream| stream.edits[1].offset = 35);
    refused("misplaced", |stream| stream.checksums[0].offset = 25);
    refused("misplaced", |stream| {
        stream.checksums[0].offset = usize::MAX - 1;
    });
    refused("does not exist", |stream| {
        stream.checksums[0].edits = vec![2];
    });
}

#[test]
fn the_template_is_a_frame_with_right_checksums() {
    let stream = live(&spec(60, 1, &[]));
    assert!(verify::checksums_right(&stream.template));
    let end = &stream.template[stream.signature_at()..];
    assert_eq!(checksum::fold(checksum::sum(end)), 0xffff);
}
