//! Classes of traffic: what their members come to together.

use crate::columns::{ClassRow, Classes};
use crate::flow::FlowResult;
use crate::statistics::{ms, rtt_percentiles_ms};
use crate::table::Table;
use crate::together::Common;
use crate::transit::{Delays, UdpFate};
use dumbbell_config::{Class, ClassKind};
use dumbbell_core::histogram::{CompactHistogram, Histogram};
use dumbbell_core::units::Duration;

/// Sums over the members of a class.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// How many there are.
    pub members: f64,
    /// Frames over each one's lifetime.
    pub throughput_mbit: f64,
    /// Payload over each one's lifetime.
    pub goodput_mbit: f64,
    /// Mean smoothed RTTs.
    pub rtt_ms: f64,
    /// Members that have an RTT.
    pub with_rtt: f64,
    rtt_samples: CompactHistogram<u64>,
    delays: Delays,
    /// Packets of UDP.
    pub fate: UdpFate,
    /// Time in queue of all packets.
    pub waited_ms: f64,
    /// Packets that left the link.
    pub packets: f64,
    /// Packets received with CE.
    pub ce: f64,
    /// Drops by the queue.
    pub drops: f64,
    /// Bytes of the frames that were received.
    pub frame_bytes: f64,
}

impl Totals {
    /// Takes a member in.
    pub fn add(&mut self, flow: &FlowResult) {
        let counters = &flow.counters;
        self.members += 1.0;
        self.throughput_mbit += flow.throughput_mbit();
        self.goodput_mbit += flow.goodput_mbit();
        if flow.samples.count > 0 {
            self.rtt_ms += flow.rtt_mean_ms();
            self.with_rtt += 1.0;
        }
        if let Some(samples) = &flow.rtt_samples {
            self.rtt_samples.merge(samples);
        }
        if let Some(transit) = &flow.transit {
            self.delays.merge(&transit.delays);
        }
        self.fate.merge(flow.fate());
        if counters.departed > 0 {
            self.waited_ms += flow.sojourn_mean_ms() * counters.departed as f64;
        }
        self.packets += counters.departed as f64;
        self.ce += flow.receiver.ce as f64;
        self.drops += flow.drops() as f64;
        self.frame_bytes += flow.receiver.frame_bytes as f64;
    }

    /// Base RTT and mean time in queue, ms.
    fn path_ms(&self, class: &Class) -> f64 {
        ms(class.base_rtt) + if self.packets > 0.0 { self.waited_ms / self.packets } else { 0.0 }
    }

    /// The RTT samples of all members together.
    pub fn rtt_samples(&self) -> &CompactHistogram<u64> {
        &self.rtt_samples
    }

    /// Returns the data that a member has in flight, kB.
    pub fn window_kb(&self, class: &Class) -> f64 {
        self.throughput_mbit / self.members * self.path_ms(class) / 8.0
    }
}

/// One row per class, from the sums over its members and the times in queue. `rates` are what the links of the hops carry, bit/s; the run
/// lasted `duration`.
///
/// With several hops, the fair share of a class is that of the hop of its route at which rate over number of flows is smallest.
pub fn table(classes: &[Class], sums: &[Totals], sojourn: &[Histogram], rates: &[f64], duration: Duration) -> Table {
    let both = || classes.iter().zip(sums);
    let at_hops = |class: &Class, sum: &dyn Fn(u16) -> f64| {
        let shares = class.route.data.iter().map(|&hop| rates[usize::from(hop)] / 1e6 / sum(hop));
        shares.fold(f64::INFINITY, f64::min)
    };
    let over = |hop: u16| both().filter(move |(class, _)| class.kind == ClassKind::Flows && class.route.data.contains(&hop));
    let fair_mbit = |class: &Class| at_hops(class, &|hop| over(hop).map(|(_, totals)| totals.members).sum());
    let fair_kb = |class: &Class| {
        let windows = |hop| over(hop).map(|(other, totals)| totals.members / totals.path_ms(other)).sum::<f64>();
        at_hops(class, &|hop| windows(hop) * 8.0)
    };
    let none = Histogram::default();
    let rows = both().enumerate().map(|(number, (class, totals))| ClassRow {
        number: number as u64,
        class,
        totals,
        seconds: duration.as_secs_f64(),
        fair: (class.kind == ClassKind::Flows).then(|| (fair_mbit(class), fair_kb(class))),
        rtt_ms: rtt_percentiles_ms(&totals.rtt_samples),
        sojourn: sojourn.get(number).unwrap_or(&none),
        delays_ms: totals.delays.figures_ms(),
    });
    Classes::table(&rows.collect::<Vec<_>>())
}

