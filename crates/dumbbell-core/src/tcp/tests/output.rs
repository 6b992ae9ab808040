//! Pacing, bursts of segmentation offload and their deferral, PSH.

use super::*;
use crate::cc::Control;
use crate::tcp::host::Writes;
use crate::tcp::write_queue::Buffer;

fn sizes(bursts: &[(Instant, Packet)]) -> Vec<(u64, usize)> {
    let mut sizes: Vec<(u64, usize)> = Vec::new();
    for (at, _) in bursts {
        match sizes.last_mut() {
            Some((last, count)) if *last == at.as_micros() => *count += 1,
            _ => sizes.push((at.as_micros(), 1)),
        }
    }
    sizes
}

/// A paced sender with a window of 20 segments and that threshold: when (us) it sends how many.
fn send_paced(ssthresh: u32, host: HostParams) -> Vec<(u64, usize)> {
    let mut story = Story::new("reno", HostParams { pacing: Pacing::Fq, ..host }, Application::Bulk);
    story.sender.conn.ssthresh = ssthresh;
    story.connect();
    story.last.remove(0);
    sizes(&story.flow(Instant::from_millis(79)))
}

#[test]
fn pacing_leaves_the_first_ten_alone_and_spaces_the_rest() {
    // slow start: 2 * 20 segments per round trip of 40 ms: one a millisecond
    let times = send_paced(crate::cc::conn::INFINITE_SSTHRESH, plain(20));
    assert_eq!(times[0], (40_000, 10));
    assert_eq!(times[1..], (41..=50).map(|ms| (ms * 1000, 1)).collect::<Vec<_>>());
    // half of ssthresh reached: 1.2 * 20 segments in 40 ms: one every 1.6667 ms
    let slower = send_paced(20, plain(20));
    assert_eq!(slower[0], (40_000, 10));
    assert_eq!(slower[1..], (1..=10).map(|n| (40_000 + n * 1_666_666 / 1000, 1)).collect::<Vec<_>>());
    // other ratios: 100 % gives 2 ms
    let slowest = send_paced(20, HostParams { pacing_ca_ratio: 100, ..plain(20) });
    assert_eq!(slowest[1..], (1..=10).map(|n| (40_000 + n * 2_000, 1)).collect::<Vec<_>>());
    let fast = send_paced(crate::cc::conn::INFINITE_SSTHRESH, HostParams { pacing_ss_ratio: 400, ..plain(20) });
    assert_eq!(fast[1..], (1..=10).map(|n| (40_000 + n * 500, 1)).collect::<Vec<_>>());
}

#[test]
fn the_pacing_rate_follows_window_and_srtt() {
    let mut story = Story::reno(10);
    // 2 * 10 * 1448 B / 40 ms
    assert_eq!(story.conn().pacing_rate, 724_000);
    story.advance(RTT);
    story.ack(10);
    assert_eq!(story.conn().pacing_rate, 1_448_000);
    // from half of ssthresh on 120 %: 1.2 * 20 (the ACK of 0 segments does not grow the window)
    story.sender.conn.ssthresh = 40;
    story.ack(10);
    assert_eq!(story.conn().pacing_rate, 868_800);
    story.sender.conn.ssthresh = 42;
    story.ack(10);
    assert_eq!(story.conn().pacing_rate, 1_448_000);
    // what is out counts if it is more than the window: 20 for 2
    story.sender.conn.cwnd = 2;
    story.ack(10);
    assert_eq!(story.conn().pacing_rate, 1_448_000);
}

#[test]
fn a_control_of_the_rate_keeps_its_rate_and_the_windows_rules() {
    let (mut rate, mut window) = (Story::reno(10), Story::reno(10));
    rate.sender.control = Control::Rate;
    rate.sender.conn.pacing_rate = 1_000_000;
    for story in [&mut rate, &mut window] {
        story.advance(RTT);
        story.ack(10);
        // three behind a hole: the window falls by PRR
        story.sack(10, &[(11, 14)]);
        story.sack(10, &[(11, 20)]);
    }
    assert_eq!(rate.cwnd(), window.cwnd());
    assert_eq!(rate.cwnd().2, CaState::Recovery);
    assert!(rate.conn().pacing_rate == 1_000_000 && window.conn().pacing_rate != 1_000_000);
}

