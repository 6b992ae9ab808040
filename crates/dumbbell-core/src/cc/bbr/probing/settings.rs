//! The parameters of v2 and v3, as an experiment has them and in the units of the machine.

/// Parameters in the units of the machine, under their names: gains and shares in 1/256, times in us or ms.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // the parameters have their documentation
pub struct Settings {
    pub startup_gain: u32,
    pub startup_cwnd_gain: u32,
    pub drain_gain: u32,
    pub probe_up_gain: u32,
    pub probe_down_gain: u32,
    pub cwnd_gain: u32,
    pub probe_up_cwnd_gain: u32,
    pub probe_rtt_cwnd_gain: u32,
    pub beta: u32,
    pub loss_thresh: u32,
    pub headroom: u32,
    pub full_loss_count: u32,
    pub ecn: bool,
    pub ecn_max_rtt_us: u32,
    pub ecn_alpha_gain: u32,
    pub ecn_factor: u32,
    pub ecn_thresh: u32,
    pub ecn_reprobe_gain: u32,
    pub probe_wait_us: u32,
    pub probe_wait_random_us: u32,
    pub min_rtt_window_ms: u64,
    pub probe_rtt_interval_ms: u64,
    pub probe_rtt_duration_ms: u64,
}

/// The settings of parameters `$params`, whose names v2 and v3 share; they have their own for the window of PROBE_UP and the probe after marks.
macro_rules! settings {
    ($params:expr, $up_cwnd_gain:expr, $ecn_reprobe_gain:expr) => {
        settings!(@gains $params, $up_cwnd_gain, $ecn_reprobe_gain; startup_gain, startup_cwnd_gain, drain_gain, probe_up_gain, probe_down_gain, cwnd_gain, probe_rtt_cwnd_gain, beta, loss_thresh, headroom, ecn_alpha_gain, ecn_factor, ecn_thresh)
    };
    (@gains $params:expr, $up_cwnd_gain:expr, $ecn_reprobe_gain:expr; $($gain:ident),*) => {{
        let (params, us) = ($params, |time: Duration| time.as_micros() as u32);
        Settings {
            $($gain: to_fixed(params.$gain),)*
            probe_up_cwnd_gain: to_fixed($up_cwnd_gain),
            ecn_reprobe_gain: to_fixed($ecn_reprobe_gain),
            full_loss_count: params.full_loss_count,
            ecn: params.ecn,
            ecn_max_rtt_us: us(params.ecn_max_rtt),
            probe_wait_us: us(params.probe_wait),
            probe_wait_random_us: us(params.probe_wait_random),
            min_rtt_window_ms: params.min_rtt_window.as_millis(),
            probe_rtt_interval_ms: params.probe_rtt_interval.as_millis(),
            probe_rtt_duration_ms: params.probe_rtt_duration.as_millis(),
        }
    }};
}
pub(in crate::cc) use settings;

