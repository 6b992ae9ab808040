//! Events of a run for pages that draw its packets: a listener that writes rows of numbers, and the names of their codes.

use dumbbell_core::cc::conn::CaState;
use dumbbell_core::cc::exit::ExitCause;
use dumbbell_core::fork::{CannotFork, SharedCopies};
use dumbbell_core::log::{At, DropReason, DropSite, Log, Mark, MarkReason};
use dumbbell_core::observe::{ControlEvent, FlowStart, ListenLevel, Tap};
use dumbbell_core::packet::{flag, Ecn, Packet};
use dumbbell_core::reply::ReceiverReply;
use dumbbell_core::tcp::Block;
use dumbbell_core::units::{Duration, Instant};
use serde_json::{json, Value};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Numbers of a row: kind, time (ms), flow, hop, number of the packet, when it was queued (ms), and a code whose meaning depends on the kind.
pub const COLUMNS: usize = 7;

const KINDS: [&str; 9] = ["flow", "enqueue", "dequeue", "departure", "mark", "drop", "ack", "state", "exit"];
const DROP_REASONS: [DropReason; 6] =
    [DropReason::Overflow, DropReason::Aqm, DropReason::Loss, DropReason::Policer, DropReason::Filter, DropReason::Replaced];
const DROP_SITES: [DropSite; 4] = [DropSite::Arrival, DropSite::Queue, DropSite::Ahead, DropSite::Behind];
const MARKS: [Mark; 2] = [Mark::Ce, Mark::Sce];
const MARK_REASONS: [MarkReason; 4] = [MarkReason::Aqm, MarkReason::Step, MarkReason::Coupled, MarkReason::Ramp];
const CAUSES: [ExitCause; 8] = [
    ExitCause::Loss,
    ExitCause::Ecn,
    ExitCause::Timeout,
    ExitCause::Sce,
    ExitCause::Threshold,
    ExitCause::Delay,
    ExitCause::Train,
    ExitCause::Plateau,
];
const STATES: [CaState; 5] = [CaState::Open, CaState::Disorder, CaState::Cwr, CaState::Recovery, CaState::Loss];
/// Codes of packets: the ECN field, these bits, and 16 times the length of the frame, bytes.
const RETRANSMISSION: u32 = 4;
const BACK: u32 = 8;
const LENGTH: u32 = 16;
/// Codes of drops are reason + 8 site, those of marks reason + 8 mark.
const SECOND: usize = 8;

#[derive(Clone, Copy)]
enum Kind {
    Flow,
    Enqueue,
    Dequeue,
    Departure,
    Mark,
    Drop,
    Ack,
    State,
    Exit,
}

