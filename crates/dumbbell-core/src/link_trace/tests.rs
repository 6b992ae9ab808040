//! Hand-computed times, and random stories held against a model that counts every opportunity by itself.

use super::*;
use proptest::prelude::*;

fn trace(text: &str) -> LinkTrace {
    LinkTrace::parse("test", text.as_bytes()).expect("a trace")
}

fn from_start(text: &str) -> Opportunities {
    Opportunities::new(trace(text), Instant::ZERO)
}

fn ms(time: Instant) -> u64 {
    assert_eq!(time.0 % 1_000_000, 0);
    time.as_millis()
}

/// When packets of these lengths leave, the queue never being empty.
fn departures(link: &mut Opportunities, lengths: &[u64]) -> Vec<u64> {
    lengths.iter().map(|&bytes| ms(link.take(bytes))).collect()
}

#[test]
fn full_frames_leave_one_an_opportunity_and_the_trace_starts_again_at_its_end() {
    // the first pass has 0, 0, 5, 10; the second begins at 10: 10, 10, 15, 20; the third at 20
    let mut link = from_start("0\n0\n5\n10\n");
    assert_eq!(departures(&mut link, &[1514; 10]), [0, 0, 5, 10, 10, 10, 15, 20, 20, 20]);
}

#[test]
fn small_packets_share_an_opportunity_and_large_ones_take_parts_of_several() {
    // 15 of 100 B fit into 1514 B; the 16th has 14 B there and 86 B in the next, which is at 0 as well and ends with the 30th (3000 B of
    // 3028 B); the 31st needs 72 B of the one at 5
    let times = departures(&mut from_start("0\n0\n5\n10\n"), &[100; 31]);
    assert_eq!((times[14], times[15], times[29], times[30]), (0, 0, 0, 5));
    // 1500 B leave 14 B for the next: 2 of them in the 3028 B at 0, the third is ready at 5 with 4500 of 4542 B, the fourth at 10
    assert_eq!(departures(&mut from_start("0\n0\n5\n10\n"), &[1500; 4]), [0, 0, 5, 10]);
    // 2 * 1514 + 1500 + 14: the 14 B are the rest of the one at 5
    assert_eq!(departures(&mut from_start("0\n0\n5\n10\n"), &[1514, 1514, 1500, 14, 1]), [0, 0, 5, 5, 10]);
    // a jumbo frame: 9014 B are five opportunities and 1444 B of the sixth: 0, 0, 5, 10, 10, 10
    assert_eq!(departures(&mut from_start("0\n0\n5\n10\n"), &[9014, 70, 1]), [10, 10, 15]);
}

#[test]
fn what_nobody_uses_is_lost() {
    let mut link = from_start("0\n0\n5\n10\n");
    // idle until 1 ns after 0: both opportunities are gone
    link.skip_to(Instant(1));
    assert_eq!(ms(link.take(100)), 5);
    // what is left of the one at 5 can be used at this instant, but not later
    link.skip_to(Instant::from_millis(5));
    assert_eq!(ms(link.take(100)), 5);
    link.skip_to(Instant(5_000_001));
    assert_eq!(ms(link.next()), 10);
    // at the end of a pass, its last opportunity and the first of the next
    link.skip_to(Instant::from_millis(30));
    assert_eq!(departures(&mut link, &[1514; 4]), [30, 30, 30, 35]);
    link.skip_to(Instant(1_000_000_000_001));
    assert_eq!(ms(link.next()), 1_000_005);
}

#[test]
fn a_trace_of_one_line_is_a_constant_rate() {
    // "1": one frame a millisecond, 1514 * 8 bit / 1 ms
    let one = trace("1");
    assert_eq!((one.mean_rate(), one.period(), one.lines()), (Rate(12_112_000), Duration::from_millis(1), 1));
    assert_eq!(departures(&mut from_start("1"), &[1514; 4]), [1, 2, 3, 4]);
    let mut later = Opportunities::new(one, Instant(500));
    assert_eq!(later.take(1), Instant(1_000_500));
}

