//! Implements the calls without their C interface: configurations in, answers out, and the runs in progress.

use crate::events::RowRecorder;
use dumbbell_core::param::ParamError;
use dumbbell_core::units::Duration;
use dumbbell_sim::table::{Column, Table};
use dumbbell_sim::{HopView, Outcome, RunError, SharedCopies, Sim, View};
use serde_json::{json, Map, Value};
use std::collections::BTreeMap;

/// The reply to a call.
#[derive(Debug)]
pub struct Reply {
    /// Return value of the call.
    pub code: i32,
    /// Text, or numbers of events, for the caller to read afterwards.
    pub output: Vec<u8>,
}

impl From<Value> for Reply {
    fn from(value: Value) -> Reply {
        Reply { code: crate::DONE, output: value.to_string().into_bytes() }
    }
}

/// Why a call failed.
#[derive(Debug)]
pub enum CallError {
    /// The configuration cannot be used.
    Config(ParamError),
    /// Everything else, in words.
    Other(String),
}

impl CallError {
    /// As an object: `message`, and of a configuration `key`, `found` and `allowed`.
    pub fn to_json(&self) -> Value {
        match self {
            CallError::Config(error) => {
                json!({"message": error.to_string(), "key": error.key, "found": error.found, "allowed": error.allowed})
            }
            CallError::Other(message) => json!({ "message": message }),
        }
    }
}

impl From<ParamError> for CallError {
    fn from(error: ParamError) -> CallError {
        CallError::Config(error)
    }
}

impl From<RunError> for CallError {
    fn from(error: RunError) -> CallError {
        match error {
            RunError::Config(error) => CallError::Config(error),
            other => CallError::Other(other.to_string()),
        }
    }
}

fn parse(given: &[u8]) -> Result<Value, ParamError> {
    serde_json::from_slice(given).map_err(|error| ParamError::new("config", error, "JSON"))
}

/// Checks a configuration.
///
/// # Errors
/// The first key that cannot be used.
pub fn check(given: &[u8]) -> Result<Reply, CallError> {
    dumbbell_sim::check(&parse(given)?)?;
    Ok(Value::Null.into())
}

/// Runs a configuration to its end.
///
/// # Errors
/// The first key that cannot be used, or a broken invariant.
pub fn run(given: &[u8]) -> Result<Reply, CallError> {
    Ok(describe_outcome(&Sim::new(&parse(given)?)?.finish()?).into())
}

/// A run on its way.
struct Run {
    sim: Sim,
    /// Recorder of its events, if the page asked for them.
    events: Option<RowRecorder>,
}

/// The runs on their way, by number.
#[derive(Default)]
pub struct Session {
    runs: BTreeMap<i32, Run>,
    /// Runs that have begun.
    begun: i32,
}

impl Session {
    /// Begins a run; its number is the code, from 1 on.
    ///
    /// # Errors
    /// The first key that cannot be used.
    pub fn begin(&mut self, given: &[u8]) -> Result<Reply, CallError> {
        let sim = Sim::new(&parse(given)?)?;
        self.add(Run { sim, events: None })
    }

    /// Begins a run whose events the page takes with [`Session::take_events`], and that [`Session::set`] may change; its measurements are the same.
    ///
    /// # Errors
    /// The first key that cannot be used.
    pub fn watch(&mut self, given: &[u8]) -> Result<Reply, CallError> {
        let (recorder, config) = (RowRecorder::new(), parse(given)?);
        let mut hops = 0..;
        let sim = Sim::builder(&config).listener(|_| recorder.make_listener(hops.next().unwrap_or(usize::MAX))).changeable().build()?;
        self.add(Run { sim, events: Some(recorder) })
    }

    /// Begins a run that [`Session::set`] may change; its number is the code.
    ///
    /// # Errors
    /// The first key that cannot be used.
    pub fn begin_changeable(&mut self, given: &[u8]) -> Result<Reply, CallError> {
        let sim = Sim::builder(&parse(given)?).changeable().build()?;
        self.add(Run { sim, events: None })
    }

