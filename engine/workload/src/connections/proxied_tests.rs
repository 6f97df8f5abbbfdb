//! What a proxy tells a backend of its client, and what the backend answers.

use super::doubles::{client, plan, schedule, server, written};
use super::end::End;
use super::payload::{NOBODY, REQUEST_LEN, Request};
use super::proxied::split;
use super::segment::{ACK, Content, FIN, Incoming, PSH};
use std::net::{Ipv4Addr, Ipv6Addr};

const TEXT: &[u8] = b"PROXY TCP4 10.0.1.7 10.0.0.100 40007 80\r\n";

fn client_end() -> End {
    End::new(Ipv4Addr::new(10, 0, 1, 7), 40007)
}

fn binary(family: u8, addresses: &[u8]) -> Vec<u8> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21".to_vec();
    header.push(family);
    header.extend((addresses.len() as u16).to_be_bytes());
    header.extend(addresses);
    header
}

#[test]
fn a_header_of_either_form_names_the_client_and_what_follows_is_the_streams() {
    let v4 = binary(0x11, &[10, 0, 1, 7, 10, 0, 0, 100, 0x9c, 0x47, 0, 80]);
    for header in [TEXT, &v4] {
        let bytes = [header, b"PPRQ"].concat();
        assert_eq!(split(&bytes), Some((Some(client_end()), &b"PPRQ"[..])));
    }
    let mut addresses = [0; 36];
    addresses[15] = 7;
    addresses[33] = 9;
    let v6 = End::new(Ipv6Addr::from_bits(7), 9);
    assert_eq!(split(&binary(0x21, &addresses)), Some((Some(v6), &[][..])));
}

#[test]
fn a_header_without_a_client_names_none_and_a_part_of_a_header_is_none() {
    assert_eq!(split(b"PROXY UNKNOWN\r\nx"), Some((None, &b"x"[..])));
    let unix = binary(0x31, &[0; 216]);
    assert_eq!(split(&unix), Some((None, &[][..])));
    let whole = binary(0x11, &[0; 12]);
    for bytes in [&TEXT[..20], &whole[..20], b"\r\n", b"PPRQ", b""] {
        assert_eq!(split(bytes), None, "{bytes:?}");
    }
    let late = [b"PROXY TCP4 ".as_slice(), &[b'1'; 100], b"\r\n"].concat();
    assert_eq!(split(&late), None, "longer than a header may be");
}

#[test]
fn an_answer_names_the_client_whether_the_header_comes_alone_or_before_the_request() {
    let request = Request {
        number: 0,
        before: NOBODY,
        connection: 0,
        tag: 7,
    };
    let mut bytes = [0; REQUEST_LEN];
    request.write(&mut bytes);
    let frame = written(&client(plan(), schedule(1)).syns().next().unwrap());
    let syn = Incoming::read(&frame).unwrap();
    for is_alone in [false, true] {
        let mut server = server();
        let first = server.react(&syn).unwrap().seq.wrapping_add(1);
        let sent = |flags, payload| Incoming {
            seq: syn.seq.wrapping_add(1),
            ack: first,
            flags,
            payload,
            ..syn
        };
        let both = [TEXT, &bytes].concat();
        let answer = if is_alone {
            let reply = server.react(&sent(PSH | ACK, TEXT)).unwrap();
            let end = syn.seq.wrapping_add(1 + TEXT.len() as u32);
            assert_eq!((reply.ack, reply.content), (end, Content::Nothing));
            server.react(&sent(PSH | ACK, &bytes[..]))
        } else {
            server.react(&sent(PSH | ACK, &both[..]))
        };
        let Content::Answer(answer, _) = answer.unwrap().content else {
            panic!("expected an answer");
        };
        assert_eq!(answer.toa, Some(client_end()));
        server.react(&sent(FIN | ACK, &[][..]));
        let Content::Answer(answer, _) = server.react(&sent(ACK, &bytes[..])).unwrap().content
        else {
            panic!("expected an answer");
        };
        assert_eq!(answer.toa, None, "a connection that has ended is forgotten");
    }
}