#[test]
fn capacity_counts_the_opportunities_up_to_an_instant_that_instant_included() {
    let trace = trace("0\n0\n5\n10\n");
    for (until_ns, opportunities) in [
        (0, 2),
        (4_999_999, 2),
        (5_000_000, 3),
        (9_999_999, 3),
        (10_000_000, 6),
        (15_000_000, 7),
        (20_000_000, 10),
        (1_000_000_000, 402),
    ] {
        assert_eq!(trace.bytes_until(Instant(until_ns)), opportunities * OPPORTUNITY, "{until_ns}");
    }
    // 4 frames in 10 ms
    assert_eq!(trace.mean_rate(), Rate(4_844_800));
}

#[test]
fn lines_may_end_as_on_windows_and_the_last_may_lack_its_end() {
    let expected = trace("0\n0\n5\n10\n");
    for text in ["0\r\n0\r\n5\r\n10\r\n", "0\n0\n5\n10", " 0\n00 \n\t5\n010\n", "\u{feff}0\n0\n5\n10\n", "0\n0\n5\n10\n\n\r\n \n"]
    {
        assert_eq!(trace(text), expected, "{text:?}");
    }
}

#[test]
fn every_bad_trace_is_refused_with_the_line_and_what_is_allowed() {
    let number = "one whole number of milliseconds per line, 0 to 86400000 (a day), and perhaps a delay in ms behind it";
    let delay = "behind the time nothing, or a delay from 0 to 60000 ms with up to three digits behind the point";
    let all = "a delay behind the time in all lines, or in none";
    let long = "7".repeat(200);
    let cases: Vec<(&[u8], &str, &str)> = vec![
        (b"", "no line with a time", "one line or more, the last after 0"),
        (b"\n\n", "no line with a time", "one line or more, the last after 0"),
        (b"0\n0\n0\n", "nothing but the time 0", "a last line after 0: there the trace starts again"),
        (b"0\n5\n4\n", "4 in line 3, after 5", "times that do not decrease"),
        (b"0\n12x\n", "\"12x\" in line 2", number),
        (b"-1\n", "\"-1\" in line 1", number),
        (b"1.5\n", "\"1.5\" in line 1", number),
        (b"1 2x\n", "\"1 2x\" in line 1", delay),
        (b"1 2 3\n", "\"1 2 3\" in line 1", delay),
        (b"1 -2\n", "\"1 -2\" in line 1", delay),
        (b"1 2.\n", "\"1 2.\" in line 1", delay),
        (b"1 .5\n", "\"1 .5\" in line 1", delay),
        (b"1 0.0001\n", "\"1 0.0001\" in line 1", delay),
        (b"1 60000.001\n", "\"1 60000.001\" in line 1", delay),
        (b"1 99999999999\n", "\"1 99999999999\" in line 1", delay),
        (b"1 2\n3\n", "\"3\" in line 2", all),
        (b"1\n3 2\n", "\"3 2\" in line 2", all),
        (b"1 2\n1 3\n", "\"1 3\" in line 2", "one delay for all lines of the same time"),
        (b"# made by hand\n1\n", "\"# made by hand\" in line 1", number),
        (b"1\n\n2\n", "an empty line, line 2", "a number on each line"),
        (b"86400001\n", "\"86400001\" in line 1", number),
        (b"1\n99999999999999999999999\n", "\"99999999999999999999999\" in line 2", number),
        (b"\x7fELF\x02\x01\x00\xff\n", "\"\\u{7f}ELF\\u{2}\\u{1}\\0\u{fffd}\" in line 1", number),
        // UTF-16, as some shells of Windows write it
        (b"\xff\xfe1\x00\n\x00", "\"\u{fffd}\u{fffd}1\\0\" in line 1", number),
        // a frame a minute: 12112 bit / 60 s
        (b"60000\n", "a mean rate of 201bit", "1kbit to 10000Gbit"),
    ];
    for (text, found, allowed) in cases {
        let error = LinkTrace::parse("test", text).expect_err("a bad trace");
        assert_eq!((error.found.as_str(), error.allowed.as_str()), (found, allowed));
    }
    let error = LinkTrace::parse("test", long.as_bytes()).expect_err("a bad trace");
    assert_eq!(error.found, format!("\"{}\" in line 1", "7".repeat(40)));
    let many = "1\n".repeat(MAX_LINES as usize + 1);
    let too_many = LinkTrace::parse("test", many.as_bytes()).expect_err("a bad trace");
    assert_eq!(too_many.to_string(), "found more than 2000000 lines, allowed: at most 2000000 lines");
}

