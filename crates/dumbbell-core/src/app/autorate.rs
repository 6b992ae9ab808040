//! A shaper that follows its line: small probes measure the delay of each direction, and the rate of the router's shaper falls when delays rise
//! above their baseline, and rises while the shaper is busy.
//!
//! Specification: the rule of cake-autorate (github.com/lynxthecat/cake-autorate) as its README and the comments of its settings
//! (`cake-autorate_defaults.sh`, version 1.2.0) describe it; the code here was written from these descriptions. Each direction has its own
//! shaper and baseline. For each delay:
//!
//! - the baseline follows the delay, slowly upwards and fast downwards;
//! - the delay counts as raised if it exceeds the baseline by more than the threshold and the time that a full frame takes at the shaper's rate;
//! - if 3 of the last 6 delays were raised, the rate becomes 0.9 times the smaller of itself and the rate that was achieved, and no further
//!   change follows for 300 ms;
//! - otherwise, if 75 % or more of the rate was achieved, the rate rises by 1 %;
//! - otherwise the rate moves by 1 % towards the base rate, once a second.
//!
//! The program runs on the router at the client's end. The shaper of a direction is the first hop on its route whose queue is `cake` with a
//! `bandwidth`, and starts with the base rate. Probes down arrive at the router. What a probe up met is known there after the propagation from the
//! server and the delay of the last probe down, as if the server answered at once.
//!
//! Deviations: one stream of probes each way takes the place of six reflectors that are asked in turns, with one baseline each; the program
//! does not sleep when the line is idle, exchanges no reflectors, and has no rule for stalls, where no probe comes back; it handles
//! delays every 10 ms. Clocks of both ends agree, so that one-way delays need no correction.

use super::measure::{Measure, MeasureKind};
use super::{AnyApp, AppContext, AppKind};
use crate::fork::{CannotFork, SharedCopies};
use crate::packet::{Ecn, MTU_FRAME, UDP_HEADERS};
use crate::param::ParamError;
use crate::protocol::{Answer, Datagram, DatagramOutlet, PacketFate, Protocol, ShaperControl};
use crate::units::{Duration, Instant, Rate};
use crate::{choice, params};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Name in configurations.
pub const NAME: &str = "autorate";
/// Title of the application.
pub const TITLE: &str = "A program on the router that lets the rate of Cake follow the line, by the delays of probes";
/// Where it comes from.
pub const SOURCE: &str =
    "cake-autorate 1.2.0 (github.com/lynxthecat/cake-autorate), README.md and the comments of cake-autorate_defaults.sh; one stream of probes, without sleep and stalls; not compared with the program";
/// Kind of its traffic.
pub const KIND: AppKind = AppKind::Datagrams;

choice! {
    /// Which delays the program compares with their baseline.
    pub enum DelayKind {
        /// The one-way delay of each direction, as with ICMP timestamps.
        OneWay = "one-way",
        /// Half of the round-trip time for both directions, as with ping.
        HalfRtt = "half-rtt",
    }
}

