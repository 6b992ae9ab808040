//! The state of a sending connection that a congestion control may see: Linux's `tcp_sock`, as far as it matters. The transport keeps it.

use super::exit::{ExitCause, SlowStartExit, SlowStartExits};
use crate::packet::{HEADERS, MSS};
use crate::rtt::RttEstimator;
use crate::units::{Duration, Instant};

/// State of the loss and congestion machine, as Linux's `tcp_ca_state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CaState {
    /// Nothing unusual.
    Open,
    /// Something was selectively acknowledged; not yet known whether it is loss or reordering.
    Disorder,
    /// The window is being reduced because of ECN.
    Cwr,
    /// Fast recovery.
    Recovery,
    /// After a retransmission timeout.
    Loss,
}

impl CaState {
    /// As it stands in traces.
    pub fn name(self) -> &'static str {
        match self {
            CaState::Open => "open",
            CaState::Disorder => "disorder",
            CaState::Cwr => "cwr",
            CaState::Recovery => "recovery",
            CaState::Loss => "loss",
        }
    }
}

/// Event that [`crate::cc::CongestionControl::cwnd_event`] reports to a congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaEvent {
    /// First transmission when nothing was in flight; idle for this long.
    TxStart {
        /// Time since the last data was sent.
        idle: Duration,
        /// The application was the limit of late; known only with rate samples.
        app_limited: bool,
    },
    /// The window restarts after an idle period longer than the RTO.
    CwndRestart,
    /// A reduction (CWR or recovery) is complete.
    CompleteCwr,
    /// A retransmission timeout.
    Loss,
    /// A tail-loss probe repaired a loss that nothing else showed. BBRv3's `CA_EVENT_TLP_RECOVERY`.
    ProbeRepairedLoss {
        /// The application was the limit when the segment was first sent.
        app_limited: bool,
    },
}

/// Why the window is reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// ECN-Echo of CE.
    Ecn,
    /// Loss found by acknowledgements.
    Loss,
    /// Retransmission timeout.
    Timeout,
}

impl From<Congestion> for ExitCause {
    fn from(cause: Congestion) -> ExitCause {
        match cause {
            Congestion::Ecn => ExitCause::Ecn,
            Congestion::Loss => ExitCause::Loss,
            Congestion::Timeout => ExitCause::Timeout,
        }
    }
}

/// `ssthresh` before the first reduction. Linux `TCP_INFINITE_SSTHRESH`.
pub const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

/// State of a sending connection. Windows and sequence numbers count segments of `mss` bytes.
///
/// A control sets the public fields. The transport keeps the rest, and a control reads it by methods. Fields that ACKs seldom touch come
/// first: the rest (`Conn::HOT_AT`) lies in one piece with what follows it in a sender.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Conn {
    /// Ends of slow start so far.
    pub(crate) exits: SlowStartExits,
    /// Time of the event that is being handled.
    pub(crate) now: Instant,
    /// Oldest segment that is not acknowledged.
    pub(crate) snd_una: u64,
    /// Next segment to send for the first time.
    pub(crate) snd_nxt: u64,
    /// Congestion window.
    pub cwnd: u32,
    /// Progress towards the next +1 of `cwnd`.
    pub cwnd_cnt: u32,
    /// Slow-start threshold. 0 is possible with Prague: it rounds it down when its segments grow.
    pub ssthresh: u32,
    /// `cwnd` never exceeds this.
    pub(crate) cwnd_clamp: u32,
    /// Segments selectively acknowledged above `snd_una`.
    pub(crate) sacked_out: u32,
    /// Segments thought lost.
    pub(crate) lost_out: u32,
    /// Retransmitted segments thought to be in flight.
    pub(crate) retrans_out: u32,
    /// Most segments outstanding in the current window of data.
    pub(crate) max_packets_out: u32,
    /// Segments delivered so far.
    pub(crate) delivered: u64,
    /// Segments delivered so far by ACKs with ECE.
    pub(crate) delivered_ce: u64,
    /// `snd_nxt` when the current episode began.
    pub(crate) high_seq: u64,
    /// Pacing rate, bytes of payload per second; computed always, enforced only if `paced`.
    pub pacing_rate: u64,
    /// Payload bytes of a full segment. A control may make it smaller, as Prague does.
    pub mss: u32,
    /// Smallest `mss` that a congestion control may set.
    pub(crate) least_mss: u32,
    /// `cwnd` at the start of the last reduction.
    pub(crate) prior_cwnd: u32,
    /// Bytes of a frame in addition to the payload.
    pub(crate) headers: u16,
    /// Where the congestion machine stands.
    pub(crate) state: CaState,
    /// The last transmission was held back by `cwnd`.
    pub(crate) is_cwnd_limited: bool,
    /// Whether pacing is enforced.
    pub paced: bool,
    /// Set by a control that holds itself back on purpose, as in BBR's PROBE_RTT: rate samples of what leaves until all that is in flight now is delivered do not show what the path
    /// carries. The transport takes it back after each ACK. BBR sets Linux's `app_limited` itself.
    pub holds_back: bool,
    /// Estimates of the round-trip time.
    pub(crate) rtt: RttEstimator,
}