    fn add(&mut self, run: Run) -> Result<Reply, CallError> {
        let number = self.begun.checked_add(1).ok_or_else(|| CallError::Other("more than 2^31 runs".to_owned()))?;
        self.begun = number;
        self.runs.insert(number, run);
        Ok(Reply { code: number, output: Vec::new() })
    }

    /// Copies a run; the number of the copy is the code.
    ///
    /// # Errors
    /// No such run.
    pub fn fork(&mut self, number: i32) -> Result<Reply, CallError> {
        let copy = self.copy(number)?;
        self.add(copy)
    }

    /// Returns a copy of a run, with the events that the page has not taken yet.
    fn copy(&mut self, number: i32) -> Result<Run, CallError> {
        let (run, mut shared) = (self.get(number)?, SharedCopies::default());
        let sim = run.sim.fork_with(&mut shared).map_err(|refused| CallError::Other(refused.to_string()))?;
        Ok(Run { sim, events: run.events.as_ref().map(|recorder| recorder.fork(&mut shared)) })
    }

    /// Replaces run `number` by a copy of run `from`.
    ///
    /// # Errors
    /// No such run.
    pub fn restore(&mut self, number: i32, from: i32) -> Result<Reply, CallError> {
        *self.get(number)? = self.copy(from)?;
        Ok(Value::Null.into())
    }

    /// Changes a run: `{"key", "value"}`, as [`Sim::set`] takes them.
    ///
    /// # Errors
    /// No such run, or a change that it cannot make.
    pub fn set(&mut self, number: i32, given: &[u8]) -> Result<Reply, CallError> {
        let given = parse(given)?;
        let Some(key) = given["key"].as_str() else {
            return Err(ParamError::new("key", &given["key"], "the key of a change, text").into());
        };
        self.get(number)?.sim.set(key, &given["value"])?;
        Ok(Value::Null.into())
    }

    fn get(&mut self, number: i32) -> Result<&mut Run, CallError> {
        self.runs.get_mut(&number).ok_or_else(|| unknown(number))
    }

    /// Goes on with a run for `ms` of simulated time; the code is 1 if it is over.
    ///
    /// # Errors
    /// No such run, a time that is none, or a broken invariant, which ends the run.
    pub fn step(&mut self, number: i32, ms: f64) -> Result<Reply, CallError> {
        if ms.is_nan() || ms < 0.0 {
            return Err(CallError::Other(format!("step: {ms} ms, allowed: 0 or more")));
        }
        let sim = &mut self.get(number)?.sim;
        // a conversion to u64 ends at its largest value
        let until = sim.now().saturating_add(Duration((ms * 1e6).round() as u64));
        match sim.step(until) {
            Ok(over) => Ok(Reply { code: i32::from(over), output: Vec::new() }),
            Err(error) => {
                self.runs.remove(&number);
                Err(error.into())
            }
        }
    }

    /// Returns the visible state of a run.
    ///
    /// # Errors
    /// No such run.
    pub fn view(&mut self, number: i32) -> Result<Reply, CallError> {
        let sim = &self.get(number)?.sim;
        Ok(describe_view(&sim.view(), &sim.view_hops()).into())
    }

    /// Goes on with a run to its end, and forgets it.
    ///
    /// # Errors
    /// No such run, or a broken invariant.
    pub fn finish(&mut self, number: i32) -> Result<Reply, CallError> {
        let run = self.runs.remove(&number).ok_or_else(|| unknown(number))?;
        Ok(describe_outcome(&run.sim.finish()?).into())
    }

    /// Takes the events of a run since the last call: rows of numbers (`events.rs`), 64-bit floats in the order of bytes of WebAssembly.
    ///
    /// # Errors
    /// No such run, or one that nobody watches.
    pub fn take_events(&mut self, number: i32) -> Result<Reply, CallError> {
        let rows = self.recorder(number)?.take_rows();
        Ok(Reply { code: crate::DONE, output: rows.into_iter().flat_map(f64::to_le_bytes).collect() })
    }

    /// Returns the names of the kinds and codes of its events so far.
    ///
    /// # Errors
    /// No such run, or one that nobody watches.
    pub fn describe_events(&mut self, number: i32) -> Result<Reply, CallError> {
        Ok(self.recorder(number)?.describe_codes().into())
    }