params! {
    /// Parameters of the program.
    pub struct Params {
        /// Lowest rate of the shaper down.
        down_min: Rate = Rate::from_mbit(5), unit "", range Rate(1000), Rate(1_000_000_000_000), source "cake-autorate: min_dl_shaper_rate_kbps=5000";
        /// Rate of the shaper down at the start, to which it returns while little is sent.
        down_base: Rate = Rate::from_mbit(20), unit "", range Rate(1000), Rate(1_000_000_000_000), source "cake-autorate: base_dl_shaper_rate_kbps=20000";
        /// Highest rate of the shaper down.
        down_max: Rate = Rate::from_mbit(80), unit "", range Rate(1000), Rate(1_000_000_000_000), source "cake-autorate: max_dl_shaper_rate_kbps=80000";
        /// Lowest rate of the shaper up.
        up_min: Rate = Rate::from_mbit(5), unit "", range Rate(1000), Rate(1_000_000_000_000), source "cake-autorate: min_ul_shaper_rate_kbps=5000";
        /// Rate of the shaper up at the start, to which it returns while little is sent.
        up_base: Rate = Rate::from_mbit(20), unit "", range Rate(1000), Rate(1_000_000_000_000), source "cake-autorate: base_ul_shaper_rate_kbps=20000";
        /// Highest rate of the shaper up.
        up_max: Rate = Rate::from_mbit(35), unit "", range Rate(1000), Rate(1_000_000_000_000), source "cake-autorate: max_ul_shaper_rate_kbps=35000";
        /// Delays that are compared with their baseline.
        delays: DelayKind = DelayKind::OneWay, unit "", source "cake-autorate: pinger_binary, of which hping3 reports one-way delays and fping round trips";
        /// Time from one probe to the next, each way.
        interval: Duration = Duration::from_millis(50), unit "", range Duration::from_millis(1), Duration::from_secs(10), source "cake-autorate: no_pingers=6, reflector_ping_interval_s=0.3, asked in turns";
        /// How far a delay is above the baseline, at least, to count as raised.
        threshold: Duration = Duration::from_millis(30), unit "", range Duration::from_micros(1), Duration::from_secs(60), source "cake-autorate: dl_delay_thr_ms=30, ul_delay_thr_ms=30";
        /// Factor of the rate while most of it is used.
        rise: f64 = 1.01, unit "", range 1.0, 2.0, source "cake-autorate: shaper_rate_adjust_up_load_high=1.01";
        /// Factor of the rate when delays are raised.
        cut: f64 = 0.9, unit "", range 0.1, 1.0, source "cake-autorate: shaper_rate_adjust_down_bufferbloat=0.9, achieved_rate_adjust_down_bufferbloat=0.9";
    } check Params::check
}

impl Params {
    fn check(&self) -> Result<(), ParamError> {
        let rates = [("down", self.down_min, self.down_base, self.down_max), ("up", self.up_min, self.up_base, self.up_max)];
        for (way, min, base, max) in rates {
            if min > base {
                return Err(ParamError::new(format!("{way}_min"), min, format!("at most {way}_base, {base}")));
            }
            if base > max {
                return Err(ParamError::new(format!("{way}_base"), base, format!("at most {way}_max, {max}")));
            }
        }
        Ok(())
    }
}

/// Delays that decide about one.
const WINDOW: usize = 6; // cake-autorate: bufferbloat_detection_window
/// Raised delays among them from which on the rate falls.
const RAISED: usize = 3; // cake-autorate: bufferbloat_detection_thr
/// Share of a higher delay in the baseline.
const BASELINE_UP: f64 = 0.001; // cake-autorate: alpha_baseline_increase
/// Share of a lower delay in the baseline.
const BASELINE_DOWN: f64 = 0.9; // cake-autorate: alpha_baseline_decrease
/// Share of the rate from which on it is used.
const HIGH_LOAD: f64 = 0.75; // cake-autorate: high_load_thr
/// Factors towards the base rate while little is sent.
const RETURN_DOWN: f64 = 0.99; // cake-autorate: shaper_rate_adjust_down_load_low
const RETURN_UP: f64 = 1.01; // cake-autorate: shaper_rate_adjust_up_load_low
/// Time without changes after the rate has fallen.
const AFTER_CUT: Duration = Duration::from_millis(300); // cake-autorate: bufferbloat_refractory_period_ms
/// Time between two steps towards the base rate.
const BETWEEN_RETURNS: Duration = Duration::from_millis(1000); // cake-autorate: decay_refractory_period_ms
/// Time over which the achieved rate is measured.
const ACHIEVED_OVER: Duration = Duration::from_millis(200); // cake-autorate: monitor_achieved_rates_interval_ms
/// Time between two looks at what the probes have met: ours.
const LOOK: Duration = Duration::from_millis(10);
/// Payload of a probe: that of ping, 56 B.
const PROBE: u16 = 56; // ping(8): 56 data bytes by default

