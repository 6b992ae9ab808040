//! Connection classes: what their flows come to together.

use crate::table::{Column, Table};
use serde_json::{json, Value};

/// One connection class.
#[derive(Default)]
struct Class {
    cc: String,
    base_rtt_ms: f64,
    flows: f64,
    throughput_mbit: f64,
    goodput_mbit: f64,
    rtt_ms: f64,
    waited_ms: f64,
    packets: f64,
    ce: f64,
    drops: f64,
}

/// One row a class (congestion control, base RTT, ECN), from the rows of its flows; `queue` holds what is measured of
/// each class in the queue and comes after. `rate` is the link's, bit/s.
///
/// Rates and RTT are means over the flows of the class, the others shares of its packets, and
/// - `relative_throughput`: throughput over (rate / number of flows);
/// - `window_kb`: throughput * (base RTT + mean sojourn), kB;
/// - `normalised_window`: that over the window which, equal for all flows, would fill the link.
///
/// None if a column is missing.
pub fn table(flows: &Table, queue: Table, rate: u64) -> Option<Table> {
    let real = |name| flows.real(name);
    let int = |name| flows.int(name);
    let (_, Column::Text(cc)) = flows.columns.iter().find(|(name, _)| name == "cc")? else { return None };
    let (base_rtt, throughput, goodput) = (real("base_rtt_ms")?, real("throughput_mbit")?, real("goodput_mbit")?);
    let (rtt, sojourn, packets, ce) = (real("rtt_mean_ms")?, real("sojourn_mean_ms")?, int("packets")?, int("ce_received")?);
    let (overflow, aqm) = (int("drops_overflow")?, int("drops_aqm")?);
    let mut classes: Vec<Class> = queue.int("class")?.iter().map(|_| Class::default()).collect();
    for (flow, &number) in int("class")?.iter().enumerate() {
        let class = classes.get_mut(number as usize)?;
        if class.flows == 0.0 {
            (class.cc, class.base_rtt_ms) = (cc[flow].clone(), base_rtt[flow]);
        }
        class.flows += 1.0;
        class.throughput_mbit += throughput[flow];
        class.goodput_mbit += goodput[flow];
        class.rtt_ms += rtt[flow];
        if packets[flow] > 0 {
            class.waited_ms += sojourn[flow] * packets[flow] as f64;
        }
        class.packets += packets[flow] as f64;
        class.ce += ce[flow] as f64;
        class.drops += (overflow[flow] + aqm[flow]) as f64;
    }

    let rate_mbit = rate as f64 / 1e6;
    let fair_mbit = rate_mbit / classes.iter().map(|class| class.flows).sum::<f64>();
    let path_ms = |class: &Class| class.base_rtt_ms + if class.packets > 0.0 { class.waited_ms / class.packets } else { 0.0 };
    let fair_kb = rate_mbit / 8.0 / classes.iter().map(|class| class.flows / path_ms(class)).sum::<f64>();
    let column = |of: &dyn Fn(&Class) -> f64| Column::F64(classes.iter().map(of).collect());
    let window_kb = |class: &Class| class.throughput_mbit / class.flows * path_ms(class) / 8.0;
    let own = Table::new(vec![
        ("class", Column::U64((0..classes.len() as u64).collect())),
        ("cc", Column::Text(classes.iter().map(|class| class.cc.clone()).collect())),
        ("base_rtt_ms", column(&|class| class.base_rtt_ms)),
        ("flows", Column::U64(classes.iter().map(|class| class.flows as u64).collect())),
        ("throughput_mbit", column(&|class| class.throughput_mbit / class.flows)),
        ("goodput_mbit", column(&|class| class.goodput_mbit / class.flows)),
        ("rtt_mean_ms", column(&|class| class.rtt_ms / class.flows)),
        ("sojourn_mean_ms", column(&|class| class.waited_ms / class.packets)),
        ("mark_share", column(&|class| class.ce / class.packets)),
        ("drop_share", column(&|class| class.drops / (class.drops + class.packets))),
        ("relative_throughput", column(&|class| class.throughput_mbit / class.flows / fair_mbit)),
        ("window_kb", column(&window_kb)),
        ("normalised_window", column(&|class| window_kb(class) / fair_kb)),
    ]);
    let of_queue = queue.columns.into_iter().filter(|(name, _)| name != "class");
    Some(Table { columns: own.columns.into_iter().chain(of_queue).collect() })
}

