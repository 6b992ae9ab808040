//! Code of a sender for a control and a host that are known when it is compiled.
//!
//! The functions that most ACKs run have a type parameter [`Known`]. With [`UsualHost`], the control is one of those in `usual_controls!` below, without
//! a dispatch, and the switches of the host are the defaults, as constants. With [`Anything`], both are looked up. [`Sender`] chooses at each ACK.
//! Both give the same results, so that whatever most ACKs do not run is compiled once, for anything.
//!
//! To add a switch: one line in `switches!`, and its use as `K::name(&self.host)`.

use super::host::{EcnReduction, HostParams, Offload, Prr};
use crate::cc::{self, AnyCc, CongestionControl, Control};
use std::marker::PhantomData;

/// Declares the switches that are constants with a usual host.
macro_rules! switches {
    ($($name:ident: $type:ty),* $(,)?) => {
        /// Switches of a host, as code for a usual host or for any host reads them.
        pub(super) trait Switches {
            $(
                #[doc = concat!("[`HostParams::", stringify!($name), "`].")]
                fn $name(host: &HostParams) -> $type;
            )*
        }

        impl<C> Switches for UsualHost<C> {
            $(
                #[inline(always)]
                fn $name(_: &HostParams) -> $type {
                    HostParams::default().$name
                }
            )*
        }

        impl Switches for Anything {
            $(
                #[inline(always)]
                fn $name(host: &HostParams) -> $type {
                    host.$name
                }
            )*
        }

        /// Whether code for a usual host is right for `host`: each of these switches has its default.
        pub(super) fn is_usual(host: &HostParams) -> bool {
            let usual = HostParams::default();
            $( host.$name == usual.$name )&&*
        }
    };
}

switches! {
    early_ack_event: bool,
    offload: Offload,
    tso_rtt: bool,
    tso_defer_near: bool,
    burst_across_buffers: bool,
    expand_between_bursts: bool,
    push_bursts: bool,
    prr: Prr,
    ecn_reduction: EcnReduction,
    pacing_ss_ratio: u32,
    pacing_ca_ratio: u32,
}

/// Knowledge of a sender's control and host.
pub(super) trait Known: Switches {
    /// The control.
    type Cc: CongestionControl;

    /// Returns the control that `any` holds.
    fn cc(any: &AnyCc) -> &Self::Cc;

    /// Returns the control that `any` holds.
    fn cc_mut(any: &mut AnyCc) -> &mut Self::Cc;

    /// Returns what the control decides, which is `found` in a sender.
    fn control(found: Control) -> Control;

    /// Whether there may be rate samples.
    const RATE_SAMPLES: bool;
}

/// Nothing is known.
pub(super) struct Anything;

impl Known for Anything {
    type Cc = AnyCc;

    #[inline(always)]
    fn cc(any: &AnyCc) -> &AnyCc {
        any
    }

    #[inline(always)]
    fn cc_mut(any: &mut AnyCc) -> &mut AnyCc {
        any
    }

    #[inline(always)]
    fn control(found: Control) -> Control {
        found
    }

    const RATE_SAMPLES: bool = true;
}

/// The control is `C`, and the host a usual one.
pub(super) struct UsualHost<C>(PhantomData<C>);

/// Declares the controls that have code of their own, with what they decide; none of them has rate samples.
macro_rules! usual_controls {
    ($($variant:ident: $module:ident, $control:ident;)*) => {
        $(
            impl Known for UsualHost<cc::$module::State> {
                type Cc = cc::$module::State;

                #[inline(always)]
                fn cc(any: &AnyCc) -> &Self::Cc {
                    match any {
                        AnyCc::$variant(state) => state,
                        _ => unreachable!("another control"),
                    }
                }

                #[inline(always)]
                fn cc_mut(any: &mut AnyCc) -> &mut Self::Cc {
                    match any {
                        AnyCc::$variant(state) => state,
                        _ => unreachable!("another control"),
                    }
                }

                #[inline(always)]
                fn control(_: Control) -> Control {
                    Control::$control
                }

                const RATE_SAMPLES: bool = false;
            }
        )*

        /// Evaluates `$body` with the type `$known` that fits the control and the host of the sender `$sender`.
        macro_rules! with_known {
            ($sender:ident, $known:ident => $body:expr) => {
                match &$sender.cc {
                    $(
                        // a module for web pages is to be small
                        $crate::cc::AnyCc::$variant(_) if !cfg!(target_family = "wasm") && $sender.is_usual => {
                            type $known = $crate::tcp::known::UsualHost<$crate::cc::$module::State>;
                            $body
                        }
                    )*
                    _ => {
                        type $known = $crate::tcp::known::Anything;
                        $body
                    }
                }
            };
        }
    };
}

usual_controls! {
    Cubic: cubic, Window;
    Dctcp: dctcp, Window;
    Reno: reno, Window;
    Prague: prague, Both;
}
pub(super) use with_known;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::{build, CcContext};
    use serde_json::json;

    fn check<C>(name: &str)
    where
        UsualHost<C>: Known<Cc = C>,
        C: CongestionControl,
    {
        let config = json!({"name": name});
        let cc = build(config.as_object().unwrap(), &CcContext::default()).unwrap();
        assert_eq!(cc.control(), UsualHost::<C>::control(Control::Rate), "{name}");
        assert!(!cc.rate_samples() && !UsualHost::<C>::RATE_SAMPLES, "{name}");
        // of that variant, or this panics
        UsualHost::<C>::cc(&cc);
    }

    #[test]
    fn usual_controls_are_what_they_are_compiled_as() {
        check::<cc::cubic::State>("cubic");
        check::<cc::dctcp::State>("dctcp");
        check::<cc::reno::State>("reno");
        check::<cc::prague::State>("prague");
    }

    #[test]
    fn a_host_is_usual_whatever_its_buffers_and_segments() {
        assert!(is_usual(&HostParams::default()));
        let others = HostParams { ecn: true, send_buffer: 1 << 30, mss: 8948, sce_feedback: true, ..HostParams::default() };
        assert!(is_usual(&others));
        assert!(!is_usual(&HostParams { push_bursts: false, ..HostParams::default() }));
        assert!(!is_usual(&HostParams { pacing_ca_ratio: 121, ..HostParams::default() }));
    }
}
