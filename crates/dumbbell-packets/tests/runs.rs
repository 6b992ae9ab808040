//! Files and columns of whole runs.

use dumbbell_config::RunConfig;
use dumbbell_core::units::Instant;
use dumbbell_packets::{points, ColumnValues, Columns, PacketRecorder, PacketSelection, WrittenPackets};
use dumbbell_sim::{Outcome, Sim};
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

/// A file in memory.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn ask_everything() -> PacketSelection {
    PacketSelection { until: Instant::NEVER, ..PacketSelection::default() }
}

fn run(config: &Value, asked: PacketSelection, file: Option<Memory>) -> (Outcome, WrittenPackets) {
    let read = RunConfig::from_json(config).unwrap();
    let file = file.map(|memory| (Box::new(memory) as dumbbell_packets::CaptureWriter, "test", "why"));
    let recorder = PacketRecorder::new(&read, asked, file).unwrap();
    let outcome = Sim::builder(config).listener(|hop| recorder.listener(hop)).build().unwrap().finish().unwrap();
    (outcome, recorder.finish().unwrap())
}

fn at_all_points(config: &Value) -> (Outcome, Rows) {
    let read = RunConfig::from_json(config).unwrap();
    let hops: Vec<&str> = (0..=read.hops.len()).map(|hop| read.hop_name(hop)).collect();
    let (outcome, written) = run(config, PacketSelection { points: points(hops), ..ask_everything() }, None);
    (outcome, Rows::new(&written.columns.unwrap()))
}

/// Rows as they are looked at here.
struct Rows {
    height: usize,
    whole: BTreeMap<&'static str, Vec<Option<i64>>>,
    real: BTreeMap<&'static str, Vec<f64>>,
    text: BTreeMap<&'static str, Vec<String>>,
}

impl Rows {
    fn new(columns: &Columns) -> Rows {
        let mut rows = Rows { height: columns.height(), whole: BTreeMap::new(), real: BTreeMap::new(), text: BTreeMap::new() };
        for (name, column) in columns.name_columns() {
            match column {
                ColumnValues::Whole(values) => {
                    rows.whole.insert(name, values.iter().map(|&value| (value != i64::MIN).then_some(value)).collect());
                }
                ColumnValues::Real(values) => {
                    rows.real.insert(name, values.to_vec());
                }
                ColumnValues::Text(words) => {
                    let word = |&code: &i32| usize::try_from(code).map_or(String::new(), |code| words.words[code].clone());
                    rows.text.insert(name, words.codes.iter().map(word).collect());
                }
            }
        }
        rows
    }

    /// Numbers of the rows of which these columns have these words.
    fn rows_with(&self, wanted: &[(&str, &str)]) -> Vec<usize> {
        (0..self.height).filter(|&row| wanted.iter().all(|(name, word)| self.text[name][row] == *word)).collect()
    }

    fn count(&self, wanted: &[(&str, &str)]) -> usize {
        self.rows_with(wanted).len()
    }
}

/// Blocks of packets in a file: interface, time, bytes, length, comment.
struct Frame {
    interface: u32,
    time: u64,
    bytes: Vec<u8>,
    length: u32,
    comment: String,
}

fn frames(memory: &Memory) -> Vec<Frame> {
    let file = memory.0.lock().unwrap().clone();
    let word = |bytes: &[u8]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    let (mut found, mut rest) = (Vec::new(), &file[..]);
    while !rest.is_empty() {
        let length = word(&rest[4..]) as usize;
        assert_eq!(word(&rest[length - 4..]) as usize, length);
        let body = &rest[8..length - 4];
        if word(rest) == 6 {
            let kept = word(&body[12..]) as usize;
            let options = &body[20 + kept.next_multiple_of(4)..];
            let size = options.get(2..4).map_or(0, |size| usize::from(u16::from_le_bytes([size[0], size[1]])));
            found.push(Frame {
                interface: word(body),
                time: u64::from(word(&body[4..])) << 32 | u64::from(word(&body[8..])),
                bytes: body[20..20 + kept].to_vec(),
                length: word(&body[16..]),
                comment: String::from_utf8(options.get(4..4 + size).unwrap_or_default().to_vec()).unwrap(),
            });
        }
        rest = &rest[length..];
    }
    found
}