/// The ratios of mean rate and mean window of the first class of flows to the second, in the time that the flows have in common; null unless
/// there are two.
pub fn ratios(classes: &dumbbell_config::Classes, sums: &[Totals], common: Option<&Common>) -> [Option<f64>; 2] {
    let mut of_flows = (0_u16..).zip(&classes.list).filter(|(_, class)| class.kind == ClassKind::Flows).map(|(number, class)| {
        let members = || classes.of_flow.iter().enumerate().filter(move |&(_, &of)| of == number).map(|(flow, _)| flow);
        let frames = common.map_or(0.0, |common| members().map(|flow| common.frames[flow]).sum());
        let rate: f64 = frames / members().count() as f64;
        (rate, rate * sums[usize::from(number)].path_ms(class))
    });
    match (of_flows.next(), of_flows.next(), of_flows.next()) {
        (Some(first), Some(second), None) if second.0 > 0.0 => [Some(first.0 / second.0), Some(first.1 / second.1)],
        _ => [None, None],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Samples;
    use dumbbell_core::record::FlowCounters;
    use dumbbell_core::tcp::stats::ReceiverStats;
    use dumbbell_core::units::Instant;
    use std::sync::Arc;

    fn class(kind: ClassKind, cc: &str, rtt_ms: u64) -> Class {
        Class { kind, cc: cc.to_owned(), base_rtt: Duration::from_millis(rtt_ms), route: Arc::default() }
    }

    /// A flow that lived one second: Mbit/s of frames and payload, RTT and time in queue in ms, packets, marks, drops.
    fn flow(throughput: u64, goodput: u64, rtt: u64, sojourn: u64, packets: u64, ce: u64, drops: u64) -> FlowResult {
        FlowResult {
            end: Instant::from_secs(1),
            payload: goodput * 125_000,
            samples: Samples { count: 1, srtt_us: rtt * 1000, ..Samples::default() },
            receiver: ReceiverStats { frame_bytes: throughput * 125_000, ce, ..ReceiverStats::default() },
            counters: FlowCounters {
                departed: packets,
                sojourn_ns: sojourn * packets * 1_000_000,
                dropped_overflow: drops,
                ..FlowCounters::default()
            },
            ..FlowResult::default()
        }
    }

    fn totals(flows: &[FlowResult]) -> Totals {
        let mut totals = Totals::default();
        flows.iter().for_each(|flow| totals.add(flow));
        totals
    }

    /// The ratios of `classes`, whose flows are `of_flow`, that got this many Mbit/s of frames in the common second.
    fn ratios_of(classes: &[Class], of_flow: &[u16], sums: &[Totals], throughput: &[f64]) -> [Option<f64>; 2] {
        let classes = dumbbell_config::Classes { list: classes.to_vec(), of_flow: of_flow.to_vec(), ..Default::default() };
        let frames = throughput.iter().map(|mbit| mbit * 125_000.0).collect();
        ratios(&classes, sums, Some(&Common { seconds: 1.0, frames, payload: Vec::new() }))
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn rows_are_those_reckoned_by_hand() {
        let classes = [class(ClassKind::Flows, "reno", 20), class(ClassKind::Flows, "cubic", 40)];
        let sums =
            [totals(&[flow(2, 1, 30, 8, 100, 1, 0), flow(4, 3, 34, 12, 300, 3, 100)]), totals(&[flow(6, 5, 50, 10, 200, 2, 50)])];
        let queue = [9, 10].map(|ms| {
            let mut waits = Histogram::default();
            waits.record(Duration::from_millis(ms));
            waits
        });
        let rows = table(&classes, &sums, &queue, &[12_000_000.0], SECOND);
        let close = |name: &str, expected: [f64; 2]| {
            let found = rows.real(name).expect("a column");
            assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12 * b), "{name}: {found:?}, not {expected:?}");
        };
        assert_eq!((rows.int("class"), rows.int("flows")), (Some(&[0, 1][..]), Some(&[2, 1][..])));
        close("throughput_mbit", [3.0, 6.0]);
        close("total_throughput_mbit", [6.0, 6.0]);
        close("goodput_mbit", [2.0, 5.0]);
        close("rtt_mean_ms", [32.0, 50.0]);
        close("sojourn_mean_ms", [11.0, 10.0]); // (100 * 8 + 300 * 12) / 400
        close("mark_share", [0.01, 0.01]);
        close("drop_share", [0.2, 0.2]);
        close("relative_throughput", [0.75, 1.5]); // of 12 / 3
        close("window_kb", [11.625, 37.5]); // 3 Mbit/s * 31 ms, 6 Mbit/s * 50 ms
        let fair = 1500.0 / (2.0 / 31.0 + 1.0 / 50.0);
        close("normalised_window", [11_625.0 / fair, 37_500.0 / fair]);
        close("sojourn_max_ms", [9.0, 10.0]);
        assert_eq!(ratios_of(&classes, &[0, 0, 1], &sums, &[2.0, 4.0, 6.0]), [Some(0.5), Some(0.31)]);
        // 5 Mbit/s each in the time that they have in common, whatever they got before and after
        assert_eq!(ratios_of(&classes, &[0, 0, 1], &sums, &[5.0, 5.0, 5.0]), [Some(1.0), Some(0.62)]);
    }

    #[test]
    fn a_class_that_sent_nothing_spoils_no_other() {
        let classes = [class(ClassKind::Flows, "reno", 20), class(ClassKind::Flows, "cubic", 20)];
        let silent = FlowResult { samples: Samples::default(), ..flow(0, 0, 0, 0, 0, 0, 5) };
        let sums = [totals(&[flow(8, 8, 30, 10, 100, 0, 0)]), totals(&[silent])];
        let rows = table(&classes, &sums, &[], &[8_000_000.0], SECOND);
        let of = |name: &str| rows.real(name).expect("a column").to_vec();
        assert!(of("sojourn_mean_ms")[1].is_nan() && of("mark_share")[1].is_nan() && of("drop_share")[1] == 1.0);
        assert_eq!((of("relative_throughput"), of("window_kb")), (vec![2.0, 0.0], vec![30.0, 0.0]));
        assert_eq!(ratios_of(&classes, &[0, 1], &sums, &[8.0, 0.0]), [None, None]);
    }

    #[test]
    fn a_member_without_rtt_does_not_blank_its_class() {
        let short = FlowResult { samples: Samples::default(), ..flow(1, 1, 0, 1, 10, 0, 0) };
        let rows = table(
            &[class(ClassKind::Flows, "reno", 20)],
            &[totals(&[flow(1, 1, 30, 1, 10, 0, 0), short])],
            &[],
            &[8_000_000.0],
            SECOND,
        );
        assert_eq!(rows.real("rtt_mean_ms"), Some(&[30.0][..]));
    }

    #[test]
    fn only_listed_flows_have_a_fair_share_and_ratios() {
        let classes =
            [class(ClassKind::Flows, "reno", 20), class(ClassKind::Udp, "udp", 0), class(ClassKind::Flows, "cubic", 20)];
        let sums = [
            totals(&[flow(2, 2, 30, 0, 10, 0, 0)]),
            totals(&[flow(4, 4, 0, 0, 10, 0, 0)]),
            totals(&[flow(1, 1, 30, 0, 10, 0, 0)]),
        ];
        let rows = table(&classes, &sums, &[], &[8_000_000.0], SECOND);
        let relative = rows.real("relative_throughput").expect("a column");
        // of 8 / 2
        assert!(relative[0] == 0.5 && relative[1].is_nan() && relative[2] == 0.25, "{relative:?}");
        assert_eq!(ratios_of(&classes, &[0, 2], &sums, &[2.0, 1.0, 4.0])[0], Some(2.0));
    }
}