#[test]
fn a_schedule_is_a_word_and_is_read_back() {
    // 0 twice: gap 0, count 2; 5: gap 5, count 1; 10: the same
    assert_eq!(trace("0\n0\n5\n10\n").schedule(), "ACFBFB");
    // 1000 = 8 + 31 * 32: I with 32 added, then 31
    assert_eq!(trace("1000\n").schedule(), "ofB");
    for text in ["0\n0\n5\n10\n", "1000\n", "1", "31\n32\n33\n1023\n1024\n40000\n"] {
        let parsed = trace(text);
        assert_eq!(LinkTrace::from_json(&parsed.to_json()), Ok(parsed.clone()));
    }
    // no text, no numbers, half a pair, no end, a highest digit of 0, too large, a count of 0, a gap of 0, times beyond a day, only 0
    for wrong in ["", "?", "A", "FBo", "FgABA", "///////////B", "FA", "FBAB", "////fB", "AB", "F B"] {
        assert!(LinkTrace::from_schedule("test", wrong).is_err(), "{wrong}");
    }
    for wrong in
        [json!(1), json!({"file": "a"}), json!({"file": "a", "schedule": "FB", "rate": 1}), json!({"file": 1, "schedule": "FB"})]
    {
        assert!(LinkTrace::from_json(&wrong).is_err(), "{wrong}");
    }
}

/// Plays a trace by other means: every opportunity by itself, one list a pass, and bytes taken from the first.
struct Model {
    times_ms: Vec<u64>,
    passes: u64,
    ahead: std::collections::VecDeque<(u64, u64)>,
}

impl Model {
    fn new(times_ms: Vec<u64>) -> Model {
        Model { times_ms, passes: 0, ahead: std::collections::VecDeque::new() }
    }

    /// The first opportunity that has bytes left: (ns, bytes).
    fn first(&mut self) -> &mut (u64, u64) {
        while self.ahead.front().is_some_and(|&(_, left)| left == 0) {
            self.ahead.pop_front();
        }
        if self.ahead.is_empty() {
            let begins = self.passes * self.times_ms.last().expect("a trace");
            self.ahead.extend(self.times_ms.iter().map(|at| ((begins + at) * 1_000_000, 1514)));
            self.passes += 1;
        }
        &mut self.ahead[0]
    }

    fn take(&mut self, bytes: u64) -> u64 {
        let mut at = 0;
        for _ in 0..bytes {
            let first = self.first();
            first.1 -= 1;
            at = first.0;
        }
        at
    }

