//! The interface is written several times: the header, `abi.rs`, the traits of the template and of the adapter of stacks in Rust, and the classes of
//! Python. All have the same fields in the same places.

use dumbbell_plugin::{abi, HEADER};
use std::collections::BTreeMap;
use std::mem::offset_of;
use std::path::PathBuf;
use std::process::Command;

type Fields = Vec<(String, String)>;

const TEMPLATE: &str = include_str!("../../../python/dumbbell/experiment/plugins/templates/dumbbell.rs");
const ADAPTER: &str = include_str!("../../../python/dumbbell/stacks/adapter/src/interface.rs");
const PYTHON: &str =
    concat!(include_str!("../../dumbbell-py/src/prototype.rs"), include_str!("../../dumbbell-py/src/prototype/control.rs"));

fn without_comments(text: &str) -> String {
    let mut found = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("/*") {
        found += before;
        rest = after.split_once("*/").expect("the comment ends").1;
    }
    found + rest
}

/// The structs of the header: the name and type of each field, in order. A pointer to a function has the type `fn`.
fn of_header() -> BTreeMap<String, Fields> {
    let text = without_comments(HEADER);
    let mut found = BTreeMap::new();
    for part in text.split("struct ").skip(1) {
        let Some((head, rest)) = part.split_once('{') else { continue };
        let Some((body, tail)) = rest.split_once("\n}") else { continue };
        let name = if head.trim().is_empty() { tail.split(';').next().unwrap_or("") } else { head };
        let mut fields = Vec::new();
        for declared in body.split(';').map(str::trim).filter(|declared| !declared.is_empty()) {
            if let Some((_, called)) = declared.split_once("(*") {
                fields.push((called.split(')').next().unwrap_or("").to_owned(), "fn".to_owned()));
                continue;
            }
            let (kind, names) = declared.rsplit_once([' ', '*']).map_or((declared, ""), |_| {
                let first = declared.find(',').unwrap_or(declared.len());
                let start = declared[..first].rfind([' ', '*']).map_or(0, |at| at + 1);
                (declared[..start].trim(), &declared[start..])
            });
            fields.extend(names.split(',').map(|field| (field.trim().to_owned(), kind.to_owned())));
        }
        found.insert(name.trim().to_owned(), fields);
    }
    found
}

/// The fields of a struct in a text of Rust.
fn of_rust(text: &str, name: &str) -> Fields {
    let start = text.find(&format!("struct {name} {{")).unwrap_or_else(|| panic!("no struct {name}"));
    let body = text[start..].split_once('{').expect("a body").1.split_once("\n}").expect("an end").0;
    let lines = body.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    let fields = lines.filter_map(|line| line.trim_start_matches("pub ").split_once(": "));
    fields.map(|(field, kind)| (field.to_owned(), kind.trim_end_matches(',').to_owned())).collect()
}

/// A type of C as Rust writes it.
fn in_rust(kind: &str) -> String {
    match kind {
        "uint64_t" => "u64".to_owned(),
        "uint32_t" => "u32".to_owned(),
        "uint16_t" => "u16".to_owned(),
        "uint8_t" => "u8".to_owned(),
        "int64_t" => "i64".to_owned(),
        "double" => "f64".to_owned(),
        "fn" => "fn".to_owned(),
        pointer => {
            assert!(pointer.contains('*'), "{pointer}");
            "*const".to_owned()
        }
    }
}

fn kind(rust: &str) -> String {
    if rust.contains("extern \"C\" fn") || rust.contains("TellsModel") {
        "fn".to_owned()
    } else if rust.starts_with("*const") {
        "*const".to_owned()
    } else {
        rust.to_owned()
    }
}

macro_rules! layout {
    ($($c:ident: $rust:ident { $($field:ident$(.$inner:ident)?),* $(,)? })*) => {
        vec![$((
            stringify!($c),
            size_of::<abi::$rust>(),
            align_of::<abi::$rust>(),
            vec![$((last(stringify!($field$(.$inner)?)), offset_of!(abi::$rust, $field$(.$inner)?))),*],
        )),*]
    };
}

