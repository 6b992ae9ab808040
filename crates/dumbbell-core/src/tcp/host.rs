//! What a host's TCP does: one declaration, which sender and receiver read directly, and the profiles of kernels.
//!
//! To add a switch: one declaration in [`HostParams`], and its use. If kernels differ in it, one row in the table below.

use crate::param::{read_field, ParamError, ParamType};
use crate::units::Time;
use crate::{choice, params};
use serde_json::{json, Map, Value};

choice! {
    /// Which kernel a host runs.
    pub enum Profile {
        /// Linux 6.12, the newest of its long-term releases.
        Linux612 = "linux-6.12",
        /// Linux 6.1, as 6.1.192: it has much of what later releases changed.
        Linux61 = "linux-6.1",
        /// Linux 5.10.
        Linux510 = "linux-5.10",
        /// Linux 5.4.
        Linux54 = "linux-5.4",
        /// Linux 5.1, on which the kernel of the SCE drafts is based.
        Linux51 = "linux-5.1",
        /// Linux 3.19, of the first L4S testbed, as far as known. Not modelled: its loss detection without RACK.
        Linux319 = "linux-3.19",
        /// FreeBSD 13, as far as known. Not modelled: its RTT estimator and clock, its delayed-ACK timer, its growth of socket buffers, its
        /// loss detection without RACK.
        FreeBsd13 = "freebsd-13",
    }
}

choice! {
    /// What the sending host's segmentation offload does.
    pub enum Offload {
        /// One segment at a time.
        None = "none",
        /// Bursts as Linux's TSO auto-sizing and deferral make them; since 4.17 Linux does so for every connection, in
        /// software where the device cannot.
        Tso = "tso",
        /// The same, and all hosts on the way take a burst as one packet, as Linux does with GSO and GRO on every device: an htb shaper
        /// lets it pass at once and runs into debt, a receiver acknowledges it once, `bfifo` takes or drops the whole. Other queue
        /// disciplines still decide on single packets; a step marks all or none of a burst anyway. Over a path with stages, and in front
        /// of a `link`, it is `tso`.
        Gso = "gso",
    }
}

choice! {
    /// How the sending application writes.
    pub enum Writes {
        /// Blocks of 128 KB, each when a third of the send buffer is free: with select or poll, as iperf3.
        Polling = "polling",
        /// Whenever there is memory: on a blocking socket, as netperf, which Flent runs. Not modelled: where one write ends and the next
        /// begins, on which PSH depends.
        Blocking = "blocking",
    }
}

choice! {
    /// Who opens the connection.
    pub enum Opener {
        /// Who sends the data: an upload. Its SYN and the handshake's last packet pass the bottleneck; a SYN that is sent again does not ask for
        /// ECN.
        Sender = "sender",
        /// Who receives it: a download. Only the SYN-ACK passes the bottleneck, and what was negotiated stays if it is lost.
        Receiver = "receiver",
    }
}

choice! {
    /// Who is paced.
    pub enum Pacing {
        /// Flows whose congestion control asks for it.
        Cc = "cc",
        /// Every flow, as under the fq queue discipline.
        Fq = "fq",
    }
}

choice! {
    /// How many segments recovery may send for each one delivered while the pipe is below `ssthresh`.
    pub enum Prr {
        /// RFC 6937: slow-start bound only after an ACK that advances past a retransmission (Linux up to 5.14).
        Rfc6937 = "rfc6937",
        /// RFC 6937bis: slow-start bound whenever nothing was newly lost (Linux since 5.15).
        Rfc6937bis = "rfc6937bis",
    }
}

choice! {
    /// How the window falls after a CE mark.
    pub enum EcnReduction {
        /// By proportional rate reduction, over a round trip (Linux).
        Prr = "prr",
        /// At once (RFC 3168 section 6.1.2, FreeBSD): the sender is silent until enough has left the network.
        Immediate = "immediate",
    }
}

