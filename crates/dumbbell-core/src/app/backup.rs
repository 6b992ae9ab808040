//! A transfer that its application limits to a rate: a backup, a synchronisation.
//!
//! The application writes a piece, waits until the rate allows the next one, and writes that. It does not make up for time in which the network was slower: while too much
//! of what it has written has not arrived, it waits, and goes on at the rate. Data go in the `direction` of the entry.

use super::measure::{Measure, MeasureKind};
use super::{AnyApp, AppContext, AppKind, Load, StreamApp, StreamArrival, StreamDirection, StreamOutlet};
use crate::params;
use crate::units::{Duration, Instant, Rate};

/// Name in configurations.
pub const NAME: &str = "backup";
/// Title of the application.
pub const TITLE: &str = "A transfer that its application limits to a rate, as a backup";
/// Where it comes from.
pub const SOURCE: &str = "ours";
/// Kind of its traffic.
pub const KIND: AppKind = AppKind::Streams(WAY);

/// Which way the data go.
const WAY: StreamDirection = StreamDirection::Response;
/// The number of the connection.
const CONNECTION: usize = 0;

params! {
    /// Parameters of a backup.
    pub struct Params {
        /// Rate of payload at which the application writes, at most.
        rate: Rate = Rate::from_mbit(5), unit "", range Rate(1_000), Rate::from_mbit(1_000_000), source "ours";
        /// Payload in all; unset: the backup has no end.
        size: Option<u64> = None, unit "bytes", range 1_u64, 1_u64 << 50, source "";
        /// Payload that the application writes at once.
        piece: u32 = 65_536, unit "bytes", range 1_u32, 16_777_216_u32, source "ours";
        /// While this much of what it has written has not arrived, the application waits.
        ahead: u64 = 4_194_304, unit "bytes", range 1_u64, 1_u64 << 40, source "sysctl tcp_wmem[2]: the largest send buffer";
    }
}

/// Measures in addition to the load time, which is that of a whole backup.
pub static MEASURES: [Measure; 1] = [Measure {
    name: "rate_mbit",
    unit: "Mbit/s",
    label: "rate of a backup",
    doc: &["Payload that arrived over the time from its first write, or the start of the measured time if that is later, until its last byte arrived or the run ends."],
    kind: MeasureKind::Real,
}];

/// Both ends of a backup.
#[derive(Clone)]
struct Backup {
    params: Params,
    start: Instant,
    written: u64,
    arrived: u64,
    /// When the rate allows the next piece.
    allowed: Instant,
    stopped: bool,
    /// When all had arrived.
    finished: Option<Instant>,
    /// Start of the measured time, and what had arrived by then.
    from: (Instant, u64),
}

/// Streams have segments of the hosts.
pub fn largest_frame(_params: &Params) -> u16 {
    0
}

/// Builds the backup of a user.
pub fn build(params: &Params, _context: &AppContext) -> AnyApp {
    AnyApp::Streams(Box::new(Backup {
        params: params.clone(),
        start: Instant::NEVER,
        written: 0,
        arrived: 0,
        allowed: Instant::NEVER,
        stopped: false,
        finished: None,
        from: (Instant::ZERO, 0),
    }))
}

impl Backup {
    /// Bytes of the next piece; 0 if there is none.
    fn next_piece(&self) -> u64 {
        let left = match self.params.size {
            Some(size) => size - self.written,
            None if self.stopped => 0,
            None => u64::MAX,
        };
        left.min(u64::from(self.params.piece))
    }

    /// Whether the application waits for what it has written to arrive.
    fn is_blocked(&self) -> bool {
        self.written - self.arrived >= self.params.ahead
    }
}

impl StreamApp for Backup {
    crate::fork_by_clone!(dyn StreamApp);

    fn connections(&self) -> usize {
        1
    }

    fn start(&mut self, now: Instant) {
        (self.start, self.allowed) = (now, now);
    }

    fn stop(&mut self, _now: Instant) {
        self.stopped = true;
        // one that has not begun does not begin
        if self.written == 0 {
            self.allowed = Instant::NEVER;
        }
    }

    fn next_timer(&self) -> Instant {
        if self.next_piece() == 0 || self.is_blocked() {
            Instant::NEVER
        } else {
            self.allowed
        }
    }

