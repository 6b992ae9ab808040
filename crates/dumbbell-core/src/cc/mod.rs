//! Congestion controls: the trait and the registry.
//!
//! One algorithm is one file. To add one: write the file, add one line to `congestion_controls!` below. The hooks are
//! those of Linux's `tcp_congestion_ops`, so that an algorithm sees what it sees in the kernel, in the same order.

use crate::fork::{CannotFork, Fork, SharedCopies};
use crate::param::{algorithm_specs, AlgorithmSpec, Factory, ParamError};
use crate::prefetch::prefetch;
use conn::{CaEvent, CaState, Congestion, Conn};
use exit::ExitCause;
pub use interface::{AckEvent, CcContext, Control, Echo, EcnUse, LossEvent, Model, RateSample};
use serde_json::{Map, Value};
use std::fmt;

pub mod abe;
pub mod background;
pub mod bbr;
pub mod conn;
pub mod driver;
pub mod exit;
pub mod hystart;
pub mod interface;
mod sce;

/// A congestion control. All windows are in segments.
pub trait CongestionControl {
    /// Returns what decides how fast the connection sends; called once.
    fn control(&self) -> Control {
        Control::Window
    }

    /// Whether it uses rate samples and [`CongestionControl::on_loss`]: a segment in flight then takes 56 B more; asked once.
    fn rate_samples(&self) -> bool {
        false
    }

    /// Windows that the send buffer holds; asked once. Linux `sndbuf_expand`: 3 for BBR, 2 for all others.
    fn buffered_windows(&self) -> u8 {
        2
    }

    /// Returns the use of ECN that it asks for.
    fn ecn(&self) -> EcnUse {
        EcnUse::default()
    }

    /// Whether it sends less because of `cause`: else an episode of that is no reduction.
    fn answers(&self, _cause: Congestion) -> bool {
        true
    }

    /// The connection is established.
    fn init(&mut self, _conn: &mut Conn) {}

    /// Another control takes its place ([`Sender::replace_control`](crate::tcp::sender::Sender::replace_control)): it takes back what it set for itself. Linux `release`.
    fn release(&mut self, _conn: &mut Conn) {}

    /// Called for every ACK, after the scoreboard is updated and before the congestion machine runs. With
    /// [`early_ack_event`](crate::tcp::host::HostParams::early_ack_event): before the update.
    fn in_ack_event(&mut self, _conn: &mut Conn, _ack: &AckEvent) {}

    /// Response to congestion: returns the slow-start threshold after `cause` (losses, or CE marks as ECE or AccECN echo them), towards which the
    /// transport reduces `cwnd`. Called once per congestion episode, before `cwnd` falls.
    fn ssthresh(&mut self, conn: &Conn, cause: Congestion) -> u32;

    /// A loss was found in a window that a CE mark has already reduced: returns the slow-start threshold for the loss, computed from
    /// [`Conn::prior_cwnd`]. `None` if both get the same answer.
    fn loss_after_ecn(&self, _conn: &Conn) -> Option<u32> {
        None
    }

    /// Grows the window: `acked` segments were newly delivered outside congestion episodes.
    fn cong_avoid(&mut self, conn: &mut Conn, acked: u32);

    /// Sets window and pacing rate after an ACK, in every state: only with [`Control::Both`], instead of
    /// [`CongestionControl::cong_avoid`] and PRR. Linux `cong_control`.
    fn cong_control(&mut self, _conn: &mut Conn, _sample: &RateSample) {}

    /// A segment was marked lost, also again: only with [`CongestionControl::rate_samples`]. Called before the congestion machine
    /// answers the losses of an ACK. Linux `skb_marked_lost`.
    fn on_loss(&mut self, _conn: &mut Conn, _loss: &LossEvent) {}

    /// Size of the smallest burst handed to segmentation offload, segments. Linux `min_tso_segs`; sysctl `tcp_min_tso_segs` = 2.
    fn min_burst(&self, _conn: &Conn) -> u32 {
        2
    }

    /// Segments of the largest burst, instead of Linux's automatic size. BBR's and Prague's `tso_segs`.
    fn max_burst(&self, _conn: &Conn) -> Option<u32> {
        None
    }

    /// `pkts` segments were newly acknowledged; `rtt_us` is the RTT sample of the newest one, if there is one.
    fn pkts_acked(&mut self, _conn: &mut Conn, _pkts: u32, _rtt_us: Option<u32>) {}