params! {
    /// What both ends' TCP does.
    pub struct HostParams {
        /// Kernel whose behaviour the other switches follow where they are not set.
        profile: Profile = Profile::Linux612, unit "", source "tables in tcp/host.rs";
        /// Ask for and accept ECN.
        ecn: bool = true, unit "", source "sysctl tcp_ecn = 1 on both ends";
        /// Acknowledge every second full segment instead of each.
        delayed_ack: bool = true, unit "", source "RFC 5681 section 4.2; Linux tcp_input.c";
        /// Bursts of the sending host.
        offload: Offload = Offload::Tso, unit "", source "Linux tcp_tso_autosize, tcp_tso_should_defer";
        /// Who is paced.
        pacing: Pacing = Pacing::Cc, unit "", source "sch_fq paces every flow at the socket's pacing rate";
        /// Who opens the connection.
        opener: Opener = Opener::Sender, unit "", source "RFC 9293 section 3.5; Linux tcp_ecn_clear_syn, tcp_rtx_synack";
        /// How the sending application writes.
        writes: Writes = Writes::Polling, unit "", source "iperf3 (select, 128 KB), netperf (blocking); Linux tcp_sendmsg_locked, sk_stream_write_space";
        /// Initial window.
        initial_window: u32 = 10, unit "segments", range 1_u32, 10_000_u32, source "RFC 6928; Linux TCP_INIT_CWND";
        /// Slow-start threshold that an earlier connection to the same host left behind; unset: none did.
        initial_ssthresh: Option<u32> = None, unit "segments", range 2_u32, 1_000_000_000_u32, source "Linux tcp_init_metrics; sysctl tcp_no_metrics_save = 0 is the default";
        /// Payload of a full segment.
        mss: u32 = 1448, unit "bytes", range 88_u32, 8934_u32, source "MTU 1500 - 20 (IPv4) - 32 (TCP with timestamps)";
        /// Bytes in the send buffers of all flows from which on none of them grows; unset: no limit.
        memory: Option<u64> = None, unit "bytes", range 4096_u64, 1_u64 << 50, source "sysctl tcp_mem[0] in pages of 4096 B; tcp_should_expand_sndbuf, Linux since 2.6";
        /// Largest send buffer; it holds bookkeeping as well as payload.
        send_buffer: u64 = 4_194_304, unit "bytes", range 8192_u64, 1_u64 << 40, source "sysctl tcp_wmem[2]";
        /// Largest receive buffer; two thirds of it are the largest window.
        receive_buffer: u64 = 6_291_456, unit "bytes", range 8192_u64, 1_u64 << 40, source "sysctl tcp_rmem[2]";
        /// Bursts grow as the path gets shorter than 16 ms.
        tso_rtt: bool = true, unit "", source "sysctl tcp_tso_rtt_log, Linux since 5.18; false for older kernels";
        /// The sender waits for a larger burst only if the next ACK is due within 1 ms, and not whenever half a round trip has passed.
        tso_defer_near: bool = true, unit "", source "tcp_tso_should_defer, Linux 6.12.117 and 6.1.192; false for older kernels, since 4.20";
        /// A burst goes on into the next socket buffer, and does not end with the one that it began in.
        burst_across_buffers: bool = true, unit "", source "tcp_grow_skb, Linux since 6.10; false for older kernels";
        /// The send buffer may grow after every burst, not only when all is sent that may be.
        expand_between_bursts: bool = true, unit "", source "tcp_check_space in tcp_event_new_data_sent, Linux since 5.18; false for older kernels";
        /// The sender pushes the last segment of every burst of two and more.
        push_bursts: bool = true, unit "", source "Linux since 5.5 (__tcp_transmit_skb); false for older kernels";
        /// The receiver echoes SCE marks as ESCE, ahead of any delayed ACK when they begin or end.
        sce_feedback: bool = false, unit "", source "draft-grimes-tcpm-tcpsce; sysctl tcp_sce";
        /// The receiver of DCTCP acknowledges the packet at once with which CE begins or ends, not only what came before it.
        ack_ce_change: bool = true, unit "", source "dctcp_ece_ack_update, Linux since 4.18; false for older kernels; RFC 8257 section 3.2";
        /// Every segment and ACK of a connection with AccECN carries the option, which takes 12 B of the payload.
        accecn_option: bool = true, unit "", source "RFC 9768 section 3.2.3; sysctl tcp_ecn_option = 2";
        /// The receiver acknowledges the last segment of a write at once, even if it is full.
        ack_push: bool = true, unit "", source "Linux since 6.6 and in 6.1.192 (tcp_measure_rcv_mss); false for older kernels";
        /// The congestion control hears of an ACK before the scoreboard is cleaned, and not after.
        early_ack_event: bool = false, unit "", source "tcp_ack: in_ack_event after tcp_clean_rtx_queue, Linux 6.12.117 and 6.1.192; true for older kernels";
        /// The receiver offers the share of its buffer that is payload, and not half of it.
        window_by_payload: bool = true, unit "", source "scaling_ratio in tcp_win_from_space, Linux since 6.6; false for older kernels (sysctl tcp_adv_win_scale = 1)";
        /// The receiver takes no round trip of 0 ms from timestamps, instead of 1 ms.
        receiver_rtt_not_zero: bool = true, unit "", source "tcp_rcv_rtt_measure_ts, Linux 6.12; false for older kernels";
        /// The delay of an ACK ends before the peer's shortest retransmission timeout, and the estimate behind it is 200 ms at the most.
        ack_delay_bound: bool = true, unit "", source "tcp_delack_max, tcp_event_data_recv, Linux 6.12; false for older kernels";
        /// Proportional rate reduction.
        prr: Prr = Prr::Rfc6937bis, unit "", source "Linux tcp_cwnd_reduction";
        /// How the window falls after a CE mark.
        ecn_reduction: EcnReduction = EcnReduction::Prr, unit "", source "Linux tcp_enter_cwr; FreeBSD cc_newreno.c";
        /// Hold back selective acknowledgements while data is out of order.
        sack_compression: bool = true, unit "", source "sysctl tcp_comp_sack_nr = 44, tcp_comp_sack_delay_ns = 1 ms, since Linux 4.18";
        /// An ACK that is held back leaves before a block that it has to report would have so many newer ones ahead of it.
        sack_blocks_held: u32 = 2, unit "blocks", range 1_u32, 4_u32, source "TCP_SACK_BLOCKS_EXPECTED in tcp_sack_new_ofo_skb, Linux since 5.8; 4 for older kernels";
        /// So many timeouts of a SYN do not double the next one.
        syn_linear_timeouts: u32 = 4, unit "", range 0_u32, 100_u32, source "sysctl tcp_syn_linear_timeouts, Linux since 6.5; 0 for older kernels";
        /// Detect spurious retransmission timeouts.
        frto: bool = true, unit "", source "RFC 5682; sysctl tcp_frto";
        /// Shrink the window after an idle period longer than the RTO.
        slow_start_after_idle: bool = true, unit "", source "sysctl tcp_slow_start_after_idle; RFC 5681 section 4.1";
        /// Smallest retransmission timeout beyond the smoothed RTT.
        rto_min: Time = Time::from_millis(200), unit "", range Time::from_millis(1), Time::from_secs(120), source "Linux TCP_RTO_MIN";
        /// Pacing rate in slow start.
        pacing_ss_ratio: u32 = 200, unit "percent", range 10_u32, 1000_u32, source "sysctl tcp_pacing_ss_ratio";
        /// Pacing rate in congestion avoidance.
        pacing_ca_ratio: u32 = 120, unit "percent", range 10_u32, 1000_u32, source "sysctl tcp_pacing_ca_ratio";
    } over HostParams::of_profile;
}

