//! A packet that `Aqm::bypass_max_len` lets pass fares as one that is enqueued and dequeued, for every registered queue discipline: the same story is played to two queues,
//! one of which packets pass that find it and the link idle.

#![allow(clippy::disallowed_methods)] // examples need not be the same on every system

use dumbbell_core::aqm::{build, specs, Aqm, Dequeue, QueueContext};
use dumbbell_core::log::{At, DropReason, DropSite, Log, Mark, MarkReason};
use dumbbell_core::packet::{Ecn, FlowKey, Packet};
use dumbbell_core::units::{Duration, Instant, Rate};
use dumbbell_core::with_aqm;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{json, Map};
use std::cell::Cell;

/// Everything that a queue reports, in words.
#[derive(Default, PartialEq)]
struct StoryLog(Vec<String>);

impl Log for StoryLog {
    fn on_enqueue(&mut self, packet: &Packet, at: At) {
        self.0.push(format!("enqueued {packet:?} {at:?}"));
    }

    fn on_dequeue(&mut self, packet: &Packet, at: At) {
        self.0.push(format!("sent {packet:?} {at:?}"));
    }

    fn on_mark(&mut self, packet: &Packet, before: Ecn, mark: Mark, reason: MarkReason, at: At) {
        self.0.push(format!("marked {packet:?} {before:?} {mark:?} {reason:?} {at:?}"));
    }

    fn on_drop(&mut self, packet: &Packet, reason: DropReason, place: DropSite, at: At) {
        self.0.push(format!("dropped {packet:?} {reason:?} {place:?} {at:?}"));
    }
}

/// A packet that arrives `gap` ns after the one before; the link takes `service` ns for it.
#[derive(Clone, Debug)]
struct Arrival {
    gap: u64,
    service: u64,
    flow: u32,
    ecn: Ecn,
    len: u16,
}

fn arrival() -> impl Strategy<Value = Arrival> {
    let ecn = prop_oneof![Just(Ecn::NotEct), Just(Ecn::Ect0), Just(Ecn::Ect1), Just(Ecn::Ce)];
    let gap = prop_oneof![Just(0), 1..2_000_000_u64, 1..200_000_000_u64];
    let service = prop_oneof![Just(0), 1..1_000_000_u64, 1..60_000_000_u64];
    (gap, service, 0..4_u32, ecn, 60..1515_u16).prop_map(|(gap, service, flow, ecn, len)| Arrival {
        gap,
        service,
        flow,
        ecn,
        len,
    })
}

/// A queue, its link, and the events reported; `passes`: packets may pass it.
struct Served<A> {
    aqm: A,
    told: StoryLog,
    free: Instant,
    busy: bool,
    passing: bool,
    passes: bool,
    passed: u64,
}

impl<A: Aqm> Served<A> {
    fn new(mut aqm: A, passes: bool) -> Served<A> {
        for flow in 0..4_u32 {
            aqm.flow_starts(flow, &FlowKey { src_host: flow, dst_host: flow, ports: flow, dscp: 0 });
        }
        Served { aqm, told: StoryLog::default(), free: Instant::NEVER, busy: false, passing: false, passes, passed: 0 }
    }

    /// The link asks, as often as it has time until `until`.
    fn serve_until(&mut self, until: Instant, service: Duration) {
        loop {
            let timer = self.aqm.next_timer();
            let next = self.free.min(timer);
            if next > until {
                return;
            }
            if timer < self.free {
                self.aqm.on_timer(timer, &mut self.told);
            } else {
                self.busy = false;
                self.ask(next, service);
            }
        }
    }

    fn ask(&mut self, now: Instant, service: Duration) {
        if std::mem::take(&mut self.passing) && self.aqm.packets() == 0 {
            self.free = Instant::NEVER;
            return;
        }
        (self.free, self.busy) = match self.aqm.dequeue(now, &mut self.told) {
            Dequeue::Packet(_) => (now + service, true),
            Dequeue::Wait(time) => (time, false),
            Dequeue::Empty => (Instant::NEVER, false),
        };
    }

    fn arrive(&mut self, mut packet: Packet, now: Instant, service: Duration) {
        if self.passes && self.free == Instant::NEVER && packet.len <= self.aqm.bypass_max_len() {
            packet.enqueue_time = now;
            self.told.on_enqueue(&packet, At::time(now));
            self.told.on_dequeue(&packet, At::time(now));
            (self.free, self.busy, self.passing) = (now + service, true, true);
            self.passed += 1;
            return;
        }
        self.aqm.enqueue(packet, now, &mut self.told);
        if !self.busy {
            self.ask(now, service);
        }
    }
}

fn run_story<A: Aqm>(mut queue: Served<A>, story: &[Arrival]) -> (StoryLog, Vec<(String, u64)>, u64) {
    let mut now = Instant::ZERO;
    for (seq, one) in (0..).zip(story) {
        now += Duration(one.gap);
        let service = Duration(one.service);
        queue.serve_until(now, service);
        let packet = Packet { flow: one.flow, len: one.len, ..Packet::new_tcp(seq, one.ecn, 0) };
        queue.arrive(packet, now, service);
    }
    queue.serve_until(now + Duration::from_secs(2), Duration(1));
    queue.aqm.state(&mut |name, value| queue.told.0.push(format!("{name} = {value}")));
    (queue.told, queue.aqm.counters(), queue.passed)
}

#[test]
fn a_packet_that_passes_is_as_one_that_was_queued_and_sent() {
    for spec in specs() {
        let passed = Cell::new(0);
        let few = Config { cases: 60, failure_persistence: None, ..Config::default() };
        let mut runner = TestRunner::new_with_rng(few, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
        let story = (any::<u64>(), proptest::collection::vec(arrival(), 1..200));
        runner
            .run(&story, |(seed, story)| {
                let config: Map<_, _> = [("name".to_owned(), json!(spec.name))].into_iter().collect();
                let make = || build(&config, &QueueContext::new(Rate(10_000_000), seed)).expect("defaults are accepted");
                let by_itself = with_aqm!(make(), aqm => run_story(Served::new(aqm, false), &story));
                let asked = with_aqm!(make(), aqm => run_story(Served::new(aqm, true), &story));
                prop_assert!(by_itself.0 == asked.0 && by_itself.1 == asked.1, "{}", spec.name);
                passed.set(passed.get() + asked.2);
                Ok(())
            })
            .unwrap_or_else(|error| panic!("{}: {error}", spec.name));
        if ["codel", "pfifo", "bfifo", "step"].contains(&spec.name) {
            assert!(passed.get() > 1_000, "{}: {}", spec.name, passed.get());
        }
    }
}
