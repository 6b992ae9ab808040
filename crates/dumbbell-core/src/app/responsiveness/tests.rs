//! Stories of tests of responsiveness.

use super::super::tests::{arrive, build_streams, fire, Seen};
use super::super::AppSpec;
use super::*;
use StreamDirection::{Request, Response};

fn tester(params: Params) -> Box<dyn StreamApp> {
    let mut app = build_streams(&AppSpec::Responsiveness(params), 1);
    app.start(Instant::ZERO);
    app
}

fn connect(app: &mut dyn StreamApp, connection: usize, at_ms: u64) {
    app.on_connected(connection, Instant::from_millis(at_ms), &mut Seen::default());
}

/// A foreign probe over connection 2 that begins at `at_ms` and whose parts take so long, ms; its request reaches the server with its first bytes.
fn probe(app: &mut dyn StreamApp, at_ms: u64, [tcp, tls, http]: [u64; 3]) -> Seen {
    connect(app, 2, at_ms + tcp);
    assert_eq!(arrive(app, at_ms + tcp, 2, Request, 500).writes, [(2, Response, 3_000)]);
    assert_eq!(arrive(app, at_ms + tcp + tls, 2, Response, 3_000).writes, [(2, Request, 400)]);
    assert_eq!(arrive(app, at_ms + tcp + tls, 2, Request, 900).writes, [(2, Response, 200)]);
    arrive(app, at_ms + tcp + tls + http, 2, Response, 3_200)
}

/// One connection of the load, intervals of 1 s, and one of them for an average.
fn short() -> Params {
    let (second, tenth) = (Duration::from_secs(1), Duration::from_millis(100));
    Params { averaged: 1, interval: second, most: 1, idle: tenth, limit: second * 9, ..Params::default() }
}

#[test]
fn a_test_measures_the_idle_path_first_and_then_both_kinds_of_probes_under_load() {
    let mut app = tester(short());
    let (now, first) = fire(&mut *app);
    // connections 0 and 1 are for the load
    assert_eq!((now, first.begun, first.writes), (Instant::ZERO, 1, vec![(2, Request, 500)]));
    assert_eq!(probe(&mut *app, 0, [10, 11, 12]).closed, [2]);
    // without a load there is nothing for a self probe
    assert!(fire(&mut *app).1.writes.is_empty());
    let (begins, load) = fire(&mut *app);
    assert_eq!((begins, load.writes), (Instant::from_millis(100), vec![(0, Request, 400), (2, Request, 500)]));
    assert_eq!(arrive(&mut *app, 105, 0, Request, 400).filled, [(0, Response)]);
    probe(&mut *app, 100, [60, 90, 120]);
    let (at, own) = fire(&mut *app);
    assert_eq!((at, own.writes), (Instant::from_millis(150), vec![(0, Request, 400)]));
    assert_eq!(arrive(&mut *app, 160, 0, Request, 800).writes, [(0, Response, 200)]);
    arrive(&mut *app, 300, 0, Response, 200);
    // until the end of the first interval, 1.25 MB have come; probes without an answer do not count
    let mut seen = Seen { received: 1_250_000, ..Seen::default() };
    while app.next_timer() < Instant::from_millis(1_100) {
        fire(&mut *app);
    }
    app.on_timer(Instant::from_millis(1_100), &mut seen);
    let figures = app.figures(Instant::from_millis(1_100));
    // foreign 60,000 / ((60 + 90 + 120) / 3) = 666.7, loaded 60,000 / 150 = 400, together 533.3; 10 Mbit/s; handshakes 10 ms and 60 ms: B
    let expected = [533.333, 666.667, 400.0, 0.0, 10.0, 10.0, 50.0, 2.0];
    assert!(figures.iter().zip(expected).all(|(found, wanted)| (found - wanted).abs() < 0.001), "{figures:?}");
    // pairs from now on: 48,000 bit of 5 % of 10 Mbit/s, 96 ms
    let next = [fire(&mut *app).0, fire(&mut *app).0];
    assert_eq!(next[1] - next[0], Duration::from_millis(48));
}