#[test]
fn the_pacing_rate_of_any_window_is_exact() {
    // the product of window and scale takes more than 64 bits
    let mut story = Story::new("reno", HostParams { mss: 8934, pacing_ca_ratio: 1000, ..plain(10) }, Application::Bulk);
    story.window = 20;
    story.connect();
    story.advance(RTT);
    (story.sender.conn.cwnd, story.sender.conn.ssthresh) = (1_000_000_000, 1_000_000_000);
    story.ack(1);
    // 10 * 10^9 * 8934 B / 40 ms
    assert_eq!(story.conn().pacing_rate, 2_233_500_000_000_000);
}

#[test]
fn a_late_wake_up_is_made_good_up_to_half_a_gap() {
    for (late_us, next_us) in [(0, 42_000), (300, 42_000), (500, 42_000), (800, 42_300)] {
        let mut story = Story::new("reno", HostParams { pacing: Pacing::Fq, ..plain(20) }, Application::Bulk);
        story.connect();
        assert_eq!(story.sender.next_timer(), Instant::from_micros(41_000));
        story.now = Instant::from_micros(41_000 + late_us);
        story.sender.on_timer(story.now, &mut story.wire);
        assert_eq!(story.take(), [10]);
        // a gap of 1 ms from now, less what was lost, at most 0.5 ms
        assert_eq!(story.sender.next_timer(), Instant::from_micros(next_us), "late by {late_us} us");
    }
}

#[test]
fn retransmissions_are_paced_too() {
    let mut story = Story::new("reno", HostParams { pacing: Pacing::Fq, ..plain(40) }, Application::Bulk);
    story.connect();
    story.advance(39);
    let head = story.conn().snd_nxt;
    story.advance(1);
    // nearly all of the flight lost: what PRR lets go does not go at once
    let first = story.sack(0, &[(head - 10, head)]);
    assert_eq!(first, [0]);
    // the time since the last of the window is more than half a gap: half is given back
    let gap = story.sender.pacer.next - story.now;
    let full = 1448 * 1_000_000_000 / story.conn().pacing_rate;
    assert_eq!(gap, Duration(full - full / 2));
    assert_eq!(story.run_to(story.now + gap), [1]);
}

/// A sender of 10 segments over a path of `rtt_us`, with bursts: PSH of each.
fn list_pushes(rtt_us: u64, host: HostParams) -> Vec<u64> {
    let mut story = Story::new("reno", host, Application::Bulk);
    story.rtt = Duration::from_micros(rtt_us);
    story.start();
    story.run_to(Instant::ZERO + story.rtt);
    story.syn_ack(ack_flag::ECN_SETUP);
    let window = story.conn().cwnd as usize;
    assert_eq!(story.last.len(), 1 + window);
    story.last[1..].iter().filter(|packet| packet.has(flag::PSH)).map(|packet| packet.tcp().seq()).collect()
}

#[test]
fn bursts_end_with_psh_and_grow_on_short_paths() {
    let host = |window| HostParams { initial_window: window, ..HostParams::default() };
    // 40 ms: 2 * 10 * 1448 / 0.04 / 1024 = 707 B, less than 2 segments: bursts of 2
    assert_eq!(list_pushes(40_000, host(10)), [1, 3, 5, 7, 9]);
    // 4 ms: 7070 B a millisecond and 65536 >> (4000 >> 9 = 7) = 512: 7582 / 1448 = 5
    assert_eq!(list_pushes(4_000, host(10)), [4, 9]);
    // without the term for short paths 7070 / 1448 = 4
    assert_eq!(list_pushes(4_000, HostParams { tso_rtt: false, ..host(10) }), [3, 7, 9]);
    // 1 ms: 28281 + 65536 >> 1 = 61049: 42 segments, of which half of the window goes at a time
    assert_eq!(list_pushes(1_000, host(30)), [14, 29]);
    // 0.4 ms: 64 KB are 45 segments at most;
    assert_eq!(list_pushes(400, host(100)), [44, 89, 99]);
    // older kernels push only what the application's write ends
    assert_eq!(list_pushes(40_000, HostParams { push_bursts: false, ..host(10) }), [] as [u64; 0]);
    // (the first fills 46080 B with a buffer of 45 segments, of which the initial window leaves meanwhile, and another 10)
    let mut story = Story::open("reno", HostParams { push_bursts: false, ..host(10) }, Application::Bulk);
    let sent = story.flow(Instant::from_millis(3 * RTT));
    let pushed: Vec<u64> =
        sent.iter().filter(|(_, packet)| packet.has(flag::PSH)).map(|(_, packet)| packet.tcp().seq()).collect();
    assert_eq!(pushed[0], 54);
    // without offload there are no bursts
    assert_eq!(list_pushes(40_000, plain(10)), [] as [u64; 0]);
}