fn last(path: &'static str) -> &'static str {
    path.rsplit(['.', ' ']).next().unwrap_or(path)
}

#[test]
fn every_field_is_where_the_header_has_it() {
    let types = layout! {
        dumbbell_param: CParam { name, kind, value, min, max, unit, doc }
        dumbbell_packet: CPacket { id, arrived, flow, length, ecn, is_ack }
        dumbbell_link: CLink { rate, seed }
        dumbbell_queue: CQueue { create, destroy, enqueue, dequeue, flow_starts, rate, timer_at, timer, state }
        dumbbell_conn: CConn { now, delivered, delivered_ce, sent, acked, min_rtt_us, srtt_us, mdev_us, in_flight, lost, sacked, retransmitted,
            prior_cwnd, cwnd_max, mss, state, cwnd_limited }
        dumbbell_steer: CSteer { cwnd, ssthresh, pacing_rate }
        dumbbell_sample: CSample { delivered, lost, marked, ece, rtt_us, interval_us, sample_delivered, sample_lost, sample_marked, app_limited,
            prior_in_flight, tx_in_flight, prior_delivered }
        dumbbell_model: CModel { state, round, max_bw, bw, bw_shortterm, inflight_shortterm, inflight_longterm, min_rtt_us, extra_acked, inflight,
            probe_up_step, pacing_gain, cwnd_gain, ecn_alpha, full_bw_now, full_bw_reached, idle_restart }
        dumbbell_control: CControl { hooks.by, hooks.rate_samples, hooks.codepoint, hooks.ecn_required, hooks.echo, hooks.create, hooks.destroy,
            hooks.init, hooks.cong_avoid, hooks.ssthresh, hooks.cong_control, hooks.pkts_acked, hooks.in_ack_event, hooks.set_state,
            hooks.undo_cwnd, model }
        dumbbell_flow: CFlow { seed, flow, control, payload, ecn }
        dumbbell_stack_stats: CStackStats { received, cwnd, ssthresh, in_flight, pacing_rate, rtt, min_rtt, lost, spurious, congestion_events, acks,
            ce, timeouts, state, connected }
        dumbbell_stack: CStack { controls, create, destroy, start, write, finish, datagram, wake, timer, stats, closed }
        dumbbell_plugin: CPlugin { first.abi, first.params, first.name, first.title, first.source, first.param, first.queue, first.control, stack }
    };
    let header = of_header();
    // a plugin does not know of the last field of these two
    let hosts = layout! {
        dumbbell_host: CHost { mark, drop, push, first, last, packets, bytes, wait }
        dumbbell_wire: CWire { send }
    };
    assert_eq!(types.len() + hosts.len(), header.len(), "{:?}", header.keys());
    let mut asserts = "#include \"dumbbell.h\"\n".to_owned();
    for (number, (name, size, align, fields)) in types.iter().chain(&hosts).enumerate() {
        let expected: Vec<&str> = header[*name].iter().map(|(field, _)| field.as_str()).collect();
        assert_eq!(fields.iter().map(|(field, _)| *field).collect::<Vec<_>>(), expected, "{name}");
        if number < types.len() {
            asserts += &format!("_Static_assert(sizeof({name}) == {size} && _Alignof({name}) == {align}, \"{name}\");\n");
        }
        for (field, offset) in fields {
            asserts += &format!("_Static_assert(offsetof({name}, {field}) == {offset}, \"{name}.{field}\");\n");
        }
    }
    let source = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("layout.c");
    std::fs::write(&source, asserts).expect("a folder to write to");
    let include = concat!(env!("CARGO_MANIFEST_DIR"), "/include");
    let done = Command::new("cc").args(["-std=c11", "-fsyntax-only", "-I", include]).arg(&source).output().expect("a C compiler");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn what_is_written_for_rust_has_the_fields_and_types_of_the_header() {
    let header = of_header();
    let own = include_str!("../src/abi.rs");
    let cases = [
        (own, "CPacket", "packet", 0),
        (own, "CConn", "conn", 0),
        (own, "CSteer", "steer", 0),
        (own, "CSample", "sample", 0),
        (own, "CModel", "model", 0),
        (own, "CParam", "param", 0),
        (own, "CLink", "link", 0),
        (own, "CQueue", "queue", 0),
        (own, "CFlow", "flow", 0),
        (own, "CStackStats", "stack_stats", 0),
        (own, "CStack", "stack", 0),
        (TEMPLATE, "Packet", "packet", 0),
        (TEMPLATE, "Link", "link", 0),
        (TEMPLATE, "Host", "host", 0),
        (TEMPLATE, "Conn", "conn", 0),
        (TEMPLATE, "Steer", "steer", 0),
        (TEMPLATE, "Sample", "sample", 0),
        (TEMPLATE, "Model", "model", 0),
        (TEMPLATE, "CParam", "param", 0),
        (TEMPLATE, "CQueue", "queue", 0),
        (TEMPLATE, "CControl", "control", 0),
        (TEMPLATE, "Plugin", "plugin", 0),
        (ADAPTER, "CFlow", "flow", 0),
        (ADAPTER, "Wire", "wire", 0),
        (ADAPTER, "Stats", "stack_stats", 0),
        (ADAPTER, "CStack", "stack", 0),
        (ADAPTER, "CParam", "param", 0),
        (ADAPTER, "Plugin", "plugin", 0),
        (own, "CHooks", "control", 1),
        (own, "CHost", "host", -1),
        (own, "CWire", "wire", -1),
    ];
    for (text, rust, c, more) in cases {
        let expected = &header[&format!("dumbbell_{c}")];
        let found = of_rust(text, rust);
        assert_eq!(found.len() as i32 + more, expected.len() as i32, "{rust}: {found:?}");
        for ((name, kind_found), (c_name, c_kind)) in found.iter().zip(expected) {
            assert_eq!(name, c_name, "{rust}");
            assert_eq!(kind(kind_found), in_rust(c_kind), "{rust}.{name}");
        }
    }
}

#[test]
fn classes_of_python_have_the_fields_of_the_header() {
    let header = of_header();
    let names = |fields: &Fields| fields.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    for (rust, c) in [("PyPacket", "packet"), ("PyConn", "conn"), ("PySteer", "steer"), ("PySample", "sample")] {
        assert_eq!(names(&of_rust(PYTHON, rust)), names(&header[&format!("dumbbell_{c}")]), "{rust}");
    }
    let list = PYTHON.split_once("const MODEL: [&str; ").expect("a list").1.split_once("];").expect("an end").0;
    let keys: Vec<String> = list.split('"').skip(1).step_by(2).map(str::to_owned).collect();
    assert_eq!(keys, names(&header["dumbbell_model"]));
    // and methods of the host
    let methods = PYTHON.split_once("impl PyHost {\n    /// Sets CE").expect("methods").1.split_once("\n}\n").expect("an end").0;
    let found: Vec<&str> = methods.lines().filter_map(|line| line.strip_prefix("    fn ")?.split('(').next()).collect();
    assert_eq!(found, names(&header["dumbbell_host"]));
}
