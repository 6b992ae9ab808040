//! Congestion controls of media whose sender computes from reports on single packets, as GCC and SCReAM do: reports of RFC 8888 between [`MediaControl`] and a [`SenderControl`].
//!
//! Each report covers the packets from the end of the one before it to the last that has arrived. A packet is reported once: one that comes after the report that covered it stays lost, and
//! packets of a report that is lost are not reported again (RFC 8888, section 3.1, allows, and does not demand, reports that overlap).

use super::control::{MediaArrival, MediaControl, MediaPacket, MediaReport};
use crate::fork::{CannotFork, SharedCopies};
use crate::packet::{Ecn, UDP_HEADERS};
use crate::units::{Duration, Instant, Rate};
use std::collections::VecDeque;

/// A packet in a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketReport {
    /// The packet, as it was sent.
    pub packet: MediaPacket,
    /// When it arrived, on the receiver's clock, to 1/1024 s; `None` if it has not.
    pub arrived: Option<Instant>,
    /// ECN field that it arrived with.
    pub ecn: Ecn,
}

/// The sender's end of a congestion control. Only differences between times of arrival mean something to it: how far the receiver's clock is from its own is unknown.
pub trait SenderControl: Send {
    /// The video starts.
    fn start(&mut self, _now: Instant) {}

    /// Rate for the encoder, with `buffered` bytes that wait to be sent.
    fn encoder_rate(&self, buffered: u64) -> Rate;

    /// Rate at which waiting packets are sent.
    fn pacing_rate(&self, buffered: u64) -> Rate;

    /// Whether a packet of `bytes` may be sent now, as far as a window says.
    fn may_send(&self, _bytes: u32) -> bool {
        true
    }

    /// When [`SenderControl::on_timer`] is called next, [`Instant::NEVER`] for not at all.
    fn next_timer(&self) -> Instant {
        Instant::NEVER
    }

    /// The time of [`SenderControl::next_timer`] has come. The next time is later.
    fn on_timer(&mut self, _now: Instant) {}

    /// A packet is sent.
    fn on_send(&mut self, _packet: &MediaPacket) {}

    /// A report has come, on packets in the order of their numbers. It may be empty. Packets of reports that were lost are missing between this one and the one before.
    fn on_feedback(&mut self, packets: &[PacketReport], rtt: Duration, now: Instant);

    /// Returns a copy that goes on as the original does; a type that is `Clone` writes [`fork_by_clone!()`](crate::fork_by_clone).
    ///
    /// # Errors
    /// It cannot be copied, which is the default.
    fn fork(&self, _shared: &mut SharedCopies) -> Result<Self, CannotFork>
    where
        Self: Sized,
    {
        Err(CannotFork::default())
    }
}

/// Units of the arrival time of a packet (RFC 8888, section 3.1): 1/1024 s before the report. The largest offset means 8189 of them or more.
const OFFSETS_PER_SECOND: u64 = 1024;
const LARGEST_OFFSET: u64 = 8190;
/// Bytes of a report on one stream without its packets (RFC 8888, figure 1): header, SSRC of the receiver, SSRC of the stream, first number and count, time of the report.
const REPORT_BYTES: u16 = 20;
/// Packets of a report: two bytes each, in 1,400 B.
const MOST_PACKETS: usize = 690;
/// The rest of what does not fit into a report follows in the next one after this time.
const NEXT_PART: Duration = Duration::from_millis(1);

/// A report on its way.
#[derive(Clone, Debug)]
struct WayReport {
    number: u64,
    /// The first packet that it covers.
    first: u64,
    at: Instant,
    /// Time of arrival and ECN field of each packet.
    packets: Vec<Option<(Instant, Ecn)>>,
}

/// A [`SenderControl`] with a receiver that reports all packets.
#[derive(Clone, Debug)]
pub struct PerPacketFeedback<C> {
    control: C,
    interval: Duration,
    /// Packets from number `first` on, which no report has covered at the sender.
    sent: VecDeque<MediaPacket>,
    first: u64,
    /// At the receiver: packets from number `unreported` on that no report covers.
    arrivals: VecDeque<Option<(Instant, Ecn)>>,
    unreported: u64,
    reports: VecDeque<WayReport>,
    next_report: u64,
    /// Memory of reports that have come, and of the last one for the control.
    spare: Vec<Vec<Option<(Instant, Ecn)>>>,
    covered: Vec<PacketReport>,
}

impl<C: SenderControl> PerPacketFeedback<C> {
    /// `control` with a report each `interval`.
    pub fn new(control: C, interval: Duration) -> PerPacketFeedback<C> {
        PerPacketFeedback {
            control,
            interval,
            sent: VecDeque::new(),
            first: 0,
            arrivals: VecDeque::new(),
            unreported: 0,
            reports: VecDeque::new(),
            next_report: 0,
            spare: Vec::new(),
            covered: Vec::new(),
        }
    }

