//! Tests the events of senders that a listener receives.

use super::*;
use crate::Sim;
use dumbbell_core::aqm;
use dumbbell_core::cc::conn::CaState;
use dumbbell_core::cc::exit::ExitCause;
use dumbbell_core::observe::Tap;

/// Writes down what senders tell, if it is to hear it.
struct Listener(ListenLevel, Arc<Mutex<Vec<(u32, ControlEvent, Instant)>>>);

impl Log for Listener {}

impl Tap for Listener {
    fn listen_level(&self) -> ListenLevel {
        self.0
    }

    fn on_control_event(&mut self, flow: u32, event: &ControlEvent, now: Instant) {
        self.1.lock().expect("one thread").push((flow, *event, now));
    }
}

fn config(flows: Value, limit: u32) -> Value {
    json!({"duration": 3_000_000_000_u64, "seed": 3, "bottleneck": {"rate": 10_000_000, "aqm": {"name": "pfifo", "limit": limit}}, "flows": flows})
}

fn frame_listener(config: &Value, hears: ListenLevel) -> (Outcome, Vec<(u32, ControlEvent, Instant)>) {
    let config = Arc::new(RunConfig::from_json(config).expect("a valid configuration"));
    let events = Arc::default();
    let queue = config.aqm.build(&aqm::QueueContext::new(Rate::from_mbit(10), 3));
    let listener = Listener(hears, Arc::clone(&events));
    let mut run: Box<dyn Run> =
        Box::new(Engine::<SingleHop<_, _, false>>::new(config, queue, Box::new(listener) as crate::Listener));
    run.advance(Instant::NEVER, u64::MAX).expect("no broken invariant");
    let outcome = run.finish().expect("no broken invariant");
    let events = events.lock().expect("one thread").clone();
    (outcome, events)
}