/// Reno in congestion avoidance with a window of 10 and offload, its initial window about to be acknowledged.
fn avoiding() -> Story {
    let mut story = Story::new("reno", HostParams { initial_window: 10, ..HostParams::default() }, Application::Bulk);
    story.sender.conn.ssthresh = 5;
    story.connect();
    story.advance(RTT);
    story
}

/// A window of 40 and bursts of 4 over 10 ms; 0 to 40 are sent, the last 200 us ago, and 0 is acknowledged.
fn bursts_of_4() -> Story {
    let mut story = Story::new("reno", HostParams { initial_window: 40, ..HostParams::default() }, Application::Bulk);
    story.rtt = Duration::from_millis(10);
    story.sender.conn.ssthresh = 20;
    story.start();
    story.advance(10);
    story.syn_ack(0);
    story.advance(10);
    // 1.2 * 40 * 1448 / 0.01 = 6.95 MB/s: 6787 B a millisecond and 65536 >> (10000 >> 9 = 19) = 0: bursts of 4
    // the last burst is 10 ms old: one goes at once
    assert_eq!(story.ack(1), [40]);
    story.run_to(story.now + Duration::from_micros(200));
    story
}

#[test]
fn a_host_that_wrote_within_a_millisecond_waits_for_a_burst() {
    let mut story = bursts_of_4();
    story.sender.conn.is_cwnd_limited = false;
    assert_eq!(story.ack(2), [] as [u64; 0]);
    assert_eq!(story.ack(3), [] as [u64; 0]);
    assert_eq!(story.ack(4), [] as [u64; 0]);
    assert!(story.conn().is_cwnd_limited);
    // room for 4
    assert_eq!(story.ack(5), [41, 42, 43, 44]);
    story.run_to(story.now + Duration::from_micros(1_001));
    // the host has not written for more than 1 ms
    assert_eq!(story.ack(6), [45]);
}

#[test]
fn a_paced_host_has_written_when_its_pacing_clock_says_so() {
    let mut story = bursts_of_4();
    story.sender.conn.is_cwnd_limited = false;
    // nothing was sent for 1.2 ms, but pacing has counted up to 0.5 ms ago
    story.run_to(story.now + Duration::from_millis(1));
    story.sender.conn.paced = true;
    story.sender.pacer.next = story.now.saturating_sub(Duration::from_micros(500));
    assert_eq!(story.ack(2), [] as [u64; 0]);
    story.sender.pacer.next = Instant::ZERO;
    assert_eq!(story.ack(3), [41, 42]);
}

/// Returns a sender of bursts of four whose socket buffer ends before segment `end`.
fn near_the_end_of_a_buffer(end: u64) -> Story {
    let mut story = bursts_of_4();
    let queue = &mut story.sender.queue;
    let rest = queue.front.segments - (end - 41) as u16;
    queue.front.segments -= rest;
    queue.behind.push_front(Buffer { segments: rest, push: false });
    story
}

#[test]
fn what_is_left_of_a_socket_buffer_does_not_wait() {
    let mut story = near_the_end_of_a_buffer(43);
    // room for 1 of the 2 that are left
    assert_eq!(story.ack(2), [] as [u64; 0]);
    assert_eq!(story.ack(3), [41, 42]);
    // the next buffer has more than there is room for
    assert_eq!((story.ack(4), story.ack(6)), (vec![], vec![]));
    assert_eq!(story.ack(7), [43, 44, 45, 46]);

    let mut earlier = near_the_end_of_a_buffer(42);
    assert_eq!(earlier.ack(2), [41]);
    assert_eq!(earlier.ack(3), [] as [u64; 0]);
    // a burst goes on into the next buffer
    assert_eq!(near_the_end_of_a_buffer(42).ack(3), [41, 42]);
}

