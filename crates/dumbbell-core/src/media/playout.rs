//! Playout buffer: the receiver of a call delays each packet until its playout time, which hides the variation of transit times. A packet that arrives later is lost to the listener.
//!
//! A fixed buffer plays each packet the same time after its capture. An adaptive buffer plays a packet when 95 % of the packets of the last 2 s would have
//! arrived, and 10 ms later; it changes its delay with each packet, as a receiver can that stretches and compresses speech.

use crate::units::{Duration, Instant};
use std::collections::VecDeque;

crate::choice! {
    /// Kind of a playout buffer.
    pub enum PlayoutMode {
        /// One delay for the whole call.
        Fixed = "fixed",
        /// The delay follows the transit times.
        Adaptive = "adaptive",
    }
}

crate::params! {
    /// Parameters of a playout buffer.
    pub struct Params {
        /// Kind of buffer.
        mode: PlayoutMode = PlayoutMode::Adaptive, unit "", source "the default is ours";
        /// Time from the capture of a packet to its playing by a fixed buffer.
        delay: Duration = Duration::from_millis(150), unit "", range Duration::ZERO, Duration::from_secs(60), source "ITU-T G.114: up to 150 ms one way, most applications are not affected";
        /// Share of recent packets that an adaptive buffer waits for.
        share: f64 = 0.95, unit "", range 0.0, 1.0, source "ours";
        /// Age up to which packets are recent.
        window: Duration = Duration::from_secs(2), unit "", range Duration::from_millis(1), Duration::from_secs(60), source "ours";
        /// Time that an adaptive buffer waits beyond that share.
        margin: Duration = Duration::from_millis(10), unit "", range Duration::ZERO, Duration::from_secs(10), source "ours: half a packet of 20 ms";
    }
}

/// Losses of a call in order of its packets. A packet that came too late to be played is lost too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LossRuns {
    /// Packets sent.
    pub packets: u64,
    /// Packets lost.
    pub lost: u64,
    /// Runs of lost packets: losses in a row count once.
    pub runs: u64,
}

impl LossRuns {
    /// Share of the packets that were lost, 0 without packets.
    pub fn compute_loss(&self) -> f64 {
        self.lost as f64 / self.packets.max(1) as f64
    }

    /// Burst ratio (Rec. ITU-T G.107, clause 7.5): mean length of the observed runs of losses, relative to the mean for independent losses of the same share, which is
    /// 1 / (1 - loss). Table 2 of G.107 permits no less than 1.
    pub fn compute_burst_ratio(&self) -> f64 {
        if self.runs == 0 {
            return 1.0;
        }
        (self.lost as f64 / self.runs as f64 * (1.0 - self.compute_loss())).max(1.0)
    }
}

/// Fate of a packet at the playout buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlayoutFate {
    /// Played, after this time in the buffer.
    Played(Duration),
    /// Arrived this long after its playout time: discarded.
    Late(Duration),
    /// Arrived before, or so long ago that it no longer counts.
    Duplicate,
}

/// Counters of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlayoutCounts {
    /// Packets that were played.
    pub played: u64,
    /// Packets that arrived after their playout time and were discarded.
    pub late: u64,
    /// Time that all played packets waited in the buffer.
    pub waited: Duration,
    /// Time from the capture of all played packets to their playout.
    pub delays: Duration,
}

impl PlayoutCounts {
    /// Mean delay that the buffer added to a packet that it played.
    pub fn compute_added_delay(&self) -> Duration {
        self.waited / self.played.max(1)
    }

    /// Mean time from the capture of a packet to its playout: the delay from mouth to ear, except for codec and devices.
    pub fn compute_delay(&self) -> Duration {
        self.delays / self.played.max(1)
    }
}

/// Packets whose fate may still change: a packet that is overtaken by more than this is lost. Bits of one word.
const REMEMBERED: u64 = 128;

/// A playout buffer at the receiver of one call. Packets are numbered from 0 without gaps.
#[derive(Clone, Debug)]
pub struct PlayoutBuffer {
    params: Params,
    /// The first packet that counts. Numbers below are relative to it.
    first: u64,
    /// Recent packets of an adaptive buffer: arrival and transit time, in order of arrival, and the transit times in ascending order.
    recent: VecDeque<(Instant, Duration)>,
    sorted: Vec<Duration>,
    counts: PlayoutCounts,
    /// One more than the largest number that has arrived; bit `n` is set if number `next - 1 - n` arrived, and if it was played.
    next: u64,
    arrived: u128,
    played: u128,
    /// Losses among the packets that are no longer remembered, and whether the last of them was lost.
    settled: LossRuns,
    last_lost: bool,
}

