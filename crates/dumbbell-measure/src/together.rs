//! The time that the flows of a run have in common: what each got in it, and when their shares became fair.
//!
//! Flows have in common the time from the start of the last flow of `[[flows]]` to the end of the first that ends. What has arrived is looked at
//! every [`LOOK`] from that start on. Nothing here depends on the points of the time series.

use crate::flow::FlowResult;
use crate::statistics::jain;
use dumbbell_config::RunConfig;
use dumbbell_core::units::{Duration, Instant};
use std::collections::VecDeque;

/// Between two looks.
pub const LOOK: Duration = Duration::from_millis(100);
/// Looks in the window over which shares are taken: one second.
const WINDOW: usize = 10;
/// Shares must stay fair for so long. A rate counts as stable after 5 s in Dong et al., PCC (NSDI 2015), section 4.2.2.
const SUSTAINED: Duration = Duration::from_secs(5);
/// Shares with a Jain index of at least this count as fair: two flows within a factor of 1.6 (ABE, Khademi et al. 2017), which is the
/// delta-fair convergence of RFC 5166, section 2.4, with delta = 0.23.
const FAIR: f64 = 0.95;

/// Data of a listed endpoint that had arrived at some time, since its start.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlowProgress {
    /// Payload: acknowledged for TCP, received for UDP; bytes.
    pub payload: u64,
    /// Frames that reached the receiver, bytes.
    pub frames: u64,
    /// When its last byte was acknowledged, if it was.
    pub finished: Option<Instant>,
}

/// Bytes that every listed endpoint got in the time that the flows have in common.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Common {
    /// How long it lasted, s.
    pub seconds: f64,
    /// Payload.
    pub payload: Vec<f64>,
    /// Frames that reached the receiver.
    pub frames: Vec<f64>,
}

impl Common {
    /// Payload of one of them over the time, Mbit/s; NaN if there is none.
    pub fn goodput_mbit(&self, number: usize) -> f64 {
        self.payload.get(number).map_or(f64::NAN, |payload| payload * 8e-6 / self.seconds)
    }

    /// Payload of each over that of all; NaN if there was none.
    pub fn shares(&self) -> Vec<f64> {
        let all: f64 = self.payload.iter().sum();
        self.payload.iter().map(|payload| payload / all).collect()
    }
}

/// Follows the listed endpoints from the start of the last flow on.
#[derive(Clone)]
pub struct CommonTime {
    flows: usize,
    /// Flows that have not started.
    waiting: usize,
    /// Whether a flow may end before the run does.
    may_end: bool,
    /// When the last flow started.
    start: Option<Instant>,
    at_start: Vec<FlowProgress>,
    /// The last look.
    seen: Vec<FlowProgress>,
    seen_at: Instant,
    /// Frames of the flows at the looks of the last window.
    looks: VecDeque<Vec<u64>>,
    /// Start of the first of the fair windows that followed one another until now.
    fair_since: Option<Instant>,
    /// When the first flow ended, and what had arrived by then: payload and frames.
    ended: Option<(Instant, Vec<[f64; 2]>)>,
    next: Instant,
    /// From the start of the last flow until their shares became fair and stayed so.
    pub convergence: Option<Duration>,
    /// From there until the shares of everything that arrived since were first fair.
    pub convergence_cumulative: Option<Duration>,
}

impl CommonTime {
    /// For a run of `config` that has not begun.
    pub fn new(config: &RunConfig) -> CommonTime {
        CommonTime {
            flows: config.flows.len(),
            waiting: config.flows.len(),
            may_end: config
                .flows
                .iter()
                .any(|flow| flow.params.size.is_some() || flow.params.stop.is_some_and(|stop| stop < config.end())),
            start: None,
            at_start: Vec::new(),
            seen: Vec::new(),
            seen_at: Instant::ZERO,
            looks: VecDeque::with_capacity(WINDOW + 1),
            fair_since: None,
            ended: None,
            next: Instant::NEVER,
            convergence: None,
            convergence_cumulative: None,
        }
    }

    /// A flow may be ended by a change, which nobody knows of before: looks go on to the end of the run. What is measured stays the same.
    pub fn expect_ends(&mut self) {
        self.may_end = true;
    }

