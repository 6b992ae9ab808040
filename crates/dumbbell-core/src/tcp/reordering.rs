//! Reordering: whether the path delivers segments out of order, how far, and RACK's reordering window that follows from it: how much
//! later than the newest delivered segment an older one may arrive (RFC 8985 section 6.2 step 4).

use super::Block;
use crate::cc::conn::{CaState, Conn};
use crate::units::{Duration, Instant};

/// Degree of reordering before any was seen: the duplicate acknowledgements that show a loss (RFC 5681's three).
pub(super) const DUPTHRESH: u16 = 3;
/// Sysctl `tcp_max_reordering`.
const MAX_DEGREE: u16 = 300;
/// Linux `TCP_RACK_RECOVERY_THRESH`: recoveries for which a wider reordering window is kept.
const PERSIST: u8 = 16;

/// Linux `reordering`, `reord_seen`, `reo_wnd_steps`, `reo_wnd_persist`, `dsack_seen`, `dsack_dups`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Reordering {
    /// There may be something for [`Reordering::update`] to do.
    pending: bool,
    /// An older segment arrived after a newer one.
    pub seen: bool,
    /// A DSACK came since the window was last widened.
    dsack_seen: bool,
    /// Segments by which one was overtaken at most.
    degree: u16,
    /// Width of the window, quarters of the smallest RTT.
    pub steps: u8,
    /// Recoveries for which it is kept.
    persist: u8,
    /// When it was last widened.
    widened_at: Instant,
    /// Segments that DSACKs called duplicates.
    duplicates: u64,
}

impl Reordering {
    pub fn new() -> Reordering {
        Reordering {
            degree: DUPTHRESH,
            seen: false,
            dsack_seen: false,
            pending: false,
            steps: 1,
            persist: 0,
            widened_at: Instant::ZERO,
            duplicates: 0,
        }
    }

    /// Segment `low` arrived after others below `highest_sacked`. Linux `tcp_check_sack_reordering`.
    pub fn on_overtaken(&mut self, low: u64, highest_sacked: u64) {
        if low < highest_sacked {
            self.degree = self.degree.max((highest_sacked - low).min(u64::from(MAX_DEGREE)) as u16);
            self.seen = true;
        }
    }

    /// More segments arrive out of order than a loss takes to show.
    #[inline]
    pub fn is_substantial(&self) -> bool {
        self.degree > DUPTHRESH
    }

    /// A timeout came with three or more segments SACKed: the degree was too high.
    pub fn was_overestimated(&mut self) {
        self.degree = DUPTHRESH;
        self.seen = false;
    }

    /// The receiver had `block` already; `of_probe` if that is the tail-loss probe. `retransmissions` have been sent in all. Returns how
    /// many segments it is, 0 if that cannot be true. Linux `tcp_dsack_seen`.
    pub fn take_dsack(&mut self, block: Block, of_probe: bool, retransmissions: u64) -> u32 {
        let segments = block.1.saturating_sub(block.0).min(u64::from(u32::MAX));
        self.duplicates += segments;
        if self.duplicates > retransmissions {
            return 0;
        }
        self.dsack_seen |= segments > 0 && self.seen && !of_probe;
        self.pending |= self.dsack_seen;
        segments as u32
    }

    /// An ACK delivered segments, the newest of them sent at `newest_sent`: a round trip with a DSACK widens the window, 16 recoveries
    /// without one take it back. Linux `tcp_rack_update_reo_wnd`.
    #[inline]
    pub fn update(&mut self, conn: &Conn, newest_sent: impl FnOnce() -> Option<Instant>) {
        if self.pending {
            if let Some(sent) = newest_sent() {
                self.update_steps(conn.now, sent);
            }
        }
    }

    #[cold]
    fn update_steps(&mut self, now: Instant, newest_sent: Instant) {
        if newest_sent < self.widened_at {
            self.dsack_seen = false;
        }
        if self.dsack_seen {
            self.dsack_seen = false;
            self.steps = self.steps.saturating_add(1);
            self.persist = PERSIST;
            self.widened_at = now;
        } else if self.persist == 0 {
            self.steps = 1;
        }
        self.pending = self.steps > 1;
    }

    /// A recovery ended for good.
    pub fn on_recovery_end(&mut self) {
        self.persist = self.persist.saturating_sub(1);
    }

    /// A recovery was undone because of DSACKs.
    pub fn on_undo(&mut self) {
        self.persist = (self.persist + 1).min(PERSIST);
    }

