//! RACK's reordering window: how much later than the newest delivered segment an older one may arrive (RFC 8985 section 6.2 step 4).

use crate::cc::conn::{CaState, Conn};
use crate::units::Time;

/// Linux `tp->reordering`: duplicate acknowledgements that show a loss (RFC 5681's three).
const DUPTHRESH: u32 = 3;
/// Linux `TCP_RACK_RECOVERY_THRESH`: recoveries for which a wider reordering window is kept.
const PERSIST: u32 = 16;

/// Linux `reo_wnd_steps`, `reo_wnd_persist`, `dsack_seen`.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReorderingWindow {
    /// Quarters of the smallest RTT.
    pub steps: u32,
    /// Recoveries for which it is kept.
    persist: u32,
    /// It may widen again when so many segments have been delivered.
    widens_at: u64,
    /// A DSACK came since it was last widened.
    dsack_seen: bool,
}

impl ReorderingWindow {
    pub fn new() -> ReorderingWindow {
        ReorderingWindow { steps: 1, persist: 0, widens_at: 0, dsack_seen: false }
    }

    /// A DSACK came.
    pub fn take_dsack(&mut self) {
        self.dsack_seen = true;
    }

    /// An ACK came: a round trip with a DSACK widens the window.
    #[inline]
    pub fn update(&mut self, conn: &Conn) {
        if !self.dsack_seen || conn.delivered < self.widens_at {
            return;
        }
        self.dsack_seen = false;
        self.steps = (self.steps + 1).min(255);
        self.persist = PERSIST;
        self.widens_at = conn.delivered + u64::from(conn.packets_out());
    }

    /// A recovery ended for good.
    pub fn recovered(&mut self) {
        self.persist = self.persist.saturating_sub(1);
    }

    /// A recovery was undone because of DSACKs.
    pub fn undone(&mut self) {
        self.persist = (self.persist + 1).min(PERSIST);
    }

    /// The window. Reordering is never seen here (a dumbbell keeps order), so that three SACKed segments or running recovery need no
    /// window at all.
    pub fn get(&self, conn: &Conn) -> Time {
        if conn.state >= CaState::Recovery || conn.sacked_out >= DUPTHRESH {
            return Time::ZERO;
        }
        let min_rtt = u64::from(conn.rtt.min_us());
        let window = ((min_rtt >> 2) * u64::from(self.steps)).min(u64::from(conn.rtt.srtt_us()));
        Time::from_micros(window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::testing::conn;

    #[test]
    fn a_dsack_a_round_trip_widens_it_by_a_quarter_of_the_smallest_rtt() {
        let mut conn = conn();
        conn.rtt.sample_min(40_000, Time::ZERO);
        conn.rtt.sample(60_000, 0, 1);
        let mut window = ReorderingWindow::new();
        let mut widths = vec![window.get(&conn).as_millis()];
        for _ in 0..4 {
            window.take_dsack();
            window.update(&conn);
            // the same round trip: 10 segments are in flight
            window.take_dsack();
            window.update(&conn);
            widths.push(window.get(&conn).as_millis());
            conn.delivered += 10;
        }
        // a second DSACK of the round trip counts for the next one; the smoothed RTT is the most
        assert_eq!(widths, [10, 20, 30, 40, 50]);
        for _ in 0..4 {
            window.update(&conn);
            window.take_dsack();
            conn.delivered += 10;
        }
        assert_eq!(window.get(&conn).as_millis(), 60);
    }

    #[test]
    fn three_sacked_segments_and_recovery_need_none() {
        let mut conn = conn();
        conn.rtt.sample_min(40_000, Time::ZERO);
        conn.rtt.sample(40_000, 0, 1);
        let window = ReorderingWindow::new();
        for (sacked_out, state, ms) in [(2, CaState::Disorder, 10), (3, CaState::Disorder, 0), (1, CaState::Recovery, 0)] {
            let conn = Conn { sacked_out, state, ..conn.clone() };
            assert_eq!(window.get(&conn).as_millis(), ms);
        }
    }
}
