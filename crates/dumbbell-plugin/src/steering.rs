//! Values that a plugin's congestion control may set, and the model that it reports: the same for C, Rust and Python.

use crate::abi;
use dumbbell_core::cc::conn::Conn;
use dumbbell_core::cc::{Control, Model};
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// Largest window. A larger one comes from an underflow: Linux `TCP_INFINITE_SSTHRESH`, above which no threshold is.
pub const MOST_SEGMENTS: u32 = 0x7fff_ffff;
/// Names of states that all plugins of a process may tell.
const MOST_NAMES: usize = 256;

impl abi::CSteer {
    /// Returns the present values of `conn` that a control may set.
    pub fn read_steer(conn: &Conn) -> abi::CSteer {
        abi::CSteer { cwnd: conn.cwnd, ssthresh: conn.ssthresh, pacing_rate: conn.pacing_rate }
    }

    /// Takes over what a control has changed since `before`, and puts right what it must not do, which is returned. A control that sets a
    /// pacing rate is paced from then on, as registered ones ask for it when they begin (Linux `sk_pacing_status`).
    pub fn apply(&self, before: &abi::CSteer, by: Control, conn: &mut Conn) -> Option<String> {
        if self == before {
            return None;
        }
        conn.cwnd = self.cwnd.clamp(1, conn.cwnd_clamp().max(1));
        // a threshold that is 0 or above the limit is the transport's own, and stays
        conn.ssthresh = if self.ssthresh == before.ssthresh { before.ssthresh } else { self.ssthresh.max(1) };
        let is_new = self.pacing_rate != before.pacing_rate;
        if is_new && by != Control::Window {
            conn.pacing_rate = self.pacing_rate;
            conn.paced = true;
        }
        let windows = [("cwnd", self.cwnd, before.cwnd), ("ssthresh", self.ssthresh, before.ssthresh)];
        if let Some((name, value, _)) = windows.into_iter().find(|(_, value, was)| value != was && !is_window(*value)) {
            return Some(format!("{name} {value}; {}", WINDOWS));
        }
        match by {
            Control::Window if is_new => {
                Some(format!("pacing_rate {} by the window; allowed: a pacing rate with by rate or both", self.pacing_rate))
            }
            _ if is_new && self.pacing_rate == 0 => Some("pacing_rate 0; allowed: 1 byte per second or more".to_owned()),
            _ => None,
        }
    }
}

/// The windows that a control may set, in words.
pub const WINDOWS: &str = "allowed: 1 to 2147483647 segments";

/// Whether a control may set this number of segments as window or threshold.
pub fn is_window(segments: u32) -> bool {
    (1..=MOST_SEGMENTS).contains(&segments)
}

/// The name of a state, which stays valid.
///
/// # Errors
/// One line: a name that cannot be.
pub fn state_name(name: &str) -> Result<&'static str, String> {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.get(name) {
        return Ok(known);
    }
    let is_word = (1..=32).contains(&name.len()) && name.chars().all(|one| one.is_ascii_alphanumeric() || one == '_');
    if !is_word || names.len() >= MOST_NAMES {
        return Err(format!("model() tells the state {name:?}; allowed: {MOST_NAMES} names of up to 32 letters, digits and _"));
    }
    let name: &'static str = Box::leak(name.to_owned().into_boxed_str());
    names.insert(name);
    Ok(name)
}