fn fold_sum(bytes: &[u8], start: u32) -> u32 {
    let pairs = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |&low| u32::from(low)));
    let mut sum = start + pairs.sum::<u32>();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum
}

/// Both checksums of a whole frame are right, and its lengths are.
fn check(frame: &Frame) {
    let bytes = &frame.bytes;
    assert_eq!(bytes.len(), frame.length as usize);
    let ip = &bytes[14..];
    assert_eq!(usize::from(u16::from_be_bytes([ip[2], ip[3]])), ip.len());
    assert_eq!(fold_sum(&ip[..20], 0), 0xffff, "IP");
    let (protocol, transport) = (u32::from(ip[9]), &ip[20..]);
    let pseudo = fold_sum(&ip[12..20], protocol + transport.len() as u32);
    assert_eq!(fold_sum(transport, pseudo), 0xffff, "transport");
    if protocol == 6 {
        let headers = 4 * usize::from(transport[12] >> 4);
        assert!(headers <= transport.len() && transport[headers..].iter().all(|&byte| byte == 0));
    }
}

fn config(cc: &str, aqm: &str) -> Value {
    let own = match aqm {
        "codel" => json!({"name": aqm, "ecn": true}),
        "pfifo" => json!({"name": aqm, "limit": 40}),
        _ => json!({"name": aqm}),
    };
    json!({"duration": 5_000_000_000_u64, "bottleneck": {"rate": 20_000_000, "aqm": own},
        "flows": [{"cc": {"name": cc}, "ecn": aqm != "pfifo"}, {"cc": {"name": "cubic"}, "base_rtt": 60_000_000}]})
}

const CASES: [(&str, &str); 6] =
    [("cubic", "pfifo"), ("cubic", "codel"), ("bbr3", "pfifo"), ("dctcp", "step"), ("reno-sce", "cake"), ("prague", "dualpi2")];

/// A counter in table `flows`.
fn read_counter(outcome: &Outcome, name: &str, flow: usize) -> usize {
    outcome.tables.flows.int(name).unwrap()[flow] as usize
}

#[test]
fn a_run_that_is_written_measures_the_same() {
    for (cc, aqm) in CASES {
        let mut config = config(cc, aqm);
        for hops in [false, true] {
            if hops {
                config["reverse"] = json!({"rate": 2_000_000, "aqm": {"name": "fq_codel"}});
            }
            let plain = Sim::new(&config).unwrap().finish().unwrap();
            let (to_file, _) = run(&config, ask_everything(), Some(Memory::default()));
            let (to_columns, _) = at_all_points(&config);
            assert_eq!([&to_file.hash, &to_columns.hash], [&plain.hash, &plain.hash], "{cc} over {aqm}");
        }
    }
}

#[test]
fn checksums_and_lengths_of_whole_frames_are_right() {
    for (cc, aqm) in CASES {
        let mut config = config(cc, aqm);
        config["duration"] = json!(2_000_000_000_u64);
        config["udp"] = json!([{"rate": 500_000, "size": 301, "echo": true, "base_rtt": 10_000_000}]);
        config["web"] = json!([{"cc": {"name": "cubic"}, "arrivals": {"per_second": 20}, "size": {"fixed": 5000}}]);
        let memory = Memory::default();
        let (_, written) = run(&config, PacketSelection { snap: Some(0), ..ask_everything() }, Some(memory.clone()));
        let found = frames(&memory);
        assert_eq!((found.len() as u64, written.count > 1000), (written.count, true));
        found.iter().for_each(check);
        assert!(found.windows(2).all(|two| two[0].time <= two[1].time), "in the order of time");
        assert!(found.iter().all(|frame| frame.interface == 0));
    }
}

#[test]
fn a_file_keeps_headers_or_as_much_as_it_is_told() {
    let config = config("cubic", "codel");
    for (snap, most) in [(None, 94), (Some(40), 40)] {
        let memory = Memory::default();
        run(&config, PacketSelection { snap, ..ask_everything() }, Some(memory.clone()));
        let found = frames(&memory);
        assert!(found.iter().all(|frame| frame.bytes.len() <= most && frame.length >= 66));
        assert!(found.iter().any(|frame| frame.length == 1514 && frame.bytes.len() == most.min(66)));
    }
}