impl PlayoutBuffer {
    /// A buffer without packets.
    pub fn new(params: Params) -> PlayoutBuffer {
        PlayoutBuffer {
            params,
            first: 0,
            recent: VecDeque::new(),
            sorted: Vec::new(),
            counts: PlayoutCounts::default(),
            next: 0,
            arrived: 0,
            played: 0,
            settled: LossRuns::default(),
            last_lost: false,
        }
    }

    /// Packet `number`, captured at `captured`, arrives.
    pub fn receive(&mut self, number: u64, captured: Instant, now: Instant) -> PlayoutFate {
        let Some(place) = number.checked_sub(self.first) else { return self.play(captured, now).0 };
        if place >= self.next {
            self.advance(place);
        }
        let behind = self.next - 1 - place;
        if behind >= REMEMBERED || self.arrived >> behind & 1 == 1 {
            return PlayoutFate::Duplicate;
        }
        self.arrived |= 1 << behind;

        let (fate, delay) = self.play(captured, now);
        match fate {
            PlayoutFate::Played(waited) => {
                self.played |= 1 << behind;
                self.counts.played += 1;
                self.counts.waited = self.counts.waited.saturating_add(waited);
                self.counts.delays = self.counts.delays.saturating_add(delay);
            }
            _ => self.counts.late += 1,
        }
        fate
    }

    /// Discards the counters: only packets from number `first` on count from now on. The delay of an adaptive buffer stays.
    pub fn forget_before(&mut self, first: u64) {
        self.first = first;
        (self.counts, self.settled, self.last_lost) = (PlayoutCounts::default(), LossRuns::default(), false);
        (self.next, self.arrived, self.played) = (0, 0, 0);
    }

    /// Returns the fate of a packet that arrives now, and the time from its capture to its playing.
    fn play(&mut self, captured: Instant, now: Instant) -> (PlayoutFate, Duration) {
        let transit = now.saturating_since(captured);
        let delay = self.update_delay(transit, now);
        if transit > delay {
            (PlayoutFate::Late(transit - delay), delay)
        } else {
            (PlayoutFate::Played(delay - transit), delay)
        }
    }

    /// Returns the counters so far.
    pub fn counts(&self) -> PlayoutCounts {
        self.counts
    }

    /// Returns the losses among the first `sent` of the packets that count, none of which is still to come. Late packets are lost.
    pub fn count_losses(&self, sent: u64) -> LossRuns {
        let mut all = self.clone();
        all.settle_before(all.next);
        all.lose(sent.saturating_sub(all.next));
        all.settled
    }

    /// Makes room for `number`, which is the largest so far.
    fn advance(&mut self, number: u64) {
        let settled = (number + 1).saturating_sub(REMEMBERED);
        self.settle_before(settled.min(self.next));
        self.lose(settled.saturating_sub(self.next));
        let steps = number + 1 - self.next;
        for word in [&mut self.arrived, &mut self.played] {
            *word = if steps < REMEMBERED { *word << steps } else { 0 };
        }
        self.next = number + 1;
    }

    /// Counts the remembered packets before `number`.
    fn settle_before(&mut self, number: u64) {
        while self.settled.packets < number {
            let was_played = self.played >> (self.next - 1 - self.settled.packets) & 1 == 1;
            if was_played {
                self.settled.packets += 1;
                self.last_lost = false;
            } else {
                self.lose(1);
            }
        }
    }

    /// Counts `count` packets in a row that are lost.
    fn lose(&mut self, count: u64) {
        self.settled.packets += count;
        self.settled.lost += count;
        self.settled.runs += u64::from(count > 0 && !self.last_lost);
        self.last_lost |= count > 0;
    }