/// Declares methods that return the field of the same name.
macro_rules! getters {
    ($($(#[$doc:meta])* $field:ident: $type:ty,)*) => { $(
        $(#[$doc])*
        #[inline]
        pub fn $field(&self) -> $type {
            self.$field
        }
    )* };
}

impl Conn {
    /// A connection that has not begun: no window, nothing sent, full segments of 1448 bytes.
    pub(crate) fn new() -> Conn {
        Conn {
            exits: SlowStartExits::default(),
            now: Instant::ZERO,
            snd_una: 0,
            snd_nxt: 0,
            cwnd: 0,
            cwnd_cnt: 0,
            ssthresh: INFINITE_SSTHRESH,
            cwnd_clamp: u32::MAX,
            sacked_out: 0,
            lost_out: 0,
            retrans_out: 0,
            max_packets_out: 0,
            delivered: 0,
            delivered_ce: 0,
            high_seq: 0,
            pacing_rate: 0,
            mss: u32::from(MSS),
            least_mss: 1,
            prior_cwnd: 0,
            headers: HEADERS,
            state: CaState::Open,
            is_cwnd_limited: false,
            paced: false,
            holds_back: false,
            rtt: RttEstimator::default(),
        }
    }

    /// Where what every ACK touches begins, bytes from the start.
    pub(crate) const HOT_AT: usize = std::mem::offset_of!(Conn, now);

    getters! {
        /// Time of the event that is being handled.
        now: Instant,
        /// `cwnd` at the start of the last reduction.
        prior_cwnd: u32,
        /// `cwnd` never exceeds this.
        cwnd_clamp: u32,
        /// Oldest segment that is not acknowledged.
        snd_una: u64,
        /// Next segment to send for the first time.
        snd_nxt: u64,
        /// Segments selectively acknowledged above `snd_una`.
        sacked_out: u32,
        /// Segments thought lost.
        lost_out: u32,
        /// Retransmitted segments thought to be in flight.
        retrans_out: u32,
        /// Segments delivered so far by ACKs with ECE.
        delivered_ce: u64,
        /// Where the congestion machine stands.
        state: CaState,
        /// `snd_nxt` when the current episode began.
        high_seq: u64,
        /// The last transmission was held back by `cwnd`.
        is_cwnd_limited: bool,
        /// Most segments outstanding in the current window of data.
        max_packets_out: u32,
        /// Returns the smallest `mss` that a congestion control may set.
        least_mss: u32,
        /// Bytes of a frame in addition to the payload.
        headers: u16,
        /// Ends of slow start so far.
        exits: SlowStartExits,
    }

    /// Segments delivered so far.
    #[inline]
    pub fn delivered_segments(&self) -> u64 {
        self.delivered
    }

    /// Estimates of the round-trip time.
    #[inline]
    pub fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    /// Segments sent for the first time and not yet cumulatively acknowledged.
    #[inline]
    pub fn packets_out(&self) -> u32 {
        (self.snd_nxt - self.snd_una) as u32
    }

    /// Segments thought to be in the network (RFC 6675's pipe, as Linux counts it).
    #[inline]
    pub fn in_flight(&self) -> u32 {
        self.packets_out() + self.retrans_out - self.sacked_out - self.lost_out
    }

    /// Below the slow-start threshold.
    #[inline]
    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Slow start ends now. Controls without a threshold say it by themselves, the others by [`Conn::set_ssthresh`].
    #[cold]
    #[inline(never)]
    pub fn leave_slow_start(&mut self, cause: ExitCause) {
        let exit = Some(SlowStartExit { time: self.now, cwnd: self.cwnd, cause });
        self.exits = SlowStartExits { first: self.exits.first.or(exit), last: exit };
    }

    /// Sets the slow-start threshold. If that takes the connection out of slow start, `cause` is what ended it.
    #[inline]
    pub fn set_ssthresh(&mut self, ssthresh: u32, cause: ExitCause) {
        let was_in = self.in_slow_start();
        self.ssthresh = ssthresh;
        if was_in && !self.in_slow_start() {
            self.leave_slow_start(cause);
        }
    }

    /// Whether the window was used, so that it may grow. Linux `tcp_is_cwnd_limited`: in slow start it may grow to twice
    /// what was used.
    #[inline]
    pub fn cwnd_limited(&self) -> bool {
        self.is_cwnd_limited || (self.in_slow_start() && self.cwnd < 2 * self.max_packets_out)
    }

    /// Milliseconds since the start of the run: Linux's jiffies at HZ = 1000.
    #[inline]
    pub fn jiffies(&self) -> u64 {
        self.now.as_millis()
    }

    /// Rate at which the window leaves in a round trip, times `percent` / 100, bytes of payload per second; the present pacing rate before
    /// the first RTT sample. Linux `tcp_update_pacing_rate`.
    #[inline]
    pub fn window_rate(&self, percent: u32) -> u64 {
        let srtt = u64::from(self.rtt.srtt_8us);
        if srtt == 0 {
            return self.pacing_rate;
        }
        let window = u64::from(self.cwnd.max(self.packets_out()));
        // mss * window / (srtt_8us / 8e6) * percent / 100; beyond 64 bits only for windows that no network holds
        let (bytes, scale) = (u64::from(self.mss) * window, u64::from(percent) * 80_000);
        match bytes.checked_mul(scale) {
            Some(product) => product / srtt,
            None => (u128::from(bytes) * u128::from(scale) / u128::from(srtt)).min(u128::from(u64::MAX)) as u64,
        }
    }
}
