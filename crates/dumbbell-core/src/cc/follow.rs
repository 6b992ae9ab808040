//! Follows the rate at which the network delivers: a rate-based control for tests of what the transport gives such controls.
//!
//! The pacing rate is `gain` times the largest delivery rate of the last ten samples, the window twice the bandwidth-delay product.
//! This control is registered in tests only, by its one line in `cc/mod.rs`.

use super::conn::{CaEvent, CaState, Congestion, Conn};
use super::{CcContext, CongestionControl, Control, LossEvent, RateSample};
use std::collections::VecDeque;

/// Name in experiment files.
pub const NAME: &str = "follow";
/// One line.
pub const TITLE: &str = "paces at a multiple of the delivery rate";
/// Specification and deviations.
pub const SOURCE: &str = "a test; the bandwidth filter is that of BBR (draft-ietf-ccwg-bbr section 5.5.2.1), by samples";

crate::params! {
    /// Parameters.
    pub struct Params {
        /// Pacing rate over delivery rate.
        gain: f64 = 1.25, unit "", range 0.1, 10.0, source "BBR probes with 1.25";
    }
}

/// Samples that the largest rate is of.
const SAMPLES: usize = 10;
/// Least window, segments.
const MIN_WINDOW: u32 = 4;

/// Counts of the events that it has seen.
#[derive(Clone, Debug)]
pub struct State {
    gain: f64,
    /// Delivery rates, segments per second.
    rates: VecDeque<f64>,
    /// Calls of the loss hook.
    pub losses: u32,
    /// Losses that a tail-loss probe repaired.
    pub repaired: u32,
    /// Restarts with nothing in flight: whether the application had been the limit.
    pub restarts: Vec<bool>,
}

impl State {
    /// A control with `params`.
    pub fn new(params: Params, _context: &CcContext) -> State {
        State { gain: params.gain, rates: VecDeque::new(), losses: 0, repaired: 0, restarts: Vec::new() }
    }
}

impl CongestionControl for State {
    fn control(&self) -> Control {
        Control::Both
    }
    fn rate_samples(&self) -> bool {
        true
    }

    fn init(&mut self, conn: &mut Conn) {
        conn.paced = true;
    }

    fn ssthresh(&mut self, conn: &Conn, _cause: Congestion) -> u32 {
        conn.ssthresh
    }

    fn cong_avoid(&mut self, _conn: &mut Conn, _acked: u32) {}

    fn cong_control(&mut self, conn: &mut Conn, sample: &RateSample) {
        let (Some(delivered), Some(interval_us)) = (sample.sample_delivered, sample.interval_us) else { return };
        self.rates.push_back(f64::from(delivered) * 1e6 / interval_us as f64);
        if self.rates.len() > SAMPLES {
            self.rates.pop_front();
        }
        let best = self.rates.iter().copied().fold(0.0, f64::max);
        conn.pacing_rate = (self.gain * best * f64::from(conn.mss)) as u64;
        let bdp = best * f64::from(conn.rtt.min_us()) / 1e6;
        conn.cwnd = ((2.0 * bdp).ceil() as u32).max(MIN_WINDOW).min(conn.cwnd_clamp);
    }

    fn on_loss(&mut self, _conn: &mut Conn, _loss: &LossEvent) {
        self.losses += 1;
    }

    fn cwnd_event(&mut self, _conn: &mut Conn, event: CaEvent) {
        match event {
            CaEvent::ProbeRepairedLoss { .. } => self.repaired += 1,
            CaEvent::TxStart { app_limited, .. } => self.restarts.push(app_limited),
            _ => {}
        }
    }

    fn max_burst(&self, _conn: &Conn) -> Option<u32> {
        Some(2)
    }