/// Returns the names of kinds and codes, each list in the order of its codes. `states` grows while a run reports new states of its controls.
pub fn describe_codes(states: &[&'static str]) -> Value {
    json!({
        "columns": ["kind", "time_ms", "flow", "hop", "number", "queued_ms", "code"],
        "kinds": KINDS,
        "drop_reasons": DROP_REASONS.map(DropReason::name),
        "drop_sites": DROP_SITES.map(DropSite::name),
        "marks": MARKS.map(Mark::name),
        "mark_reasons": MARK_REASONS.map(MarkReason::name),
        "exit_causes": CAUSES.map(ExitCause::name),
        "states": states,
    })
}

/// The place of `one` in a list that has all values of its type.
fn code_of<T: PartialEq>(all: &[T], one: &T) -> usize {
    all.iter().position(|known| known == one).unwrap_or(all.len())
}

/// Events of a run that the page has not taken yet.
#[derive(Clone)]
struct Heard {
    rows: Vec<f64>,
    /// Names of states: those of the congestion machine, then those of controls as they appear.
    states: Vec<&'static str>,
    /// Numbers of flows by slot.
    numbers: Vec<u32>,
}

impl Heard {
    fn push(&mut self, kind: Kind, now: Instant, slot: u32, rest: [f64; 4]) {
        let flow = self.numbers.get(slot as usize).copied().unwrap_or(slot);
        let [hop, number, queued, code] = rest;
        self.rows.extend([f64::from(kind as u8), to_ms(now), f64::from(flow), hop, number, queued, code]);
    }

    fn code_of_state(&mut self, name: &'static str) -> f64 {
        let known = self.states.iter().position(|one| *one == name);
        let code = known.unwrap_or_else(|| {
            self.states.push(name);
            self.states.len() - 1
        });
        code as f64
    }
}

fn to_ms(time: Instant) -> f64 {
    time.0 as f64 / 1e6
}

/// The events of a run: its hops report to it, a page takes them.
#[derive(Clone)]
pub struct RowRecorder {
    heard: Arc<Mutex<Heard>>,
}

impl RowRecorder {
    /// A recorder for a run that has not begun.
    pub fn new() -> RowRecorder {
        let states = STATES.iter().map(|state| state.name()).collect();
        RowRecorder { heard: Arc::new(Mutex::new(Heard { rows: Vec::new(), states, numbers: Vec::new() })) }
    }

    fn lock(&self) -> MutexGuard<'_, Heard> {
        // rows are whole after a panic elsewhere, too
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the listener of the hop with this number.
    pub fn make_listener(&self, hop: usize) -> RowListener {
        RowListener { recorder: self.clone(), hop: hop as f64 }
    }

    /// Returns the recorder of the copy of a run that was made with `shared`. It has the rows that were not taken yet.
    pub fn fork(&self, shared: &mut SharedCopies) -> RowRecorder {
        RowRecorder { heard: shared.share_locked(&self.heard) }
    }

    /// Takes the rows since the last call, one after the other.
    pub fn take_rows(&self) -> Vec<f64> {
        std::mem::take(&mut self.lock().rows)
    }

    /// Returns the names of kinds and codes so far.
    pub fn describe_codes(&self) -> Value {
        describe_codes(&self.lock().states)
    }
}

/// Listens at one hop.
pub struct RowListener {
    recorder: RowRecorder,
    hop: f64,
}

impl RowListener {
    fn push_packet(&self, kind: Kind, packet: &Packet, now: Instant, code: f64) {
        let rest = [self.hop, packet.number() as f64, to_ms(packet.enqueue_time), code];
        self.recorder.lock().push(kind, now, packet.flow, rest);
    }
}

fn code_of_packet(packet: &Packet) -> f64 {
    let code = packet.ecn() as u32
        | (LENGTH * u32::from(packet.len))
        | if packet.has(flag::RETRANSMISSION) { RETRANSMISSION } else { 0 }
        | if packet.is_back() { BACK } else { 0 };
    f64::from(code)
}

impl Log for RowListener {
    fn on_enqueue(&mut self, packet: &Packet, at: At) {
        let rest = [self.hop, packet.number() as f64, to_ms(at.now), code_of_packet(packet)];
        self.recorder.lock().push(Kind::Enqueue, at.now, packet.flow, rest);
    }

    fn on_dequeue(&mut self, packet: &Packet, at: At) {
        self.push_packet(Kind::Dequeue, packet, at.now, code_of_packet(packet));
    }

    fn on_departure(&mut self, packet: &Packet, now: Instant) {
        self.push_packet(Kind::Departure, packet, now, code_of_packet(packet));
    }

    fn on_mark(&mut self, packet: &Packet, _before: Ecn, mark: Mark, reason: MarkReason, at: At) {
        let code = code_of(&MARK_REASONS, &reason) + SECOND * code_of(&MARKS, &mark);
        self.push_packet(Kind::Mark, packet, at.now, code as f64);
    }

    fn on_drop(&mut self, packet: &Packet, reason: DropReason, site: DropSite, at: At) {
        let code = code_of(&DROP_REASONS, &reason) + SECOND * code_of(&DROP_SITES, &site);
        self.push_packet(Kind::Drop, packet, at.now, code as f64);
    }
}

impl Tap for RowListener {
    fn fork(&self, shared: &mut SharedCopies) -> Result<Box<dyn Tap + Send>, CannotFork> {
        Ok(Box::new(RowListener { recorder: self.recorder.fork(shared), hop: self.hop }))
    }

    fn listen_level(&self) -> ListenLevel {
        ListenLevel::Controls
    }

    fn on_flow_start(&mut self, slot: u32, start: &FlowStart) {
        let mut heard = self.recorder.lock();
        let index = slot as usize;
        if heard.numbers.len() <= index {
            heard.numbers.resize(index + 1, u32::MAX);
        }
        heard.numbers[index] = start.number;
        // the listener does not receive the time: it is that of the row before
        let last = heard.rows.len().checked_sub(COLUMNS).map_or(0.0, |at| heard.rows[at + 1]);
        let ms = |time: Duration| time.0 as f64 / 1e6;
        let number = f64::from(start.number);
        let direction = f64::from(u8::from(start.up));
        heard.rows.extend([f64::from(Kind::Flow as u8), last, number, 0.0, ms(start.ahead), ms(start.behind), direction]);
    }

    fn on_send_ack(&mut self, reply: &ReceiverReply, _blocks: &[Block], now: Instant) {
        self.recorder.lock().push(Kind::Ack, now, reply.flow(), [self.hop, f64::from(reply.id()), to_ms(now), 0.0]);
    }

    fn on_control_event(&mut self, flow: u32, event: &ControlEvent, now: Instant) {
        let mut heard = self.recorder.lock();
        match event {
            ControlEvent::State { to, .. } => {
                let code = heard.code_of_state(to.name());
                heard.push(Kind::State, now, flow, [self.hop, 0.0, 0.0, code]);
            }
            ControlEvent::Phase { to, .. } => {
                let code = heard.code_of_state(to);
                heard.push(Kind::State, now, flow, [self.hop, 1.0, 0.0, code]);
            }
            ControlEvent::SlowStartExit(exit) => {
                let code = code_of(&CAUSES, &exit.cause) as f64;
                heard.push(Kind::Exit, now, flow, [self.hop, f64::from(exit.cwnd), 0.0, code]);
            }
            ControlEvent::RateSample(_) | ControlEvent::Ended => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::session::Session;
    use serde_json::Value;

    const CONFIG: &[u8] =
        br#"{"duration": 2000000000, "bottleneck": {"aqm": {"name": "codel", "ecn": true}}, "hosts": {"ecn": true},
        "flows": [{"cc": {"name": "cubic"}}, {"cc": {"name": "bbr3"}}]}"#;

    /// The rows of a whole run, and the names of their codes.
    fn watch_to_the_end() -> (Vec<[f64; super::COLUMNS]>, Value, Value, Value) {
        let mut session = Session::default();
        let number = session.watch(CONFIG).expect("a run").code;
        let mut bytes = Vec::new();
        while session.step(number, 100.0).expect("a step").code == 0 {
            bytes.extend(session.take_events(number).expect("events").output);
        }
        bytes.extend(session.take_events(number).expect("events").output);
        let values: Vec<f64> = bytes.chunks_exact(8).map(|one| f64::from_le_bytes(one.try_into().expect("8 bytes"))).collect();
        let rows = values.chunks_exact(super::COLUMNS).map(|row| row.try_into().expect("a row")).collect();
        let json = |reply: Vec<u8>| -> Value { serde_json::from_slice(&reply).expect("JSON") };
        let names = json(session.describe_events(number).expect("names").output);
        let view = json(session.view(number).expect("a view").output);
        let outcome = json(session.finish(number).expect("an outcome").output);
        (rows, names, view, outcome)
    }

    #[test]
    fn events_are_complete_and_do_not_change_the_run() {
        let (rows, names, view, outcome) = watch_to_the_end();
        let count = |kind: super::Kind| rows.iter().filter(|row| row[0] == f64::from(kind as u8)).count() as u64;
        // a packet that enters the queue leaves it, is dropped, or is still there
        let code = |row: &[f64; super::COLUMNS]| row[6] as usize / super::SECOND;
        let drops = rows.iter().filter(|row| row[0] == f64::from(super::Kind::Drop as u8) && code(row) == 1).count() as u64;
        let queued = count(super::Kind::Enqueue) - count(super::Kind::Dequeue) - drops;
        assert_eq!(Some(queued), view["backlog_packets"].as_u64());
        assert_eq!(Some(count(super::Kind::Departure)), view["packets"].as_u64());
        assert!(count(super::Kind::Mark) > 0 && Some(count(super::Kind::Mark)) == view["ce_marks"].as_u64());
        assert_eq!(count(super::Kind::Flow), 2);
        let states = names["states"].as_array().expect("states");
        assert!(states.iter().any(|state| state == "startup") && states.iter().any(|state| state == "cwr"), "{states:?}");
        let exit = rows.iter().find(|row| row[0] == f64::from(super::Kind::Exit as u8)).expect("slow start ends");
        assert!(exit[4] > 10.0 && names["exit_causes"][exit[6] as usize].is_string());
        let plain: Value = serde_json::from_slice(&crate::session::run(CONFIG).expect("a run").output).expect("JSON");
        assert_eq!(plain["digest"], outcome["digest"]);
    }

    #[test]
    fn names_stand_at_the_places_of_their_codes() {
        let names = super::describe_codes(&[]);
        let kinds = names["kinds"].as_array().expect("kinds");
        for (kind, name) in [(super::Kind::Flow, "flow"), (super::Kind::Departure, "departure"), (super::Kind::Exit, "exit")] {
            assert_eq!(kinds[kind as usize], name);
        }
        assert_eq!(names["columns"].as_array().map(Vec::len), Some(super::COLUMNS));
    }

    #[test]
    fn a_run_that_nobody_watches_has_no_events() {
        let mut session = Session::default();
        let number = session.begin(CONFIG).expect("a run").code;
        let refusal = session.take_events(number).expect_err("a refusal").to_json();
        assert_eq!(refusal["message"], "run 1 is not watched: begin it with watch");
    }

    #[test]
    fn a_copy_of_a_watched_run_has_its_events_and_both_may_be_changed() {
        let mut session = Session::default();
        let number = session.watch(CONFIG).expect("a run").code;
        session.step(number, 500.0).expect("a step");
        let taken = session.take_events(number).expect("events").output;
        session.step(number, 100.0).expect("a step");
        let kept = session.fork(number).expect("a copy").code;
        session.set(number, br#"{"key": "bottleneck.aqm.target", "value": 50000000}"#).expect("a change");
        session.step(number, 900.0).expect("a step");
        let changed = session.take_events(number).expect("events").output;
        session.restore(number, kept).expect("a run");
        session.step(number, 900.0).expect("a step");
        let restored = session.take_events(number).expect("events").output;
        session.step(kept, 900.0).expect("a step");
        assert!(restored == session.take_events(kept).expect("events").output && restored != changed);
        let names = |of: &mut Session, run| of.describe_events(run).expect("names").output;
        assert_eq!(names(&mut session, number), names(&mut session, kept));
        // the events of a run that was neither copied nor changed
        let whole = session.watch(CONFIG).expect("a run").code;
        session.step(whole, 1500.0).expect("a step");
        assert!(session.take_events(whole).expect("events").output == [taken, restored].concat());
        let digest = |reply: Vec<u8>| serde_json::from_slice::<Value>(&reply).expect("JSON")["digest"].clone();
        let ends = [number, kept, whole].map(|run| digest(session.finish(run).expect("an outcome").output));
        assert!(ends[0] == ends[1] && ends[1] == ends[2], "{ends:?}");
    }
}
