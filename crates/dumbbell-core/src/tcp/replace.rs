//! Another congestion control in the place of the present one, as the socket option `TCP_CONGESTION` puts it there (Linux `tcp_reinit_congestion_control`).
//!
//! Window, threshold, pacing, the state of the congestion machine and what ends have agreed on stay; the control begins with nothing but the connection. Two deviations: Linux gives a
//! control that requires ECN to a connection without ECN, where its `init` turns it into Reno, while here that is refused; and Linux takes the stamps of rate samples for every
//! connection, so that a control has samples from its first ACK on, while here segments that left before a control asked for samples give none.

use super::host::Pacing;
use super::rate::RateSampler;
use super::sender::{Phase, Sender};
use super::FlowOptions;
use crate::cc::{AnyCc, CongestionControl};
use crate::units::Instant;

impl Sender {
    /// Becomes, before it begins, a sender with the control `cc`.
    #[cold]
    pub fn choose_control(&mut self, cc: AnyCc, options: FlowOptions) {
        self.ecn = super::ecn::SenderEcn::new(options.ecn, cc.ecn());
        self.queue.begin_with_windows(cc.buffered_windows(), &self.host);
        self.rate = cc.rate_samples().then(|| Box::new(RateSampler::new()));
        self.control = cc.control();
        self.cc = cc;
    }

    /// Gives an established connection the control `cc` at `now`.
    ///
    /// # Errors
    /// Says of the connection why it cannot have it; nothing has changed then.
    #[cold]
    pub fn replace_control(&mut self, cc: AnyCc, now: Instant) -> Result<(), &'static str> {
        match self.phase {
            Phase::Idle | Phase::SynSent => return Err("whose handshake is on its way"),
            Phase::Done => return Err("which is over"),
            Phase::Established => self.ecn.take_over(cc.ecn())?,
        }
        let conn = &mut self.conn;
        conn.now = now;
        self.cc.release(conn);
        conn.paced |= self.host.pacing == Pacing::Fq;
        self.rate = match (cc.rate_samples(), self.rate.take()) {
            (true, Some(rate)) => Some(rate),
            (true, None) => Some(Box::new(RateSampler::begin_amid(conn))),
            (false, _) => None,
        };
        self.queue.windows = cc.buffered_windows();
        self.control = cc.control();
        self.cc = cc;
        // Linux tcp_init_congestion_control: the threshold before a reduction is the old control's
        self.undo.prior_ssthresh = 0;
        let mss = self.conn.mss;
        self.cc.init(&mut self.conn);
        if self.conn.mss != mss {
            self.note_size(mss);
        }
        self.last_burst = (0, u32::MAX);
        Ok(())
    }
}