/// Measures of each direction, in addition to the delays and losses of its probes.
pub static MEASURES: [Measure; 3] = [
    Measure {
        name: "shaper_mbit",
        unit: "Mbit/s",
        label: "rate of the shaper, mean",
        doc: &["Mean over time of the rate that the program gave the shaper."],
        kind: MeasureKind::Real,
    },
    Measure {
        name: "raised_share",
        unit: "",
        label: "share of raised delays",
        doc: &["Probes whose delay exceeded the baseline by more than the threshold, over all that arrived."],
        kind: MeasureKind::Real,
    },
    Measure {
        name: "cuts",
        unit: "",
        label: "cuts of the shaper's rate",
        doc: &["How often raised delays reduced the rate."],
        kind: MeasureKind::Count,
    },
];

/// Length of a probe with all headers, bytes.
pub fn largest_frame(_params: &Params) -> u16 {
    PROBE + UDP_HEADERS
}

/// Builds the probes of both ways, and the program.
pub fn build(params: &Params, _context: &AppContext) -> AnyApp {
    let board = Arc::new(Mutex::new([WayBoard::default(), WayBoard::default()]));
    let probe = |way, control| -> Box<dyn Protocol> {
        Box::new(Probe { interval: params.interval, way, sent: 0, next: Instant::NEVER, board: Arc::clone(&board), control })
    };
    let directions = [
        Direction::new(params, params.down_min, params.down_base, params.down_max),
        Direction::new(params, params.up_min, params.up_base, params.up_max),
    ];
    let control = Controller {
        delays: params.delays,
        directions,
        board: Arc::clone(&board),
        last_down: Duration::ZERO,
        coming: VecDeque::new(),
        looked: None,
        measured: Instant::ZERO,
        carried: [0; 2],
    };
    AnyApp::Datagrams([probe(0, Some(Box::new(control))), probe(1, None)])
}

/// Arrivals of probes that the program has not seen, and what it did, for one way.
#[derive(Clone, Debug, Default)]
struct WayBoard {
    /// When each arrived, and its delay.
    arrived: Vec<(Instant, Duration)>,
    heard: u64,
    raised: u64,
    cuts: u64,
    /// Integral of the rate over time, bits.
    bits: f64,
    seconds: f64,
}

/// Figures that both ends and the program share.
type Board = Arc<Mutex<[WayBoard; 2]>>;

fn lock(board: &Board) -> MutexGuard<'_, [WayBoard; 2]> {
    board.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Both ends of the probes of one way.
struct Probe {
    interval: Duration,
    way: usize,
    sent: u64,
    next: Instant,
    board: Board,
    /// The program, until the engine has it.
    control: Option<Box<Controller>>,
}

impl Protocol for Probe {
    fn fork(&self, shared: &mut SharedCopies) -> Result<Box<dyn Protocol>, CannotFork> {
        let control = self.control.as_ref().map(|control| Box::new(control.copy(shared)));
        Ok(Box::new(Probe { board: shared.share_locked(&self.board), control, ..*self }))
    }

    fn start(&mut self, now: Instant) {
        self.next = now;
    }

    fn stop(&mut self, _now: Instant) {
        self.next = Instant::NEVER;
    }

    fn next_timer(&self) -> Instant {
        self.next
    }

    fn on_timer(&mut self, _now: Instant, net: &mut dyn DatagramOutlet) {
        net.send(Datagram { number: self.sent, length: PROBE + UDP_HEADERS, ecn: Ecn::NotEct });
        self.sent += 1;
        self.next = self.next.saturating_add(self.interval);
    }

    fn on_datagram(&mut self, _datagram: &Datagram, _now: Instant) -> Option<Answer> {
        None
    }

    fn on_answer(&mut self, _answer: &Answer, _rtt: Duration, _now: Instant) {}

    fn on_delay(&mut self, _datagram: &Datagram, delay: Duration, now: Instant) {
        lock(&self.board)[self.way].arrived.push((now, delay));
    }