#[test]
fn what_is_written_is_what_was_counted() {
    for (cc, aqm) in CASES {
        let (outcome, rows) = at_all_points(&config(cc, aqm));
        for flow in 0..2 {
            // of the measured time alone, on the clock of the sender
            let mine = |all: &Rows, row: &usize| all.whole["flow"][*row] == Some(flow as i64) && all.real["time_s"][*row] <= 5.0;
            let sent: Vec<usize> = rows.rows_with(&[("point", "sender"), ("direction", "data")]);
            let sent: Vec<usize> =
                sent.into_iter().filter(|row| mine(&rows, row) && rows.whole["segment"][*row].is_some()).collect();
            assert_eq!(sent.len(), read_counter(&outcome, "sent", flow), "{cc} over {aqm}");
            let again = sent.iter().filter(|&&row| rows.whole["retransmission"][row] == Some(1)).count();
            assert_eq!(again, read_counter(&outcome, "retransmissions", flow));
        }
        let dropped =
            (0..rows.height).filter(|&row| rows.text["point"][row] == "bottleneck" && !rows.text["drop_reason"][row].is_empty());
        let in_time = dropped.filter(|&row| rows.real["drop_s"][row] <= 5.0).count();
        assert_eq!(in_time as u64, outcome.summary["drops"].as_u64().unwrap(), "{cc} over {aqm}");
    }
}

#[test]
fn sequence_numbers_are_bytes_without_a_gap() {
    // a flow of 100,000 B: 69 segments of 1448 B and one of 88 B
    let config = json!({"duration": 3_000_000_000_u64, "bottleneck": {"rate": 20_000_000, "aqm": {"name": "pfifo", "limit": 10}},
        "flows": [{"cc": {"name": "cubic"}, "ecn": false, "size": 100_000}]});
    let (_, rows) = at_all_points(&config);
    let sent = rows.rows_with(&[("point", "sender"), ("direction", "data")]);
    let mut next = 1;
    for row in sent.into_iter().filter(|&row| rows.whole["segment"][row].is_some()) {
        let (seq, payload) = (rows.whole["seq"][row].unwrap(), rows.whole["payload"][row].unwrap());
        if rows.whole["retransmission"][row] == Some(0) {
            assert_eq!(seq, next);
            next += payload;
        } else {
            assert!(seq < next);
        }
    }
    assert_eq!(next, 100_001);
    let acks = rows.rows_with(&[("point", "sender"), ("direction", "ack")]);
    assert_eq!(acks.iter().filter_map(|&row| rows.whole["ack"][row]).max(), Some(100_001));
    assert!(rows.count(&[("direction", "ack"), ("sack", "")]) < acks.len() * 2, "there were SACK blocks");
}

/// Flags of the first packets at the sender, and the lengths of their frames.
fn handshake(config: &Value) -> Vec<(String, i64, String)> {
    let (_, rows) = at_all_points(config);
    let first = rows.rows_with(&[("point", "sender")]).into_iter().take(4);
    first
        .map(|row| (rows.text["flags"][row].clone(), rows.whole["length"][row].unwrap(), rows.text["ecn"][row].clone()))
        .collect()
}

#[test]
fn handshakes_ask_for_ecn_as_rfcs_say() {
    let of = |cc: &str, ecn: bool| {
        json!({"duration": 1_000_000_000_u64, "bottleneck": {"rate": 20_000_000, "aqm": {"name": "dualpi2"}},
            "flows": [{"cc": {"name": cc}, "ecn": ecn}]})
    };
    let words = |found: Vec<(String, i64, String)>| {
        found.into_iter().map(|(flags, length, ecn)| format!("{flags} {length} {ecn}")).collect::<Vec<_>>()
    };
    let plain = ["SYN 74 Not-ECT", "SYN ACK 74 Not-ECT", "ACK 66 Not-ECT", "ACK 1514 Not-ECT"];
    assert_eq!(words(handshake(&of("cubic", false))), plain);
    // RFC 3168 section 6.1.1
    let classic = ["SYN ECE CWR 74 Not-ECT", "SYN ACK ECE 74 Not-ECT", "ACK 66 Not-ECT", "ACK 1514 ECT(0)"];
    assert_eq!(words(handshake(&of("cubic", true))), classic);
    // RFC 9768 section 3.1: all three flags; what codepoint came, on the SYN-ACK and on the last packet, which both have the option; then ACE 5
    let accurate = handshake(&of("prague", true));
    let ace = |ecn: &str| match ecn {
        "Not-ECT" => "CWR",
        "ECT(1)" => "ECE CWR",
        other => panic!("{other}"),
    };
    let [syn, syn_ack] = [&accurate[0].2, &accurate[1].2];
    let expected = [
        format!("SYN ECE CWR AE 74 {syn}"),
        format!("SYN ACK {} 86 {syn_ack}", ace(syn)),
        format!("ACK {} 78 ECT(1)", ace(syn_ack)),
    ];
    assert_eq!(words(accurate.clone())[..3], expected);
    assert_eq!(words(accurate)[3], "ACK ECE AE 1514 ECT(1)");
}