    /// Forgets the packets before number `end`.
    fn drop_before(&mut self, end: u64) {
        while self.first < end && self.sent.pop_front().is_some() {
            self.first += 1;
        }
    }
}

/// Time of arrival as a report of `at` carries it.
fn round_arrival(arrived: Instant, at: Instant) -> Instant {
    let offset = at.saturating_since(arrived);
    let units = (u128::from(offset.0) * u128::from(OFFSETS_PER_SECOND) + 500_000_000) / 1_000_000_000;
    let carried = u64::try_from(units).unwrap_or(LARGEST_OFFSET).min(LARGEST_OFFSET);
    Instant(at.0.saturating_sub(carried * 1_000_000_000 / OFFSETS_PER_SECOND))
}

impl<C: SenderControl + 'static> MediaControl for PerPacketFeedback<C> {
    fn fork(&self, shared: &mut SharedCopies) -> Result<Box<dyn MediaControl>, CannotFork> {
        Ok(Box::new(PerPacketFeedback {
            control: self.control.fork(shared)?,
            sent: self.sent.clone(),
            arrivals: self.arrivals.clone(),
            reports: self.reports.clone(),
            spare: Vec::new(),
            covered: Vec::new(),
            ..*self
        }))
    }

    fn start(&mut self, now: Instant) {
        self.control.start(now);
    }

    fn encoder_rate(&self, buffered: u64) -> Rate {
        self.control.encoder_rate(buffered)
    }

    fn pacing_rate(&self, buffered: u64) -> Rate {
        self.control.pacing_rate(buffered)
    }

    fn may_send(&self, bytes: u32) -> bool {
        self.control.may_send(bytes)
    }

    fn next_timer(&self) -> Instant {
        self.control.next_timer()
    }

    fn on_timer(&mut self, now: Instant) {
        self.control.on_timer(now);
    }

    fn on_send(&mut self, packet: &MediaPacket) {
        self.sent.push_back(*packet);
        self.control.on_send(packet);
    }

    fn on_arrival(&mut self, arrival: &MediaArrival) {
        let Some(behind) = arrival.packet.number.checked_sub(self.unreported) else { return };
        let place = behind as usize;
        while self.arrivals.len() <= place {
            self.arrivals.push_back(None);
        }
        self.arrivals[place] = Some((arrival.at, arrival.ecn));
    }

    fn report_interval(&self) -> Duration {
        if self.arrivals.is_empty() {
            self.interval
        } else {
            self.interval.min(NEXT_PART)
        }
    }

    fn report(&mut self, now: Instant) -> MediaReport {
        let count = self.arrivals.len().min(MOST_PACKETS);
        let mut packets = self.spare.pop().unwrap_or_default();
        packets.clear();
        packets.extend(self.arrivals.drain(..count));
        self.reports.push_back(WayReport { number: self.next_report, first: self.unreported, at: now, packets });
        self.unreported += count as u64;
        self.next_report += 1;
        // two bytes of each packet, in words of four
        let length = UDP_HEADERS + REPORT_BYTES + 4 * (count as u16).div_ceil(2);
        MediaReport { value: self.next_report - 1, length }
    }

    fn on_report(&mut self, value: u64, rtt: Duration, now: Instant) {
        let report = loop {
            match self.reports.pop_front() {
                Some(report) if report.number == value => break report,
                // lost on its way, or overtaken
                Some(older) if older.number < value => self.spare.push(older.packets),
                Some(later) => return self.reports.push_front(later),
                None => return,
            }
        };
        self.drop_before(report.first);
        self.covered.clear();
        for seen in &report.packets {
            let Some(packet) = self.sent.pop_front() else { break };
            self.first += 1;
            let arrived = seen.map(|(at, _)| round_arrival(at, report.at));
            self.covered.push(PacketReport { packet, arrived, ecn: seen.map_or(Ecn::NotEct, |(_, ecn)| ecn) });
        }
        self.spare.push(report.packets);
        self.control.on_feedback(&self.covered, rtt, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Remembers what it is told.
    #[derive(Debug, Default)]
    struct Listener(Vec<Vec<(u64, Option<u64>, Ecn)>>);

    impl SenderControl for Listener {
        fn encoder_rate(&self, _buffered: u64) -> Rate {
            Rate(1)
        }

        fn pacing_rate(&self, _buffered: u64) -> Rate {
            Rate(1)
        }

        fn on_feedback(&mut self, packets: &[PacketReport], _rtt: Duration, _now: Instant) {
            self.0.push(packets.iter().map(|one| (one.packet.number, one.arrived.map(|at| at.0), one.ecn)).collect());
        }
    }

    fn packet(number: u64) -> MediaPacket {
        MediaPacket { number, bytes: 1_000, sent: Instant::from_millis(10 * number) }
    }

    fn arrive(flow: &mut PerPacketFeedback<Listener>, number: u64, ms: u64, ecn: Ecn) {
        let delay = Duration::from_millis(50);
        flow.on_arrival(&MediaArrival { packet: packet(number), delay, at: Instant::from_millis(ms), ecn });
    }

    fn flow(packets: u64) -> PerPacketFeedback<Listener> {
        let mut flow = PerPacketFeedback::new(Listener::default(), Duration::from_millis(50));
        (0..packets).for_each(|number| flow.on_send(&packet(number)));
        flow
    }

    fn take_report(flow: &mut PerPacketFeedback<Listener>, value: u64) {
        flow.on_report(value, Duration::from_millis(100), Instant::from_secs(9));
    }

    #[test]
    fn a_report_has_time_and_mark_of_each_packet_to_1_1024_s() {
        let mut flow = flow(4);
        arrive(&mut flow, 0, 1_000, Ecn::Ect0);
        arrive(&mut flow, 2, 1_030, Ecn::Ce);
        let report = flow.report(Instant::from_millis(1_050));
        // 42 B of UDP, IP and Ethernet, 20 B without packets, three packets in eight bytes
        assert_eq!((report, flow.report_interval()), (MediaReport { value: 0, length: 70 }, Duration::from_millis(50)));
        take_report(&mut flow, 0);
        // 50 ms are 51.2 units: 51 / 1024 s = 49.804687 ms; 20 ms are 20.48: 20 / 1024 s = 19.531250 ms
        let expected = [(0, Some(1_000_195_313), Ecn::Ect0), (1, None, Ecn::NotEct), (2, Some(1_030_468_750), Ecn::Ce)];
        assert_eq!(flow.control.0, [expected]);
    }

    #[test]
    fn a_packet_is_reported_once() {
        let mut flow = flow(6);
        arrive(&mut flow, 1, 1_000, Ecn::NotEct);
        flow.report(Instant::from_millis(1_000));
        // packet 0 comes after the report that counted it as lost; of the next report nothing comes
        arrive(&mut flow, 0, 1_010, Ecn::NotEct);
        arrive(&mut flow, 2, 1_020, Ecn::NotEct);
        flow.report(Instant::from_millis(1_050));
        arrive(&mut flow, 4, 1_060, Ecn::NotEct);
        flow.report(Instant::from_millis(1_100));
        for value in [0, 2, 1] {
            take_report(&mut flow, value);
        }
        let numbers =
            |one: &Vec<(u64, Option<u64>, Ecn)>| one.iter().map(|&(number, at, _)| (number, at.is_some())).collect::<Vec<_>>();
        let seen: Vec<_> = flow.control.0.iter().map(numbers).collect();
        assert_eq!(seen, [vec![(0, false), (1, true)], vec![(3, false), (4, true)]]);
        assert_eq!((flow.first, flow.sent.len(), flow.reports.len()), (5, 1, 0));
    }

    #[test]
    fn an_empty_report_says_so_and_a_long_one_comes_in_parts() {
        let mut flow = flow(1_000);
        assert_eq!(flow.report(Instant::from_secs(1)).length, 62);
        take_report(&mut flow, 0);
        assert_eq!(flow.control.0, [vec![]]);
        arrive(&mut flow, 999, 1_000, Ecn::NotEct);
        assert_eq!(
            (flow.report(Instant::from_secs(1)).length, flow.report_interval()),
            (42 + 20 + 1_380, Duration::from_millis(1))
        );
        assert_eq!(
            (flow.report(Instant::from_secs(1)).length, flow.report_interval()),
            (42 + 20 + 620, Duration::from_millis(50))
        );
        take_report(&mut flow, 1);
        take_report(&mut flow, 2);
        let counts: Vec<usize> = flow.control.0.iter().map(Vec::len).collect();
        assert_eq!(counts, [0, 690, 310]);
        assert!(flow.sent.is_empty());
    }

    #[test]
    fn an_arrival_long_before_the_report_has_the_largest_offset() {
        // 8190 / 1024 s = 7.998046875 s
        let at = Instant::from_secs(100);
        assert_eq!(round_arrival(Instant::from_secs(1), at), Instant(100_000_000_000 - 7_998_046_875));
        assert_eq!((round_arrival(at, at), round_arrival(Instant::ZERO, Instant(5))), (at, Instant(5)));
    }
}