    /// A flow of `[[flows]]` started at `now`; `listed` is what has arrived of the listed endpoints.
    pub fn start_flow(&mut self, now: Instant, listed: impl Iterator<Item = FlowProgress>) {
        self.waiting -= 1;
        if self.waiting > 0 {
            return;
        }
        self.at_start = listed.collect();
        self.start = Some(now);
        if self.at_start[..self.flows].iter().any(|one| one.finished.is_some()) {
            // one was over before the last began
            self.ended = Some((now, Vec::new()));
            return;
        }
        (self.seen, self.seen_at) = (self.at_start.clone(), now);
        self.looks.push_back(self.at_start[..self.flows].iter().map(|one| one.frames).collect());
        self.plan(now);
    }

    /// When to look next; [`Instant::NEVER`] if there is nothing more to see.
    pub fn next(&self) -> Instant {
        self.next
    }

    fn plan(&mut self, now: Instant) {
        let awaited = self.convergence.is_none() || self.convergence_cumulative.is_none();
        let needed = self.ended.is_none() && (self.may_end || (self.flows > 1 && awaited));
        self.next = if needed { now + LOOK } else { Instant::NEVER };
    }

    /// Takes the data that the listed endpoints have received by `now`, which is [`CommonTime::next`].
    pub fn update(&mut self, now: Instant, listed: impl Iterator<Item = FlowProgress>) {
        let Some(start) = self.start else { return };
        let before = std::mem::take(&mut self.seen);
        self.seen = listed.collect();
        let first_end = self.seen[..self.flows].iter().filter_map(|one| one.finished).min();
        if let Some(end) = first_end {
            // what arrived between two looks counts as spread evenly, of a flow that ended until its end
            let at_end = self.seen.iter().zip(&before).map(|(one, before)| {
                let until = one.finished.map_or(now, |finished| finished.min(now));
                let span = (until - self.seen_at).as_secs_f64();
                let part = if span > 0.0 { (end - self.seen_at).as_secs_f64() / span } else { 1.0 };
                let between = |from: u64, to: u64| from as f64 + to.saturating_sub(from) as f64 * part.clamp(0.0, 1.0);
                [between(before.payload, one.payload), between(before.frames, one.frames)]
            });
            self.ended = Some((end, at_end.collect()));
        } else if self.flows > 1 {
            self.follow_shares(start, now);
        }
        self.seen_at = now;
        self.plan(now);
    }

    fn follow_shares(&mut self, start: Instant, now: Instant) {
        let mut frames = if self.looks.len() > WINDOW { self.looks.pop_front().unwrap_or_default() } else { Vec::new() };
        frames.clear();
        frames.extend(self.seen[..self.flows].iter().map(|one| one.frames));
        if self.convergence_cumulative.is_none() {
            let since: Vec<f64> =
                frames.iter().zip(&self.at_start).map(|(&one, begun)| one.saturating_sub(begun.frames) as f64).collect();
            if jain(&since) >= FAIR {
                self.convergence_cumulative = Some(now - start);
            }
        }
        self.looks.push_back(frames);
        if self.looks.len() <= WINDOW || self.convergence.is_some() {
            return;
        }
        let (from, to) = (&self.looks[0], &self.looks[WINDOW]);
        let window: Vec<f64> = to.iter().zip(from).map(|(to, from)| to.saturating_sub(*from) as f64).collect();
        if jain(&window) >= FAIR {
            let since = *self.fair_since.get_or_insert(now - LOOK * WINDOW as u64);
            if now - since >= SUSTAINED {
                self.convergence = Some(since - start);
            }
        } else {
            self.fair_since = None;
        }
    }

