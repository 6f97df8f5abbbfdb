use super::*;
use crate::capture::{self, Direction, write_pcapng};
use pinchpoint_wire::{ethernet, ipv4, udp};
use proptest::prelude::*;
use std::fs;

const CLIENT: ([u8; 4], u16) = ([10, 1, 1, 1], 40_000);
const SERVER: ([u8; 4], u16) = ([10, 2, 2, 2], 53);

/// A frame with right checksums; `protocol` 17 has a UDP header.
fn frame(src: ([u8; 4], u16), dst: ([u8; 4], u16), protocol: u8, payload: usize) -> Vec<u8> {
    let mut frame = vec![0x55; 42 + payload];
    let header = ethernet::Header {
        dst: ethernet::Mac([2, 0, 0, 0, 0, 2]),
        src: ethernet::Mac([2, 0, 0, 0, 0, 1]),
        ethertype: ethernet::ETHERTYPE_IPV4,
    };
    header.emit(frame.first_chunk_mut().unwrap());
    let header = ipv4::Header {
        src: src.0.into(),
        dst: dst.0.into(),
        ttl: 64,
        dscp: 0,
        ecn: 0,
        identification: 0,
        dont_fragment: true,
        options: &[],
        protocol,
        payload_len: 8 + payload as u16,
    };
    header.emit(&mut frame[14..34]).unwrap();
    let ports = udp::Header {
        src: src.1,
        dst: dst.1,
    };
    ports
        .emit::<std::net::Ipv4Addr>(&mut frame[34..], src.0.into(), dst.0.into())
        .unwrap();
    frame
}

fn query() -> Vec<u8> {
    frame(CLIENT, SERVER, 17, 30)
}

fn pcap_of(frames: &[Vec<u8>]) -> Vec<u8> {
    let frames = frames.iter().map(|bytes| capture::Frame {
        direction: Direction::Sent,
        port: 0,
        time_ns: 0,
        bytes,
    });
    let mut file = Vec::new();
    write_pcapng(&mut file, &["client"], frames).unwrap();
    file
}

/// A profile of one template.
fn profile(servers_end: &str, template: &str) -> String {
    format!(
        "# a comment\n\
         - duration : 2.5\n\
         \x20 generator :\n\
         \x20   distribution : \"seq\"\n\
         \x20   clients_start : \"20.0.0.1\"\n\
         \x20   clients_end : \"20.0.0.255\"\n\
         \x20   servers_start : \"50.0.0.1\"\n\
         \x20   servers_end : \"{servers_end}\"\n\
         \x20 cap_info :\n\
         \x20   - {{ name: one.pcap, cps: 2.5, ipg: 10000, rtt: 20000, w: 1{template} }}\n"
    )
}

/// A profile of one template, of the capture of this name.
fn profile_of(name: &str) -> String {
    profile("50.0.0.2", "").replace("one.pcap", name)
}

fn import_with(text: &str, frames: &[Vec<u8>]) -> Result<ImportedProfile, TrexError> {
    import("p.yaml", text, |_| Ok(pcap_of(frames)))
}

fn stream(text: &str, frames: &[Vec<u8>]) -> ImportedStream {
    let mut profile = import_with(text, frames).unwrap();
    assert_eq!(profile.streams.len(), 1);
    profile.streams.remove(0)
}

fn message(text: &str) -> String {
    import_with(text, &[query()]).unwrap_err().to_string()
}

#[test]
fn pairs_are_taken_in_order_servers_fastest() {
    let pair = |client, server| (Ipv4Addr::from(client), Ipv4Addr::from(server));
    let few = stream(&profile("50.0.255.255", ", limit: 255"), &[query()]);
    assert_eq!(few.pair(0), pair([20, 0, 0, 1], [50, 0, 0, 1]));
    assert_eq!(few.pair(254), pair([20, 0, 0, 1], [50, 0, 0, 255]));
    assert_eq!(few.pair(255), few.pair(0));
    let many = stream(&profile("50.0.255.255", ", limit: 131070"), &[query()]);
    assert_eq!(many.pair(65_534), pair([20, 0, 0, 1], [50, 0, 255, 255]));
    assert_eq!(many.pair(65_535), pair([20, 0, 0, 2], [50, 0, 0, 1]));
    assert_eq!(many.pair(131_069), pair([20, 0, 0, 2], [50, 0, 255, 255]));
    assert_eq!(many.pair(131_070), many.pair(0));
}