#[test]
fn a_receiver_that_opens_has_a_syn_in_front() {
    let mut config = config("cubic", "codel");
    config["hosts"] = json!({"opener": "receiver"});
    let memory = Memory::default();
    run(&config, PacketSelection { snap: Some(0), flows: vec![0], ..ask_everything() }, Some(memory.clone()));
    let found = frames(&memory);
    found.iter().for_each(check);
    let flags: Vec<u16> =
        found.iter().take(4).map(|frame| u16::from_be_bytes([frame.bytes[46], frame.bytes[47]]) & 0xfff).collect();
    // SYN with ECE and CWR, SYN-ACK with ECE, ACK, data
    assert_eq!(flags, [0xc2, 0x52, 0x10, 0x10]);
    assert_eq!(found[0].comment, "not simulated: it stands here for its options");
    assert_eq!(found.iter().filter(|frame| frame.comment.starts_with("not simulated")).count(), 1);
    // the last packet of the handshake takes what the simulator gives it: padding
    assert_eq!((found[2].length, &found[2].bytes[66..]), (74, &[1; 8][..]));
}

#[test]
fn both_ends_have_seen_the_accecn_option_when_they_send_it() {
    for (opener, first) in [("sender", [74, 86, 78]), ("receiver", [74, 86, 86])] {
        let mut config = config("prague", "dualpi2");
        config["hosts"] = json!({"opener": opener});
        let memory = Memory::default();
        run(&config, PacketSelection { snap: Some(0), flows: vec![0], ..ask_everything() }, Some(memory.clone()));
        let found = frames(&memory);
        found.iter().for_each(check);
        assert_eq!(found[..3].iter().map(|frame| frame.length).collect::<Vec<_>>(), first);
        // RFC 9768 section 3.2.1: the counters begin with 1, 0 and 1. The scale follows the option on a SYN-ACK
        let none = [174, 11, 0, 0, 1, 0, 0, 0, 0, 0, 1, 1];
        assert_eq!(found[1].bytes[70..], [&none[..], &[1, 3, 3, 7]].concat());
        assert!(found[2].bytes.ends_with(&none));
    }
}

/// Identifications of IP packets that were seen at a point, from this port.
fn identifications(found: &[Frame], interface: u32, port: [u8; 2]) -> Vec<u16> {
    let here = found.iter().filter(|frame| frame.interface == interface && frame.bytes[34..36] == port);
    here.map(|frame| u16::from_be_bytes([frame.bytes[18], frame.bytes[19]])).collect()
}

#[test]
fn both_ends_count_their_ip_packets() {
    for (opener, reverse) in [("sender", false), ("sender", true), ("receiver", false)] {
        let mut config = config("cubic", "pfifo");
        config["hosts"] = json!({"opener": opener});
        if reverse {
            config["reverse"] = json!({"rate": 200_000, "aqm": {"name": "pfifo", "limit": 20}});
        }
        config["udp"] = json!([{"rate": 500_000, "size": 301, "echo": true, "base_rtt": 10_000_000}]);
        let memory = Memory::default();
        let names = vec!["sender".to_owned(), "receiver".to_owned()];
        run(&config, PacketSelection { points: names, flows: vec![0, 2], ..ask_everything() }, Some(memory.clone()));
        let found = frames(&memory);
        let (pings, found): (Vec<Frame>, Vec<Frame>) = found.into_iter().partition(|frame| frame.bytes[23] == 17);
        for (at, port) in [(0, 50_002_u16.to_be_bytes()), (1, [0, 9])] {
            let counted = identifications(&pings, at, port);
            assert!(counted.len() > 500 && counted.windows(2).all(|two| two[1] == two[0].wrapping_add(1)));
        }
        let [sent, sent_back] = [(0, 50_000_u16.to_be_bytes()), (1, [0, 9])].map(|(at, port)| identifications(&found, at, port));
        let [answering, opening] = if opener == "sender" { [&sent_back, &sent] } else { [&sent, &sent_back] };
        // the SYN-ACK has none
        assert_eq!(answering[0], 0);
        for counted in [&answering[1..], &opening[..]] {
            assert!(counted.len() > 500 && counted.windows(2).all(|two| two[1] == two[0].wrapping_add(1)));
            assert_ne!(counted[0], 0);
        }
        assert_ne!(answering[1], opening[1]);
        // what is lost on the way back is missing at the sender
        let heard = identifications(&found, 0, [0, 9]);
        let mut rest = sent_back.iter();
        assert!(heard.iter().all(|id| rest.any(|other| other == id)));
        assert_eq!(heard.len() + 50 < sent_back.len(), reverse, "{} of {}", heard.len(), sent_back.len());
    }
}

