//! Events that a congestion control receives, and requests that it may make to the transport. The state that it sees is [`Conn`](super::conn::Conn).

use crate::packet::Ecn;
use crate::units::Instant;

/// The part that decides how fast a connection sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// The window: the control grows it and names thresholds, PRR carries reductions out, and the pacing rate follows from the window
    /// (Linux `tcp_update_pacing_rate`).
    Window,
    /// The window as above, while the control sets [`pacing_rate`](super::conn::Conn::pacing_rate) itself.
    Rate,
    /// The control sets window and pacing rate in [`cong_control`](super::CongestionControl::cong_control), which replaces growth, PRR and
    /// the pacing rate of Linux.
    Both,
}

/// How a receiver echoes CE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Echo {
    /// RFC 3168: ECE on every ACK from the first CE until CWR comes.
    UntilCwr,
    /// RFC 9768 (AccECN): each ACK has the count of CE packets; nothing is latched, CWR means nothing.
    Accurate,
    /// RFC 8257 section 3.2: ECE says whether the packets that an ACK covers came with CE; a change is acknowledged at once.
    PerPacket,
}

/// Use of ECN that a control asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EcnUse {
    /// The control needs ECN whatever the host's setting, and an ECN-capable codepoint on every packet: on SYNs, pure ACKs and retransmissions too (Linux `TCP_CONG_NEEDS_ECN`). If the peer
    /// has none, [Reno](super::AnyCc::without_ecn) takes its place.
    pub required: bool,
    /// Codepoint of its data: ECT(0), or ECT(1) as the L4S identifier (RFC 9331). Not-ECT if the control has no answer to CE: ECN is then not asked for, whatever the host's setting.
    pub codepoint: Ecn,
    /// Echo that it expects of the receiver.
    pub echo: Echo,
    /// A peer that does not count CE is as one without ECN. Linux `TCP_CONG_NO_FALLBACK_RFC3168`.
    pub only_accurate: bool,
    /// Once ECN is agreed, retransmissions and pure ACKs carry the codepoint too, even if it is not required. Linux `TCP_ECN_ECT_PERMANENT` of BBRv2 and v3.
    pub every_packet: bool,
}

impl Default for EcnUse {
    /// RFC 3168, if the host wants it.
    fn default() -> EcnUse {
        EcnUse { required: false, codepoint: Ecn::Ect0, echo: Echo::UntilCwr, only_accurate: false, every_packet: false }
    }
}

/// Which connection a control is built for.
#[derive(Clone, Copy, Debug, Default)]
pub struct CcContext {
    /// Seed of the run.
    pub seed: u64,
    /// Number of the flow.
    pub flow: u64,
}

/// Contents of an arriving ACK. The data that it delivers are in [`RateSample`]; the counters of the connection have it already, unless the
/// host calls it for ACKs before it cleans the scoreboard ([`early_ack_event`](crate::tcp::host::HostParams::early_ack_event)).
#[derive(Clone, Copy, Debug, Default)]
pub struct AckEvent {
    /// The ACK carries ECE, or an AccECN receiver counted CE.
    pub ece: bool,
    /// The ACK carries ESCE (SCE drafts: the former NS bit).
    pub esce: bool,
    /// Segments by which it advances `snd_una`.
    pub advanced: u64,
    /// `snd_una` after it; before the clean-up the connection's own is still the old one, unlike Linux's.
    pub una: u64,
    /// CE packets that an AccECN receiver newly counted; `None` without AccECN.
    pub new_ce: Option<u32>,
    /// One-way delay by timestamps (RFC 7323), ms: the clock of the receiver when the ACK left, less the timestamp that it echoes. Clocks of hosts disagree, so that only
    /// differences say something. An ACK that does not advance echoes a timestamp older than the packet that caused it.
    pub one_way_ms: i32,
}