    fn recorder(&mut self, number: i32) -> Result<&RowRecorder, CallError> {
        let run = self.get(number)?;
        run.events.as_ref().ok_or_else(|| CallError::Other(format!("run {number} is not watched: begin it with watch")))
    }

    /// Forgets a run.
    ///
    /// # Errors
    /// No such run.
    pub fn forget(&mut self, number: i32) -> Result<Reply, CallError> {
        self.runs.remove(&number).map(|_| Value::Null.into()).ok_or_else(|| unknown(number))
    }
}

fn unknown(number: i32) -> CallError {
    CallError::Other(format!("no run {number}: it is over, or never began"))
}

/// `{summary, digest, tables}`; a table is its columns by name, and NaN is null.
fn describe_outcome(outcome: &Outcome) -> Value {
    let columns = |table: &Table| -> Value {
        let column = |column: &Column| match column {
            Column::U64(values) => json!(values),
            Column::F64(values) => json!(values),
            Column::Text(values) => json!(values),
        };
        table.columns.iter().map(|(name, values)| (name.to_string(), column(values))).collect::<Map<_, _>>().into()
    };
    let tables: Map<String, Value> =
        outcome.tables.named_tables().map(|(name, table)| (name.to_owned(), columns(table))).into_iter().collect();
    json!({"summary": outcome.summary, "digest": outcome.hash, "tables": tables})
}