    /// Returns the time from capture to playout for a packet that arrives now, and adds its transit time to the recent ones.
    fn update_delay(&mut self, transit: Duration, now: Instant) -> Duration {
        if self.params.mode == PlayoutMode::Fixed {
            return self.params.delay;
        }
        while let Some(&(arrived, old)) = self.recent.front() {
            if now.saturating_since(arrived) <= self.params.window {
                break;
            }
            self.recent.pop_front();
            let place = self.sorted.partition_point(|&other| other < old);
            self.sorted.remove(place);
        }
        let rank = (self.params.share * self.sorted.len() as f64).ceil() as usize;
        let awaited = self.sorted.get(rank.saturating_sub(1)).copied().unwrap_or(transit);
        self.recent.push_back((now, transit));
        let place = self.sorted.partition_point(|&other| other < transit);
        self.sorted.insert(place, transit);
        awaited.saturating_add(self.params.margin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prop_assert, prop_assert_eq, proptest};

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    /// A call of 50 packets per second; packet `n` has the transit time `transits[n]`, `None` if it is lost.
    fn play(params: Params, transits: &[Option<u64>]) -> (Vec<PlayoutFate>, PlayoutCounts, LossRuns) {
        let mut buffer = PlayoutBuffer::new(params);
        let captured = |number: u64| Instant::from_millis(20 * number);
        let mut arrivals: Vec<(Instant, u64)> =
            transits.iter().zip(0..).filter_map(|(transit, n)| Some((captured(n) + ms((*transit)?), n))).collect();
        arrivals.sort_unstable();
        let fates = arrivals.into_iter().map(|(now, n)| buffer.receive(n, captured(n), now)).collect();
        let counts = buffer.counts();
        (fates, counts, buffer.count_losses(transits.len() as u64))
    }

    fn fixed_buffer(delay: u64) -> Params {
        Params { mode: PlayoutMode::Fixed, delay: ms(delay), ..Params::default() }
    }

    #[test]
    fn a_fixed_buffer_plays_what_comes_within_its_delay() {
        use PlayoutFate::{Late, Played};
        let (fates, counts, losses) = play(fixed_buffer(100), &[Some(40), Some(100), Some(101), Some(30), None, Some(60)]);
        assert_eq!(fates, [Played(ms(60)), Played(ms(70)), Played(ms(0)), Late(ms(1)), Played(ms(40))], "in order of arrival");
        assert_eq!((counts.played, counts.late), (4, 1));
        // (60 + 0 + 70 + 40) / 4; each is heard 100 ms after it was said
        assert_eq!((counts.compute_added_delay(), counts.compute_delay()), (Duration::from_micros(42_500), ms(100)));
        // the late one and the lost one are two runs, as number 3 was played between them
        assert_eq!(losses, LossRuns { packets: 6, lost: 2, runs: 2 });
    }

    #[test]
    fn an_adaptive_buffer_waits_for_95_of_100_packets_and_10_ms() {
        // 100 packets in 2 s, of 40 ms, each tenth of 80 ms: the 95th of 100 is 80 ms
        let transits: Vec<Option<u64>> = (0..300).map(|n| Some(if n % 10 == 9 { 80 } else { 40 })).collect();
        let (fates, counts, losses) = play(Params::default(), &transits);
        // Packet 9 comes when all others took 40 ms: 80 - 50 = 30 ms late. Packet 19 is overtaken by 20: of the 20 before it one was slow, and the 19th of them took 40 ms. From packet 29 on,
        // 2 of 31 and more are slow, and playout is 90 ms after capture.
        assert_eq!(fates.iter().filter(|fate| **fate == PlayoutFate::Late(ms(30))).count(), 2, "{fates:?}");
        assert_eq!((counts.late, losses), (2, LossRuns { packets: 300, lost: 2, runs: 2 }));
        assert_eq!(fates[299], PlayoutFate::Played(ms(10)));
        // 27 packets at 50 ms and the rest at 90 ms
        assert!(counts.compute_delay() > ms(86) && counts.compute_delay() < ms(90), "{counts:?}");
    }

    #[test]
    fn an_adaptive_buffer_forgets_a_spike_after_2_s() {
        // Each tenth packet of the first 2 s takes 140 ms. Of the 101 packets within 2 s of packet 145, which arrives at 2.94 s, 6 are slow: 40, which arrived at 0.94 s, to 90. The 96th
        // of 101 is slow. Without packet 40, the 95th of 100 is fast.
        let transits: Vec<Option<u64>> = (0..400).map(|n| Some(if n % 10 == 0 && n < 100 { 140 } else { 40 })).collect();
        let (fates, ..) = play(Params::default(), &transits);
        assert_eq!([140, 145, 146, 399].map(|n| fates[n]), [110, 110, 10, 10].map(|n| PlayoutFate::Played(ms(n))));
    }

    #[test]
    fn a_silence_longer_than_the_window_starts_again() {
        let mut buffer = PlayoutBuffer::new(Params::default());
        let second = Instant::from_secs(1);
        assert_eq!(buffer.receive(0, second, second + ms(40)), PlayoutFate::Played(ms(10)));
        let later = Instant::from_secs(10);
        assert_eq!(buffer.receive(1, later, later + ms(200)), PlayoutFate::Played(ms(10)));
    }

    #[test]
    fn losses_are_counted_in_order_of_the_packets() {
        let (_, counts, losses) = play(fixed_buffer(100), &[None, None, Some(40), None, Some(40), Some(40), None, None]);
        assert_eq!((counts.played, losses), (3, LossRuns { packets: 8, lost: 5, runs: 3 }));
        // a number that comes twice counts once
        let mut buffer = PlayoutBuffer::new(fixed_buffer(100));
        let fates = [0, 0, 2, 1, 1].map(|n| buffer.receive(n, Instant::ZERO, Instant::from_millis(40)));
        assert_eq!(fates.map(|fate| fate == PlayoutFate::Duplicate), [false, true, false, false, true]);
        assert_eq!(buffer.count_losses(3), LossRuns { packets: 3, lost: 0, runs: 0 });
        assert_eq!(PlayoutBuffer::new(fixed_buffer(100)).count_losses(0), LossRuns::default());
        assert_eq!(PlayoutBuffer::new(fixed_buffer(100)).count_losses(10), LossRuns { packets: 10, lost: 10, runs: 1 });
        // number 0, then a gap that is longer than what is remembered
        let mut gap = PlayoutBuffer::new(fixed_buffer(100));
        for number in [0, 1_000_000_000_000, 999_999_999_999] {
            gap.receive(number, Instant::ZERO, Instant::from_millis(40));
        }
        assert_eq!(gap.receive(1, Instant::ZERO, Instant::from_millis(40)), PlayoutFate::Duplicate);
        assert_eq!(gap.count_losses(0), LossRuns { packets: 1_000_000_000_001, lost: 999_999_999_998, runs: 1 });
    }

    #[test]
    fn only_packets_from_the_first_that_counts_on_are_counted() {
        let mut buffer = PlayoutBuffer::new(fixed_buffer(100));
        let receive = |own: &mut PlayoutBuffer, number: u64, transit: u64| {
            let captured = Instant::from_millis(20 * number);
            own.receive(number, captured, captured + ms(transit))
        };
        for number in [0, 1, 3] {
            receive(&mut buffer, number, 40);
        }
        // of ten packets, 5 to 9 count: 4 comes late and 2 never, 6 comes late, 8 and 9 never
        buffer.forget_before(5);
        assert_eq!(receive(&mut buffer, 4, 130), PlayoutFate::Late(ms(30)));
        for (number, transit) in [(5, 90), (7, 70), (6, 110)] {
            receive(&mut buffer, number, transit);
        }
        let counts = buffer.counts();
        assert_eq!((counts.played, counts.late, counts.compute_added_delay()), (2, 1, ms(20)));
        assert_eq!(buffer.count_losses(5), LossRuns { packets: 5, lost: 3, runs: 2 });
    }

    #[test]
    fn a_buffer_without_delay_plays_nothing_that_takes_time() {
        let (fates, counts, losses) = play(fixed_buffer(0), &[Some(1), Some(0), Some(2)]);
        assert_eq!(fates, [PlayoutFate::Late(ms(1)), PlayoutFate::Played(ms(0)), PlayoutFate::Late(ms(2))]);
        assert_eq!((counts.late, losses), (2, LossRuns { packets: 3, lost: 2, runs: 2 }));
    }

    #[test]
    fn runs_of_losses_give_the_burst_ratio() {
        // 10 of 100 in two runs of 5: 5 * 0.9 = 4.5 times as long as independent losses; runs of 1 count as independent
        let ratio = |packets, lost, runs| LossRuns { packets, lost, runs }.compute_burst_ratio();
        assert_eq!((ratio(100, 10, 2), ratio(100, 10, 10), ratio(0, 0, 0)), (4.5, 1.0, 1.0));
        assert_eq!(LossRuns::default().compute_loss(), 0.0);
    }

    proptest! {
        #[test]
        fn every_packet_is_played_or_lost(transits in vec(proptest::option::weighted(0.8, 0_u64..3_000), 0..600), is_fixed: bool) {
            let params = if is_fixed { fixed_buffer(100) } else { Params::default() };
            let (fates, counts, losses) = play(params, &transits);
            // one that is overtaken by 128 others (2.56 s) counts as lost without being late
            let duplicates = fates.iter().filter(|fate| **fate == PlayoutFate::Duplicate).count() as u64;
            prop_assert_eq!(losses.packets, transits.len() as u64);
            prop_assert_eq!(losses.packets - losses.lost, counts.played);
            prop_assert_eq!(fates.len() as u64, counts.played + counts.late + duplicates);
            prop_assert!(losses.runs <= losses.lost && (losses.lost == 0) == (losses.runs == 0));
            prop_assert!(losses.runs <= counts.played + 1);
        }
    }
}
