//! What cannot be made is refused with the key.

use super::*;

#[test]
fn a_frame_too_short_is_refused_with_the_least_size() {
    let layers = stacks().remove(12);
    // 14 + 20 + 8 + 8 + 14 + 20 + 8 = 92 bytes of headers, 18 of signature.
    let list = Sizes::List(vec![(200, 1), (109, 1)]);
    let mut spec = spec(layers, list, vec![]);
    let error = FrameProgram::new(&spec).unwrap_err();
    assert_eq!(error.key, "sizes.list[1]");
    assert!(
        error
            .what
            .contains("at least 114 bytes (96 without a signature), got 113"),
        "{error}"
    );
    spec.stamped = false;
    assert!(FrameProgram::new(&spec).is_ok());
    spec.sizes = Sizes::Fixed(91);
    let error = FrameProgram::new(&spec).unwrap_err();
    assert!(error.what.ends_with("at least 96 bytes, got 95"), "{error}");
}

#[test]
fn errors_of_layers_and_fields_name_the_key() {
    let tcp_flags = Layer::Tcp {
        src: 0,
        dst: 0,
        seq: 0,
        ack: 0,
        flags: 0x1000,
        window: 0,
        options: vec![],
    };
    let tag = Layer::Vlan {
        tpid: 0x8100,
        id: 4096,
        pcp: 0,
        dei: false,
    };
    for (layers, expected) in [
        (vec![], "layers"),
        (vec![ip4(0)], "layers[0]"),
        (vec![eth(), udp(1)], "layers[1]"),
        (vec![eth(), ip4(0), tcp(0), ip4(0)], "layers[3]"),
        (vec![eth(), ip4(0), tcp_flags], "layers[2].tcp.flags"),
        (vec![eth(), tag], "layers[1].vlan.id"),
        (vec![eth(), ip4(3)], "layers[1].ipv4.options"),
        (
            vec![eth(), ip4(0), udp(1), Layer::Vxlan { vni: 1 << 24 }],
            "layers[3].vxlan.vni",
        ),
        (vec![eth(), mpls(1 << 20)], "layers[1].mpls.label"),
        (vec![eth(), nsh(4)], "layers[1].nsh.context"),
        (
            vec![eth(), ip4(0), udp(1), gtpu(Some(64))],
            "layers[3].gtpu.qfi",
        ),
        (vec![eth(), mpls(1), eth()], "layers[2]"),
    ] {
        let error = FrameProgram::new(&spec(layers, Sizes::Fixed(200), vec![])).unwrap_err();
        assert_eq!(error.key, expected);
    }
    let field = |text: &str, op| FieldProgram {
        field: text.parse().unwrap(),
        op,
    };
    let random = |min, max, count| Op::Random { min, max, count };
    let zipf = |exponent| Op::Zipf {
        count: 5,
        exponent,
        step: 1,
    };
    for (program, expected) in [
        (field("ipv4[1].src", Op::List(vec![1])), "fields[0].field"),
        (field("tcp.src", Op::List(vec![1])), "fields[0].field"),
        (field("udp.src", Op::List(vec![])), "fields[0].op.values"),
        (
            field("udp.src", Op::List(vec![1, 65_536])),
            "fields[0].op.values[1]",
        ),
        (field("udp.src", random(5, 4, 1)), "fields[0].op.min"),
        (field("udp.src", random(5, 65_536, 1)), "fields[0].op.max"),
        (field("udp.src", random(5, 6, 0)), "fields[0].op.count"),
        (field("udp.src", zipf(f64::NAN)), "fields[0].op.exponent"),
        (field("udp.src", zipf(-0.1)), "fields[0].op.exponent"),
    ] {
        let mut spec = spec(
            vec![eth(), ip4(0), udp(1)],
            Sizes::Fixed(200),
            vec![program],
        );
        spec.flows = 1;
        assert_eq!(FrameProgram::new(&spec).unwrap_err().key, expected);
    }
}