    fn set_state(&mut self, conn: &mut Conn, _state: CaState) {
        conn.cwnd = conn.cwnd.max(MIN_WINDOW);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::AnyCc;
    use crate::packet::{flag, Packet};
    use crate::tcp::host::HostParams;
    use crate::tcp::receiver::Receiver;
    use crate::tcp::sender::{Application, Sender};
    use crate::tcp::{Ack, Block, FlowOptions, Outlet};
    use crate::units::{Duration, Instant, Rate};
    use std::sync::Arc;

    /// A link of 10 Mbit/s with a queue that holds everything; each `lossy`th packet of data is lost ahead of it.
    struct Link {
        queue: VecDeque<(Instant, Packet)>,
        free_at: Instant,
        now: Instant,
        lossy: u64,
        longest_burst: u64,
        burst: (Instant, u64),
    }

    const RATE: Rate = Rate::from_mbit(10);
    const HALF_RTT: Duration = Duration::from_millis(20);

    impl Outlet for Link {
        fn send(&mut self, packet: Packet) {
            self.burst = if self.burst.0 == self.now { (self.now, self.burst.1 + 1) } else { (self.now, 1) };
            if packet.tcp().seq() > 100 {
                self.longest_burst = self.longest_burst.max(self.burst.1);
            }
            let retransmission = packet.has(flag::RETRANSMISSION);
            if self.lossy > 0 && packet.tcp().seq() % self.lossy == self.lossy - 1 && !retransmission {
                return;
            }
            self.free_at = self.free_at.max(self.now + HALF_RTT) + RATE.serialise(u64::from(packet.len));
            self.queue.push_back((self.free_at, packet));
        }
    }

    /// The sender after `seconds`.
    fn run(seconds: u64, lossy: u64) -> (Sender, Link) {
        let cc = super::super::build(serde_json::json!({"name": NAME}).as_object().unwrap(), &CcContext::default()).unwrap();
        let host = Arc::new(HostParams { send_buffer: 1 << 30, receive_buffer: 1 << 30, ..HostParams::default() });
        let mut sender = Sender::new(0, cc, Arc::clone(&host), FlowOptions::default(), Application::Bulk);
        let mut receiver = Receiver::new(0, host, FlowOptions::default());
        let mut link = Link {
            queue: VecDeque::new(),
            free_at: Instant::ZERO,
            now: Instant::ZERO,
            lossy,
            longest_burst: 0,
            burst: (Instant::ZERO, 0),
        };
        let mut acks: VecDeque<(Instant, Ack, Vec<Block>)> = VecDeque::new();
        sender.start(Instant::ZERO, &mut link);
        loop {
            let arrival = link.queue.front().map_or(Instant::NEVER, |head| head.0);
            let ack_at = acks.front().map_or(Instant::NEVER, |head| head.0);
            let next = arrival.min(ack_at).min(sender.next_timer()).min(receiver.next_timer());
            if next > Instant::from_secs(seconds) {
                return (sender, link);
            }
            link.now = next;
            let ack = if arrival == next {
                link.queue.pop_front().and_then(|(_, packet)| receiver.on_packet(&packet, next))
            } else if ack_at == next {
                if let Some((_, ack, blocks)) = acks.pop_front() {
                    sender.on_ack(&ack, &blocks, next, &mut link);
                }
                None
            } else if receiver.next_timer() == next {
                receiver.on_timer(next)
            } else {
                sender.on_timer(next, &mut link);
                None
            };
            if let Some((early, blocks)) = receiver.take_early() {
                acks.push_back((next + HALF_RTT, early, blocks.as_slice().to_vec()));
            }
            if let Some(ack) = ack {
                let blocks = if receiver.has_blocks() { receiver.blocks().as_slice().to_vec() } else { Vec::new() };
                acks.push_back((next + HALF_RTT, ack, blocks));
            }
        }
    }

    #[test]
    fn it_finds_the_rate_of_the_link_and_keeps_to_it() {
        let (sender, link) = run(10, 0);
        // payload: 10 Mbit/s * 1448 / 1514 = 9.564 Mbit/s = 1195.5 kB/s
        let goodput = sender.bytes_acked() as f64 / 10.0;
        // the first round trips pass at less
        assert!((0.95..=1.0).contains(&(goodput / 1_195_500.0)), "{goodput}");
        let pacing = sender.conn.pacing_rate as f64 / 1_195_500.0;
        assert!((1.2..1.35).contains(&pacing), "paced at {pacing} of the link");
        // twice 41.2 ms at 825.6 segments per second
        assert!((66..=76).contains(&sender.conn.cwnd), "{}", sender.conn.cwnd);
        // pairs, and two of them where an ACK comes when pacing holds nothing
        assert!(link.longest_burst <= 4, "{}", link.longest_burst);
    }

    #[test]
    fn losses_reach_its_hook_and_leave_the_rate_alone() {
        let (sender, _) = run(10, 100);
        let AnyCc::Follow(state) = &sender.cc else { panic!("another control") };
        assert!(sender.stats.retransmissions >= 70 && u64::from(state.losses) >= sender.stats.retransmissions - 2, "{state:?}");
        let goodput = sender.bytes_acked() as f64 / 10.0;
        assert!((goodput / 1_195_500.0 - 1.0).abs() < 0.06, "{goodput}");
    }
}
