//! Defaults that are full frames ([`ParamSpec::of_frame`]), for a run whose segments are not those of an MTU of 1500 B.

use crate::route::{BOTTLENECK, REVERSE};
use crate::UdpParams;
use dumbbell_core::param::{AlgorithmSpec, ParamSpec};
use dumbbell_core::{aqm, path};
use serde_json::{Map, Value};

/// The keys of lists of stages.
const STAGES: [&str; 3] = ["path", "behind", "ack_path"];

/// Sets the keys of `root` whose default is full frames of `full_frame` bytes and that are not set.
pub(crate) fn settle(root: &mut Map<String, Value>, full_frame: u16) {
    let (aqms, stages) = (aqm::specs(), path::specs());
    for (section, value) in root.iter_mut() {
        let tables: &mut [Value] = match value {
            Value::Array(tables) => tables,
            one => std::slice::from_mut(one),
        };
        for table in tables.iter_mut().filter_map(Value::as_object_mut) {
            match section.as_str() {
                BOTTLENECK | REVERSE | "hop" => settle_algorithm(table.get_mut("aqm"), &aqms, full_frame),
                "udp" => settle_table(table, &UdpParams::specs(), full_frame),
                _ => {}
            }
            for key in STAGES {
                let listed = table.get_mut(key).and_then(Value::as_array_mut);
                listed.into_iter().flatten().for_each(|stage| settle_algorithm(Some(stage), &stages, full_frame));
            }
        }
    }
}

/// Sets the keys of an algorithm that [`settle`] sets.
pub(crate) fn settle_algorithm(table: Option<&mut Value>, known: &[AlgorithmSpec], full_frame: u16) {
    let Some(table) = table.and_then(Value::as_object_mut) else { return };
    let name = table.get("name").and_then(Value::as_str);
    if let Some(spec) = known.iter().find(|spec| Some(spec.name) == name && !table.contains_key("plugin")) {
        settle_table(table, &spec.params, full_frame);
    }
}

fn settle_table(table: &mut Map<String, Value>, specs: &[ParamSpec], full_frame: u16) {
    for spec in specs {
        if let Some(value) = spec.of_frame(full_frame) {
            table.entry(spec.name).or_insert(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::RunConfig;
    use serde_json::{json, Value};

    fn read(config: &Value) -> Result<RunConfig, String> {
        RunConfig::from_json(config).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_a_frame_follows_the_segments_of_the_hosts() {
        let config = |mss: u32| {
            json!({
                "hosts": {"mss": mss}, "bottleneck": {"aqm": {"name": "fq_codel"}, "path": [{"name": "policer"}]},
                "hop": [{"name": "b", "aqm": {"name": "bfifo"}}, {"name": "c", "aqm": {"name": "fq_pie", "quantum": 300}}],
                "udp": [{}],
            })
        };
        // MTU = mss + 52, and 14 B of Ethernet; a quantum has at least 256 B
        for (mss, frame, quantum) in [(88, 154, 256), (460, 526, 526), (1448, 1514, 1514), (8948, 9014, 9014)] {
            let run = read(&config(mss)).unwrap();
            assert_eq!((run.hosts.full_frame(), run.udp[0].params.size), (frame, frame));
            assert_eq!(run.aqm.values()["quantum"], quantum);
            assert_eq!(run.hops[0].aqm.values()["limit"], 1000 * u64::from(frame));
            assert_eq!(run.hops[1].aqm.values()["quantum"], 300);
            assert_eq!(run.path[0].values()["burst"], 10 * u64::from(frame));
        }
    }

    #[test]
    fn a_datagram_is_at_most_a_full_frame() {
        let config = |mss: u32, size: u32| json!({"hosts": {"mss": mss}, "bottleneck": {"aqm": {"name": "pfifo"}}, "udp": [{"size": size}]});
        let error = read(&config(1448, 1515)).unwrap_err();
        assert_eq!(error, "udp[0].size: found 1515 B, allowed: at most 1514 B, a full frame of hosts.mss = 1448 B");
        assert!(read(&config(1448, 1514)).is_ok() && read(&config(8948, 9014)).is_ok() && read(&config(460, 527)).is_err());
    }
}