#[test]
fn client_frames_are_sent_at_cps_times_their_number_and_replies_are_kept() {
    let reply = frame(SERVER, CLIENT, 17, 60);
    let second = frame(CLIENT, SERVER, 17, 31);
    let found = stream(
        &profile("50.0.0.9", ", limit: 7, keep_src_port: true"),
        &[query(), reply.clone(), second.clone()],
    );
    assert_eq!(found.frames, [query(), second]);
    assert_eq!(found.replies, [reply]);
    assert_eq!((found.flows, found.cps, found.rate_fps), (7, 2.5, 5.0));
    assert_eq!((found.ipg_us, found.rtt_us), (10_000.0, 20_000.0));
    assert!(found.warnings.is_empty(), "{:?}", found.warnings);
}

#[test]
fn what_trex_would_send_differently_is_a_warning() {
    let text = profile("50.0.0.2", "").replace(
        "    clients_start",
        "    udp_aging : 3\n    tcp_aging : 1\n    min_clients : 101\n    clients_per_gb : 201\n    \
         dual_port_mask : \"1.0.0.0\"\n    clients_start",
    );
    let mut damaged = query();
    damaged[45] ^= 1;
    let found = stream(&text, &[damaged]);
    assert_eq!(found.flows, 510);
    assert_eq!(
        found.warnings,
        [
            "udp_aging 3: ignored, flows repeat without a pause between rounds",
            "dual_port_mask: ignored, since only one pair of ports is imported",
            "every flow has the source port of the capture; TRex gives each flow its own",
            "without limit TRex keeps making new flows; here the 510 pairs repeat",
            "1 frames have wrong checksums in the capture (taken before the NIC's offload?)",
        ]
    );
}

#[test]
fn gaps_bursts_orders_and_addresses_of_ports_are_warnings() {
    let text = profile("50.0.0.2", ", limit: 1, keep_src_port: true")
        .replace("w: 1", "w: 4")
        .replace("\"seq\"", "random")
        + "  cap_ipg : true\n  mac : [0, 0, 0, 1, 0, 0]\n  tw :\n    levels : 2\n";
    assert_eq!(
        stream(&text, &[query()]).warnings,
        [
            "cap_ipg \"true\": ignored, gaps of the capture are not kept; frames are sent evenly at \
             cps x frames per flow",
            "mac a list of 6: ignored, MAC addresses belong to the ports that send and receive",
            "distribution \"random\": ignored, pairs of addresses are taken in order",
            "w \"4\": ignored, flows follow each other one by one, not in bursts from one client",
        ]
    );
}

#[test]
fn a_template_has_one_server_or_its_own_pools() {
    let range = |first: [u8; 4], last: [u8; 4]| AddressRange {
        first: first.into(),
        last: last.into(),
    };
    let one = ", one_app_server: true, server_addr: 50.0.0.7";
    let found = stream(&profile("50.0.0.9", one), &[query()]);
    assert_eq!(found.servers, range([50, 0, 0, 7], [50, 0, 0, 7]));
    assert_eq!(found.flows, 255, "255 clients of one server");
    let pools = "    generator_clients :\n      - { name: c1, distribution: random, ip_start: 16.0.0.1, \
                 ip_end: 16.0.0.4 }\n    generator_servers :\n      - { name: s1, ip_start: 48.0.0.1, \
                 ip_end: 48.0.0.2, track_ports: false }\n  cap_info";
    let text = profile("50.0.0.9", ", client_pool: c1, server_pool: s1");
    let found = stream(&text.replace("  cap_info", pools), &[query()]);
    assert_eq!(found.clients, range([16, 0, 0, 1], [16, 0, 0, 4]));
    assert_eq!(found.servers, range([48, 0, 0, 1], [48, 0, 0, 2]));
    let told = "generator.generator_clients[0].distribution";
    assert!(found.warnings[0].starts_with(told));
    let unused = profile("50.0.0.9", "").replace("  cap_info", pools);
    assert_eq!(stream(&unused, &[query()]).clients.count(), 255);
}

#[test]
fn keys_that_are_off_need_no_support() {
    let text = profile(
        "50.0.0.2",
        ", cap_ipg: false, plugin_id: 0, one_app_server: false",
    );
    assert!(import_with(&text, &[query()]).is_ok());
}