fn text(outcome: &Outcome, name: &str) -> Vec<String> {
    match outcome.tables.flows.column(name) {
        Some(crate::table::Column::Text(values)) => values.clone(),
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn a_listener_hears_what_it_asks_for_and_changes_nothing() {
    let flows =
        json!([{"cc": {"name": "cubic", "hystart": "off"}, "base_rtt": 20 * MS}, {"cc": {"name": "bbr3"}, "base_rtt": 40 * MS}]);
    let config = config(flows, 40);
    let alone = Sim::new(&config).and_then(|sim| sim.finish().map_err(|error| panic!("{error}"))).expect("a run");
    let kinds = |hears| {
        let (outcome, events) = frame_listener(&config, hears);
        assert_eq!(outcome.hash, alone.hash);
        let samples: Vec<u32> =
            events.iter().filter(|event| matches!(event.1, ControlEvent::RateSample(_))).map(|event| event.0).collect();
        // only BBR has any
        assert!(samples.iter().all(|&flow| flow == 1));
        (events.len() - samples.len(), samples.len())
    };
    assert_eq!(kinds(ListenLevel::Packets), (0, 0));
    let (others, none) = kinds(ListenLevel::Controls);
    let (same, samples) = kinds(ListenLevel::RateSamples);
    assert!(others > 10 && none == 0 && same == others && samples > 100, "{others} {none} {same} {samples}");
}

#[test]
fn states_follow_each_other_and_the_table_has_the_first_exit() {
    let flows =
        json!([{"cc": {"name": "cubic", "hystart": "off"}, "base_rtt": 20 * MS}, {"cc": {"name": "bbr3"}, "base_rtt": 40 * MS}]);
    let (outcome, events) = frame_listener(&config(flows, 40), ListenLevel::Controls);
    let times = outcome.tables.flows.real("slow_start_exit_s").expect("a column");
    for flow in 0..2 {
        let own: Vec<&ControlEvent> = events.iter().filter(|event| event.0 == flow).map(|event| &event.1).collect();
        let (mut state, mut phase) = (CaState::Open, "");
        let mut exits = Vec::new();
        for event in own {
            match *event {
                ControlEvent::State { from, to } => assert_eq!((from, from != to), (std::mem::replace(&mut state, to), true)),
                ControlEvent::Phase { from, to } => assert_eq!((from, from != to), (std::mem::replace(&mut phase, to), true)),
                ControlEvent::SlowStartExit(exit) => exits.push(exit),
                ControlEvent::RateSample(_) => panic!("not asked for"),
                ControlEvent::Ended => panic!("flows without an end"),
            }
        }
        assert_eq!(phase.is_empty(), flow == 0);
        assert_eq!(text(&outcome, "slow_start_exit")[flow as usize], exits[0].cause.name());
        // the SYN left when the run began, on a clock that is ahead by half of the base RTT
        let ahead = Instant::from_millis([10, 20][flow as usize]);
        assert_eq!(times[flow as usize], (exits[0].time - ahead).as_secs_f64());
    }
}

#[test]
fn the_end_of_a_flow_is_told_once() {
    let sized =
        json!([{"cc": {"name": "cubic"}, "base_rtt": 20 * MS, "size": 144_800}, {"cc": {"name": "cubic"}, "base_rtt": 20 * MS}]);
    let (outcome, events) = frame_listener(&config(sized, 100), ListenLevel::Controls);
    let ends: Vec<(u32, Instant)> =
        events.iter().filter(|event| event.1 == ControlEvent::Ended).map(|event| (event.0, event.2)).collect();
    assert_eq!(ends.len(), 1);
    assert_eq!(ends[0].0, 0);
    // when the results have it, on the clock of the sender's host
    let completion = outcome.tables.flows.real("completion_s").expect("a column")[0];
    assert_eq!(ends[0].1.as_secs_f64(), completion);
}

#[test]
fn each_cause_is_told() {
    let cause = |flow: Value, limit: u32| {
        let outcome = Sim::new(&config(json!([flow]), limit)).expect("a configuration").finish().expect("a run");
        text(&outcome, "slow_start_exit").remove(0)
    };
    let cubic = |hystart: &str, detect: &str, rtt: u64| json!({"cc": {"name": "cubic", "hystart": hystart, "hystart_detect": detect}, "base_rtt": rtt * MS});
    assert_eq!(cause(cubic("off", "both", 20), 20), ExitCause::Loss.name());
    assert_eq!(cause(cubic("5.6", "delay", 40), 1000), ExitCause::Delay.name());
    assert_eq!(cause(cubic("5.6", "train", 40), 1000), ExitCause::Train.name());
    for bbr in ["bbr1", "bbr2", "bbr3", "bbr-draft"] {
        assert_eq!(cause(json!({"cc": {"name": bbr}, "base_rtt": 40 * MS}), 1000), ExitCause::Plateau.name(), "{bbr}");
    }
    // random loss of a fifth, long before the rate stops to grow
    for bbr in ["bbr2", "bbr3", "bbr-draft"] {
        let flow = json!({"cc": {"name": bbr}, "base_rtt": 40 * MS, "loss": 0.2});
        assert_eq!(cause(flow, 1000), ExitCause::Loss.name(), "{bbr}");
    }
    // 10 Mbit/s need 20 ms for the first windows: nothing ends slow start of ten segments
    assert_eq!(cause(json!({"cc": {"name": "cubic"}, "base_rtt": 40 * MS, "size": 14_480}), 1000), "");
}

#[test]
fn of_several_hops_the_listener_of_the_bottleneck_hears_senders() {
    let mut config = config(json!([{"cc": {"name": "reno"}, "base_rtt": 20 * MS}]), 20);
    config["hop"] = json!([{"name": "second", "rate": 9_000_000, "aqm": {"name": "pfifo"}}]);
    let events = ["bottleneck", "second"].map(|name| (name, Arc::<Mutex<Vec<_>>>::default()));
    let listener = |hop: &str| {
        let (_, own) = events.iter().find(|(name, _)| *name == hop).expect("a hop");
        Listener(ListenLevel::Controls, Arc::clone(own))
    };
    Sim::builder(&config).listener(listener).build().expect("a configuration").finish().expect("a run");
    let heard = events.map(|(_, own)| own.lock().expect("one thread").len());
    assert!(heard[0] > 3 && heard[1] == 0, "{heard:?}");
}
