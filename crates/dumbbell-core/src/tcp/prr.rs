//! Proportional rate reduction: the window during an episode (RFC 6937 and its successor; Linux `tcp_cwnd_reduction`).

use super::host::Prr;
use crate::cc::conn::Conn;

/// Values of an ACK that PRR needs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PrrProgress {
    /// Segments newly delivered.
    pub delivered: u32,
    /// Something was newly thought lost.
    pub newly_lost: bool,
    /// `snd_una` advanced.
    pub una_advanced: bool,
    /// A retransmitted segment was cumulatively acknowledged, and no retransmission was lost.
    pub retransmission_arrived: bool,
}

/// Counters of one reduction, in segments.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reduction {
    /// Delivered since it began.
    delivered: u32,
    /// Sent since it began.
    sent: u32,
}

impl Reduction {
    /// A reduction begins.
    pub fn start(&mut self) {
        *self = Reduction::default();
    }

    /// `segments` were sent during it.
    #[inline]
    pub fn count_sent(&mut self, segments: u32) {
        self.sent += segments;
    }

    /// The window after `progress`: what is in flight and what may be sent now. `None` if the window stays.
    pub fn window(&mut self, conn: &Conn, variant: Prr, progress: PrrProgress) -> Option<u32> {
        if progress.delivered == 0 || conn.prior_cwnd == 0 {
            return None;
        }
        //= RFC 6937, section 2
        //# With SACK, DeliveredData can be computed precisely as the change in snd.una, plus the (signed) change in SACKd.
        self.delivered += progress.delivered;
        let in_flight = i64::from(conn.in_flight());
        let room = i64::from(conn.ssthresh) - in_flight;
        let behind = i64::from(self.delivered) - i64::from(self.sent);
        let send = if room < 0 {
            //= RFC 6937, section 3
            //# sndcnt = CEIL(prr_delivered * ssthresh / RecoverFS) - prr_out
            let due = (u64::from(conn.ssthresh) * u64::from(self.delivered)).div_ceil(u64::from(conn.prior_cwnd));
            due as i64 - i64::from(self.sent)
        } else {
            let delivered = i64::from(progress.delivered);
            let bound = if variant == Prr::Rfc6937bis {
                behind.max(delivered) + i64::from(progress.una_advanced && !progress.newly_lost)
            } else if progress.retransmission_arrived {
                behind.max(delivered) + 1
            } else {
                delivered
            };
            //= RFC 6937, section 3
            //# sndcnt = MIN(ssthresh - pipe, limit)
            bound.min(room)
        };
        // the first retransmission goes out whatever the pipe
        let send = send.max(i64::from(self.sent == 0));
        Some((in_flight + send).max(0) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::driver::conn;

    /// Window 20 falls to 10; `in_flight` segments are out.
    fn reducing(in_flight: u64) -> Conn {
        Conn { cwnd: 20, prior_cwnd: 20, ssthresh: 10, snd_nxt: in_flight, ..conn() }
    }

    fn progress_of(delivered: u32) -> PrrProgress {
        PrrProgress { delivered, ..PrrProgress::default() }
    }

    #[test]
    fn above_the_threshold_one_is_sent_for_two_delivered() {
        let mut reduction = Reduction::default();
        // 10 of 20: ceil(1 / 2) = 1 in all, then 1, 2, 2
        let mut in_flight = 20;
        for sent in [1, 0, 1, 0] {
            in_flight -= 1;
            assert_eq!(reduction.window(&reducing(in_flight), Prr::Rfc6937bis, progress_of(1)), Some(in_flight as u32 + sent));
            reduction.count_sent(sent);
            in_flight += u64::from(sent);
        }
    }

    #[test]
    fn below_it_as_many_as_delivered_or_one_more() {
        for (variant, progress, sent) in [
            (Prr::Rfc6937bis, progress_of(2), 2),
            // slow start, if nothing was newly lost
            (Prr::Rfc6937bis, PrrProgress { una_advanced: true, ..progress_of(2) }, 3),
            (Prr::Rfc6937bis, PrrProgress { una_advanced: true, newly_lost: true, ..progress_of(2) }, 2),
            (Prr::Rfc6937, PrrProgress { una_advanced: true, ..progress_of(2) }, 2),
            (Prr::Rfc6937, PrrProgress { una_advanced: true, retransmission_arrived: true, ..progress_of(2) }, 3),
        ] {
            let window = Reduction { delivered: 5, sent: 5 }.window(&reducing(4), variant, progress);
            assert_eq!(window, Some(4 + sent), "{variant:?} {progress:?}");
        }
        // never beyond the threshold: 10 - 9 = 1
        assert_eq!(Reduction { delivered: 9, sent: 1 }.window(&reducing(9), Prr::Rfc6937bis, progress_of(2)), Some(10));
    }

    #[test]
    fn the_first_retransmission_goes_out_and_nothing_delivered_changes_nothing() {
        let mut reduction = Reduction::default();
        // one SACKed of a pipe of 30: ceil(10 / 20) is 1 anyway; of a threshold of 0 it is 1 too
        let conn = Conn { ssthresh: 0, ..reducing(30) };
        assert_eq!(reduction.window(&conn, Prr::Rfc6937bis, progress_of(1)), Some(31));
        assert_eq!(reduction.window(&conn, Prr::Rfc6937bis, progress_of(0)), None);
    }
}