/// The ratios of mean rate and mean window of the first class to the second; null unless there are two.
pub fn ratios(classes: &Table) -> [(&'static str, Value); 2] {
    let ratio = |name| match classes.real(name) {
        Some([first, second]) if *second > 0.0 => json!(first / second),
        _ => Value::Null,
    };
    [("rate_ratio", ratio("throughput_mbit")), ("window_ratio", ratio("window_kb"))]
}

#[cfg(test)]
mod tests {
    use super::{ratios, table};
    use crate::table::{Column, Table};
    use serde_json::json;

    #[test]
    fn rows_are_those_reckoned_by_hand() {
        let flows = Table::new(vec![
            ("class", Column::U64(vec![0, 1, 0])),
            ("cc", Column::Text(["reno", "cubic", "reno"].map(str::to_owned).to_vec())),
            ("base_rtt_ms", Column::F64(vec![20.0, 40.0, 20.0])),
            ("throughput_mbit", Column::F64(vec![2.0, 6.0, 4.0])),
            ("goodput_mbit", Column::F64(vec![1.0, 5.0, 3.0])),
            ("rtt_mean_ms", Column::F64(vec![30.0, 50.0, 34.0])),
            ("sojourn_mean_ms", Column::F64(vec![8.0, 10.0, 12.0])),
            ("packets", Column::U64(vec![100, 200, 300])),
            ("ce_received", Column::U64(vec![1, 2, 3])),
            ("drops_overflow", Column::U64(vec![0, 50, 100])),
            ("drops_aqm", Column::U64(vec![0, 0, 0])),
        ]);
        let queue = Table::new(vec![("class", Column::U64(vec![0, 1])), ("sojourn_p50_ms", Column::F64(vec![9.0, 10.0]))]);
        let rows = table(&flows, queue, 12_000_000).expect("all columns are there");
        let close = |name: &str, expected: [f64; 2]| {
            let found = rows.real(name).expect("a column");
            assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12 * b), "{name}: {found:?}, not {expected:?}");
        };
        assert_eq!((rows.int("class"), rows.int("flows")), (Some(&[0, 1][..]), Some(&[2, 1][..])));
        close("throughput_mbit", [3.0, 6.0]);
        close("goodput_mbit", [2.0, 5.0]);
        close("rtt_mean_ms", [32.0, 50.0]);
        close("sojourn_mean_ms", [11.0, 10.0]); // (100 * 8 + 300 * 12) / 400
        close("mark_share", [0.01, 0.01]);
        close("drop_share", [0.2, 0.2]);
        close("relative_throughput", [0.75, 1.5]); // of 12 / 3
        close("window_kb", [11.625, 37.5]); // 3 Mbit/s * 31 ms, 6 Mbit/s * 50 ms
        let fair = 1500.0 / (2.0 / 31.0 + 1.0 / 50.0);
        close("normalised_window", [11_625.0 / fair, 37_500.0 / fair]);
        close("sojourn_p50_ms", [9.0, 10.0]);
        assert_eq!(ratios(&rows), [("rate_ratio", json!(0.5)), ("window_ratio", json!(0.31))]);
    }

    #[test]
    fn a_class_that_sent_nothing_spoils_no_other() {
        let flows = Table::new(vec![
            ("class", Column::U64(vec![0, 1])),
            ("cc", Column::Text(["reno", "cubic"].map(str::to_owned).to_vec())),
            ("base_rtt_ms", Column::F64(vec![20.0, 20.0])),
            ("throughput_mbit", Column::F64(vec![8.0, 0.0])),
            ("goodput_mbit", Column::F64(vec![8.0, 0.0])),
            ("rtt_mean_ms", Column::F64(vec![30.0, f64::NAN])),
            ("sojourn_mean_ms", Column::F64(vec![10.0, f64::NAN])),
            ("packets", Column::U64(vec![100, 0])),
            ("ce_received", Column::U64(vec![0, 0])),
            ("drops_overflow", Column::U64(vec![0, 5])),
            ("drops_aqm", Column::U64(vec![0, 0])),
        ]);
        let rows = table(&flows, Table::new(vec![("class", Column::U64(vec![0, 1]))]), 8_000_000).expect("all columns");
        let of = |name: &str| rows.real(name).expect("a column").to_vec();
        assert!(of("sojourn_mean_ms")[1].is_nan() && of("mark_share")[1].is_nan() && of("drop_share")[1] == 1.0);
        assert_eq!((of("relative_throughput"), of("window_kb")), (vec![2.0, 0.0], vec![30.0, 0.0]));
        assert_eq!(ratios(&rows), [("rate_ratio", json!(null)), ("window_ratio", json!(null))]);
    }
}
