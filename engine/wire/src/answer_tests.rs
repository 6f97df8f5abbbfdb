use super::*;
use crate::verify;
use crate::vlan::Tag;
use proptest::prelude::*;
use std::vec;
use std::vec::Vec;

const OWN: Mac = Mac([2, 0, 0, 0, 0, 9]);
const ASKER: Mac = Mac([2, 0, 0, 0, 0, 7]);
const IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 9);
const IP6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 9);
const ASKER6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 7);

fn eth(ethertype: u16) -> Vec<u8> {
    let header = ethernet::Header {
        dst: Mac([0xff; 6]),
        src: ASKER,
        ethertype,
    };
    let mut bytes = vec![0; ethernet::HEADER_LEN];
    header.emit(bytes.first_chunk_mut().unwrap());
    bytes
}

fn arp_question(operation: u16, target_ip: Ipv4Addr) -> Vec<u8> {
    let mut frame = eth(ethernet::ETHERTYPE_ARP);
    let question = arp::Header {
        operation,
        sender_mac: ASKER,
        sender_ip: Ipv4Addr::new(10, 0, 0, 7),
        target_mac: Mac::default(),
        target_ip,
    };
    let mut body = [0; arp::LEN];
    question.emit(&mut body);
    frame.extend_from_slice(&body);
    frame
}

fn solicitation(src: Ipv6Addr, hop_limit: u8, source: Option<Mac>) -> Vec<u8> {
    let dst = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 9);
    let mut body = [0; icmpv6::NEIGHBOUR_LEN];
    let len = Neighbour::Solicitation {
        target: IP6,
        source,
    }
    .emit(&mut body, src, dst);
    let ip = ipv6::Header {
        src,
        dst,
        hop_limit,
        traffic_class: 0,
        flow_label: 0,
        next_header: ipv4::PROTOCOL_ICMPV6,
        payload_len: len as u16,
    };
    let mut header = [0; ipv6::HEADER_LEN];
    ip.emit(&mut header);
    [&eth(ethernet::ETHERTYPE_IPV6)[..], &header, &body[..len]].concat()
}

fn ask(frame: &[u8], own: IpAddr) -> Option<Vec<u8>> {
    let mut out = [0xee; MAX_LEN];
    let len = reply(frame, (own, OWN), &mut out)?;
    Some(out[..len].to_vec())
}

#[test]
fn an_arp_request_is_answered_to_its_sender() {
    let answer = ask(&arp_question(arp::REQUEST, IP), IP.into()).unwrap();
    assert_eq!(answer.len(), MIN_LEN);
    let frame = Frame::new_checked(&answer).unwrap();
    assert_eq!((frame.dst(), frame.src()), (ASKER, OWN));
    let packet = arp::Packet::new_checked(frame.payload()).unwrap();
    let expected = arp::Header {
        operation: arp::REPLY,
        sender_mac: OWN,
        sender_ip: IP,
        target_mac: ASKER,
        target_ip: Ipv4Addr::new(10, 0, 0, 7),
    };
    assert_eq!(arp::Header::parse(&packet), expected);
    assert!(frame.payload()[arp::LEN..].iter().all(|byte| *byte == 0));
}

#[test]
fn a_question_in_a_vlan_is_answered_in_it() {
    let mut question = arp_question(arp::REQUEST, IP);
    let tag = Tag {
        tpid: 0x8100,
        pcp: 5,
        dei: false,
        id: 77,
    };
    let mut bytes = [0; 4];
    tag.emit(&mut bytes);
    question.splice(12..12, bytes);
    let answer = ask(&question, IP.into()).unwrap();
    let frame = Frame::new_checked(&answer).unwrap();
    assert_eq!(frame.tags().next(), Some(tag));
    assert_eq!(frame.ethertype(), ethernet::ETHERTYPE_ARP);
}

#[test]
fn what_asks_for_something_else_is_not_answered() {
    let other = Ipv4Addr::new(10, 0, 0, 8);
    assert_eq!(ask(&arp_question(arp::REQUEST, other), IP.into()), None);
    assert_eq!(ask(&arp_question(arp::REPLY, IP), IP.into()), None);
    assert_eq!(ask(&arp_question(arp::REQUEST, IP), IP6.into()), None);
    assert_eq!(ask(&solicitation(ASKER6, 255, None), ASKER6.into()), None);
    assert_eq!(ask(&solicitation(ASKER6, 64, None), IP6.into()), None);
    let mut damaged = solicitation(ASKER6, 255, None);
    *damaged.last_mut().unwrap() ^= 1;
    assert_eq!(ask(&damaged, IP6.into()), None);
}

#[test]
fn a_solicitation_is_answered_to_who_asked() {
    let nobody = Ipv6Addr::UNSPECIFIED;
    let elsewhere = Mac([2, 0, 0, 0, 0, 8]);
    let all = Mac([0x33, 0x33, 0, 0, 0, 1]);
    for (src, source, to, dst, flags) in [
        (ASKER6, Some(elsewhere), elsewhere, ASKER6, 0x60),
        (ASKER6, None, ASKER, ASKER6, 0x60),
        (nobody, None, all, ALL_NODES, 0x20),
    ] {
        let answer = ask(&solicitation(src, 255, source), IP6.into()).unwrap();
        assert!(verify::checksums_right(&answer));
        let frame = Frame::new_checked(&answer).unwrap();
        assert_eq!((frame.dst(), frame.src()), (to, OWN));
        let packet = ipv6::Packet::new_checked(frame.payload()).unwrap();
        assert_eq!(
            (packet.src(), packet.dst(), packet.hop_limit()),
            (IP6, dst, 255)
        );
        let message = icmpv6::Message::new_checked(packet.payload()).unwrap();
        let expected = Neighbour::Advertisement {
            target: IP6,
            flags,
            link: Some(OWN),
        };
        assert_eq!(Neighbour::parse(&message), Ok(expected));
    }
}

proptest! {
    #[test]
    fn damaged_questions_never_panic(
        six: bool, cut in 0usize..100,
        damage in proptest::collection::vec(any::<(usize, u8)>(), 0..6),
    ) {
        let mut frame = if six {
            solicitation(ASKER6, 255, Some(ASKER))
        } else {
            arp_question(arp::REQUEST, IP)
        };
        for (at, value) in damage {
            let at = at % frame.len();
            frame[at] = value;
        }
        frame.truncate(cut);
        let _ = (ask(&frame, IP.into()), ask(&frame, IP6.into()));
    }
}