    fn skip_to(&mut self, now: u64) {
        while self.first().0 < now {
            self.first().1 = 0;
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Take(u64),
    Skip(u64),
    /// To this multiple of a millisecond after the last time: where instants meet.
    SkipMs(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => prop_oneof![Just(1514_u64), Just(66), Just(1500), 1..5_000_u64].prop_map(Step::Take),
        1 => (0..30_000_000_u64).prop_map(Step::Skip),
        1 => (0..40_u64).prop_map(Step::SkipMs),
    ];
    prop::collection::vec(step, 1..120)
}

/// Times of a trace, ascending, often equal, the last after 0.
fn times() -> impl Strategy<Value = Vec<u64>> {
    (prop::collection::vec(prop_oneof![3 => Just(0_u64), 3 => 0..3_u64, 1 => 0..40_u64], 1..30), 0..2_u64).prop_map(
        |(gaps, last)| {
            let mut at = 0;
            let mut times = Vec::new();
            for gap in gaps {
                at += gap;
                times.push(at);
            }
            if times.last() == Some(&0) || last == 1 {
                times.push(at + 1);
            }
            times
        },
    )
}

fn text_of(times: &[u64]) -> String {
    times.iter().map(|at| format!("{at}\n")).collect()
}

proptest! {
    #[test]
    fn random_stories_agree_with_a_model_that_counts_bytes_one_by_one(times in times(), steps in steps()) {
        let trace = trace(&text_of(&times));
        let mut link = Opportunities::new(trace.clone(), Instant::ZERO);
        let mut model = Model::new(times);
        let (mut now, mut taken) = (0, 0);
        for step in steps {
            match step {
                Step::Take(bytes) => {
                    let at = link.take(bytes);
                    prop_assert_eq!(at.0, model.take(bytes));
                    prop_assert!(at.0 >= now);
                    (now, taken) = (at.0, taken + bytes);
                }
                Step::Skip(nanos) => {
                    now += nanos;
                    link.skip_to(Instant(now));
                    model.skip_to(now);
                }
                Step::SkipMs(milliseconds) => {
                    now = now.max((now / 1_000_000 + milliseconds) * 1_000_000);
                    link.skip_to(Instant(now));
                    model.skip_to(now);
                }
            }
            let first = model.first().0;
            prop_assert_eq!(link.next().0, first);
            prop_assert!(first >= now);
            prop_assert!(taken <= trace.bytes_until(Instant(now)));
        }
    }

    #[test]
    fn a_link_that_always_has_packets_uses_all(times in times(), lengths in prop::collection::vec(1..4_000_u64, 1..200)) {
        let trace = trace(&text_of(&times));
        let mut link = Opportunities::new(trace.clone(), Instant::ZERO);
        let mut taken = 0;
        for bytes in lengths {
            let at = link.take(bytes);
            taken += bytes;
            // not one byte earlier would have been enough
            prop_assert!(taken <= trace.bytes_until(at));
            prop_assert!(at == Instant::ZERO || taken > trace.bytes_until(Instant(at.0 - 1)));
        }
    }

    #[test]
    fn what_is_written_is_read_back(times in times()) {
        let parsed = trace(&text_of(&times));
        prop_assert_eq!(LinkTrace::from_schedule("test", &parsed.schedule()), Ok(parsed));
    }

    #[test]
    fn any_bytes_are_a_trace_or_an_error(text in prop::collection::vec(any::<u8>(), 0..60)) {
        if let Ok(trace) = LinkTrace::parse("test", &text) {
            prop_assert!(trace.period() > Duration::ZERO);
        }
    }

    #[test]
    fn any_word_is_a_schedule_that_is_written_the_same_or_an_error(word in "[A-Za-z0-9+/?]{0,12}") {
        if let Ok(trace) = LinkTrace::from_schedule("test", &word) {
            prop_assert_eq!(trace.schedule(), word);
        }
    }
}

#[test]
fn a_trace_with_delays_is_read_and_written_as_a_schedule() {
    let text = b"1 20\n1 20.0\n 4\t0.125 \n9 60000\n";
    let trace = LinkTrace::parse("test", text).expect("a trace");
    assert!(trace.has_delays() && !LinkTrace::parse("test", b"1\n4\n9\n").expect("a trace").has_delays());
    // gaps 1, 3, 5 and counts 2, 1, 1, then the delays in us, lowest digit first: 20000 is 0, 17, 19 in base 32, 125 is 29, 3
    assert!(trace.schedule().starts_with(".BCgxTDB9DFB"), "{}", trace.schedule());
    assert_eq!(LinkTrace::from_schedule("test", &trace.schedule()), Ok(trace.clone()));
    let us = [0, 1, 3, 4, 8, 9, 10, 12, 13].map(|ms| trace.delay_at(Instant::from_millis(ms)).0 / 1_000);
    assert_eq!(us, [20_000, 20_000, 20_000, 125, 125, 60_000_000, 20_000, 20_000, 125]);
    for bad in [".", ".BC", ".BCx", ".BB", "BB.", ".BC/////////A"] {
        assert!(LinkTrace::from_schedule("test", bad).is_err(), "{bad}");
    }
}
