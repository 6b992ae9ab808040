//! Agents outside the simulator that control flows: many flows of many runs, step by step, on several threads.
//!
//! A flow has an agent if its control is [`external`](dumbbell_core::cc::external). An agent acts after each acknowledgement, after a time, or after a multiple of the
//! flow's smoothed RTT ([`Every`]). In a step, each run goes on until one of its flows is due. A row of [`COLUMNS`] tells the agent what has happened since it acted last.

use crate::change::Change;
use crate::{CannotFork, RunError, Sim};
use dumbbell_core::cc::external::AckRtts;
use dumbbell_core::param::ParamError;
use dumbbell_core::units::{Duration, Instant, Rate};
use std::thread;

/// Counters and state of a flow with the control `external`; counters since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowObservation {
    /// Segments delivered, selectively acknowledged ones included, and those of them with CE.
    pub delivered: u64,
    /// Segments with CE.
    pub delivered_ce: u64,
    /// Segments thought lost, again as well.
    pub lost: u64,
    /// Segments sent, again as well.
    pub sent: u64,
    /// Payload acknowledged in order, bytes.
    pub acked_bytes: u64,
    /// RTTs since the last observation.
    pub rtts: AckRtts,
    /// Segments in flight.
    pub in_flight: u32,
    /// Window, segments.
    pub cwnd: u32,
    /// Pacing rate of the payload, bytes per second; 0 if the flow is not paced.
    pub pacing_rate: u64,
    /// Smoothed RTT; 0 before the first sample.
    pub srtt_us: u32,
    /// The smallest RTT; the largest number before the first sample.
    pub min_rtt_us: u32,
    /// Payload of a segment, bytes.
    pub mss: u32,
}

/// A column of the rows that agents get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObservationColumn {
    /// Name.
    pub name: &'static str,
    /// Unit; empty for a share or a count.
    pub unit: &'static str,
    /// Meaning.
    pub doc: &'static str,
}

/// Declares the columns, in order, and fills a row of them.
macro_rules! columns {
    ($($name:ident $unit:literal $doc:literal = |$seen:ident| $value:expr;)*) => {
        /// Columns of the rows that agents get; values are of the time since the agent acted last, if the meaning says nothing else. NaN: there is none.
        pub const COLUMNS: [ObservationColumn; [$(stringify!($name)),*].len()] =
            [$(ObservationColumn { name: stringify!($name), unit: $unit, doc: $doc }),*];

        fn fill_row(seen: &Interval<'_>, row: &mut [f64]) {
            let values = [$({ let $seen = seen; $value }),*];
            row.copy_from_slice(&values);
        }
    };
}

columns! {
    elapsed_ms "ms" "Length of the interval." = |seen| seen.seconds * 1e3;
    delivery_rate_mbit "Mbit/s" "Payload of the segments delivered, selectively acknowledged ones included." = |seen| seen.rate(seen.delivered());
    goodput_mbit "Mbit/s" "Payload acknowledged in order." = |seen| seen.acked_bytes() as f64 * 8e-6 / seen.seconds;
    sending_rate_mbit "Mbit/s" "Payload of the segments sent, retransmissions included." = |seen| seen.rate(seen.sent());
    rtt_mean_ms "ms" "Mean of the RTT samples." = |seen| seen.now.rtts.sum_us as f64 / f64::from(seen.now.rtts.samples) / 1e3;
    rtt_min_ms "ms" "Smallest RTT sample." = |seen| seen.of_samples(seen.now.rtts.min_us);
    rtt_latest_ms "ms" "Latest RTT sample." = |seen| seen.of_samples(seen.now.rtts.last_us);
    srtt_ms "ms" "Smoothed RTT, now." = |seen| if seen.now.srtt_us == 0 { f64::NAN } else { f64::from(seen.now.srtt_us) / 1e3 };
    min_rtt_ms "ms" "Smallest RTT of the connection." = |seen| if seen.now.min_rtt_us == u32::MAX { f64::NAN } else { f64::from(seen.now.min_rtt_us) / 1e3 };
    loss "" "Segments thought lost, as a share of these and of the segments delivered." = |seen| seen.lost() as f64 / (seen.lost() + seen.delivered()) as f64;
    ce "" "Share of the segments delivered that had CE." = |seen| seen.delivered_ce() as f64 / seen.delivered() as f64;
    acks "" "Acknowledgements." = |seen| f64::from(seen.now.rtts.acks);
    in_flight "segments" "Segments in flight, now." = |seen| f64::from(seen.now.in_flight);
    cwnd "segments" "Window, now." = |seen| f64::from(seen.now.cwnd);
    pacing_rate_mbit "Mbit/s" "Pacing rate of the payload, now; 0 if the flow is not paced." = |seen| seen.now.pacing_rate as f64 * 8e-6;
    action_cwnd "segments" "Window that the agent asked for last." = |seen| seen.action[0];
    action_rate_mbit "Mbit/s" "Pacing rate that the agent asked for last." = |seen| seen.action[1];
}