    /// Returns the bytes that every listed endpoint got in the measured time that the flows have in common. `results` are those of the measured time,
    /// before which `begun` was counted. None if flows have no time in common.
    pub fn common(&self, results: &[FlowResult], begun: &[FlowResult]) -> Option<Common> {
        let earlier = |number: usize| begun.get(number).map_or([0; 2], |one| [one.payload, one.receiver.frame_bytes]);
        let whole = |number: usize, one: &FlowResult| {
            let [payload, frames] = earlier(number);
            [(one.payload + payload) as f64, (one.receiver.frame_bytes + frames) as f64]
        };
        let flows = &results[..self.flows.min(results.len())];
        if flows.is_empty() {
            let seconds = results.iter().map(FlowResult::seconds).fold(0.0, f64::max);
            let [payload, frames] = [0, 1].map(|what| {
                results.iter().enumerate().map(|(number, one)| whole(number, one)[what] - earlier(number)[what] as f64).collect()
            });
            return Some(Common { seconds, payload, frames });
        }
        let start = self.start?;
        let is_late = flows.iter().any(|one| one.start > one.since);
        let from = if is_late { start } else { flows.iter().map(|one| one.since).max()? };
        let seconds = match &self.ended {
            Some((end, _)) => end.saturating_since(from).as_secs_f64(),
            None => flows.iter().map(FlowResult::seconds).fold(f64::INFINITY, f64::min),
        };
        if seconds <= 0.0 {
            return None;
        }
        let got = |what: usize| {
            let of = |(number, one): (usize, &FlowResult)| {
                let begin = match self.at_start.get(number) {
                    Some(at_start) if is_late => [at_start.payload, at_start.frames][what],
                    _ => earlier(number)[what],
                };
                let end = self.ended.as_ref().map_or_else(|| whole(number, one)[what], |(_, at_end)| at_end[number][what]);
                (end - begin as f64).max(0.0)
            };
            results.iter().enumerate().map(of).collect()
        };
        Some(Common { seconds, payload: got(0), frames: got(1) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dumbbell_core::tcp::stats::ReceiverStats;
    use serde_json::json;

    fn measure_together(flows: usize, more: serde_json::Value) -> CommonTime {
        let mut flow = json!({"cc": {"name": "reno"}, "count": flows});
        flow.as_object_mut().expect("a flow").extend(more.as_object().cloned().unwrap_or_default());
        let config = json!({"duration": 60_000_000_000_u64, "bottleneck": {"aqm": {"name": "codel"}}, "flows": [flow]});
        CommonTime::new(&RunConfig::from_json(&config).expect("a configuration"))
    }

    fn progress_from(bytes: &[u64]) -> impl Iterator<Item = FlowProgress> + '_ {
        bytes.iter().map(|&bytes| FlowProgress { payload: bytes, frames: bytes, finished: None })
    }

    /// Two flows of which the second starts after 5 s, and what each gets per look from then on.
    fn second_flow_rates(rates: impl IntoIterator<Item = [u64; 2]>) -> CommonTime {
        let mut found = measure_together(2, json!({}));
        found.start_flow(Instant::ZERO, progress_from(&[0, 0]));
        let mut got = [5_000, 0];
        found.start_flow(Instant::from_secs(5), progress_from(&got));
        for each in rates {
            let now = found.next();
            if now == Instant::NEVER {
                break;
            }
            got = [got[0] + each[0], got[1] + each[1]];
            found.update(now, progress_from(&got));
        }
        found
    }

    fn repeat_looks(rates: [u64; 2], seconds: usize) -> impl Iterator<Item = [u64; 2]> {
        std::iter::repeat_n(rates, seconds * 10)
    }

    #[test]
    fn shares_converge_when_they_are_fair_and_stay_so() {
        // unfair for 3 s, then fair. Of a window with k fair looks of (5, 5) and 10 - k of (9, 1), the shares are 90 - 4k and 10 + 4k;
        // 100^2 / (2 (a^2 + b^2)) >= 0.95 from a^2 + b^2 <= 5263 on, which is k = 8: 58^2 + 42^2 = 5128; k = 7: 62^2 + 38^2 = 5288.
        // The first fair window begins 2 looks before the change.
        let found = second_flow_rates(repeat_looks([9, 1], 3).chain(repeat_looks([5, 5], 10)));
        assert_eq!(found.convergence, Some(Duration::from_millis(2800)));
        // fair for a second on the way from one unfairness to the other: a coincidence
        let crossing = repeat_looks([9, 1], 3).chain(repeat_looks([5, 5], 1)).chain(repeat_looks([1, 9], 10));
        assert_eq!(second_flow_rates(crossing).convergence, None);
        // fair from the first look on
        assert_eq!(second_flow_rates(repeat_looks([5, 5], 10)).convergence, Some(Duration::ZERO));
        // 4.9 s are not enough, 5 s are
        assert_eq!(second_flow_rates(repeat_looks([5, 5], 5).skip(1)).convergence, None);
        assert_eq!(second_flow_rates(repeat_looks([5, 5], 5)).convergence, Some(Duration::ZERO));
    }

    #[test]
    fn all_that_arrived_since_the_last_start_converges_when_its_shares_are_first_fair() {
        // after 10 looks of (9, 1) and n of (1, 9) the shares are 90 + n and 10 + 9n; 95 % are met first with n = 6: 96 and 64,
        // 160^2 / (2 (9216 + 4096)) = 0.9615; n = 5: 95 and 55, 150^2 / (2 (9025 + 3025)) = 0.9336
        let found = second_flow_rates(repeat_looks([9, 1], 1).chain(repeat_looks([1, 9], 3)));
        assert_eq!((found.convergence_cumulative, found.convergence), (Some(Duration::from_millis(1600)), None));
    }

    #[test]
    fn nothing_is_looked_at_that_nobody_needs() {
        let mut alone = measure_together(1, json!({}));
        alone.start_flow(Instant::ZERO, progress_from(&[0]));
        assert_eq!(alone.next(), Instant::NEVER);
        let mut waiting = measure_together(2, json!({}));
        waiting.start_flow(Instant::ZERO, progress_from(&[0, 0]));
        assert_eq!(waiting.next(), Instant::NEVER);
        assert_eq!(second_flow_rates(repeat_looks([5, 5], 10)).next(), Instant::NEVER);
    }

    /// A flow that got `bytes` from `start` until `end`, s.
    fn result(start: u64, end: u64, bytes: u64) -> FlowResult {
        let [start, end] = [start, end].map(Instant::from_secs);
        let receiver = ReceiverStats { frame_bytes: bytes, ..ReceiverStats::default() };
        FlowResult { start, end, payload: bytes, receiver, ..FlowResult::default() }
    }

    #[test]
    fn shares_are_over_the_time_that_flows_have_in_common() {
        // the first flow had 5 s alone, in which it got 5000 bytes; then each gets 100 per s for 10 s
        let found = second_flow_rates(repeat_looks([10, 10], 10));
        let common = found.common(&[result(0, 15, 6000), result(5, 15, 1000)], &[]).expect("a common time");
        assert_eq!(common, Common { seconds: 10.0, payload: vec![1000.0; 2], frames: vec![1000.0; 2] });
        assert_eq!(common.shares(), [0.5; 2]);
    }

    #[test]
    fn the_common_time_ends_with_the_first_flow() {
        let mut found = measure_together(2, json!({"size": 50}));
        found.start_flow(Instant::ZERO, progress_from(&[0, 0]));
        found.start_flow(Instant::from_secs(1), progress_from(&[20, 0]));
        // the first is done 50 ms after the last look, when the second had half of what it gets until the next one
        found.update(Instant::from_millis(1100), progress_from(&[40, 10]));
        let finished = Some(Instant::from_millis(1150));
        let last = [FlowProgress { payload: 50, frames: 50, finished }, FlowProgress { payload: 30, frames: 30, finished: None }];
        found.update(Instant::from_millis(1200), last.into_iter());
        assert_eq!(found.next(), Instant::NEVER);
        let common = found.common(&[result(0, 2, 50), result(1, 9, 50)], &[]).expect("a common time");
        assert_eq!((common.payload, common.seconds), (vec![30.0, 20.0], 0.15));
    }

    #[test]
    fn flows_that_never_meet_share_nothing() {
        let mut found = measure_together(2, json!({"size": 50}));
        found.start_flow(Instant::ZERO, progress_from(&[0, 0]));
        let over = FlowProgress { payload: 50, frames: 50, finished: Some(Instant::from_secs(2)) };
        found.start_flow(Instant::from_secs(5), [over, FlowProgress::default()].into_iter());
        assert_eq!(found.next(), Instant::NEVER);
        assert_eq!(found.common(&[result(0, 2, 50), result(5, 9, 50)], &[]), None);
        // one never started
        let mut waiting = measure_together(2, json!({}));
        waiting.start_flow(Instant::ZERO, progress_from(&[0, 0]));
        assert_eq!(waiting.common(&[result(0, 9, 50), result(9, 9, 0)], &[]), None);
    }

    #[test]
    fn what_came_before_counting_began_is_not_shared() {
        let mut found = measure_together(2, json!({}));
        found.start_flow(Instant::ZERO, progress_from(&[0, 0]));
        found.start_flow(Instant::ZERO, progress_from(&[0, 0]));
        let since = |one: FlowResult| FlowResult { since: Instant::from_secs(4), ..one };
        let common = found.common(&[since(result(0, 10, 30)), since(result(0, 10, 60))], &[result(0, 4, 900), result(0, 4, 0)]);
        assert_eq!(common, Some(Common { seconds: 6.0, payload: vec![30.0, 60.0], frames: vec![30.0, 60.0] }));
    }
}
