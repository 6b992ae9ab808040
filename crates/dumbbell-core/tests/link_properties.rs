//! Properties of every registered link, whatever its parameters, arrivals and changes of rate.

use dumbbell_core::link::{self, AnyLink, LinkContext, LinkSpec, QueueContent};
use dumbbell_core::link_trace::LinkTrace;
use dumbbell_core::param::{AlgorithmSpec, ParamKind, ParamType};
use dumbbell_core::units::{Duration, Instant, Rate};
use proptest::prelude::*;
use serde_json::{json, Map, Value};
use std::collections::VecDeque;

/// Values of a parameter between its bounds, near them and near its default; `pick` chooses.
fn value(kind: &ParamKind, default: &Value, min: &Value, max: &Value, pick: u64) -> Value {
    match kind {
        ParamKind::Choice(words) => json!(words[pick as usize % words.len()]),
        ParamKind::LinkTrace => {
            let texts = ["1\n", "3 0\n3 0\n70 40.5\n71 2\n", "0\n0\n250\n"];
            LinkTrace::parse("test", texts[pick as usize % 3].as_bytes()).expect("a trace").to_json()
        }
        ParamKind::Float => match pick % 3 {
            0 => min.clone(),
            1 => max.clone(),
            _ => default.clone(),
        },
        _ => {
            let [default, min, max] = [default, min, max].map(|bound| bound.as_u64().unwrap_or(0));
            json!([default, min, max.min(60_000_000_000), (default / 3).max(min), (default * 5).min(max)][pick as usize % 5])
        }
    }
}

/// The link of `spec` with the parameters that `picks` choose, or with its defaults if they contradict each other.
fn pick_spec(spec: &AlgorithmSpec, picks: &[u64]) -> LinkSpec {
    let drawn = spec.params.iter().zip(picks.iter().cycle());
    let mut config: Map<String, Value> = drawn
        .map(|(param, &pick)| (param.name.into(), value(&param.kind, &param.default, &param.min, &param.max, pick)))
        .collect();
    config.insert("name".into(), json!(spec.name));
    let defaults = Map::from_iter([("name".to_owned(), json!(spec.name))]);
    LinkSpec::from_json(&config).unwrap_or_else(|_| LinkSpec::from_json(&defaults).expect("defaults fit together"))
}

/// A change while packets come.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Packets of this length come after this number of us.
    Packets { after: u64, bytes: u64, count: usize },
    /// The rate changes after this number of us.
    Rate { after: u64, kbit: u64 },
    /// The queue loses what is in it.
    Flush { after: u64 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let after = || prop_oneof![Just(0_u64), 1..3_000_u64, 1..400_000_u64];
    prop::collection::vec(
        prop_oneof![
            6 => (after(), 60..1_515_u64, 1..40_usize).prop_map(|(after, bytes, count)| Step::Packets { after, bytes, count }),
            1 => (after(), 1_000..100_000_u64).prop_map(|(after, kbit)| Step::Rate { after, kbit }),
            1 => after().prop_map(|after| Step::Flush { after }),
        ],
        1..40,
    )
}

/// A queue without limit in front of a link, and what left it.
struct Hop {
    link: AnyLink,
    queue: VecDeque<(u64, u64)>,
    on_link: Option<(u64, u64)>,
    next: Instant,
    /// Number and bytes of each packet, and when it left.
    left: Vec<(u64, u64, Instant)>,
    looks: u64,
}

impl Hop {
    fn serve(&mut self, now: Instant) {
        let waiting = QueueContent { packets: self.queue.len(), bytes: self.queue.iter().map(|packet| packet.1).sum() };
        self.next = match self.link.wait(waiting, now) {
            Some(until) => {
                assert!(until > now, "it looks again at {until}, now is {now}");
                assert!(until < Instant::NEVER || waiting.packets == 0, "it forgets {} packets", waiting.packets);
                until
            }
            None => match self.queue.pop_front() {
                None => Instant::NEVER,
                Some(packet) => {
                    self.on_link = Some(packet);
                    self.link.take(packet.1, now)
                }
            },
        };
        assert!(self.next >= now, "time goes back from {now} to {}", self.next);
    }