impl HostParams {
    /// Floor of the variance term of the RTO, us.
    #[inline]
    pub(super) fn rto_min_us(&self) -> u32 {
        self.rto_min.as_micros() as u32
    }

    /// The defaults under the profile that `map` names.
    fn of_profile(map: &Map<String, Value>) -> Result<HostParams, ParamError> {
        let spec = &HostParams::specs()[0];
        let profile = map.get(spec.name).map_or(Ok(Profile::Linux612), |word| read_field(spec, word))?;
        let mut params = HostParams::default();
        for (key, value) in profile.hosts() {
            params.set(&key, &value)?;
        }
        Ok(params)
    }
}

/// A value in the tables below.
#[derive(Clone, Copy, Debug)]
enum Setting {
    Is(bool),
    Word(&'static str),
    Bytes(u64),
    Count(u32),
}

impl Setting {
    fn to_json(self) -> Value {
        match self {
            Setting::Is(on) => json!(on),
            Setting::Word(word) => json!(word),
            Setting::Bytes(bytes) => json!(bytes),
            Setting::Count(count) => json!(count),
        }
    }
}

/// One parameter whose value is not that of Linux 6.12.
#[derive(Clone, Copy, Debug)]
struct Difference {
    /// Congestion control whose parameter it is; `None`: a parameter of the host.
    cc: Option<&'static str>,
    key: &'static str,
    value: Setting,
    /// Where it is from.
    source: &'static str,
}

const fn of_host(key: &'static str, value: Setting, source: &'static str) -> Difference {
    Difference { cc: None, key, value, source }
}

const fn of_control(cc: &'static str, key: &'static str, value: Setting, source: &'static str) -> Difference {
    Difference { cc: Some(cc), key, value, source }
}

/// What Linux changed: up to the release before the one that is named, the parameter had this value.
const LINUX: &[((u32, u32), Difference)] = &[
    ((4, 0), of_control("reno", "increase_per", Setting::Word("ack"), "tcp_cong_avoid_ai counts segments since 4.0")),
    ((4, 0), of_control("dctcp", "increase_per", Setting::Word("ack"), "tcp_cong_avoid_ai counts segments since 4.0")),
    ((4, 2), of_control("dctcp", "alpha_floor", Setting::Word("keep"), "dctcp_update_alpha falls to 0 since 4.2 or so")),
    ((4, 18), of_host("sack_compression", Setting::Is(false), "sysctl tcp_comp_sack_nr came with 4.18")),
    (
        (4, 18),
        of_host("ack_ce_change", Setting::Is(false), "dctcp_ece_ack_update acknowledges the new packet at once since 4.18"),
    ),
    ((5, 1), of_control("dctcp", "counting", Setting::Word("bytes"), "dctcp_update_alpha counts packets since 5.1")),
    ((5, 1), of_control("dctcp", "loss_response", Setting::Word("alpha"), "dctcp_react_to_loss came with 5.1")),
    ((5, 5), of_host("push_bursts", Setting::Is(false), "__tcp_transmit_skb sets PSH on bursts since 5.5")),
    ((5, 6), of_control("cubic", "hystart", Setting::Word("5.5"), "tcp_cubic.c: HyStart counts microseconds since 5.6")),
    (
        (5, 8),
        of_host("sack_blocks_held", Setting::Count(4), "tcp_sack_new_ofo_skb sends an ACK ahead of a fifth block until 5.7"),
    ),
    ((5, 15), of_host("prr", Setting::Word("rfc6937"), "tcp_cwnd_reduction follows RFC 6937bis since 5.15")),
    ((5, 18), of_host("tso_rtt", Setting::Is(false), "sysctl tcp_tso_rtt_log came with 5.18")),
    ((6, 5), of_host("syn_linear_timeouts", Setting::Count(0), "sysctl tcp_syn_linear_timeouts came with 6.5")),
    ((5, 18), of_host("expand_between_bursts", Setting::Is(false), "tcp_event_new_data_sent calls tcp_check_space since 5.18")),
    (
        (6, 1),
        of_host("ack_push", Setting::Is(false), "tcp_measure_rcv_mss counts full segments with PSH since 6.6, and in 6.1.192"),
    ),
    ((6, 6), of_host("window_by_payload", Setting::Is(false), "sysctl tcp_adv_win_scale, up to 6.5: half of the buffer")),
    (
        (6, 10),
        of_host(
            "burst_across_buffers",
            Setting::Is(false),
            "tcp_write_xmit takes from the next buffer since 6.10 (tcp_grow_skb)",
        ),
    ),
    (
        (6, 1),
        of_host(
            "tso_defer_near",
            Setting::Is(false),
            "tcp_tso_should_defer changed later, and in 6.1.192 and 6.12.117, which profiles 6.1 and 6.12 mean",
        ),
    ),
    (
        (6, 1),
        of_host(
            "early_ack_event",
            Setting::Is(true),
            "tcp_ack: in_ack_event moved in 6.15, and in 6.1.192 and 6.12.117, which profiles 6.1 and 6.12 mean",
        ),
    ),
    ((6, 12), of_host("ack_delay_bound", Setting::Is(false), "tcp_delack_max is 200 ms up to 6.1.192")),
    ((6, 12), of_host("receiver_rtt_not_zero", Setting::Is(false), "tcp_rtt_tsopt_us takes 0 ms for 1 ms up to 6.1.192")),
];

/// How FreeBSD 13 differs, as far as known. Most rows are from memory and were not checked against its source.
const FREEBSD_13: [Difference; 12] = [
    of_host("ecn_reduction", Setting::Word("immediate"), "cc_newreno.c, cc_cubic.c: CC_ECN sets cwnd at once"),
    of_host("offload", Setting::Word("none"), "tcp_output.c sends what the window allows and waits for no larger burst"),
    of_host("tso_rtt", Setting::Is(false), "no automatic size of bursts"),
    of_host("tso_defer_near", Setting::Is(false), "no deferral"),
    of_host("push_bursts", Setting::Is(false), "tcp_output.c: PSH only on a segment that empties the send buffer"),
    of_host("ack_push", Setting::Is(false), "tcp_input.c DELAY_ACK does not look at PSH"),
    of_host("prr", Setting::Word("rfc6937"), "net.inet.tcp.do_prr = 1, after RFC 6937"),
    of_host("sack_compression", Setting::Is(false), "it has none"),
    of_host("frto", Setting::Is(false), "it has another test for spurious timeouts (t_badrxtwin)"),
    of_host("send_buffer", Setting::Bytes(2_097_152), "net.inet.tcp.sendbuf_max"),
    of_host("receive_buffer", Setting::Bytes(2_097_152), "net.inet.tcp.recvbuf_max"),
    of_control("cubic", "hystart", Setting::Word("off"), "cc_cubic.c has HyStart++ only since FreeBSD 14"),
];

impl Profile {
    /// Release of a Linux kernel.
    fn linux(self) -> Option<(u32, u32)> {
        match self {
            Profile::Linux612 => Some((6, 12)),
            Profile::Linux61 => Some((6, 1)),
            Profile::Linux510 => Some((5, 10)),
            Profile::Linux54 => Some((5, 4)),
            Profile::Linux51 => Some((5, 1)),
            Profile::Linux319 => Some((3, 19)),
            Profile::FreeBsd13 => None,
        }
    }