#[test]
fn a_host_does_not_wait_when_the_next_acknowledgement_is_not_due_within_a_millisecond() {
    // bursts of 2 on a slow path; segments 0 to 9 were sent at once, and the next ACK is always due now
    let mut story = avoiding();
    assert_eq!((story.ack(1), story.ack(2), story.ack(4)), (vec![10], vec![], vec![11, 12]));
    for (tso_defer_near, second) in [(true, vec![22]), (false, vec![])] {
        let host = HostParams { initial_window: 10, tso_defer_near, ..HostParams::default() };
        let mut slow = Story::new("reno", host, Application::Bulk);
        slow.sender.conn.ssthresh = 5;
        slow.connect();
        slow.advance(RTT);
        assert_eq!(slow.ack(1), [10]);
        slow.advance(5);
        // the head, 10, left 5 ms ago and will be acknowledged in 35
        assert_eq!(slow.ack(10), Vec::from_iter(11..21));
        slow.advance(35);
        assert_eq!(slow.ack(11), [21]);
        // 11 will be acknowledged in 5 ms: too late for the one, soon for the other
        assert_eq!(slow.ack(12), second);
    }
}

#[test]
fn a_third_of_the_window_does_not_wait() {
    // a window of 3: one segment is a third of it
    let mut small = Story::new("reno", HostParams { initial_window: 3, ..HostParams::default() }, Application::Bulk);
    small.sender.conn.ssthresh = 2;
    small.connect();
    small.advance(RTT);
    assert_eq!(small.ack(1), [3]);
    assert_eq!(small.ack(2), [4]);
}

#[test]
fn the_last_segment_of_the_application_does_not_wait() {
    let mut story = Story::new("reno", HostParams { initial_window: 10, ..HostParams::default() }, Application::Size(11 * 1448));
    story.sender.conn.ssthresh = 5;
    story.connect();
    story.advance(RTT);
    assert_eq!(story.ack(1), [10]);
    assert!(story.last[0].has(flag::PSH));
}

#[test]
fn a_third_of_the_send_buffer_must_be_free_before_the_application_writes_again() {
    // 46080 B and a buffer of 45 segments, 45 * 1448 + 832 = 65992 B: one is more. But 10 leave meanwhile, and 10 more fill it up
    let mut story = Story::reno(10);
    assert_eq!(story.sender.queue.written, 55);
    story.advance(RTT);
    // 54 not acknowledged, in 9 bursts and a buffer: 86512 B, more than two thirds. One is sent while the window of 11 has room for
    // another: the buffer grows to 2 * 11 * 2304
    story.ack(1);
    assert_eq!((story.sender.queue.written, story.sender.queue.size), (55, 50_688));
    // the window grows to 20, the buffer to 92160; by then 45 are not acknowledged, in 20 bursts and a buffer: 82632 B
    story.ack(10);
    assert_eq!((story.sender.queue.written, story.sender.queue.size), (55, 92_160));
    // 129024 B, and 37 in 28 bursts and a buffer: 77704 B. The buffer has 9 unsent: 36 more fill it, and 129832 B are enough
    assert_eq!(story.ack(18).last(), Some(&45));
    assert_eq!((story.conn().cwnd, story.conn().snd_nxt), (28, 46));
    assert_eq!((story.sender.queue.size, story.sender.queue.written), (129_024, 91));
    // up to Linux 5.17 it grows only when all is sent and the window has room: with the last ACK, after 9 segments. Then 25 are out in as
    // many bursts: 57000 B of 184320. A write is 128 KB, 90 segments; after it more than two thirds are taken
    let mut older = Story::open("reno", HostParams { expand_between_bursts: false, ..plain(10) }, Application::Bulk);
    older.advance(RTT);
    older.ack(1);
    older.ack(10);
    assert_eq!(older.sender.queue.size, 46_080);
    older.ack(18);
    assert_eq!((older.sender.queue.size, older.sender.queue.written), (46_080, 55));
    older.ack(30);
    assert_eq!((older.sender.queue.size, older.sender.queue.written), (184_320, 55 + 90));
    // on a blocking socket it is as much as the memory holds: 15 leave while a buffer of 45 is filled, 15 fill it up, and that is 157192 B,
    // so that there is room for another
    let blocking = HostParams { expand_between_bursts: false, writes: Writes::Blocking, ..plain(10) };
    let mut blocked = Story::open("reno", blocking, Application::Bulk);
    blocked.advance(RTT);
    for acked in [1, 10, 18, 30] {
        blocked.ack(acked);
    }
    assert_eq!((blocked.sender.queue.size, blocked.sender.queue.written), (184_320, 55 + 45 + 15 + 45));
    // never beyond the host's limit
    let mut limited = Story::open("reno", HostParams { send_buffer: 50_000, ..plain(10) }, Application::Bulk);
    limited.flow(Instant::from_secs(2));
    assert_eq!(limited.sender.queue.size, 50_000);
}