#[test]
fn the_time_of_a_test_is_limited_and_it_closes_all_connections() {
    let mut app = tester(Params { limit: Duration::from_millis(1_500), tls: false, ..short() });
    let mut last = Seen::default();
    while app.next_timer() != Instant::NEVER {
        let (now, seen) = fire(&mut *app);
        if now == Instant::from_millis(100) {
            arrive(&mut *app, 100, 0, Request, 400);
        }
        last = seen;
    }
    let load = Load { start: Instant::ZERO, time: Duration::from_millis(1_600), bytes: 0 };
    // foreign probe 2 never had an answer, and 3 was sent when the first interval had ended
    assert_eq!((last.loads, last.closed), (vec![load], vec![0, 2, 3]));
    assert!(app.figures(Instant::from_secs(9))[0].is_nan());
    app.forget(Instant::from_secs(5));
    assert!(app.figures(Instant::from_secs(9))[3].is_nan());
}

#[test]
fn connections_are_added_each_interval_and_both_ways_if_asked_for() {
    let params = Params { most: 2, both: true, averaged: 9, idle: Duration::ZERO, probes: 0.01, ..short() };
    let mut app = tester(params);
    let (_, first) = fire(&mut *app);
    // the foreign probe has number 4
    assert_eq!(first.writes, [(0, Request, 400), (1, Request, 400), (4, Request, 500)]);
    assert_eq!(first.filled, [(1, Request)]);
    assert_eq!(arrive(&mut *app, 1, 0, Request, 400).filled, [(0, Response)]);
    assert!(arrive(&mut *app, 1, 1, Request, 400).filled.is_empty());
    while app.next_timer() < Instant::from_secs(1) {
        fire(&mut *app);
    }
    let (_, second) = fire(&mut *app);
    assert!(second.writes.starts_with(&[(2, Request, 400), (3, Request, 400)]) && second.filled == [(3, Request)]);
    // no more than most
    assert!(!fire(&mut *app).1.writes.contains(&(4, Request, 400)));
}

#[test]
fn without_tls_the_request_follows_the_handshake_of_tcp() {
    let mut app = tester(Params { tls: false, idle: Duration::ZERO, ..short() });
    fire(&mut *app);
    connect(&mut *app, 2, 30);
    assert_eq!(arrive(&mut *app, 45, 2, Request, 400).writes, [(2, Response, 200)]);
    assert_eq!(arrive(&mut *app, 70, 2, Response, 200).closed, [2]);
    arrive(&mut *app, 1, 0, Request, 400);
    while app.next_timer() < Instant::from_secs(1) {
        if fire(&mut *app).1.writes.contains(&(0, Request, 400)) {
            let at = app.next_timer().as_millis();
            arrive(&mut *app, at, 0, Response, 200);
        }
    }
    fire(&mut *app);
    // 60,000 / ((30 + 40) / 2)
    assert!((app.figures(Instant::from_secs(1))[1] - 60_000.0 / 35.0).abs() < 1e-6);
}

#[test]
fn a_stop_ends_the_test_with_what_it_has() {
    let mut app = tester(short());
    fire(&mut *app);
    app.stop(Instant::from_millis(40));
    assert_eq!(fire(&mut *app).1.loads.len(), 1);
    assert_eq!(app.next_timer(), Instant::NEVER);
    let mut late = tester(short());
    late.stop(Instant::ZERO);
    assert!(late.next_timer() == Instant::NEVER);
}

#[test]
fn words_of_grades_are_those_that_it_prints_and_more_connections_than_most_are_refused() {
    for grade in [Grade::APlus, Grade::A, Grade::B, Grade::C, Grade::D, Grade::F] {
        assert_eq!(GRADES[grade as usize], grade.to_string());
    }
    let refused = Params::from_json(serde_json::json!({"initial": 17}).as_object().expect("a table"));
    assert_eq!(refused.expect_err("an error").to_string(), "most: found 16, allowed: at least initial, 17");
}
