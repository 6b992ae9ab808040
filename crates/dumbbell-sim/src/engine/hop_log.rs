//! What is measured of each of several hops, beside what every queue counts.

use super::lines::{BlockPool, NO_BLOCKS};
use crate::config::{Class, RunConfig};
use crate::measure::{ms, Backlog};
use crate::table::{Column, Table};
use dumbbell_core::histogram::Histogram;
use dumbbell_core::log::{At, DropReason, Log, Mark, MarkReason, Place};
use dumbbell_core::packet::{Ecn, Packet};
use dumbbell_core::record::QueueCounters;
use dumbbell_core::tcp::{Ack, Block};
use dumbbell_core::units::Time;
use std::collections::BTreeMap;

/// Counters of the acknowledgements at a hop. They only grow.
#[derive(Clone, Copy, Debug, Default)]
pub struct AckCounters {
    /// Given to the link.
    sent: u64,
    /// Time that those spent in the queue, ns.
    sojourn_ns: u64,
    /// Left the link.
    departed: u64,
    /// Dropped by the queue.
    dropped: u64,
}

dumbbell_core::counted_after!(AckCounters: sent, sojourn_ns, departed, dropped);

impl Log for AckCounters {
    #[inline(always)]
    fn sent(&mut self, packet: &Packet, at: At) {
        if packet.is_back() {
            self.sent += 1;
            self.sojourn_ns += (at.now - packet.enqueue_time).0;
        }
    }

    #[inline(always)]
    fn departed(&mut self, packet: &Packet, _now: Time) {
        if packet.is_back() {
            self.departed += 1;
        }
    }

    fn dropped(&mut self, packet: &Packet, _reason: DropReason, place: Place, _at: At) {
        self.dropped += u64::from(packet.is_back() && matches!(place, Place::Arrival | Place::Queue));
    }
}

/// An acknowledgement in a hop, with the number of its SACK blocks.
#[derive(Clone, Copy, Default)]
pub struct Held {
    pub ack: Ack,
    pub blocks: u32,
}

/// Acknowledgements in hops by the sequence numbers of their packets, and SACK blocks.
#[derive(Default)]
pub struct Said {
    pub held: Vec<Held>,
    pub pool: BlockPool,
}

/// Listens for acknowledgements at a hop, and lets somebody else hear everything.
pub struct Acks<L: Log> {
    /// Numbers of those that were dropped: their places are free.
    pub lost: Vec<u64>,
    /// What they say, while something enters a queue that reads it.
    pub said: Said,
    /// How many there were.
    pub counters: AckCounters,
    pub listener: L,
}

impl<L: Log> Acks<L> {
    /// With nothing counted yet.
    pub fn new(listener: L) -> Acks<L> {
        Acks { lost: Vec::new(), said: Said::default(), counters: AckCounters::default(), listener }
    }
}

impl<L: Log> Log for Acks<L> {
    #[inline]
    fn arrived(&mut self, packet: &Packet, now: Time) {
        self.listener.arrived(packet, now);
    }

    #[inline]
    fn enqueued(&mut self, packet: &Packet, at: At) {
        self.listener.enqueued(packet, at);
    }

    #[inline]
    fn marked(&mut self, packet: &Packet, before: Ecn, mark: Mark, reason: MarkReason, at: At) {
        self.listener.marked(packet, before, mark, reason, at);
    }

    #[inline]
    fn sent(&mut self, packet: &Packet, at: At) {
        self.listener.sent(packet, at);
        self.counters.sent(packet, at);
    }

    #[inline]
    fn departed(&mut self, packet: &Packet, now: Time) {
        self.listener.departed(packet, now);
        self.counters.departed(packet, now);
    }

    fn acknowledgement(&self, packet: &Packet) -> Option<(&Ack, &[Block])> {
        let Held { ack, blocks } = self.said.held.get(packet.seq as usize).filter(|_| packet.is_back())?;
        Some((ack, if *blocks == NO_BLOCKS { &[] } else { self.said.pool.get(*blocks) }))
    }