    /// Something happened to the window from outside.
    fn cwnd_event(&mut self, _conn: &mut Conn, _event: CaEvent) {}

    /// The connection is about to enter `state`.
    fn set_state(&mut self, _conn: &mut Conn, _state: CaState) {}

    /// A reduction turned out to be spurious: takes back what it did to the control. Returns the window to go back to; called once, before it is set.
    fn undo_cwnd(&mut self, conn: &mut Conn) -> u32 {
        conn.cwnd.max(conn.prior_cwnd)
    }

    /// Returns its model of the path; `None` if it has none.
    fn model(&self, _conn: &Conn) -> Option<Model> {
        None
    }

    /// Returns a copy that goes on as the original does; a type that is `Clone` writes [`fork_by_clone!(dyn CongestionControl + Send)`](crate::fork_by_clone).
    ///
    /// # Errors
    /// It cannot be copied, which is the default.
    fn fork(&self, _shared: &mut SharedCopies) -> Result<Box<dyn CongestionControl + Send>, CannotFork> {
        Err(CannotFork::default())
    }
}

/// A control that this crate does not know.
pub struct DynCc(pub Box<dyn CongestionControl + Send>);

impl fmt::Debug for DynCc {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("DynCc")
    }
}

/// Bytes of a control that are fetched into the cache ahead of an ACK, its tag among them: of CUBIC what it needs when it does not look at its
/// curve, which is nine times of ten.
pub const CACHED: usize = 64;