#[test]
fn first_windows_are_those_of_linux() {
    // 44 of 1460 B, or 45 of 1448 B, unscaled on SYN and SYN-ACK; then in units of 128 B, rounded up
    for (opener, expected) in [("sender", [64_240, 65_160, 502, 502]), ("receiver", [64_240, 65_160, 502, 510])] {
        let mut config = config("cubic", "pfifo");
        config["hosts"] = json!({"opener": opener});
        let memory = Memory::default();
        run(&config, PacketSelection { flows: vec![0], ..ask_everything() }, Some(memory.clone()));
        let windows = frames(&memory).into_iter().take(4).map(|frame| u16::from_be_bytes([frame.bytes[48], frame.bytes[49]]));
        assert_eq!(windows.collect::<Vec<_>>(), expected, "{opener}");
    }
}

#[test]
fn comments_are_drops_and_marks_and_codepoints_show_them() {
    let (outcome, rows) = at_all_points(&config("cubic", "codel"));
    let marked: Vec<usize> = (0..rows.height).filter(|&row| rows.text["mark"][row] == "CE").collect();
    assert!(!marked.is_empty() && outcome.summary["ce_marks"].as_u64().unwrap() > 0);
    for row in marked {
        let is_after = ["bottleneck:out", "receiver"].contains(&rows.text["point"][row].as_str());
        assert_eq!(rows.text["ecn"][row] == "CE", is_after, "{}", rows.text["point"][row]);
        assert_eq!((rows.text["mark_reason"][row].as_str(), rows.text["mark_hop"][row].as_str()), ("aqm", "bottleneck"));
    }
    let memory = Memory::default();
    run(&config("cubic", "pfifo"), ask_everything(), Some(memory.clone()));
    let comments: Vec<String> =
        frames(&memory).into_iter().map(|frame| frame.comment).filter(|comment| !comment.is_empty()).collect();
    assert!(!comments.is_empty());
    assert!(
        comments.iter().all(|comment| comment.starts_with("dropped at bottleneck (overflow, on arrival) at ")),
        "{comments:?}"
    );
}

#[test]
fn acknowledgements_in_hops_are_seen_there() {
    let mut config = config("prague", "dualpi2");
    config["reverse"] = json!({"rate": 300_000, "aqm": {"name": "dualpi2"}});
    let (outcome, rows) = at_all_points(&config);
    let [arrived, left] = ["reverse", "reverse:out"].map(|point| rows.count(&[("point", point), ("direction", "ack")]));
    let sent = rows.count(&[("point", "receiver"), ("direction", "ack")]);
    assert!(arrived == sent && left <= arrived && left > 1000, "{sent} {arrived} {left}");
    let lost =
        (0..rows.height).filter(|&row| rows.text["direction"][row] == "ack" && !rows.text["drop_reason"][row].is_empty()).count();
    let marked = rows.count(&[("point", "reverse"), ("direction", "ack"), ("mark", "CE")]);
    assert!(marked > 0, "the queue marks acknowledgements that can be marked");
    // those that were marked come to their sender with CE
    let came = rows.count(&[("point", "sender"), ("direction", "ack"), ("ecn", "CE")]);
    assert!(came > 0 && came <= marked + lost, "{came} of {marked}");
    assert!(outcome.tables.hops.int("ack_packets").unwrap()[1] > 0);
}