    fn dropped(&mut self, packet: &Packet, reason: DropReason, place: Place, at: At) {
        self.listener.dropped(packet, reason, place, at);
        self.counters.dropped(packet, reason, place, at);
        if packet.is_back() {
            self.lost.push(packet.seq);
        }
    }
}

/// What a hop had counted at some time.
#[derive(Clone, Copy, Default)]
pub struct Counted {
    queue: QueueCounters,
    acks: AckCounters,
}

impl Counted {
    /// As it stands now.
    pub fn now(queue: &QueueCounters, acks: &AckCounters) -> Counted {
        Counted { queue: *queue, acks: *acks }
    }

    /// What was counted after `before`.
    pub fn after(&self, before: &Counted) -> Counted {
        Counted { queue: self.queue.after(&before.queue), acks: self.acks.after(&before.acks) }
    }
}

/// A hop at the end of the measured time.
struct Row {
    name: String,
    counted: Counted,
    sojourn: Histogram,
    capacity_mbit: f64,
    of_discipline: String,
}

/// Points of the time series of all hops.
#[derive(Default)]
struct Series {
    at: Vec<Time>,
    hop: Vec<String>,
    backlog: Vec<Backlog>,
    since: Vec<Counted>,
}

/// Tables of the hops.
#[derive(Default)]
pub struct HopLog {
    rows: Vec<Row>,
    series: Series,
    /// By class, the time in queue at that hop of its data's route at which they waited longest in the mean.
    pub sojourn: Vec<Histogram>,
}

impl HopLog {
    /// A point of the time series at `now`: what is in the queue of `hop`, and what was counted since the last point.
    pub fn point(&mut self, now: Time, hop: &str, backlog: Backlog, since: Counted) {
        let series = &mut self.series;
        series.at.push(now);
        series.hop.push(hop.to_owned());
        series.backlog.push(backlog);
        series.since.push(since);
    }