/// Registers congestion controls: `Variant: module`, or `Variant: module as Box` for large states, for every file that has `Params`, `State` (which implements
/// [`CongestionControl`]), `NAME`, `TITLE` and `SOURCE`.
macro_rules! congestion_controls {
    (@state $module:ident) => { $module::State };
    (@state $module:ident Box) => { Box<$module::State> };
    (@prefetch $state:ident) => { let _ = $state; };
    (@prefetch $state:ident Box) => { prefetch(&**$state); };
    ($($(#[$meta:meta])* $variant:ident : $module:ident $(as $box:ident)?),* $(,)?) => {
        $($(#[$meta])* pub mod $module;)*

        /// Any congestion control, built.
        // its tag in a place of its own: a dispatch reads it as it is
        #[derive(Debug)]
        #[repr(u8)]
        pub enum AnyCc {
            $(
                $(#[$meta])*
                #[doc = concat!("See [`", stringify!($module), "`].")]
                $variant(congestion_controls!(@state $module $($box)?)),
            )*
            /// One that this crate does not know.
            Dyn(DynCc),
        }

        impl AnyCc {
            /// An ACK will come soon, and this is in the cache already: asks for what it points to.
            #[inline]
            pub fn prefetch(&self) {
                match self {
                    $( $(#[$meta])* AnyCc::$variant(state) => { congestion_controls!(@prefetch state $($box)?); } )*
                    AnyCc::Dyn(_) => {}
                }
            }
        }

        impl Fork for AnyCc {
            fn fork(&self, shared: &mut SharedCopies) -> Result<AnyCc, CannotFork> {
                Ok(match self {
                    $( $(#[$meta])* AnyCc::$variant(state) => AnyCc::$variant(state.clone()), )*
                    AnyCc::Dyn(DynCc(control)) => AnyCc::Dyn(DynCc(control.fork(shared)?)),
                })
            }
        }

        algorithm_specs! {
            /// A congestion control with its parameters, which builds the controls of any number of connections.
            CcSpec { $($(#[$meta])* $variant: $module),* } Dyn Factory<CcContext, DynCc>
        }

        impl CcSpec {
            /// Builds the control of the connection of `context`.
            pub fn build(&self, context: &CcContext) -> AnyCc {
                match self {
                    $( $(#[$meta])* CcSpec::$variant(params) => AnyCc::$variant($module::State::new(params.clone(), context).into()), )*
                    CcSpec::Dyn(factory) => AnyCc::Dyn(factory.build(context)),
                }
            }
        }

        macro_rules! dispatch {
            ($any:expr, $cc:ident => $body:expr) => {
                match $any {
                    $( $(#[$meta])* AnyCc::$variant($cc) => $body, )*
                    AnyCc::Dyn(DynCc($cc)) => $body,
                }
            };
        }
    };
}

congestion_controls! {
    Reno: reno,
    Cubic: cubic,
    Dctcp: dctcp,
    Prague: prague as Box,
    Bbr1: bbr1 as Box,
    Bbr2: bbr2 as Box,
    Bbr3: bbr3 as Box,
    BbrDraft: bbr_draft as Box,
    RenoSce: reno_sce,
    DctcpSce: dctcp_sce,
    CubicSce: cubic_sce as Box,
    Ledbat: ledbat as Box,
    LedbatPp: ledbat_pp as Box,
    Constant: constant,
    External: external,
    #[cfg(test)]
    Follow: follow,
}

/// Builds the congestion control that `config` names in its key `name`, with its other keys as parameters, for the connection of `context`.
///
/// # Errors
/// An unknown name, key or value.
pub fn build(config: &Map<String, Value>, context: &CcContext) -> Result<AnyCc, ParamError> {
    CcSpec::from_json(config).map(|spec| spec.build(context))
}

impl AnyCc {
    /// Returns the control that replaces one that requires ECN where the peer has none: Reno. Linux `dctcp_reno`.
    pub fn without_ecn() -> AnyCc {
        AnyCc::Reno(reno::State::new(reno::Params::default(), &CcContext::default()))
    }
}

/// A control that is chosen at run time: one dispatch per call.
impl CongestionControl for AnyCc {
    fn control(&self) -> Control {
        dispatch!(self, cc => cc.control())
    }
    fn rate_samples(&self) -> bool {
        dispatch!(self, cc => cc.rate_samples())
    }
    fn buffered_windows(&self) -> u8 {
        dispatch!(self, cc => cc.buffered_windows())
    }
    fn ecn(&self) -> EcnUse {
        dispatch!(self, cc => cc.ecn())
    }
    fn answers(&self, cause: Congestion) -> bool {
        dispatch!(self, cc => cc.answers(cause))
    }
    fn cong_control(&mut self, conn: &mut Conn, sample: &RateSample) {
        dispatch!(self, cc => cc.cong_control(conn, sample))
    }
    fn on_loss(&mut self, conn: &mut Conn, loss: &LossEvent) {
        dispatch!(self, cc => cc.on_loss(conn, loss))
    }
    #[inline]
    fn min_burst(&self, conn: &Conn) -> u32 {
        dispatch!(self, cc => cc.min_burst(conn))
    }
    #[inline]
    fn max_burst(&self, conn: &Conn) -> Option<u32> {
        dispatch!(self, cc => cc.max_burst(conn))
    }
    fn init(&mut self, conn: &mut Conn) {
        dispatch!(self, cc => cc.init(conn))
    }
    fn release(&mut self, conn: &mut Conn) {
        dispatch!(self, cc => cc.release(conn))
    }
    #[inline]
    fn in_ack_event(&mut self, conn: &mut Conn, ack: &AckEvent) {
        dispatch!(self, cc => cc.in_ack_event(conn, ack))
    }
    fn ssthresh(&mut self, conn: &Conn, cause: Congestion) -> u32 {
        dispatch!(self, cc => cc.ssthresh(conn, cause))
    }
    fn loss_after_ecn(&self, conn: &Conn) -> Option<u32> {
        dispatch!(self, cc => cc.loss_after_ecn(conn))
    }
    #[inline]
    fn cong_avoid(&mut self, conn: &mut Conn, acked: u32) {
        dispatch!(self, cc => cc.cong_avoid(conn, acked))
    }
    #[inline]
    fn pkts_acked(&mut self, conn: &mut Conn, pkts: u32, rtt_us: Option<u32>) {
        dispatch!(self, cc => cc.pkts_acked(conn, pkts, rtt_us))
    }
    fn model(&self, conn: &Conn) -> Option<Model> {
        dispatch!(self, cc => cc.model(conn))
    }
    fn cwnd_event(&mut self, conn: &mut Conn, event: CaEvent) {
        dispatch!(self, cc => cc.cwnd_event(conn, event))
    }
    fn set_state(&mut self, conn: &mut Conn, state: CaState) {
        dispatch!(self, cc => cc.set_state(conn, state))
    }
    fn undo_cwnd(&mut self, conn: &mut Conn) -> u32 {
        dispatch!(self, cc => cc.undo_cwnd(conn))
    }
}

/// Slow start: `cwnd` grows by every segment delivered, up to `ssthresh`. Returns what of `acked` is left for congestion
/// avoidance. Linux `tcp_slow_start`; RFC 5681 section 3.1 with L = all that was delivered.
#[inline]
pub fn slow_start(conn: &mut Conn, acked: u32) -> u32 {
    let grown = conn.cwnd.saturating_add(acked).min(conn.ssthresh);
    let left = acked - (grown - conn.cwnd);
    conn.cwnd = grown.min(conn.cwnd_clamp);
    if !conn.in_slow_start() {
        conn.leave_slow_start(ExitCause::Threshold);
    }
    left
}

/// Additive increase: one segment for every `interval` segments delivered, `interval` at least 1. Linux `tcp_cong_avoid_ai`.
#[inline]
pub fn additive_increase(conn: &mut Conn, interval: u32, acked: u32) {
    // credit from a time when the interval was longer gives one segment at the most
    if conn.cwnd_cnt >= interval {
        conn.cwnd_cnt = 0;
        conn.cwnd = conn.cwnd.saturating_add(1);
    }
    conn.cwnd_cnt = conn.cwnd_cnt.saturating_add(acked);
    if conn.cwnd_cnt >= interval {
        let steps = conn.cwnd_cnt / interval;
        conn.cwnd_cnt -= steps * interval;
        conn.cwnd = conn.cwnd.saturating_add(steps);
    }
    conn.cwnd = conn.cwnd.min(conn.cwnd_clamp);
}

#[cfg(test)]
mod properties;

#[cfg(test)]
mod tests {
    use super::driver::conn;
    use super::*;

    #[test]
    fn slow_start_counts_segments_not_acks() {
        let mut conn = conn();
        // 10 + 10: a window acknowledged by one ACK doubles it, as would ten ACKs
        assert_eq!((slow_start(&mut conn, 10), conn.cwnd), (0, 20));
    }

    #[test]
    fn slow_start_stops_at_ssthresh_and_hands_back_the_rest() {
        let mut conn = Conn { cwnd: 8, ssthresh: 10, ..conn() };
        // 8 + 5 = 13 is 3 above 10
        assert_eq!((slow_start(&mut conn, 5), conn.cwnd), (3, 10));
        assert_eq!(conn.exits.first.map(|exit| (exit.cwnd, exit.cause)), Some((10, ExitCause::Threshold)));
    }

    #[test]
    fn slow_start_stops_at_the_clamp_without_a_rest() {
        // what the clamp takes does not count towards congestion avoidance
        let mut conn = Conn { cwnd: 8, cwnd_clamp: 9, ..conn() };
        assert_eq!((slow_start(&mut conn, 5), conn.cwnd), (0, 9));
    }

    #[test]
    fn additive_increase_gives_one_segment_an_interval() {
        let mut conn = conn();
        // 9 of 10, then 9 + 1 = 10 of 10
        additive_increase(&mut conn, 10, 9);
        assert_eq!((conn.cwnd, conn.cwnd_cnt), (10, 9));
        additive_increase(&mut conn, 10, 1);
        assert_eq!((conn.cwnd, conn.cwnd_cnt), (11, 0));
    }

    #[test]
    fn a_stretch_ack_gives_several_and_keeps_the_remainder() {
        let mut conn = conn();
        // 25 = 2 * 10 + 5
        additive_increase(&mut conn, 10, 25);
        assert_eq!((conn.cwnd, conn.cwnd_cnt), (12, 5));
    }

    #[test]
    fn old_credit_gives_one_segment_however_large() {
        let mut conn = Conn { cwnd_cnt: 57, ..conn() };
        // 57 >= 10: +1 and the credit is gone; then 3 of 10
        additive_increase(&mut conn, 10, 3);
        assert_eq!((conn.cwnd, conn.cwnd_cnt), (11, 3));
    }

    #[test]
    fn additive_increase_stops_at_the_clamp() {
        let mut conn = Conn { cwnd_clamp: 10, ..conn() };
        additive_increase(&mut conn, 10, 30);
        assert_eq!(conn.cwnd, 10);
    }

    #[test]
    fn building_needs_a_known_name() {
        let config = serde_json::json!({"name": "cubit"});
        let message = build(config.as_object().unwrap(), &CcContext::default()).unwrap_err().to_string();
        assert!(message.starts_with("name: found \"cubit\"") && message.contains("cubic"), "{message}");
    }
}
