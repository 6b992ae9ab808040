//! What links carried against what they can carry: checked in every run, as packets are counted.

use dumbbell_config::RunConfig;
use dumbbell_core::record::QueueCounters;
use dumbbell_core::tcp::host::Offload;
use dumbbell_core::units::Time;

/// What the link carried over the `capacity` bits that it could carry, 0 to 1.
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

/// What a link was given until it was last settled.
#[derive(Clone, Copy, Debug, Default)]
pub struct Given {
    /// Bytes on the link of all packets that the queue gave it.
    pub bytes: u64,
    /// Most bytes of these that it may owe, beyond one packet.
    pub ahead: u64,
}

/// The link of hop `hop` carried no more until `until` than it can; `counted` is what was counted when it was settled then.
///
/// A packet, or what counts as one, may be ahead of it, and what the link lends; and the same once more at each change of the rate: a frame that is
/// on the wire goes on at the old rate, and a bucket keeps its debt as time.
///
/// # Errors
/// It carried more.
pub fn check(config: &RunConfig, hop: usize, until: Time, counted: &QueueCounters, given: Given) -> Result<(), String> {
    let could = config.capacity_bits_of(hop, Time::ZERO, until) / 8.0 - counted.lost_bytes as f64;
    let changes = config.rate_changes.iter().filter(|change| usize::from(change.hop) == hop).count();
    let frame = u64::from(config.hop_params(hop).layer().of(LONGEST));
    let packet = if config.hosts.offload == Offload::Gso { frame.max(2 * LONGEST_BURST) } else { frame };
    let ahead = (1 + changes) as f64 * (packet + given.ahead) as f64;
    let carried = counted.carried_bytes.max(given.bytes as i64) as f64;
    if carried <= could + ahead {
        return Ok(());
    }
    let name = config.hop_name(hop);
    Err(format!("link of {name}: it carried {carried} bytes, which is more than the {could:.0} that it can"))
}