#[test]
fn unsupported_keys_are_named_with_line_and_value() {
    let cases = [
        (
            ", dyn_pyload: [{pkt_id: 1}]",
            "cap_info[0].dyn_pyload: a list of 1: not supported: payloads",
        ),
        (", one_app_server: true", "cap_info[0].server_addr: missing"),
        (
            ", client_pool: c9",
            "cap_info[0].client_pool: \"c9\": expected the name of a pool of the generator",
        ),
        (
            ", limits: 4",
            "cap_info[0].limits: \"4\": unknown key, expected one of name, cps, ipg",
        ),
        (
            ", limit: 0",
            "cap_info[0].limit: \"0\": expected 1 to 510, the 255 clients times the 2 servers",
        ),
        (
            ", limit: 511",
            "cap_info[0].limit: \"511\": expected 1 to 510",
        ),
        (", cps: 1", "cps: already given in line 10; remove one"),
    ];
    for (template, expected) in cases {
        let found = message(&profile("50.0.0.2", template));
        let expected = format!("p.yaml: line 10: {expected}");
        assert!(found.starts_with(&expected), "{found}");
    }
    let top = profile("50.0.0.2", "") + "  src_ipv6 : [0, 0, 0, 1, 0, 0]\n";
    assert_eq!(
        message(&top),
        "p.yaml: line 11: src_ipv6: a list of 6: not supported: only IPv4 is imported"
    );
}

#[test]
fn values_of_the_wrong_kind_are_named_with_line_and_value() {
    let cases = [
        (
            "cps: 2.5",
            "cps: 0",
            10,
            "cap_info[0].cps: \"0\": expected flows per second",
        ),
        ("cps: 2.5", "cps: nan", 10, "cap_info[0].cps: \"nan\""),
        ("cps: 2.5", "cps: 1e999", 10, "cap_info[0].cps: \"1e999\""),
        ("cps: 2.5, ", "", 10, "cap_info[0].cps: missing"),
        (
            "ipg: 10000",
            "ipg: [1]",
            10,
            "cap_info[0].ipg: a list of 1: expected microseconds",
        ),
        (
            "20.0.0.1",
            "20.0.0",
            5,
            "generator.clients_start: \"20.0.0\": expected an IPv4 address",
        ),
        (
            "20.0.0.255",
            "20.0.0.0",
            6,
            "generator.clients_end: \"20.0.0.0\": expected an IPv4 address not below clients_start",
        ),
        (
            "duration : 2.5",
            "duration : -1",
            2,
            "duration: \"-1\": expected seconds",
        ),
        ("- duration", "duration", 2, "found a mapping of"),
        (
            "generator :",
            "generator : seven #",
            3,
            "generator: found \"seven\", expected a mapping",
        ),
    ];
    for (old, new, line, expected) in cases {
        let text = profile("50.0.0.2", "");
        assert!(text.contains(old));
        let mut text = text.replacen(old, new, 1);
        if new.starts_with("generator") {
            text = text
                .replace("    dist", "#")
                .replace("    clients", "#")
                .replace("    serv", "#");
        }
        if new == "duration" {
            text = text.replace("\n  ", "\n");
        }
        let found = message(&text);
        let expected = format!("p.yaml: line {line}: {expected}");
        assert!(found.starts_with(&expected), "{found}");
    }
}

#[test]
fn a_tcp_flow_is_sent_as_it_was_captured_and_that_is_told() {
    let frames = [frame(CLIENT, SERVER, 6, 30), frame(SERVER, CLIENT, 6, 30)];
    let imported = import_with(&profile("50.0.0.2", ""), &frames).unwrap();
    let stream = &imported.streams[0];
    assert_eq!((stream.frames.len(), stream.replies.len()), (1, 1));
    let told = |warning: &String| warning.starts_with("TCP: segments are sent");
    assert!(stream.warnings.iter().any(told));
}