    fn on_timer(&mut self, now: Instant, outlet: &mut dyn StreamOutlet) {
        let piece = self.next_piece();
        if self.written == 0 && self.params.size.is_some() {
            outlet.begin_load();
        }
        self.written += piece;
        let bits = u128::from(piece) * 8 * 1_000_000_000;
        let time = bits.div_ceil(u128::from(self.params.rate.bits().max(1)));
        self.allowed = now.saturating_add(Duration(time.min(u128::from(u64::MAX / 4)) as u64));
        outlet.write(CONNECTION, WAY, piece);
    }

    fn on_arrival(&mut self, arrival: StreamArrival, now: Instant, outlet: &mut dyn StreamOutlet) {
        let was_blocked = self.is_blocked();
        self.arrived = arrival.bytes;
        if was_blocked {
            // not earlier than now, whatever the rate allowed meanwhile
            self.allowed = self.allowed.max(now);
        }
        if self.params.size == Some(self.arrived) {
            self.finished = Some(now);
            outlet.finish_load(Load { start: self.start, time: now - self.start, bytes: self.arrived });
        }
    }

    fn forget(&mut self, now: Instant) {
        self.from = (now, self.arrived);
    }

    fn figures(&mut self, now: Instant) -> Vec<f64> {
        let (from, before) = self.from;
        let seconds = self.finished.unwrap_or(now).saturating_since(from.max(self.start)).as_secs_f64();
        let bits = (self.arrived - before) as f64 * 8.0;
        vec![if seconds > 0.0 { bits / seconds / 1e6 } else { f64::NAN }]
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{arrive, build_streams, fire};
    use super::super::AppSpec;
    use super::*;

    fn backup(params: Params) -> Box<dyn StreamApp> {
        build_streams(&AppSpec::Backup(params), 1)
    }

    #[test]
    fn pieces_are_as_far_apart_as_the_rate_says_and_the_last_one_is_what_is_left() {
        // 10,000 B at 8 Mbit/s take 10 ms
        let params = Params { rate: Rate::from_mbit(8), piece: 10_000, size: Some(25_000), ..Params::default() };
        let mut app = backup(params);
        app.start(Instant::from_millis(3));
        let writes: Vec<(Instant, u64)> = (0..3).map(|_| fire(&mut *app)).map(|(now, seen)| (now, seen.writes[0].2)).collect();
        assert_eq!(writes, [(3, 10_000), (13, 10_000), (23, 5_000)].map(|(ms, bytes)| (Instant::from_millis(ms), bytes)));
        assert_eq!(app.next_timer(), Instant::NEVER);
        assert!(arrive(&mut *app, 40, 0, WAY, 20_000).loads.is_empty());
        let load = Load { start: Instant::from_millis(3), time: Duration::from_millis(50), bytes: 25_000 };
        assert_eq!(arrive(&mut *app, 53, 0, WAY, 25_000).loads, [load]);
        // 200 kbit in 50 ms, whenever it is asked for
        assert!((app.figures(Instant::from_secs(9))[0] - 4.0).abs() < 1e-9);
    }

    #[test]
    fn time_in_which_too_much_was_under_way_is_not_made_up_for() {
        let params = Params { rate: Rate::from_mbit(8), piece: 10_000, ahead: 20_000, ..Params::default() };
        let mut app = backup(params);
        app.start(Instant::ZERO);
        fire(&mut *app);
        fire(&mut *app);
        assert_eq!(app.next_timer(), Instant::NEVER);
        // 100 ms later one piece may go at once, and the next one 10 ms after it, not sooner
        arrive(&mut *app, 100, 0, WAY, 20_000);
        assert_eq!(fire(&mut *app).0, Instant::from_millis(100));
        assert_eq!(fire(&mut *app).0, Instant::from_millis(110));
        // 160 kbit, of which 80 came in the measured 50 ms
        app.forget(Instant::from_millis(100));
        arrive(&mut *app, 150, 0, WAY, 30_000);
        assert!((app.figures(Instant::from_millis(150))[0] - 1.6).abs() < 1e-9);
        app.stop(Instant::from_millis(150));
        assert_eq!(app.next_timer(), Instant::NEVER);
    }

    #[test]
    fn a_backup_with_a_size_goes_on_when_the_user_stops() {
        let mut app = backup(Params { size: Some(200_000), ..Params::default() });
        app.start(Instant::ZERO);
        fire(&mut *app);
        app.stop(Instant::from_millis(1));
        assert_eq!(fire(&mut *app).1.writes.len(), 1);
        let mut late = backup(Params { size: Some(200_000), ..Params::default() });
        late.start(Instant::from_millis(5));
        late.stop(Instant::from_millis(1));
        assert_eq!(late.next_timer(), Instant::NEVER);
    }
}