    fn work(&mut self, until: Instant) {
        while self.next <= until && self.next < Instant::NEVER {
            self.looks += 1;
            let now = self.next;
            if let Some((number, bytes)) = self.on_link.take() {
                self.left.push((number, bytes, now));
            }
            self.serve(now);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_link_keeps_packets_order_time_and_rate(
        first_kbit in 1_000..100_000_u64, seed in any::<u64>(), picks in prop::collection::vec(any::<u64>(), 8), steps in steps(),
    ) {
        for spec in link::specs() {
            let chosen = pick_spec(&spec, &picks);
            let rate = Rate(first_kbit * 1_000);
            let mut hop = Hop {
                link: chosen.build(&LinkContext { rate, seed, run_seed: seed }), queue: VecDeque::new(), on_link: None, next: Instant::NEVER, left: Vec::new(), looks: 0,
            };
            let (mut now, mut number, mut lost, mut fastest) = (Instant::ZERO, 0, 0, rate);
            for &step in &steps {
                let (Step::Packets { after, .. } | Step::Rate { after, .. } | Step::Flush { after }) = step;
                now += Duration::from_micros(after);
                hop.work(now);
                match step {
                    Step::Packets { bytes, count, .. } => for _ in 0..count {
                        hop.queue.push_back((number, bytes));
                        number += 1;
                        if hop.next == Instant::NEVER {
                            hop.serve(now);
                        }
                    },
                    Step::Rate { kbit, .. } => {
                        fastest = fastest.max(Rate(kbit * 1_000));
                        hop.link.set_rate(Rate(kbit * 1_000), now);
                        if hop.on_link.is_none() && hop.next != Instant::NEVER {
                            hop.serve(now);
                        }
                    }
                    Step::Flush { .. } => lost += hop.queue.drain(..).count(),
                }
            }
            let loaded = now;
            // a day is enough for all of them: at most 40 * 40 frames, at the least rate with the least share of it
            hop.work(now + Duration::from_secs(200_000));
            prop_assert!(hop.queue.is_empty() && hop.on_link.is_none(), "{}: {:?}: {} are left", spec.name, chosen, hop.queue.len());
            prop_assert_eq!(hop.left.len() + lost, number as usize, "{}: {:?}", spec.name, chosen);
            let ordered = hop.left.windows(2).all(|two| two[0].0 < two[1].0 && two[0].2 <= two[1].2);
            prop_assert!(ordered, "{}: {:?}: out of order", spec.name, chosen);
            // an idle link looks at nothing
            prop_assert_eq!(hop.next, Instant::NEVER, "{}: {:?}", spec.name, chosen);
            let last = hop.left.last().map_or(loaded, |gone| gone.2).max(loaded);
            let most_looks = 10 * (number + 10) + 20 * last.0 / 1_000_000;
            prop_assert!(hop.looks <= most_looks, "{}: {:?}: looks {} times", spec.name, chosen, hop.looks);
            let changes = steps.iter().filter(|step| matches!(step, Step::Rate { .. })).count();
            is_bounded(&spec, &chosen, &hop.left, fastest, changes as u64)?;

            // delays are the same whenever one asks, and bounded
            let (mut one, mut other) = (chosen.build(&LinkContext { rate, seed, run_seed: seed }), chosen.build(&LinkContext { rate, seed, run_seed: seed }));
            for second in 0..40 {
                let at = Instant::from_millis(777 * second);
                prop_assert!(one.delay(at) <= Duration::from_secs(60) && (chosen.delays() || one.delay(at) == Duration::ZERO), "{}", spec.name);
                if second % 3 == 0 {
                    prop_assert_eq!(one.delay(at), other.delay(at), "{}", spec.name);
                }
            }
            // it carries at its whole rate for no longer than the time
            let open = other.open(Instant::ZERO, Instant::from_secs(300));
            let of_trace = if matches!(chosen, LinkSpec::Trace(_)) { 1.0 } else { 1e-6 };
            prop_assert!((0.0..=300.0 + of_trace).contains(&open), "{}: {:?}: {}", spec.name, chosen, open);
        }
    }
}

/// Whether in any time no more leaves than the rate carries and a burst.
fn is_bounded(
    spec: &AlgorithmSpec,
    chosen: &LinkSpec,
    left: &[(u64, u64, Instant)],
    fastest: Rate,
    changes: u64,
) -> Result<(), TestCaseError> {
    let (rate, burst) = match chosen {
        LinkSpec::Unshaped(_) => (fastest, (changes + 1) * 2 * 1_514),
        // the most in a millisecond, which the rest of a packet may follow
        LinkSpec::Trace(_) => (Rate(2 * 1_514 * 8 * 1_000), 4 * 1_514),
        // tokens are time: at another rate there may be as much as a burst of them again
        LinkSpec::Htb(params) => (fastest, (changes + 1) * (u64::from(params.burst) + 1_514)),
        // what gathers while the medium is not granted is one aggregate; two follow each other at once at the worst
        LinkSpec::Wifi(params) => (fastest, 2 * u64::from(params.frames) * 1_514),
        // a grant at the end of an interval, and one more at the next one's beginning
        LinkSpec::Docsis(params) => (fastest, 2 * fastest.bits() / 8 * params.interval.0 / 1_000_000_000 + 2 * 1_514),
        _ => (fastest, 1_514),
    };
    for begin in (0..left.len()).step_by(1 + left.len() / 16) {
        let mut bytes = 0;
        for (packets, &(_, more, at)) in (1_u128..).zip(&left[begin..]) {
            bytes += more;
            // times are whole ns: each packet may leave one too early
            let time = u128::from((at - left[begin].2).0) + packets;
            let most = u128::from(rate.bits()) * time / 8_000_000_000 + u128::from(burst) + 1;
            prop_assert!(u128::from(bytes) <= most, "{}: {:?}: {} bytes in {}", spec.name, chosen, bytes, at - left[begin].2);
        }
    }
    Ok(())
}

#[test]
fn every_link_is_described_and_can_be_built_with_its_defaults() {
    for spec in link::specs() {
        assert!(!spec.title.is_empty() && !spec.source.is_empty(), "{}", spec.name);
        for param in &spec.params {
            assert!(!param.doc.trim().is_empty() && !param.source.is_empty(), "{}: {}", spec.name, param.name);
            assert_eq!(param.min.is_null(), param.max.is_null(), "{}: {}", spec.name, param.name);
        }
        let name = Map::from_iter([("name".to_owned(), json!(spec.name))]);
        assert_eq!(LinkSpec::from_json(&name).map(|link| link.name().to_owned()), Ok(spec.name.to_owned()));
    }
    let error = LinkSpec::from_json(&Map::from_iter([("name".to_owned(), json!("wify"))])).expect_err("no link");
    assert!(error.to_string().starts_with("name: found \"wify\", allowed: "), "{error}");
    assert!(link::specs().iter().all(|spec| error.allowed.contains(spec.name)), "{error}");
}
