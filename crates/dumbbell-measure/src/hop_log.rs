//! Measurements at each of several hops, in addition to the counters of every queue.

use crate::columns::{HopRow, HopSeries, HopSeriesRow, Hops};
use crate::table::Table;
use dumbbell_config::{Class, RunConfig};
use dumbbell_core::histogram::Histogram;
use dumbbell_core::log::{At, DropReason, DropSite, Log};
use dumbbell_core::packet::Packet;
use dumbbell_core::record::QueueCounters;
use dumbbell_core::units::{Duration, Instant};
use std::collections::BTreeMap;

/// Backlog of a queue at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Backlog {
    /// How many packets.
    pub packets: u64,
    /// Bytes of these packets.
    pub bytes: u64,
}

/// Counters of the acknowledgements at a hop. They only grow.
#[derive(Clone, Copy, Debug, Default)]
pub struct AckCounters {
    /// Given to the link.
    pub sent: u64,
    /// Time that those spent in the queue, ns.
    pub sojourn_ns: u64,
    /// Left the link.
    pub departed: u64,
    /// Dropped by the queue.
    pub dropped: u64,
}

dumbbell_core::counted_after!(AckCounters: sent, sojourn_ns, departed, dropped);

impl Log for AckCounters {
    #[inline(always)]
    fn on_dequeue(&mut self, packet: &Packet, at: At) {
        if packet.is_back() {
            self.sent += 1;
            self.sojourn_ns += (at.now - packet.enqueue_time).0;
        }
    }

    #[inline(always)]
    fn on_departure(&mut self, packet: &Packet, _now: Instant) {
        if packet.is_back() {
            self.departed += 1;
        }
    }

    #[inline(always)]
    fn on_pass(&mut self, packet: &Packet, start: Instant, _leaves: Instant) {
        if packet.is_back() {
            self.sent += 1;
            self.sojourn_ns += (start - packet.enqueue_time).0;
            self.departed += 1;
        }
    }

    fn on_drop(&mut self, packet: &Packet, _reason: DropReason, place: DropSite, _at: At) {
        self.dropped += u64::from(packet.is_back() && matches!(place, DropSite::Arrival | DropSite::Queue));
    }
}

/// Counts of a hop at some time.
#[derive(Clone, Copy, Default)]
pub struct HopCounts {
    /// By the queue.
    pub queue: QueueCounters,
    /// Counters of acknowledgements.
    pub acks: AckCounters,
}

impl HopCounts {
    /// As it stands now.
    pub fn now(queue: &QueueCounters, acks: &AckCounters) -> HopCounts {
        HopCounts { queue: *queue, acks: *acks }
    }

    /// Packets that the queue dropped.
    pub fn drops(&self) -> u64 {
        self.queue.drops_overflow + self.queue.drops_aqm
    }

    /// Returns the counts since `before`.
    pub fn subtract(&self, before: &HopCounts) -> HopCounts {
        HopCounts { queue: self.queue.subtract(&before.queue), acks: self.acks.subtract(&before.acks) }
    }
}

/// Tables of the hops.
#[derive(Clone, Default)]
pub struct HopLog {
    rows: Vec<HopRow>,
    points: Vec<HopSeriesRow>,
    /// By class, the time in queue at that hop of its data's route at which they waited longest in the mean.
    pub sojourn: Vec<Histogram>,
}

impl HopLog {
    /// A point of the time series at `now`: what is in the queue of `hop`, and what was counted since the last point.
    pub fn point(&mut self, now: Instant, hop: &str, backlog: Backlog, since: HopCounts) {
        let (capacity_mbit, seconds) = Default::default();
        self.points.push(HopSeriesRow { time: now, hop: hop.to_owned(), backlog, since, capacity_mbit, seconds });
    }

    /// Hop `number`, called `name`, at the end of the measured time, in which `counted` was counted, and the times in queue by class.
    pub fn hop(
        &mut self,
        (number, name): (usize, &str),
        counted: HopCounts,
        of_classes: &[Histogram],
        of_discipline: BTreeMap<String, u64>,
        config: &RunConfig,
    ) {
        let mut sojourn = Histogram::default();
        of_classes.iter().for_each(|of_class| sojourn.merge(of_class));
        let bits = config.capacity_bits_of(number, config.measured_from(), config.end()) - counted.queue.lost_bytes as f64 * 8.0;
        let seconds = config.measured_time().as_secs_f64();
        self.rows.push(HopRow {
            name: name.to_owned(),
            counted,
            sojourn,
            capacity_mbit: bits * 1e-6 / seconds,
            of_discipline: serde_json::json!(of_discipline).to_string(),
            seconds,
        });
    }

    /// Takes [`HopLog::sojourn`] from the times in queue by class at each hop.
    pub fn longest<'a>(&mut self, classes: &[Class], at: impl Fn(u16) -> &'a [Histogram]) {
        let of_class = |(number, class): (usize, &Class)| {
            let waits = class.route.data.iter().map(|&hop| &at(hop)[number]);
            waits.max_by(|one, other| one.mean().total_cmp(&other.mean())).cloned().unwrap_or_default()
        };
        self.sojourn = classes.iter().enumerate().map(of_class).collect();
    }

    /// Returns the counters of hop `number`, if hops are measured.
    pub fn queue_counters(&self, number: usize) -> Option<&QueueCounters> {
        self.rows.get(number).map(|row| &row.counted.queue)
    }

    /// One row per hop.
    pub fn table(&self) -> Table {
        Hops::table(&self.rows)
    }

    /// One row per hop and point of the time series.
    pub fn series(&mut self, config: &RunConfig) -> Table {
        let interval = config.series_interval().unwrap_or(Duration::ZERO);
        let hops = self.rows.len().max(1);
        for (index, row) in self.points.iter_mut().enumerate() {
            row.seconds = interval.as_secs_f64();
            let lost = row.since.queue.lost_bytes as f64 * 8.0;
            let bits = config.capacity_bits_of(index % hops, row.time.saturating_sub(interval), row.time) - lost;
            row.capacity_mbit = bits * 1e-6 / row.seconds;
        }
        HopSeries::table(&self.points)
    }
}