/// Columns of an action: window in segments, pacing rate of the payload in Mbit/s. NaN leaves what is set.
pub const ACTIONS: [&str; 2] = ["cwnd", "pacing_rate_mbit"];

/// A flow between two observations.
struct Interval<'a> {
    before: &'a FlowObservation,
    now: &'a FlowObservation,
    seconds: f64,
    action: [f64; 2],
}

macro_rules! differences {
    ($($field:ident),*) => { $( fn $field(&self) -> u64 { self.now.$field.saturating_sub(self.before.$field) } )* };
}

impl Interval<'_> {
    differences!(delivered, delivered_ce, lost, sent, acked_bytes);

    /// Mbit/s of this number of segments.
    fn rate(&self, segments: u64) -> f64 {
        segments as f64 * f64::from(self.now.mss) * 8e-6 / self.seconds
    }

    /// Milliseconds, if there are samples.
    fn of_samples(&self, us: u32) -> f64 {
        if self.now.rtts.samples == 0 {
            f64::NAN
        } else {
            f64::from(us) / 1e3
        }
    }
}

/// How often an agent acts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Every {
    /// After each acknowledgement.
    Ack,
    /// After this time.
    Time(Duration),
    /// After this multiple of the flow's smoothed RTT, and of its base RTT before the first sample.
    Rtts(f64),
}

/// The agent of a flow.
#[derive(Clone, Debug)]
struct AgentFlow {
    flow: usize,
    base_rtt: Duration,
    before: FlowObservation,
    /// When it acted last, and when it acts next.
    since: Instant,
    next: Instant,
    action: [f64; 2],
}

/// A run and its agents.
struct AgentRun {
    sim: Sim,
    flows: Vec<AgentFlow>,
}