    fn take_control(&mut self) -> Option<Box<dyn ShaperControl>> {
        self.control.take().map(|control| -> Box<dyn ShaperControl> { control })
    }

    fn forget(&mut self, _now: Instant) {
        let own = &mut lock(&self.board)[self.way];
        *own = WayBoard { arrived: std::mem::take(&mut own.arrived), ..WayBoard::default() };
    }

    fn figures(&self, _fate: PacketFate, _now: Instant) -> Vec<f64> {
        let own = &lock(&self.board)[self.way];
        vec![own.bits / own.seconds / 1e6, own.raised as f64 / own.heard as f64, own.cuts as f64]
    }
}

/// Knowledge of the program about one direction.
#[derive(Clone, Debug)]
struct Direction {
    min: f64,
    base: f64,
    max: f64,
    threshold: f64,
    rise: f64,
    cut: f64,
    /// Rate of the shaper, bit/s.
    rate: f64,
    /// Rate that the shaper carried lately, bit/s.
    achieved: f64,
    /// Delay without a queue, ns; none before the first delay.
    baseline: Option<f64>,
    /// Whether each of the last delays was raised.
    raised: VecDeque<bool>,
    last_cut: Option<Instant>,
    last_return: Option<Instant>,
}

impl Direction {
    fn new(params: &Params, min: Rate, base: Rate, max: Rate) -> Direction {
        let [min, base, max] = [min, base, max].map(|rate| rate.bits() as f64);
        Direction {
            min,
            base,
            max,
            threshold: params.threshold.0 as f64,
            rise: params.rise,
            cut: params.cut,
            rate: base,
            achieved: 0.0,
            baseline: None,
            raised: VecDeque::with_capacity(WINDOW + 1),
            last_cut: None,
            last_return: None,
        }
    }

    /// Takes a delay that is known at `now`. Returns whether it was raised, and whether the rate was cut.
    fn take_delay(&mut self, delay: Duration, now: Instant) -> (bool, bool) {
        let delay = delay.0 as f64;
        let before = self.baseline.unwrap_or(delay);
        let share = if delay >= before { BASELINE_UP } else { BASELINE_DOWN };
        let baseline = before + share * (delay - before);
        self.baseline = Some(baseline);
        let frame = f64::from(MTU_FRAME) * 8e9 / self.rate;
        let is_raised = delay - baseline > self.threshold + frame;
        self.raised.push_back(is_raised);
        if self.raised.len() > WINDOW {
            self.raised.pop_front();
        }
        let is_over = |last: Option<Instant>, time: Duration| last.is_none_or(|at| now >= at + time);
        let is_rested = is_over(self.last_cut, AFTER_CUT);
        let is_queueing = self.raised.iter().filter(|&&raised| raised).count() >= RAISED;
        if is_queueing {
            if is_rested {
                self.set(self.rate.min(self.achieved) * self.cut);
                self.last_cut = Some(now);
            }
        } else if self.achieved >= HIGH_LOAD * self.rate {
            if is_rested {
                self.set(self.rate * self.rise);
            }
        } else if is_over(self.last_return, BETWEEN_RETURNS) {
            let towards = if self.rate > self.base {
                (self.rate * RETURN_DOWN).max(self.base)
            } else {
                (self.rate * RETURN_UP).min(self.base)
            };
            self.set(towards);
            self.last_return = Some(now);
        }
        (is_raised, is_queueing && is_rested)
    }

    fn set(&mut self, rate: f64) {
        self.rate = rate.clamp(self.min, self.max);
    }
}

/// The program on the router.
struct Controller {
    delays: DelayKind,
    /// Down and up.
    directions: [Direction; 2],
    board: Board,
    /// Delay of the last probe down.
    last_down: Duration,
    /// Delays up that the router does not know yet: when it will, and the delay.
    coming: VecDeque<(Instant, Duration)>,
    /// The last look.
    looked: Option<Instant>,
    /// When the achieved rate was measured last, and the bytes that the shapers had carried then.
    measured: Instant,
    carried: [u64; 2],
}