/// Returns the model that a control reported, in `state`.
pub fn model(told: &abi::CModel, state: &'static str) -> Model {
    let rate = |value: u64| Some(value).filter(|&value| value != abi::UNKNOWN);
    // what does not fit is unknown as well
    let count = |value: u64| u32::try_from(value).ok();
    let flag = |value: abi::Flag| Some(value).filter(|&value| value != abi::Flag::MAX).map(|value| value != 0);
    Model {
        state,
        round: told.round,
        max_bw: told.max_bw,
        bw: told.bw,
        bw_shortterm: rate(told.bw_shortterm),
        inflight_shortterm: count(told.inflight_shortterm),
        inflight_longterm: count(told.inflight_longterm),
        min_rtt_us: count(told.min_rtt_us),
        extra_acked: count(told.extra_acked).unwrap_or(u32::MAX),
        inflight: count(told.inflight).unwrap_or(u32::MAX),
        probe_up_step: count(told.probe_up_step),
        pacing_gain: told.pacing_gain,
        cwnd_gain: told.cwnd_gain,
        full_bw_now: flag(told.full_bw_now),
        full_bw_reached: flag(told.full_bw_reached),
        idle_restart: flag(told.idle_restart),
        ecn_alpha: Some(told.ecn_alpha).filter(|share| !share.is_nan()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dumbbell_core::cc::driver::conn;

    const RATE: u64 = 1_000_000;

    fn steer_with(by: Control, change: impl Fn(&mut abi::CSteer)) -> (Conn, Option<String>) {
        // a sender has no rate at first
        let mut conn = conn();
        conn.pacing_rate = u64::MAX;
        let before = abi::CSteer::read_steer(&conn);
        let mut steer = before;
        change(&mut steer);
        let wrong = steer.apply(&before, by, &mut conn);
        (conn, wrong)
    }

    #[test]
    fn who_sets_a_rate_is_paced_and_who_sets_none_is_not() {
        for by in [Control::Rate, Control::Both] {
            let (paced, none) = steer_with(by, |steer| steer.pacing_rate = RATE);
            assert_eq!((paced.paced, paced.pacing_rate, none), (true, RATE, None));
            let (free, nothing) = steer_with(by, |steer| steer.cwnd = 7);
            assert_eq!((free.paced, free.cwnd, nothing), (false, 7, None));
            let (_, wrong) = steer_with(by, |steer| steer.pacing_rate = 0);
            assert_eq!(wrong.as_deref(), Some("pacing_rate 0; allowed: 1 byte per second or more"));
        }
        let (windowed, wrong) = steer_with(Control::Window, |steer| steer.pacing_rate = RATE);
        assert!(!windowed.paced && windowed.pacing_rate != RATE);
        assert_eq!(wrong.as_deref(), Some("pacing_rate 1000000 by the window; allowed: a pacing rate with by rate or both"));
    }

    #[test]
    fn windows_that_wrap_around_are_told() {
        for (cwnd, told) in [(0, "cwnd 0; "), (5_u32.wrapping_sub(10), "cwnd 4294967291; "), (1 << 31, "cwnd 2147483648; ")] {
            let (conn, wrong) = steer_with(Control::Window, |steer| steer.cwnd = cwnd);
            assert!(wrong.is_some_and(|wrong| wrong.starts_with(told) && wrong.ends_with(WINDOWS)), "{cwnd}");
            assert!(conn.cwnd >= 1);
        }
        let (_, wrong) = steer_with(Control::Both, |steer| steer.ssthresh = u32::MAX);
        assert!(wrong.is_some_and(|wrong| wrong.starts_with("ssthresh 4294967295; ")));
        // the largest threshold, and a window above the clamp, are what Linux has, too
        let (conn, none) = steer_with(Control::Both, |steer| (steer.ssthresh, steer.cwnd) = (MOST_SEGMENTS, MOST_SEGMENTS));
        assert_eq!((conn.ssthresh, none), (MOST_SEGMENTS, None));
    }

    #[test]
    fn names_of_states_are_words() {
        let (one, two) = (state_name("probe_up").unwrap(), state_name(&["probe", "up"].join("_")).unwrap());
        assert!(std::ptr::eq(one, two));
        for wrong in ["", "probe up", "é", &"x".repeat(33)] {
            assert!(state_name(wrong).is_err_and(|text| text.contains("allowed: ")), "{wrong:?}");
        }
    }
}
