//! Checks in every run that links carried no more than they can, as packets are counted.

use dumbbell_config::RunConfig;
use dumbbell_core::record::{LinkUse, QueueCounters};
use dumbbell_core::tcp::host::Offload;
use dumbbell_core::units::Instant;

/// Returns the bits that the link carried, divided by the `capacity` bits that it could carry, 0 to 1.
///
/// Packets count where they left. If that is more than it could carry, they count by what it carried of them: a bucket lends bursts, and a packet
/// that left as counting began was carried in part before. What is more even then is what [`check`] lets pass at a change of the rate.
pub fn utilisation(counted: &QueueCounters, capacity: f64) -> f64 {
    let left = counted.line_bytes() as f64 * 8.0;
    if left <= capacity {
        return left / capacity;
    }
    (counted.carried_bytes as f64 * 8.0).min(capacity) / capacity
}

/// The longest frame, bytes without FCS: UDP of 9014 B.
const LONGEST: u16 = 9_014;
/// The longest burst that segmentation offload makes and a bucket lets pass as one packet, bytes.
const LONGEST_BURST: u64 = 1 << 16;

/// The link of hop `hop` carried no more until `until` than it can; `counted` is what was counted when it was settled then.
///
/// A packet, or what counts as one, may be ahead of it, and what the link lends; and the same once more at each change of the rate: a frame that is
/// on the wire goes on at the old rate, and a bucket keeps its debt as time.
///
/// # Errors
/// The link carried more than it can.
pub fn check(config: &RunConfig, hop: usize, until: Instant, counted: &QueueCounters, given: LinkUse) -> Result<(), String> {
    let could = config.capacity_bits_of(hop, Instant::ZERO, until) / 8.0 - counted.lost_bytes as f64;
    let changes = config.rate_changes.iter().filter(|change| usize::from(change.hop) == hop).count();
    let frame = u64::from(config.hop_params(hop).layer().wire_bytes(LONGEST));
    let packet = if config.hosts.offload == Offload::Gso { frame.max(2 * LONGEST_BURST) } else { frame };
    let ahead = (1 + changes) as f64 * (packet + given.ahead) as f64;
    let carried = counted.carried_bytes.max(given.bytes as i64) as f64;
    if carried <= could + ahead {
        return Ok(());
    }
    let name = config.hop_name(hop);
    Err(format!("link of {name}: it carried {carried} bytes, which is more than the {could:.0} that it can"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn full_is_at_most_one() {
        let counted = |bytes: u64, carried_bytes: i64| QueueCounters { bytes, carried_bytes, ..QueueCounters::default() };
        // 1000 B could be carried; a burst that is lent counts as it is paid back
        assert_eq!(
            [(500, 480), (1_000, 900), (1_600, 990), (1_600, 1_001)]
                .map(|(left, carried)| utilisation(&counted(left, carried), 8e3)),
            [0.5, 1.0, 0.99, 1.0]
        );
        let cells = QueueCounters { bytes: 500, link_layer_bytes: 300, ..QueueCounters::default() };
        assert_eq!(utilisation(&cells, 8e3), 0.8);
    }

    #[test]
    fn a_link_that_carries_more_than_it_can_is_found() {
        let run = |more: serde_json::Value| {
            let mut config =
                json!({"duration": 1_000_000_000, "bottleneck": {"rate": 8_000_000, "aqm": {"name": "codel"}}, "udp": [{}]});
            config.as_object_mut().expect("a table").extend(more.as_object().expect("a table").clone());
            RunConfig::from_json(&config).expect("a run")
        };
        let check = |config: &RunConfig, bytes: u64, ahead: u64| {
            check(config, 0, config.end(), &QueueCounters::default(), LinkUse { bytes, ahead })
        };
        // 1 MB in a second, and one frame of 9014 B
        let plain = run(json!({}));
        assert!(check(&plain, 1_009_014, 0).is_ok() && check(&plain, 1_009_016, 0).is_err());
        assert!(check(&plain, 1_012_000, 3_000).is_ok());
        let error = check(&plain, 2_410_000, 0).unwrap_err();
        assert_eq!(error, "link of bottleneck: it carried 2410000 bytes, which is more than the 1000000 that it can");
        // what was carried counts as well
        let carried = QueueCounters { carried_bytes: 1_020_000, ..QueueCounters::default() };
        assert!(super::check(&plain, 0, plain.end(), &carried, LinkUse::default()).is_err());
        // bursts that count as one packet
        assert!(check(&run(json!({"hosts": {"offload": "gso"}})), 1_130_000, 0).is_ok());
    }
}
