//! Congestion controls: the trait and the registry.
//!
//! One algorithm is one file. To add one: write the file, add one line to [`congestion_controls!`] below. The hooks are
//! those of Linux's `tcp_congestion_ops`, so that an algorithm sees what it sees in the kernel, in the same order.

use crate::param::{AlgorithmSpec, ParamError};
use crate::tcp::conn::{CaEvent, CaState, Congestion, Conn};
use serde_json::{Map, Value};

/// What an arriving ACK says before the scoreboard is cleaned.
#[derive(Clone, Copy, Debug, Default)]
pub struct AckEvent {
    /// It carries ECE.
    pub ece: bool,
    /// It carries ESCE (SCE drafts: the former NS bit).
    pub esce: bool,
    /// Segments by which it advances `snd_una`.
    pub advanced: u64,
}

/// A congestion control. All windows are in segments.
pub trait CongestionControl {
    /// Whether it asks for ECN whatever the host's setting, with ECT on every packet (DCTCP, Prague).
    const NEEDS_ECN: bool = false;

    /// The connection is established.
    fn init(&mut self, _conn: &mut Conn) {}

    /// An ACK has arrived; the scoreboard is as it was before it.
    fn in_ack_event(&mut self, _conn: &mut Conn, _ack: &AckEvent) {}

    /// New slow-start threshold after `cause`; called once a congestion episode, before `cwnd` falls.
    fn ssthresh(&mut self, conn: &Conn, cause: Congestion) -> u32;

    /// Grows the window: `acked` segments were newly delivered outside congestion episodes.
    fn cong_avoid(&mut self, conn: &mut Conn, acked: u32);

    /// `pkts` segments were newly acknowledged; `rtt_us` is the sample of the newest of them, if it gives one.
    fn pkts_acked(&mut self, _conn: &mut Conn, _pkts: u32, _rtt_us: Option<u32>) {}

    /// Something happened to the window from outside.
    fn cwnd_event(&mut self, _conn: &mut Conn, _event: CaEvent) {}

    /// The connection is about to enter `state`.
    fn set_state(&mut self, _conn: &mut Conn, _state: CaState) {}

    /// The window to go back to when a reduction turns out to be spurious.
    fn undo_cwnd(&mut self, conn: &Conn) -> u32 {
        conn.cwnd.max(conn.prior_cwnd)
    }
}

/// Registers congestion controls: `Variant: module` for every file that has `Params`, `State` (which implements
/// [`CongestionControl`]), `NAME`, `TITLE` and `SOURCE`.
macro_rules! congestion_controls {
    ($($variant:ident : $module:ident),* $(,)?) => {
        $(pub mod $module;)*

        /// Any registered congestion control, built.
        #[derive(Clone, Debug)]
        pub enum AnyCc { $(
            #[doc = concat!("See [`", stringify!($module), "`].")]
            $variant($module::State),
        )* }

        /// Every registered congestion control, described.
        pub fn specs() -> Vec<AlgorithmSpec> {
            vec![ $( AlgorithmSpec { name: $module::NAME, title: $module::TITLE, source: $module::SOURCE, params: $module::Params::specs() } ),* ]
        }

        /// Builds the congestion control that `config` names in its key `name`, with its other keys as parameters.
        ///
        /// # Errors
        /// An unknown name, key or value.
        pub fn build(config: &Map<String, Value>) -> Result<AnyCc, ParamError> {
            let name = config.get("name").and_then(Value::as_str).unwrap_or("");
            match name {
                $( $module::NAME => Ok(AnyCc::$variant($module::State::new($module::Params::from_json(config)?))), )*
                _ => Err(ParamError::new("name", format!("{name:?}"), [$($module::NAME),*].join(", "))),
            }
        }

        macro_rules! dispatch {
            ($any:expr, $cc:ident => $body:expr) => { match $any { $( AnyCc::$variant($cc) => $body, )* } };
        }

        impl AnyCc {
            /// [`CongestionControl::NEEDS_ECN`].
            pub fn needs_ecn(&self) -> bool {
                match self { $( AnyCc::$variant(_) => <$module::State as CongestionControl>::NEEDS_ECN, )* }
            }
        }
    };
}

congestion_controls! {
    Reno: reno,
    Cubic: cubic,
}

impl AnyCc {
    /// [`CongestionControl::init`].
    pub fn init(&mut self, conn: &mut Conn) {
        dispatch!(self, cc => cc.init(conn))
    }
    /// [`CongestionControl::in_ack_event`].
    #[inline]
    pub fn in_ack_event(&mut self, conn: &mut Conn, ack: &AckEvent) {
        dispatch!(self, cc => cc.in_ack_event(conn, ack))
    }
    /// [`CongestionControl::ssthresh`].
    pub fn ssthresh(&mut self, conn: &Conn, cause: Congestion) -> u32 {
        dispatch!(self, cc => cc.ssthresh(conn, cause))
    }
    /// [`CongestionControl::cong_avoid`].
    #[inline]
    pub fn cong_avoid(&mut self, conn: &mut Conn, acked: u32) {
        dispatch!(self, cc => cc.cong_avoid(conn, acked))
    }
    /// [`CongestionControl::pkts_acked`].
    #[inline]
    pub fn pkts_acked(&mut self, conn: &mut Conn, pkts: u32, rtt_us: Option<u32>) {
        dispatch!(self, cc => cc.pkts_acked(conn, pkts, rtt_us))
    }
    /// [`CongestionControl::cwnd_event`].
    pub fn cwnd_event(&mut self, conn: &mut Conn, event: CaEvent) {
        dispatch!(self, cc => cc.cwnd_event(conn, event))
    }
    /// [`CongestionControl::set_state`].
    pub fn set_state(&mut self, conn: &mut Conn, state: CaState) {
        dispatch!(self, cc => cc.set_state(conn, state))
    }
    /// [`CongestionControl::undo_cwnd`].
    pub fn undo_cwnd(&mut self, conn: &Conn) -> u32 {
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
    left
}

/// Additive increase: one segment for every `interval` segments delivered. Linux `tcp_cong_avoid_ai`.
#[inline]
pub fn additive_increase(conn: &mut Conn, interval: u32, acked: u32) {
    // credit from a time when the interval was longer gives one segment at the most
    if conn.cwnd_cnt >= interval {
        conn.cwnd_cnt = 0;
        conn.cwnd += 1;
    }
    conn.cwnd_cnt += acked;
    if conn.cwnd_cnt >= interval {
        let steps = conn.cwnd_cnt / interval;
        conn.cwnd_cnt -= steps * interval;
        conn.cwnd += steps;
    }
    conn.cwnd = conn.cwnd.min(conn.cwnd_clamp);
}