impl Controller {
    /// A delay of direction `way` is known at `at`.
    fn take_delay(&mut self, own: &mut WayBoard, way: usize, delay: Duration, at: Instant) {
        let (is_raised, is_cut) = self.directions[way].take_delay(delay, at);
        own.heard += 1;
        own.raised += u64::from(is_raised);
        own.cuts += u64::from(is_cut);
    }
}

impl Controller {
    fn copy(&self, shared: &mut SharedCopies) -> Controller {
        Controller {
            board: shared.share_locked(&self.board),
            directions: self.directions.clone(),
            coming: self.coming.clone(),
            ..*self
        }
    }
}

impl ShaperControl for Controller {
    fn fork(&self, shared: &mut SharedCopies) -> Result<Box<dyn ShaperControl>, CannotFork> {
        Ok(Box::new(self.copy(shared)))
    }

    fn interval(&self) -> Duration {
        LOOK
    }

    fn control(&mut self, now: Instant, propagation: Duration, carried: [u64; 2]) -> [Rate; 2] {
        let passed = (now - self.looked.unwrap_or(now)).as_secs_f64();
        self.looked = Some(now);
        if now >= self.measured + ACHIEVED_OVER {
            let seconds = (now - self.measured).as_secs_f64();
            for (direction, (bytes, before)) in self.directions.iter_mut().zip(carried.into_iter().zip(self.carried)) {
                direction.achieved = (bytes - before) as f64 * 8.0 / seconds;
            }
            (self.measured, self.carried) = (now, carried);
        }
        let board = Arc::clone(&self.board);
        let mut ways = lock(&board);
        for (own, direction) in ways.iter_mut().zip(&self.directions) {
            own.bits += direction.rate * passed;
            own.seconds += passed;
        }
        for (at, delay) in std::mem::take(&mut ways[0].arrived) {
            self.last_down = delay;
            if self.delays == DelayKind::OneWay {
                self.take_delay(&mut ways[0], 0, delay, at);
            }
        }
        for (at, delay) in std::mem::take(&mut ways[1].arrived) {
            // reports do not overtake each other
            let known = at.saturating_add(propagation).saturating_add(self.last_down);
            let known = self.coming.back().map_or(known, |last| known.max(last.0));
            self.coming.push_back((known, delay));
        }
        while let Some(&(at, up)) = self.coming.front().filter(|known| known.0 <= now) {
            self.coming.pop_front();
            if self.delays == DelayKind::OneWay {
                self.take_delay(&mut ways[1], 1, up, at);
            } else {
                let half = (up + self.last_down) / 2;
                self.take_delay(&mut ways[0], 0, half, at);
                self.take_delay(&mut ways[1], 1, half, at);
            }
        }
        [0, 1].map(|way| Rate(self.directions[way].rate as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn make_instant(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    /// A direction of 20 Mbit/s, from 5 to 80, whose baseline is 20 ms and which carries `share` of its rate.
    fn direction(share: f64) -> Direction {
        let params = Params::default();
        let mut direction = Direction::new(&params, params.down_min, params.down_base, params.down_max);
        direction.baseline = Some(20e6);
        direction.achieved = share * 20e6;
        direction
    }

    #[test]
    fn three_raised_delays_of_six_cut_the_smaller_of_rate_and_achieved_rate() {
        // 30 ms above the baseline, and 0.6 ms for a frame of 1514 B at 20 Mbit/s; the baseline rises by a thousandth each time
        let mut one = direction(0.5);
        assert_eq!(one.take_delay(MS(50), make_instant(0)), (false, false));
        assert_eq!([one.take_delay(MS(60), make_instant(50)), one.take_delay(MS(60), make_instant(100))], [(true, false); 2]);
        assert_eq!(one.take_delay(MS(60), make_instant(150)), (true, true));
        assert_eq!(one.rate, 0.9 * 10e6);
        // not again within 300 ms; then from what was achieved, and not below the minimum
        assert_eq!(one.take_delay(MS(60), make_instant(449)), (true, false));
        one.achieved = 2e6;
        assert_eq!(one.take_delay(MS(60), make_instant(450)), (true, true));
        assert_eq!(one.rate, 5e6);
        // the rate itself, if more was achieved than it is
        let mut other = direction(1.5);
        assert_eq!([0, 1, 2].map(|ms| other.take_delay(MS(60), make_instant(ms)).1), [false, false, true]);
        // it rose twice before
        assert_eq!(other.rate, 20e6 * 1.01 * 1.01 * 0.9);
    }

    #[test]
    fn a_frame_at_a_slow_rate_raises_the_threshold() {
        // 1514 B at 1 Mbit/s are 12.112 ms
        let mut slow = direction(0.0);
        slow.rate = 1e6;
        slow.baseline = Some(20e6);
        // 62.15 ms are 42.11 ms above the baseline, which has risen by 0.042 ms
        assert!(!slow.take_delay(Duration(62_150_000), make_instant(0)).0);
        slow.baseline = Some(20e6);
        slow.rate = 1e6;
        assert!(slow.take_delay(Duration(62_160_000), make_instant(1)).0);
    }

    #[test]
    fn the_baseline_rises_slowly_and_falls_fast() {
        let mut one = direction(0.0);
        one.take_delay(MS(30), make_instant(0));
        assert_eq!(one.baseline, Some(20e6 + 0.001 * 10e6));
        one.baseline = Some(20e6);
        one.take_delay(MS(10), make_instant(1));
        assert_eq!(one.baseline, Some(11e6));
        let mut first = direction(0.0);
        first.baseline = None;
        first.take_delay(MS(33), make_instant(0));
        assert_eq!(first.baseline, Some(33e6));
    }

    #[test]
    fn a_busy_shaper_rises_with_each_delay_and_an_idle_one_returns_once_a_second() {
        let mut busy = direction(0.75);
        busy.take_delay(MS(20), make_instant(0));
        assert_eq!(busy.rate, 20e6 * 1.01);
        // 15 of 20.2 Mbit/s are less than 75 %: back towards the base rate, not below it
        busy.take_delay(MS(20), make_instant(50));
        assert_eq!(busy.rate, 20e6);
        busy.rate = 40e6;
        busy.take_delay(MS(20), make_instant(1_049));
        assert_eq!(busy.rate, 40e6);
        busy.take_delay(MS(20), make_instant(1_050));
        assert_eq!(busy.rate, 40e6 * 0.99);
        // from below, up to the base rate; and never above the maximum
        let mut low = direction(0.0);
        low.rate = 10e6;
        low.take_delay(MS(20), make_instant(0));
        assert_eq!(low.rate, 10e6 * 1.01);
        let mut top = direction(10.0);
        top.rate = 79.9e6;
        top.take_delay(MS(20), make_instant(0));
        assert_eq!(top.rate, 80e6);
        // after a cut it does not rise for 300 ms
        top.last_cut = Some(make_instant(100));
        top.rate = 50e6;
        top.take_delay(MS(20), make_instant(399));
        assert_eq!(top.rate, 50e6);
        top.take_delay(MS(20), make_instant(400));
        assert_eq!(top.rate, 50e6 * 1.01);
    }

    fn program(delays: DelayKind) -> ([Box<dyn Protocol>; 2], Box<dyn ShaperControl>) {
        let AnyApp::Datagrams(mut ways) = build(&Params { delays, ..Params::default() }, &AppContext { seed: 1, number: 0 })
        else {
            panic!("probes both ways")
        };
        let control = ways[0].take_control().expect("a program");
        assert!(ways[0].take_control().is_none() && ways[1].take_control().is_none());
        (ways, control)
    }

    /// Lets a probe arrive.
    fn arrive(way: &mut Box<dyn Protocol>, ms: u64, delay: Duration) {
        way.on_delay(&Datagram { number: 0, length: 98, ecn: Ecn::NotEct }, delay, make_instant(ms));
    }

    #[test]
    fn delays_up_are_known_after_the_way_back() {
        let ([mut down, mut up], mut control) = program(DelayKind::OneWay);
        assert_eq!(control.control(make_instant(0), MS(10), [0, 0]), [Rate::from_mbit(20), Rate::from_mbit(20)]);
        // a baseline of 10 ms, then three raised delays up at 100 ms; the last probe down took 25 ms, and 10 ms lie between line and server
        arrive(&mut down, 90, MS(25));
        arrive(&mut up, 50, MS(10));
        (0..3).for_each(|_| arrive(&mut up, 100, MS(60)));
        // 200 ms at 20 Mbit/s up
        assert_eq!(control.control(make_instant(134), MS(10), [0, 335_000])[1], Rate::from_mbit(20));
        assert_eq!(control.control(make_instant(200), MS(10), [0, 500_000])[1], Rate::from_mbit(18));
        let figures = up.figures(PacketFate::default(), Instant::ZERO);
        // 20 Mbit/s for 200 ms: the rate changes at the end of them; 3 of 4 were raised
        assert!((figures[0] - 20.0).abs() < 1e-9 && figures[1..] == [0.75, 1.0], "{figures:?}");
        assert_eq!(down.figures(PacketFate::default(), Instant::ZERO)[1..], [0.0, 0.0]);
        up.forget(Instant::ZERO);
        control.control(make_instant(300), MS(10), [0, 500_000]);
        let later = up.figures(PacketFate::default(), Instant::ZERO);
        assert!((later[0] - 18.0).abs() < 1e-9 && later[1].is_nan() && later[2] == 0.0);
    }

    #[test]
    fn round_trips_concern_both_directions() {
        let ([mut down, mut up], mut control) = program(DelayKind::HalfRtt);
        control.control(make_instant(0), MS(0), [0, 0]);
        arrive(&mut down, 1, MS(10));
        arrive(&mut up, 1, MS(10));
        control.control(make_instant(50), MS(0), [0, 0]);
        // 10 and 100 ms are 55 ms each way, 45 ms above the baseline
        (0..3).for_each(|number| arrive(&mut up, 60 + number, MS(100)));
        let rates = control.control(make_instant(210), MS(0), [525_000, 525_000]);
        assert_eq!(rates, [Rate::from_mbit(18), Rate::from_mbit(18)]);
    }

    #[test]
    fn probes_leave_at_equal_distances() {
        struct Sent(Vec<u16>);
        impl DatagramOutlet for Sent {
            fn send(&mut self, datagram: Datagram) {
                self.0.push(datagram.length);
            }
        }
        let ([mut down, _], control) = program(DelayKind::OneWay);
        assert_eq!((down.next_timer(), control.interval()), (Instant::NEVER, MS(10)));
        let mut sent = Sent(Vec::new());
        down.start(make_instant(5));
        for ms in [5, 55, 105] {
            assert_eq!(down.next_timer(), make_instant(ms));
            down.on_timer(make_instant(ms), &mut sent);
        }
        // 56 B, 8 B of UDP, 20 B of IP, 14 B of Ethernet
        assert_eq!(sent.0, [98, 98, 98]);
        down.stop(make_instant(110));
        assert_eq!(down.next_timer(), Instant::NEVER);
    }

    #[test]
    fn rates_out_of_order_are_refused() {
        let read = |value: serde_json::Value| Params::from_json(value.as_object().unwrap()).unwrap_err().to_string();
        assert_eq!(
            read(serde_json::json!({"down_min": 30_000_000})),
            "down_min: found 30Mbit, allowed: at most down_base, 20Mbit"
        );
        assert_eq!(read(serde_json::json!({"up_base": 40_000_000})), "up_base: found 40Mbit, allowed: at most up_max, 35Mbit");
    }
}