    /// Hop `number`, called `name`, at the end of the measured time, in which `counted` was counted, and the times in queue by class.
    pub fn hop(
        &mut self,
        (number, name): (usize, &str),
        counted: Counted,
        of_classes: &[Histogram],
        of_discipline: BTreeMap<String, u64>,
        config: &RunConfig,
    ) {
        let mut sojourn = Histogram::default();
        of_classes.iter().for_each(|of_class| sojourn.merge(of_class));
        let bits = config.capacity_bits_of(number, config.measured_from(), config.run.duration);
        self.rows.push(Row {
            name: name.to_owned(),
            counted,
            sojourn,
            capacity_mbit: bits * 1e-6 / config.measured().as_secs_f64(),
            of_discipline: serde_json::json!(of_discipline).to_string(),
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

    /// One row per hop, counted for `duration`.
    pub fn table(&self, duration: Time) -> Table {
        let seconds = duration.as_secs_f64();
        let real = |of: &dyn Fn(&Row) -> f64| Column::F64(self.rows.iter().map(of).collect());
        let of_queue =
            |of: &dyn Fn(&QueueCounters) -> u64| Column::U64(self.rows.iter().map(|row| of(&row.counted.queue)).collect());
        let of_acks = |of: &dyn Fn(&AckCounters) -> u64| Column::U64(self.rows.iter().map(|row| of(&row.counted.acks)).collect());
        let text = |of: &dyn Fn(&Row) -> String| Column::Text(self.rows.iter().map(of).collect());
        let drops = |queue: &QueueCounters| queue.drops_overflow + queue.drops_aqm;
        let throughput = |row: &Row| row.counted.queue.bytes as f64 * 8e-6 / seconds;
        let ack_wait = |row: &Row| row.counted.acks.sojourn_ns as f64 / row.counted.acks.sent as f64 / 1e6;
        let quantile = |q: f64| real(&move |row| ms(row.sojourn.quantile(q)));
        Table::new(vec![
            ("hop", text(&|row| row.name.clone())),
            ("utilisation", real(&|row| throughput(row) / row.capacity_mbit)),
            ("capacity_mbit", real(&|row| row.capacity_mbit)),
            ("throughput_mbit", real(&throughput)),
            ("packets", of_queue(&|queue| queue.packets)),
            ("ack_packets", of_acks(&|acks| acks.departed)),
            ("backlog_mean_packets", real(&|row| row.sojourn.mean() / 1e9 * row.counted.queue.packets as f64 / seconds)),
            ("sojourn_mean_ms", real(&|row| row.sojourn.mean() / 1e6)),
            ("sojourn_p1_ms", quantile(0.01)),
            ("sojourn_p25_ms", quantile(0.25)),
            ("sojourn_p50_ms", quantile(0.5)),
            ("sojourn_p75_ms", quantile(0.75)),
            ("sojourn_p95_ms", quantile(0.95)),
            ("sojourn_p99_ms", quantile(0.99)),
            ("sojourn_p999_ms", quantile(0.999)),
            ("sojourn_max_ms", real(&|row| ms(row.sojourn.max()))),
            ("ack_sojourn_mean_ms", real(&ack_wait)),
            ("ce_marks", of_queue(&|queue| queue.ce_marks)),
            ("sce_marks", of_queue(&|queue| queue.sce_marks)),
            ("drops_overflow", of_queue(&|queue| queue.drops_overflow)),
            ("drops_aqm", of_queue(&|queue| queue.drops_aqm)),
            ("drops", of_queue(&drops)),
            ("ack_drops", of_acks(&|acks| acks.dropped)),
            ("mark_share", real(&|row| row.counted.queue.ce_marks as f64 / row.counted.queue.packets.max(1) as f64)),
            (
                "drop_share",
                real(&|row| {
                    let queue = &row.counted.queue;
                    drops(queue) as f64 / (queue.packets + drops(queue)).max(1) as f64
                }),
            ),
            ("aqm_counters", text(&|row| row.of_discipline.clone())),
        ])
    }

    /// One row per hop and point of the time series, `interval` apart.
    pub fn series(&self, interval: Time, config: &RunConfig) -> Table {
        let series = &self.series;
        let seconds = interval.as_secs_f64();
        let count = |of: &dyn Fn(&QueueCounters) -> u64| Column::U64(series.since.iter().map(|one| of(&one.queue)).collect());
        let wait = |queue: &QueueCounters| match queue.sent {
            0 => 0.0,
            sent => queue.sojourn_ns as f64 / sent as f64 / 1e6,
        };
        let hops = self.rows.len().max(1);
        let capacity = |index: usize| {
            let until = series.at[index];
            config.capacity_bits_of(index % hops, until.saturating_sub(interval), until) * 1e-6 / seconds
        };
        let queues = || series.since.iter().map(|one| &one.queue);
        Table::new(vec![
            ("time_s", Column::F64(series.at.iter().map(|at| at.as_secs_f64()).collect())),
            ("hop", Column::Text(series.hop.clone())),
            ("backlog_packets", Column::U64(series.backlog.iter().map(|one| one.packets).collect())),
            ("backlog_bytes", Column::U64(series.backlog.iter().map(|one| one.bytes).collect())),
            ("sojourn_mean_ms", Column::F64(queues().map(wait).collect())),
            ("throughput_mbit", Column::F64(queues().map(|queue| queue.bytes as f64 * 8e-6 / seconds).collect())),
            ("capacity_mbit", Column::F64((0..series.since.len()).map(capacity).collect())),
            ("ack_packets", Column::U64(series.since.iter().map(|one| one.acks.departed).collect())),
            ("ce_marks", count(&|queue| queue.ce_marks)),
            ("sce_marks", count(&|queue| queue.sce_marks)),
            ("drops", count(&|queue| queue.drops_overflow + queue.drops_aqm)),
            ("ack_drops", Column::U64(series.since.iter().map(|one| one.acks.dropped).collect())),
        ])
    }
}