/// Why agents cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Something cannot be used as it is.
    #[error(transparent)]
    Input(#[from] ParamError),
    /// A run has failed.
    #[error("run {0}: {1}")]
    Run(usize, RunError),
    /// A run cannot be copied.
    #[error(transparent)]
    Fork(#[from] CannotFork),
}

/// Returns when the agent of a flow acts next.
fn plan(every: Every, flow: &AgentFlow, now: Instant) -> Instant {
    match every {
        Every::Ack => Instant::NEVER,
        Every::Time(time) => now.saturating_add(time),
        Every::Rtts(count) => {
            let srtt = Duration::from_micros(u64::from(flow.before.srtt_us));
            let rtt = if srtt == Duration::ZERO { flow.base_rtt } else { srtt };
            now.saturating_add(Duration(((rtt.0 as f64 * count) as u64).max(LEAST_STEP.0)))
        }
    }
}

/// Least time between two actions after multiples of an RTT: a base RTT of 0 would never let time pass.
const LEAST_STEP: Duration = Duration::from_micros(10);

impl AgentRun {
    fn new(mut sim: Sim, every: Every) -> Result<AgentRun, ParamError> {
        let now = sim.now();
        let listed: Vec<(usize, Duration)> =
            sim.config().flows.iter().enumerate().map(|(flow, one)| (flow, one.params.base_rtt)).collect();
        let mut flows = Vec::new();
        for (flow, base_rtt) in listed {
            let Some(before) = sim.observe(flow) else { continue };
            let mut one = AgentFlow { flow, base_rtt, before, since: now, next: now, action: [f64::NAN; 2] };
            one.next = plan(every, &one, now);
            flows.push(one);
        }
        if flows.is_empty() {
            return Err(ParamError::new("flows", "no flow with the control external", "one or more with cc = \"external\""));
        }
        Ok(AgentRun { sim, flows })
    }

    /// Carries out the actions of the flows that are due, and goes on until one is due again.
    fn step(&mut self, every: Every, actions: &[f64], rows: &mut [f64], due: &mut [u8]) -> Result<(), AgentError> {
        if self.sim.is_over() {
            return Ok(());
        }
        for ((flow, action), flag) in self.flows.iter_mut().zip(actions.chunks_exact(ACTIONS.len())).zip(&mut *due) {
            if std::mem::take(flag) == 0 {
                continue;
            }
            let window = read_action(action[0], "cwnd", 1.0, 1e9)?.map(|segments| segments as u32);
            let rate = read_action(action[1], "pacing_rate_mbit", 1e-3, 1e7)?.map(|mbit| Rate((mbit * 1e6).round() as u64));
            for (kept, asked) in flow.action.iter_mut().zip(action) {
                if !asked.is_nan() {
                    *kept = *asked;
                }
            }
            if window.is_some() || rate.is_some() {
                self.sim.change(&Change::Steer { flow: flow.flow, window, rate })?;
            }
        }
        self.advance(every).map_err(|error| AgentError::Run(0, error))?;
        let (now, is_over) = (self.sim.now(), self.sim.is_over());
        for ((flow, row), flag) in self.flows.iter_mut().zip(rows.chunks_exact_mut(COLUMNS.len())).zip(due) {
            let is_due = is_over || flow.next <= now;
            if !is_due {
                continue;
            }
            let Some(seen) = self.sim.observe(flow.flow) else { continue };
            let seconds = now.saturating_since(flow.since).as_secs_f64();
            fill_row(&Interval { before: &flow.before, now: &seen, seconds, action: flow.action }, row);
            (flow.before, flow.since) = (seen, now);
            flow.next = plan(every, flow, now);
            *flag = 1;
        }
        Ok(())
    }

    fn advance(&mut self, every: Every) -> Result<(), RunError> {
        if every == Every::Ack {
            if self.sim.step_to_ack(Instant::NEVER)? {
                let now = self.sim.now();
                let acked = self.flows.iter_mut().filter(|flow| self.sim.has_acks(flow.flow));
                acked.for_each(|flow| flow.next = now);
            }
            return Ok(());
        }
        let next = self.flows.iter().map(|flow| flow.next).min().unwrap_or(Instant::NEVER);
        self.sim.step(next).map(|_| ())
    }
}

/// Reads a value of an action; NaN is none.
fn read_action(value: f64, name: &str, least: f64, most: f64) -> Result<Option<f64>, ParamError> {
    if value.is_nan() {
        return Ok(None);
    }
    if !(least..=most).contains(&value) {
        return Err(ParamError::new(format!("actions, {name}"), value, format!("{least} to {most}, or NaN for what is set")));
    }
    Ok(Some(value))
}

/// The agents of many runs.
pub struct Agents {
    runs: Vec<AgentRun>,
    every: Every,
    threads: usize,
    /// First row of each run, and the number of all rows.
    first_rows: Vec<usize>,
    /// Whether the agent of each row acts next.
    due: Vec<u8>,
    /// Events of all runs in the last step.
    last_events: u64,
}

/// Fewest events of a step that are worth another thread, which takes as long to start as some hundreds of events.
const LEAST_EVENTS: u64 = 4_000;

impl Agents {
    /// The agents of the flows with the control `external` in these runs, which [may change](crate::Builder::changeable); they go on on up to `threads`.
    ///
    /// # Errors
    /// A run without such a flow, or an interval that is none.
    pub fn new(sims: Vec<Sim>, every: Every, threads: usize) -> Result<Agents, ParamError> {
        let is_positive = match every {
            Every::Ack => true,
            Every::Time(time) => time > Duration::ZERO,
            Every::Rtts(count) => count > 0.0 && count.is_finite(),
        };
        if !is_positive {
            return Err(ParamError::new("every", format!("{every:?}"), "more than nothing"));
        }
        let runs = sims.into_iter().map(|sim| AgentRun::new(sim, every)).collect::<Result<Vec<_>, _>>()?;
        let mut first_rows = vec![0];
        for run in &runs {
            first_rows.push(first_rows[first_rows.len() - 1] + run.flows.len());
        }
        // nobody has anything to answer yet, and everybody may act
        let due = vec![1; first_rows[runs.len()]];
        Ok(Agents { runs, every, threads: threads.max(1), first_rows, due, last_events: 0 })
    }

    /// Number of rows: one for each flow with the control `external`, run by run.
    pub fn count_rows(&self) -> usize {
        self.due.len()
    }

    /// Run and flow of each row.
    pub fn rows(&self) -> Vec<(usize, usize)> {
        let of_run =
            |(number, run): (usize, &AgentRun)| run.flows.iter().map(move |flow| (number, flow.flow)).collect::<Vec<_>>();
        self.runs.iter().enumerate().flat_map(of_run).collect()
    }

    /// Whether the agent of each row acts in the next step: 1, or 0.
    pub fn due(&self) -> &[u8] {
        &self.due
    }

    /// Whether each run is over.
    pub fn are_over(&self) -> Vec<bool> {
        self.runs.iter().map(|run| run.sim.is_over()).collect()
    }

    /// How far each run has come.
    pub fn times(&self) -> Vec<Instant> {
        self.runs.iter().map(|run| run.sim.now()).collect()
    }

    /// Carries out `actions`, rows of [`ACTIONS`], of the agents that are due. Each run goes on until one of its agents is due again, or to its end. Fills `rows` of
    /// [`COLUMNS`] of these agents; other rows stay as they are.
    ///
    /// # Errors
    /// An action that cannot be, or a broken invariant. Other runs have gone on.
    pub fn step(&mut self, actions: &[f64], rows: &mut [f64]) -> Result<(), AgentError> {
        let count = self.count_rows();
        if actions.len() != count * ACTIONS.len() || rows.len() != count * COLUMNS.len() {
            let found = format!("{} actions and {} observations", actions.len(), rows.len());
            let allowed = format!("{} and {}", count * ACTIONS.len(), count * COLUMNS.len());
            return Err(ParamError::new("actions", found, allowed).into());
        }
        let count_events = |runs: &[AgentRun]| runs.iter().map(|run| run.sim.count_events()).sum::<u64>();
        let before = count_events(&self.runs);
        let Agents { runs, every, threads, first_rows, due, last_events } = self;
        // a step is about as long as the one before it
        let useful = if *last_events < LEAST_EVENTS { 1 } else { *threads };
        let each = runs.len().div_ceil(useful).max(1);
        let (every, first_rows) = (*every, &*first_rows);
        let mut failure = None;
        thread::scope(|scope| {
            let (mut actions_left, mut rows_left, mut due_left) = (actions, rows, &mut due[..]);
            let mut own = None;
            let mut helpers = Vec::new();
            for (number, part) in runs.chunks_mut(each).enumerate() {
                let first = number * each;
                let agents = first_rows[first + part.len()] - first_rows[first];
                let (some_actions, other_actions) = actions_left.split_at(agents * ACTIONS.len());
                let (some_rows, other_rows) = rows_left.split_at_mut(agents * COLUMNS.len());
                let (some_due, other_due) = due_left.split_at_mut(agents);
                (actions_left, rows_left, due_left) = (other_actions, other_rows, other_due);
                let work = move || step_part(part, first, every, (some_actions, some_rows, some_due));
                if own.is_none() {
                    own = Some(work);
                } else {
                    helpers.push(scope.spawn(work));
                }
            }
            failure = own.and_then(|mut work| work().err());
            for helper in helpers {
                let found = helper.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)).err();
                failure = failure.take().or(found);
            }
        });
        *last_events = count_events(runs).saturating_sub(before);
        failure.map_or(Ok(()), Err)
    }

    /// Replaces run `number` by `sim`, whose agents act from now on. It has as many of them.
    ///
    /// # Errors
    /// No such run, or another number of agents.
    pub fn replace(&mut self, number: usize, sim: Sim) -> Result<(), ParamError> {
        let count = self.runs.len();
        let Some(place) = self.runs.get_mut(number) else {
            return Err(ParamError::new("run", number, format!("0 to {}", count - 1)));
        };
        let fresh = AgentRun::new(sim, self.every)?;
        if fresh.flows.len() != place.flows.len() {
            let found = format!("a run with {} flows of agents", fresh.flows.len());
            return Err(ParamError::new("run", found, format!("one with {}, as before", place.flows.len())));
        }
        *place = fresh;
        self.due[self.first_rows[number]..self.first_rows[number + 1]].fill(1);
        Ok(())
    }

    /// Returns a copy of run `number`.
    ///
    /// # Errors
    /// A part that cannot be copied.
    pub fn fork_run(&self, number: usize) -> Result<Sim, AgentError> {
        let missing = || ParamError::new("run", number, format!("0 to {}", self.runs.len().saturating_sub(1)));
        Ok(self.runs.get(number).ok_or_else(missing)?.sim.fork()?)
    }
}

/// Steps runs one after the other, the first of which has this number.
fn step_part(
    runs: &mut [AgentRun],
    first: usize,
    every: Every,
    (mut actions, mut rows, mut due): (&[f64], &mut [f64], &mut [u8]),
) -> Result<(), AgentError> {
    let mut result = Ok(());
    for (number, run) in (first..).zip(runs) {
        let count = run.flows.len();
        let (own_actions, other_actions) = actions.split_at(count * ACTIONS.len());
        let (own_rows, other_rows) = std::mem::take(&mut rows).split_at_mut(count * COLUMNS.len());
        let (own_due, other_due) = std::mem::take(&mut due).split_at_mut(count);
        (actions, rows, due) = (other_actions, other_rows, other_due);
        let stepped = run.step(every, own_actions, own_rows, own_due).map_err(|error| match error {
            AgentError::Run(_, failed) => AgentError::Run(number, failed),
            other => other,
        });
        result = result.and(stepped);
    }
    result
}