#[test]
fn several_flows_between_two_hosts_keep_their_ports_and_that_is_told() {
    let media = frame((SERVER.0, 6_000), (CLIENT.0, 7_000), 17, 60);
    let control = frame(CLIENT, SERVER, 6, 30);
    let text = profile("50.0.0.2", ", plugin_id: 2");
    let found = stream(&text, &[control.clone(), media.clone(), query()]);
    assert_eq!(found.frames, [control, query()]);
    assert_eq!(found.replies, [media]);
    let told = |begin: &str| found.warnings.iter().any(|told| told.starts_with(begin));
    assert!(told("plugin_id \"2\": ignored, ports and payloads stay"));
    assert!(told("3 flows: their ports stay"));
    assert!(told("TCP: segments are sent"));
}

#[test]
fn a_host_that_speaks_to_itself_has_its_directions_by_ports() {
    let (client, server) = (([127, 0, 0, 1], 40_000), ([127, 0, 0, 1], 53));
    let there = frame(client, server, 17, 30);
    let back = frame(server, client, 17, 60);
    let found = stream(&profile("50.0.0.2", ""), &[there.clone(), back.clone()]);
    assert_eq!((found.frames, found.replies), (vec![there], vec![back]));
}

#[test]
fn a_capture_that_is_no_flow_is_named_with_its_frame() {
    let stranger = frame(([10, 1, 1, 9], 1), ([10, 3, 3, 3], 53), 17, 4);
    let mut ipv6 = query();
    ipv6[12..14].copy_from_slice(&[0x86, 0xdd]);
    let mut fragment = query();
    fragment[20] = 0x20;
    let cases: [(&[Vec<u8>], &str); 6] = [
        (&[], "one.pcap: the capture holds no frame"),
        (
            &[frame(CLIENT, SERVER, 47, 30)],
            "one.pcap: frame 1: IP protocol 47, expected UDP (17) or TCP (6)",
        ),
        (
            &[query(), ipv6],
            "one.pcap: frame 2: EtherType 0x86dd, expected IPv4",
        ),
        (&[fragment], "one.pcap: frame 1: a fragment"),
        (&[vec![1; 9]], "one.pcap: frame 1: 9 bytes, too few"),
        (
            &[query(), stranger],
            "one.pcap: frame 2: expected frames between 10.1.1.1 and 10.2.2.2; found one from \
             10.1.1.9:1 to 10.3.3.3:53",
        ),
    ];
    for (frames, expected) in cases {
        let found = import_with(&profile("50.0.0.2", ""), frames).unwrap_err();
        let expected = format!("p.yaml: line 10: cap_info[0].name: {expected}");
        assert!(found.to_string().starts_with(&expected), "{found}");
    }
    let found = import("p.yaml", &profile("50.0.0.2", ""), |_| Ok(b"oh".to_vec()));
    let expected = "p.yaml: line 10: cap_info[0].name: one.pcap: byte 0: found 6f 68";
    assert!(found.unwrap_err().to_string().starts_with(expected));
}

#[test]
fn hostile_yaml_is_refused_before_it_grows() {
    let cases = [
        ("", "line 1: the file is empty"),
        (
            "- a: &x [1]\n- *x\n",
            "line 2: aliases (*name) are not supported",
        ),
        ("- !!binary aGk=\n", "line 1: tag"),
        ("- a\n---\n- b\n", "line 2: a second document, expected one"),
        ("- {[1]: 2}\n", "line 1: expected a word as key"),
        (
            "- \"a\\nb\": 1\n",
            "line 1: a\\nb: \"1\": unknown key, expected one of duration",
        ),
        ("- \"\n", "line"),
    ];
    for (text, expected) in cases {
        let found = message(text);
        assert!(found.starts_with(&format!("p.yaml: {expected}")), "{found}");
    }
    for text in [
        "[".repeat(1 << 16),
        "- ".repeat(1 << 10),
        "{a: ".repeat(1 << 10),
    ] {
        let found = message(&text);
        let deep = found.contains("inside each other") || found.contains("recursion limit");
        assert!(deep, "{found}");
    }
    let wide = format!("[{}]", "1,".repeat(100_001));
    assert!(message(&wide).contains("at most 100000 values"));
}

#[test]
fn captures_share_one_bound() {
    let template = "{ name: x, cps: 1, ipg: 1, rtt: 1, w: 1 }";
    let list = format!("[{}]", [template; 100].join(", "));
    let text = profile("50.0.0.2", "").replace("\n    - {", &format!(" {list}\n#"));
    let large = vec![frame(CLIENT, SERVER, 17, 9_000); 100];
    let mut loads = 0;
    let found = import("p.yaml", &text, |_| {
        loads += 1;
        Ok(pcap_of(&large))
    });
    let found = found.unwrap_err().to_string();
    assert!(found.contains("the frames exceed"), "{found}");
    assert_eq!(loads, 75, "64 MiB are 74 captures of 904,200 bytes");
}