    /// The window. Where reordering was never seen, three SACKed segments or running recovery need none.
    pub fn window(&self, conn: &Conn) -> Duration {
        if !self.seen && (conn.state >= CaState::Recovery || conn.sacked_out >= u32::from(DUPTHRESH)) {
            return Duration::ZERO;
        }
        let min_rtt = u64::from(conn.rtt.min_us());
        let window = ((min_rtt >> 2) * u64::from(self.steps)).min(u64::from(conn.rtt.srtt_us()));
        Duration::from_micros(window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::driver::conn;

    /// A connection with a smallest RTT of 40 ms and a smoothed one of 60.
    fn slow() -> Conn {
        let mut conn = conn();
        conn.rtt.sample_min(40_000, Instant::ZERO);
        conn.rtt.sample(60_000, 0, 1);
        conn
    }

    /// A DSACK, and at `ms` an ACK of something sent a round trip of 40 ms before.
    fn duplicate(reordering: &mut Reordering, conn: &mut Conn, ms: u64) -> u64 {
        assert_eq!(reordering.take_dsack((0, 1), false, 1000), 1);
        conn.now = Instant::from_millis(ms);
        reordering.update(conn, || Some(Instant::from_millis(ms - 40)));
        reordering.window(conn).as_millis()
    }

    #[test]
    fn a_dsack_a_round_trip_widens_it_by_a_quarter_of_the_smallest_rtt() {
        let mut conn = slow();
        let mut reordering = Reordering::new();
        reordering.on_overtaken(3, 4);
        assert_eq!(reordering.window(&conn).as_millis(), 10);
        // what was sent before it was widened at 100 ms says nothing of the wider window
        let widths = [100, 120, 139, 140, 180].map(|ms| duplicate(&mut reordering, &mut conn, ms));
        assert_eq!(widths, [20, 20, 20, 30, 40]);
        // the smoothed RTT is the most
        assert_eq!([220, 260, 300].map(|ms| duplicate(&mut reordering, &mut conn, ms)), [50, 60, 60]);
    }

    #[test]
    fn only_dsacks_that_reordering_explains_widen_it() {
        let mut conn = slow();
        let mut never = Reordering::new();
        assert_eq!(duplicate(&mut never, &mut conn, 100), 10);
        let mut reordering = Reordering::new();
        reordering.on_overtaken(3, 4);
        // the probe's, one that claims nothing, and one more than was ever sent again
        assert_eq!(reordering.take_dsack((9, 10), true, 2), 1);
        assert_eq!(reordering.take_dsack((9, 9), false, 2), 0);
        assert_eq!(reordering.take_dsack((2, 4), false, 2), 0);
        reordering.update(&conn, || Some(conn.now));
        assert_eq!(reordering.window(&conn).as_millis(), 10);
    }

    #[test]
    fn sixteen_recoveries_without_a_dsack_take_it_back() {
        let mut conn = slow();
        let mut reordering = Reordering::new();
        reordering.on_overtaken(3, 4);
        duplicate(&mut reordering, &mut conn, 100);
        for recoveries in 1..=16 {
            assert_eq!(reordering.window(&conn).as_millis(), 20, "after {recoveries}");
            reordering.on_recovery_end();
            reordering.update(&conn, || Some(conn.now));
        }
        assert_eq!(reordering.window(&conn).as_millis(), 10);
    }

    #[test]
    fn where_nothing_was_reordered_three_sacked_segments_and_recovery_need_none() {
        let conn = slow();
        for (sacked_out, state, ms) in [(2, CaState::Disorder, 10), (3, CaState::Disorder, 0), (1, CaState::Recovery, 0)] {
            let conn = Conn { sacked_out, state, ..conn.clone() };
            let mut reordering = Reordering::new();
            assert_eq!(reordering.window(&conn).as_millis(), ms);
            reordering.on_overtaken(3, 4);
            assert_eq!(reordering.window(&conn).as_millis(), 10);
        }
    }

    #[test]
    fn the_degree_is_the_longest_distance_up_to_300() {
        let mut reordering = Reordering::new();
        // in order, and by three at most
        reordering.on_overtaken(5, 5);
        assert!(!reordering.seen);
        reordering.on_overtaken(5, 8);
        assert!(reordering.seen && !reordering.is_substantial());
        for (distance, degree) in [(4, 4), (2, 4), (1000, 300)] {
            reordering.on_overtaken(5, 5 + distance);
            assert_eq!(reordering.degree, degree);
        }
        reordering.was_overestimated();
        assert_eq!((reordering.degree, reordering.seen), (3, false));
    }
}