fn describe_view(view: &View, hops: &[HopView]) -> Value {
    let View { now, events, queued_packets, queued_bytes, queue, endpoints } = view;
    let states = hops.first().map_or(&[][..], |bottleneck| &bottleneck.states);
    let endpoints: Vec<Value> = endpoints
        .iter()
        .map(|one| {
            json!({
                "number": one.number,
                "class": one.class,
                "payload": one.payload,
                "cwnd": one.sender.cwnd,
                "ssthresh": one.sender.ssthresh,
                "in_flight": one.sender.in_flight,
                "srtt_ms": f64::from(one.sender.srtt_us) / 1e3,
            })
        })
        .collect();
    json!({
        "time_ms": now.0 as f64 / 1e6,
        "events": events,
        "backlog_packets": queued_packets,
        "backlog_bytes": queued_bytes,
        "packets": queue.packets,
        "bytes": queue.bytes,
        "ce_marks": queue.ce_marks,
        "sce_marks": queue.sce_marks,
        "drops_overflow": queue.drops_overflow,
        "drops_aqm": queue.drops_aqm,
        "states": states.iter().map(|&(name, value)| (name.to_owned(), json!(value))).collect::<Map<_, _>>(),
        "endpoints": endpoints,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicU64};

    const CONFIG: &[u8] =
        br#"{"duration": 2000000000, "bottleneck": {"aqm": {"name": "codel"}}, "flows": [{"cc": {"name": "cubic"}}],
        "record": {"series": true, "interval": 500000000}}"#;

    fn json_of(answer: Result<Reply, CallError>) -> Value {
        serde_json::from_slice(&answer.expect("an answer").output).expect("JSON")
    }

    fn refusal(answer: Result<Reply, CallError>) -> Value {
        answer.expect_err("a refusal").to_json()
    }

    #[test]
    fn a_run_gives_the_digest_figures_and_tables_of_the_simulator() {
        let config = serde_json::from_slice(CONFIG).expect("JSON");
        let expected = dumbbell_sim::run(&config, &AtomicBool::new(false), &AtomicU64::new(0)).expect("a run");
        let found = json_of(run(CONFIG));
        assert_eq!(found["digest"], expected.hash);
        assert_eq!(found["summary"], expected.summary);
        assert_eq!(found["tables"].as_object().expect("tables").len(), expected.tables.named_tables().len());
        assert_eq!(found["tables"]["series"]["time_s"], json!([0.5, 1.0, 1.5, 2.0]));
        assert_eq!(found["tables"]["flows"]["cc"], json!(["cubic"]));
        // what is not a number has no place in JSON
        assert_eq!(found["tables"]["flows"]["jitter_ms"], json!([null]));
    }

    #[test]
    fn a_run_that_goes_on_step_by_step_ends_as_one_that_does_not() {
        let mut session = Session::default();
        let number = session.begin(CONFIG).expect("a run").code;
        assert_eq!(json_of(session.view(number))["events"], 0);
        let (mut steps, mut time) = (0, 0.0);
        while session.step(number, 300.0).expect("a step").code == 0 {
            steps += 1;
            let seen = json_of(session.view(number));
            let now = seen["time_ms"].as_f64().expect("a number");
            assert!(time < now && now <= 300.0 * f64::from(steps), "{time} {now}");
            assert_eq!(seen["endpoints"].as_array().map(Vec::len), Some(1));
            time = now;
        }
        // 1800 ms is before the end, 2100 ms is not
        assert_eq!(steps, 6);
        assert_eq!(json_of(session.finish(number))["digest"], json_of(run(CONFIG))["digest"]);
        assert_eq!(refusal(session.view(number)), json!({"message": "no run 1: it is over, or never began"}));
    }

    #[test]
    fn runs_do_not_know_of_each_other_and_can_be_forgotten() {
        let mut session = Session::default();
        let (one, two) = (session.begin(CONFIG).expect("a run").code, session.begin(CONFIG).expect("a run").code);
        session.step(one, 1000.0).expect("a step");
        assert_eq!(json_of(session.view(two))["events"], 0);
        session.forget(one).expect("a run");
        assert_eq!(refusal(session.forget(one))["message"], "no run 1: it is over, or never began");
        assert_eq!(session.begin(CONFIG).expect("a run").code, 3);
        for ms in [-1.0, f64::NAN, f64::NEG_INFINITY] {
            assert!(refusal(session.step(two, ms))["message"].as_str().is_some_and(|text| text.contains("0 or more")));
        }
        assert_eq!(session.step(two, f64::INFINITY).expect("a step").code, 1);
        assert_eq!(session.step(two, 1.0).expect("a step").code, 1);
    }

    #[test]
    fn a_run_is_copied_restored_and_changed() {
        let mut session = Session::default();
        let number = session.begin_changeable(CONFIG).expect("a run").code;
        session.step(number, 700.0).expect("a step");
        let kept = session.fork(number).expect("a copy").code;
        session.set(number, br#"{"key": "bottleneck.rate", "value": 1000000}"#).expect("a change");
        session.step(number, 300.0).expect("a step");
        assert_ne!(json_of(session.view(number)), json_of(session.view(kept)));
        session.restore(number, kept).expect("a run");
        assert_eq!(json_of(session.view(number)), json_of(session.view(kept)));
        let expected = json_of(run(CONFIG))["digest"].clone();
        assert_eq!(json_of(session.finish(number))["digest"], expected);
        assert_eq!(refusal(session.set(kept, br#"{"key": "bottleneck.rate", "value": 1}"#))["key"], "bottleneck.rate");
        assert_eq!(refusal(session.set(kept, b"{}"))["key"], "key");
        assert_eq!(json_of(session.finish(kept))["digest"], expected);
        assert_eq!(refusal(session.fork(kept))["message"], "no run 2: it is over, or never began");
        let plain = session.begin(CONFIG).expect("a run").code;
        assert!(session.set(plain, br#"{"key": "bottleneck.rate", "value": 1000000}"#).is_err());
    }

    #[test]
    fn a_configuration_that_cannot_be_used_is_answered_with_its_key() {
        let found = refusal(check(br#"{"bottleneck": {"aqm": {"name": "codel"}}, "flows": [{"cc": {"name": "vegas"}}]}"#));
        assert_eq!((&found["key"], &found["found"]), (&json!("flows[0].cc.name"), &json!("\"vegas\"")));
        assert!(found["allowed"].as_str().is_some_and(|names| names.contains("cubic")), "{found}");
        assert_eq!(refusal(run(b"{"))["allowed"], "JSON");
        assert_eq!(refusal(Session::default().begin(&[0xff]))["key"], "config");
        assert!(check(CONFIG).is_ok());
    }
}