/// Frames at a point from this port, in order, without what queues change: the ECN field and the sum over it.
fn strip_marks(found: &[Frame], interface: u32, port: [u8; 2]) -> Vec<Vec<u8>> {
    let here = found.iter().filter(|frame| frame.interface == interface && frame.bytes[34..36] == port);
    let bare = |frame: &Frame| {
        let mut bytes = frame.bytes.clone();
        bytes[15] &= !3;
        bytes[24..26].fill(0);
        bytes
    };
    here.map(bare).collect()
}

#[test]
fn a_packet_is_the_same_at_all_points() {
    for (cc, aqm) in CASES {
        for reverse in [None, Some(json!({"rate": 300_000, "aqm": {"name": "fq_codel"}}))] {
            let mut config = config(cc, aqm);
            config["flows"].as_array_mut().unwrap().truncate(1);
            if let Some(reverse) = reverse {
                config["reverse"] = reverse;
            }
            let read = RunConfig::from_json(&config).unwrap();
            let names = points((0..=read.hops.len()).map(|hop| read.hop_name(hop)));
            let memory = Memory::default();
            run(&config, PacketSelection { points: names.clone(), ..ask_everything() }, Some(memory.clone()));
            let found = frames(&memory);
            let last = names.len() as u32 - 1;
            for (from, to, port) in [(0, last, 50_000_u16.to_be_bytes()), (last, 0, [0, 9])] {
                let left = strip_marks(&found, from, port);
                for point in (0..=last).filter(|&point| point != from) {
                    let (mut rest, seen) = (left.iter(), strip_marks(&found, point, port));
                    assert!(point != to || seen.len() > 100, "{cc} {aqm}: {}", seen.len());
                    for (number, frame) in seen.iter().enumerate() {
                        let name = &names[point as usize];
                        assert!(rest.any(|one| one == frame), "{cc} {aqm}: frame {number} at {name} has not left like this");
                    }
                }
            }
        }
    }
}

#[test]
fn accecn_counts_what_came_with_ce() {
    let memory = Memory::default();
    run(
        &config("prague", "dualpi2"),
        PacketSelection { flows: vec![0], snap: Some(0), ..ask_everything() },
        Some(memory.clone()),
    );
    let found = frames(&memory);
    // options of acknowledgements: kind 174, 11 bytes with three counters of 24 bits; that of CE is in the middle
    let mut last = 0;
    for frame in found.iter().filter(|frame| frame.bytes[34..36] == [0, 9] && frame.length == 78) {
        let option = &frame.bytes[66..78];
        assert_eq!([option[0], option[1], option[11]], [174, 11, 1]);
        let ce = u32::from_be_bytes([0, option[5], option[6], option[7]]);
        assert!(ce >= last);
        last = ce;
    }
    assert!(last > 1448, "some were marked: {last}");
}

#[test]
fn only_some_flows_and_some_time_but_always_handshakes() {
    let config = config("cubic", "codel");
    let memory = Memory::default();
    let asked = PacketSelection {
        flows: vec![1],
        from: Instant::from_secs(2),
        until: Instant::from_secs(3),
        ..PacketSelection::default()
    };
    run(&config, asked, Some(memory.clone()));
    let found = frames(&memory);
    let (opening, rest) = found.split_at(3);
    assert!(opening.iter().all(|frame| frame.time < 1_000_000_000));
    assert!(rest.len() > 100 && rest.iter().all(|frame| (2_000_000_000..=3_000_000_000).contains(&frame.time)));
    // port 50001, at either end
    assert!(found.iter().all(|frame| [&frame.bytes[34..36], &frame.bytes[36..38]].contains(&&50_001_u16.to_be_bytes()[..])));
}

#[test]
fn unknown_points_are_refused() {
    let read = RunConfig::from_json(&config("cubic", "codel")).unwrap();
    let asked = PacketSelection { points: vec!["nowhere".to_owned()], ..ask_everything() };
    let error = PacketRecorder::new(&read, asked, None).err().unwrap();
    assert_eq!(error, "nowhere: no point, allowed: sender, bottleneck, bottleneck:out, receiver");
}