    fn differences(self) -> Vec<Difference> {
        match self.linux() {
            Some(release) => LINUX.iter().filter(|(since, _)| release < *since).map(|&(_, row)| row).collect(),
            None => FREEBSD_13.to_vec(),
        }
    }

    /// Every profile.
    fn all() -> Vec<Profile> {
        let crate::param::Kind::Choice(words) = Profile::KIND else { return Vec::new() };
        words.iter().filter_map(|&word| Profile::from_json(&json!(word)).ok()).collect()
    }

    /// Parameters of the host that differ from Linux 6.12.
    fn hosts(self) -> Map<String, Value> {
        self.differences().iter().filter(|row| row.cc.is_none()).map(|row| (row.key.into(), row.value.to_json())).collect()
    }

    /// Parameters of congestion controls that differ from those on Linux 6.12: `{name: {key: value}}`.
    pub fn controls(self) -> Map<String, Value> {
        let mut controls = Map::new();
        for row in self.differences() {
            if let Some(cc) = row.cc {
                let params = controls.entry(cc).or_insert_with(|| json!({}));
                params[row.key] = row.value.to_json();
            }
        }
        controls
    }
}

/// Every profile with the values that differ from the defaults, and where they are from: `{name: {"hosts": {key: value},
/// "cc": {name: {key: value}}, "sources": {key: source}}}`.
pub fn profiles() -> Value {
    let of = |profile: Profile| {
        let name = |row: &Difference| row.cc.map_or(row.key.into(), |cc| format!("{cc}.{}", row.key));
        let sources: Map<String, Value> = profile.differences().iter().map(|row| (name(row), row.source.into())).collect();
        json!({"hosts": profile.hosts(), "cc": profile.controls(), "sources": sources})
    };
    Profile::all().into_iter().filter_map(|profile| Some((profile.to_json().as_str()?.to_string(), of(profile)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(config: Value) -> HostParams {
        HostParams::from_json(config.as_object().unwrap()).unwrap()
    }

    #[test]
    fn every_value_of_every_profile_is_accepted_and_differs_from_the_default() {
        for profile in Profile::all() {
            let params = read(json!({"profile": profile.to_json()}));
            assert_eq!(params.profile, profile);
            for (key, value) in profile.hosts() {
                let spec = HostParams::specs().into_iter().find(|spec| spec.name == key).unwrap();
                assert_ne!(value, spec.default, "{profile:?} {key}");
            }
            for (name, keys) in profile.controls() {
                let mut config = keys.as_object().unwrap().clone();
                config.insert("name".into(), json!(name));
                assert!(crate::cc::build(&config, &crate::cc::CcContext::default()).is_ok(), "{profile:?} {name}");
            }
        }
        assert!(Profile::Linux612.differences().is_empty());
    }

    #[test]
    fn a_profile_sets_what_its_kernel_did() {
        let old = read(json!({"profile": "linux-5.1"}));
        assert!(!old.push_bursts && !old.ack_push && !old.tso_rtt && !old.tso_defer_near && old.prr == Prr::Rfc6937);
        let middle = read(json!({"profile": "linux-5.10"}));
        assert!(middle.push_bursts && !middle.ack_push && !middle.tso_rtt && middle.prr == Prr::Rfc6937);
        let newer = read(json!({"profile": "linux-6.1"}));
        assert!(newer.push_bursts && !newer.window_by_payload && newer.tso_rtt && newer.prr == Prr::Rfc6937bis);
        let other = read(json!({"profile": "freebsd-13"}));
        assert!(other.ecn_reduction == EcnReduction::Immediate && other.offload == Offload::None && !other.sack_compression);
    }

    #[test]
    fn single_switches_override_the_profile() {
        let params = read(json!({"profile": "linux-5.1", "prr": "rfc6937bis", "ack_push": true}));
        assert!(params.prr == Prr::Rfc6937bis && params.ack_push && !params.push_bursts);
        let error = HostParams::from_json(json!({"profile": "linux-2.6"}).as_object().unwrap()).unwrap_err();
        assert!(error.to_string().starts_with("profile: found \"linux-2.6\", allowed: linux-6.12"), "{error}");
    }

    #[test]
    fn profiles_are_described_by_what_differs() {
        let all = profiles();
        assert_eq!(all["linux-6.12"], json!({"hosts": {}, "cc": {}, "sources": {}}));
        assert_eq!(all["linux-5.4"]["cc"], json!({"cubic": {"hystart": "5.5"}}));
        assert_eq!(
            all["linux-3.19"]["cc"],
            json!({"cubic": {"hystart": "5.5"}, "reno": {"increase_per": "ack"},
                "dctcp": {"increase_per": "ack", "alpha_floor": "keep", "counting": "bytes", "loss_response": "alpha"}})
        );
        assert_eq!(all["linux-5.10"]["cc"], json!({}));
        assert_eq!(
            all["linux-6.1"]["hosts"],
            json!({"syn_linear_timeouts": 0, "window_by_payload": false, "ack_delay_bound": false, "burst_across_buffers": false,
                "receiver_rtt_not_zero": false})
        );
        assert!(all["linux-5.4"]["sources"]["cubic.hystart"].as_str().unwrap().contains("5.6"));
    }
}