/// Declares the parameters of v2 or v3: defaults and sources in which they differ, and what only v3 has.
macro_rules! probing_params {
    (
        startup_gain: $startup_gain:expr, $startup_gain_source:literal;
        startup_cwnd_gain: $startup_cwnd_gain:expr, $startup_cwnd_gain_source:literal;
        probe_down_gain: $probe_down_gain:expr, $probe_down_gain_source:literal;
        full_loss_count: $full_loss_count:expr, $full_loss_count_source:literal;
        ecn: $ecn_source:literal;
        probe_up_cwnd_gain: { $($probe_up_cwnd_gain:tt)* }
        ecn_reprobe_gain: { $($ecn_reprobe_gain:tt)* }
    ) => {
        crate::params! {
            /// Parameters.
            pub struct Params {
                /// Pacing rate in STARTUP.
                startup_gain: f64 = $startup_gain, unit "", range 1.0, 7.9, source $startup_gain_source;
                /// Window over the bandwidth-delay product in STARTUP and DRAIN.
                startup_cwnd_gain: f64 = $startup_cwnd_gain, unit "", range 1.0, 7.9, source $startup_cwnd_gain_source;
                /// Pacing rate in DRAIN.
                drain_gain: f64 = 88.0 / 256.0, unit "", range 0.004, 1.0, source "bbr_drain_gain = 88/256";
                /// Pacing rate in PROBE_UP.
                probe_up_gain: f64 = 1.25, unit "", range 1.0, 3.9, source "bbr_pacing_gain: 320/256";
                /// Pacing rate in PROBE_DOWN.
                probe_down_gain: f64 = $probe_down_gain, unit "", range 0.004, 1.0, source $probe_down_gain_source;
                /// Window over the bandwidth-delay product in the cycle.
                cwnd_gain: f64 = 2.0, unit "", range 1.0, 7.9, source "bbr_cwnd_gain = 512/256";
                $($probe_up_cwnd_gain)*
                /// Share of the short-term bounds that a round with losses takes.
                beta: f64 = 76.0 / 256.0, unit "", range 0.0, 0.99, source "bbr_beta = 76/256";
                /// Losses of what was in flight that are too many.
                loss_thresh: f64 = 5.0 / 256.0, unit "", range 0.004, 0.99, source "bbr_loss_thresh = 5/256";
                /// Share of `inflight_hi` that is left to others while it cruises.
                headroom: f64 = 38.0 / 256.0, unit "", range 0.0, 0.99, source "bbr_inflight_headroom = 38/256";
                /// Number of ACKs with losses that end STARTUP, in a round that lost more than `loss_thresh`.
                full_loss_count: u32 = $full_loss_count, unit "ACKs", range 1_u32, 15_u32, source $full_loss_count_source;
                /// Answer ECN, if `hosts.ecn` lets it be negotiated. The receiver then echoes every change of CE at once.
                ecn: bool = false, unit "", source $ecn_source;
                /// Answer ECN only once an RTT of at most this was seen; 0: whatever the RTT.
                ecn_max_rtt: Duration = Duration::from_millis(5), unit "", range Duration(0), Duration::from_secs(60), source "bbr_ecn_max_rtt_us = 5000";
                /// Weight of a round in the average of marks.
                ecn_alpha_gain: f64 = 16.0 / 256.0, unit "", range 0.004, 0.99, source "bbr_ecn_alpha_gain = 16/256";
                /// Share of `inflight_lo` that a round takes in which all were marked.
                ecn_factor: f64 = 85.0 / 256.0, unit "", range 0.0, 0.99, source "bbr_ecn_factor = 85/256";
                /// Share of marks that is too much for a probe and for STARTUP.
                ecn_thresh: f64 = 0.5, unit "", range 0.004, 0.99, source "bbr_ecn_thresh = 128/256";
                $($ecn_reprobe_gain)*
                /// Shortest wait between the ends of two probes.
                probe_wait: Duration = Duration::from_secs(2), unit "", range Duration::from_millis(1), Duration::from_secs(60), source "bbr_bw_probe_base_us";
                /// Additional random wait, at most.
                probe_wait_random: Duration = Duration::from_secs(1), unit "", range Duration::from_micros(1), Duration::from_secs(60), source "bbr_bw_probe_rand_us";
                /// Age at which the smallest RTT is given up.
                min_rtt_window: Duration = Duration::from_secs(10), unit "", range Duration::from_millis(100), Duration::from_secs(3600), source "bbr_min_rtt_win_sec";
                /// Time without a new smallest RTT after which PROBE_RTT looks for one.
                probe_rtt_interval: Duration = Duration::from_secs(5), unit "", range Duration::from_millis(100), Duration::from_secs(3600), source "bbr_probe_rtt_win_ms";
                /// Least time that PROBE_RTT takes; 0: there is none.
                probe_rtt_duration: Duration = Duration::from_millis(200), unit "", range Duration(0), Duration::from_secs(10), source "bbr_probe_rtt_mode_ms";
                /// Window over the bandwidth-delay product in PROBE_RTT.
                probe_rtt_cwnd_gain: f64 = 0.5, unit "", range 0.0, 0.99, source "bbr_probe_rtt_cwnd_gain = 128/256";
            }
        }
    };
}
pub(in crate::cc) use probing_params;