/// Sample of an ACK: Linux `struct rate_sample`, with the deviations that `tcp/rate.rs` names. Counts are segments. Fields `ack_…` count what this ACK alone brought (the plugin
/// interface calls them `delivered`, `marked` and `lost`); fields `sample_…` count over the interval of the sample, as they do for plugins, and are there only if the control asks for
/// [rate samples](super::CongestionControl::rate_samples), as are those that tell of the segment of the sample.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RateSample {
    /// Newly delivered by this ACK, cumulatively or selectively. Linux `acked_sacked`.
    pub ack_delivered: u32,
    /// Newly marked with CE: by AccECN's count, or all that an ACK with ECE delivers. Prague's `ece_delta`.
    pub ack_marked: u32,
    /// Newly thought lost, retransmissions that were lost again included. Linux `losses`.
    pub ack_lost: u32,
    /// In flight before this ACK did anything.
    pub prior_in_flight: u32,
    /// For how much longer pacing holds the next transmission, us. Linux `tcp_wstamp_ns` less the time.
    pub pacing_wait_us: u64,
    /// The ACK may be of a tail-loss probe or of what the probe repeats: which is not known yet. Linux `is_acking_tlp_retrans_seq`.
    pub acks_probe: bool,
    /// RTT of the newest segment that it acknowledges or SACKs and that was sent once, us.
    pub rtt_us: Option<u32>,
    /// The ACK has ECE, or CE was counted.
    pub ece: bool,
    /// Delivered over the interval of the sample; `None`: this ACK gives no sample.
    pub sample_delivered: Option<u32>,
    /// Segments among these with CE.
    pub sample_marked: u32,
    /// Thought lost over the interval.
    pub sample_lost: u32,
    /// The longer of sending and acknowledging, us; `None`: no sample, or shorter than the connection's smallest RTT, so that the rate says
    /// nothing.
    pub interval_us: Option<u64>,
    /// `delivered` of the connection when the segment of the sample was sent.
    pub prior_delivered: u64,
    /// `sample_marked` likewise.
    pub prior_delivered_ce: u64,
    /// In flight when the segment of the sample was sent, its whole burst included.
    pub tx_in_flight: u32,
    /// The application was the limit when it was sent.
    pub is_app_limited: bool,
    /// Whether it had been retransmitted.
    pub is_retrans: bool,
}

/// A segment that was just marked lost. Linux `skb_marked_lost`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossEvent {
    /// Number of the segment.
    pub seq: u64,
    /// In flight when it was sent, itself included, but not what its burst had behind it: Linux counts so where it divides a burst (`tcp_fragment`
    /// with BBRv3's patch).
    pub tx_in_flight: u32,
    /// Marked lost since it was sent, itself included.
    pub lost: u32,
    /// The application was the limit when it was sent.
    pub is_app_limited: bool,
    /// When it was last sent.
    pub sent: Instant,
}

/// Model of the path that a control has, for traces and checks. Names are those of draft-ietf-ccwg-bbr, which calls `bw_lo`, `inflight_lo`
/// and `inflight_hi` of Linux `bw_shortterm`, `inflight_shortterm` and `inflight_longterm`. Volumes are segments, rates bytes of payload per second; `None`: the bound is
/// not set, or this control has none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Model {
    /// State; of a plugin any name. Of BBR: `startup`, `drain`, `probe_down`, `probe_cruise`, `probe_refill`, `probe_up` or `probe_rtt`. BBRv1, which has no such names, is said to go up at a pacing
    /// gain above one, down below one, and to cruise at one.
    pub state: &'static str,
    /// Round trips so far, as the control counts them; the largest number if a plugin does not tell it.
    pub round: u64,
    /// Largest delivery rate of its filter; the largest number if a plugin does not tell it.
    pub max_bw: u64,
    /// Bandwidth that pacing and window follow: `max_bw` within its bounds; likewise.
    pub bw: u64,
    /// Short-term bound of the rate.
    pub bw_shortterm: Option<u64>,
    /// Short-term bound of what is in flight.
    pub inflight_shortterm: Option<u32>,
    /// Long-term bound of what is in flight.
    pub inflight_longterm: Option<u32>,
    /// Smallest RTT of its filter, us; `None` before the first.
    pub min_rtt_us: Option<u32>,
    /// Aggregation of ACKs that the window allows for; the largest number if a plugin does not tell it.
    pub extra_acked: u32,
    /// `bw` times `min_rtt`, with what is added to it for bursts and as a floor: `BBRInflight(1.0)`; the largest number if a plugin does not tell it.
    pub inflight: u32,
    /// By how much the long-term bound rises in a round while it is probed.
    pub probe_up_step: Option<u32>,
    /// Pacing gain; NaN if a plugin does not tell it.
    pub pacing_gain: f64,
    /// Window gain; likewise.
    pub cwnd_gain: f64,
    /// The rate grows no more, in this search for bandwidth.
    pub full_bw_now: Option<bool>,
    /// Whether the rate has stopped growing once: startup is over.
    pub full_bw_reached: Option<bool>,
    /// The connection restarts after idleness.
    pub idle_restart: Option<bool>,
    /// Average share of marked segments by which it answers ECN.
    pub ecn_alpha: Option<f64>,
}