#[test]
fn hosts_have_their_addresses_whichever_way_data_go() {
    let hosts = json!({"src_host": 5, "dst_host": 7, "base_rtt": 20_000_000});
    let of = |more: Value| -> Value {
        let mut all = hosts.clone();
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    };
    let mut config = config("cubic", "codel");
    config["flows"] = json!([of(json!({"cc": {"name": "cubic"}})), of(json!({"cc": {"name": "cubic"}, "direction": "up"}))]);
    config["reverse"] = json!({"rate": 2_000_000, "aqm": {"name": "pfifo", "limit": 20}});
    config["udp"] = json!([of(json!({"rate": 100_000, "size": 100, "echo": true, "direction": "up"}))]);
    let memory = Memory::default();
    let names = vec!["sender".to_owned(), "receiver".to_owned()];
    run(&config, PacketSelection { points: names, ..ask_everything() }, Some(memory.clone()));
    let (left, right): ([u8; 4], [u8; 4]) = ([10, 0, 0, 5], [10, 128, 0, 7]);
    let (mut asked, mut answered) = (Vec::new(), Vec::new());
    for frame in frames(&memory) {
        let bytes = &frame.bytes;
        let [from, to] = [34, 36].map(|at| u16::from_be_bytes([bytes[at], bytes[at + 1]]));
        let goes_right = from == 50_000 || to == 50_001 || to == 50_002;
        let ends = if goes_right { [left, right] } else { [right, left] };
        assert_eq!((&bytes[26..30], &bytes[30..34]), (&ends[0][..], &ends[1][..]));
        // each host has one hardware address
        assert_eq!((bytes[5], bytes[11]), if goes_right { (2, 1) } else { (1, 2) });
        if bytes[23] == 17 {
            let number = u32::from_be_bytes([bytes[42], bytes[43], bytes[44], bytes[45]]);
            let pings = if from == 50_002 { &mut asked } else { &mut answered };
            if frame.interface == 0 {
                pings.push(number);
            }
        }
    }
    assert!(asked.len() > 500 && asked.iter().copied().eq(0..asked.len() as u32));
    // some were dropped
    assert!(answered.len() < asked.len() - 5 && answered.len() > 100, "{} of {}", answered.len(), asked.len());
    assert!(answered.windows(2).all(|two| two[0] < two[1]));
}

#[test]
fn codepoints_are_those_that_linux_sends() {
    const NONE: [u8; 2] = [0, 0];
    // ECN fields of SYN and SYN-ACK, of the first data, and of acknowledgements, the last of the handshake among them: Linux tcp_ecn_send_syn,
    // tcp_ecn_send_synack and tcp_ecn_send; with AccECN all that is sent once the connection is established
    for (cc, echo, handshake, data, acks) in [
        ("cubic", "classic", NONE, 2, 0),
        ("cubic", "accecn", NONE, 2, 2),
        ("reno", "accecn", NONE, 2, 2),
        ("bbr3", "auto", NONE, 2, 2),
        ("dctcp", "auto", [2, 2], 2, 2),
        ("prague", "auto", [1, 1], 1, 1),
    ] {
        for opener in ["sender", "receiver"] {
            let own = if cc == "bbr3" { json!({"name": cc, "ecn": true}) } else { json!({"name": cc}) };
            let config = json!({"duration": 500_000_000, "bottleneck": {"rate": 20_000_000, "aqm": {"name": "codel"}},
                "hosts": {"opener": opener, "ecn": true}, "flows": [{"cc": own, "ecn_echo": echo}]});
            let memory = Memory::default();
            run(
                &config,
                PacketSelection { snap: Some(0), points: vec!["sender".to_owned()], ..ask_everything() },
                Some(memory.clone()),
            );
            let found = frames(&memory);
            let ecn = |frame: &Frame| frame.bytes[15] & 3;
            let is_from_receiver = |frame: &Frame| frame.bytes[34..36] == [0, 9];
            // what stands for the SYN of a receiver that opens is no packet of the run, and has its codepoint all the same
            assert_eq!([ecn(&found[0]), ecn(&found[1])], handshake, "{cc} {echo} {opener}");
            assert_eq!(ecn(&found[2]), acks, "last of the handshake: {cc} {echo} {opener}");
            let (back, there): (Vec<&Frame>, Vec<&Frame>) = found[3..].iter().partition(|frame| is_from_receiver(frame));
            assert!(back.len() > 100 && back.iter().all(|frame| ecn(frame) == acks), "{cc} {echo} {opener}");
            assert_eq!(there.first().map(|frame| ecn(frame)), Some(data), "{cc} {echo} {opener}");
        }
    }
}