/// A folder of a test's own below the system's for temporary files.
fn folder(name: &str) -> PathBuf {
    let name = format!("pinchpoint-import-{name}-{}", std::process::id());
    std::env::temp_dir().join(name)
}

/// The layout that TRex ships: `DIR/cap2/one.yaml` names `cap2/one.pcap`, and is read in `DIR`.
#[test]
fn captures_are_looked_for_beside_the_profile_and_in_the_folders_above() {
    let folder = folder("above");
    fs::create_dir_all(folder.join("cap2")).unwrap();
    let profile = folder.join("cap2/one.yaml");
    fs::write(&profile, profile_of("cap2/one.pcap")).unwrap();
    let capture = folder.join("cap2/one.pcap");
    let missing = read(&profile).unwrap_err().message;
    fs::write(&capture, pcap_of(&[query()])).unwrap();
    let above = read(&profile).map(|profile| profile.streams[0].frames.len());
    fs::create_dir_all(folder.join("cap2/cap2")).unwrap();
    let two = pcap_of(&[query(), query()]);
    fs::write(folder.join("cap2/cap2/one.pcap"), two).unwrap();
    let beside = read(&profile).map(|profile| profile.streams[0].frames.len());
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!((beside, above), (Ok(2), Ok(1)));
    let here = std::env::current_dir().unwrap().join("cap2/one.pcap");
    let tried: Vec<String> = [&folder.join("cap2/cap2/one.pcap"), &here, &capture]
        .map(|place| place.display().to_string())
        .to_vec();
    let expected = format!(
        "cap_info[0].name: cap2/one.pcap: no such file; tried {}, ",
        tried.join(", ")
    );
    assert!(missing.starts_with(&expected), "{missing}");
}

#[test]
fn names_that_lead_out_of_a_folder_are_refused() {
    let folder = folder("trex");
    fs::create_dir_all(folder.join("caps")).unwrap();
    fs::write(folder.join("caps/one.pcap"), pcap_of(&[query()])).unwrap();
    let file = folder.join("p.yaml");
    let mut results = Vec::new();
    for name in [
        "caps/one.pcap",
        "../one.pcap",
        "/etc/hostname",
        "caps",
        "no.pcap",
    ] {
        fs::write(&file, profile_of(name)).unwrap();
        let found = read(&file).map(|profile| profile.streams[0].frames.len());
        results.push(found.map_err(|error| error.message));
    }
    fs::remove_dir_all(&folder).unwrap();
    let outside = |name| {
        let why = "not a path below the profile's or the current folder";
        Err(format!("cap_info[0].name: {name}: {why}"))
    };
    assert_eq!(results[0], Ok(1));
    assert_eq!(results[1], outside("../one.pcap"));
    assert_eq!(results[2], outside("/etc/hostname"));
    assert_eq!(
        results[3],
        Err("cap_info[0].name: caps: not a regular file".to_owned())
    );
    assert!(results[4].as_ref().unwrap_err().contains("no such file"));
}

proptest! {
    #[test]
    fn arbitrary_text_never_panics(text in "[-\\[\\]{}:,&*!#|>\"' \n\ta-c0-9]{0,80}") {
        let _ = import_with(&text, &[query()]);
    }

    #[test]
    fn every_pair_is_met_once_in_a_round(clients in 1u32..9, servers in 1u32..9, limit in 1u64..64) {
        let flows = limit.min(u64::from(clients * servers));
        let mut found = stream(&profile("50.0.0.9", ", limit: 1"), &[query()]);
        let last = |range: AddressRange, count| Ipv4Addr::from_bits(range.first.to_bits() + count - 1);
        found.clients.last = last(found.clients, clients);
        found.servers.last = last(found.servers, servers);
        found.flows = flows;
        let pairs: std::collections::BTreeSet<_> = (0..flows).map(|i| found.pair(i)).collect();
        prop_assert_eq!(pairs.len() as u64, flows);
        // In order of client, then server: the order in which they are taken.
        prop_assert!((0..flows).map(|i| found.pair(i)).eq(pairs));
    }
}
