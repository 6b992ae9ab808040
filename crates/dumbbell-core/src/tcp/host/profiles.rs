//! Profiles of hosts: in what other kernels differ from Linux 6.12, row by row.

use super::{HostParams, Profile};
use crate::buffers::tcp_overhead;
use crate::param::ParamType;
use serde_json::{json, Map, Value};

/// A value in the tables below.
#[derive(Clone, Copy, Debug)]
enum HostSetting {
    Is(bool),
    Word(&'static str),
    Bytes(u64),
    Count(u32),
    Nanoseconds(u64),
}

impl HostSetting {
    fn to_json(self) -> Value {
        match self {
            HostSetting::Is(on) => json!(on),
            HostSetting::Word(word) => json!(word),
            HostSetting::Bytes(bytes) => json!(bytes),
            HostSetting::Count(count) => json!(count),
            HostSetting::Nanoseconds(time) => json!(time),
        }
    }
}

/// One parameter whose value is not that of Linux 6.12.
#[derive(Clone, Copy, Debug)]
struct Difference {
    /// Congestion control whose parameter it is; `None`: a parameter of the host.
    cc: Option<&'static str>,
    key: &'static str,
    value: HostSetting,
    /// Where it is from.
    source: &'static str,
}

const fn of_host(key: &'static str, value: HostSetting, source: &'static str) -> Difference {
    Difference { cc: None, key, value, source }
}

const fn of_control(cc: &'static str, key: &'static str, value: HostSetting, source: &'static str) -> Difference {
    Difference { cc: Some(cc), key, value, source }
}

/// Changes of Linux: up to the release before the one that is named, the parameter had this value.
const LINUX: &[((u32, u32), Difference)] = &[
    ((4, 0), of_control("reno", "increase_per", HostSetting::Word("ack"), "tcp_cong_avoid_ai counts segments since 4.0")),
    ((4, 0), of_control("dctcp", "increase_per", HostSetting::Word("ack"), "tcp_cong_avoid_ai counts segments since 4.0")),
    ((4, 2), of_control("dctcp", "alpha_floor", HostSetting::Word("keep"), "dctcp_update_alpha falls to 0 since 4.2 or so")),
    ((4, 18), of_host("sack_compression", HostSetting::Is(false), "sysctl tcp_comp_sack_nr came with 4.18")),
    (
        (4, 18),
        of_host("ack_ce_change", HostSetting::Is(false), "dctcp_ece_ack_update acknowledges the new packet at once since 4.18"),
    ),
    ((5, 1), of_control("dctcp", "counting", HostSetting::Word("bytes"), "dctcp_update_alpha counts packets since 5.1")),
    ((5, 1), of_control("dctcp", "loss_response", HostSetting::Word("alpha"), "dctcp_react_to_loss came with 5.1")),
    ((5, 5), of_host("push_bursts", HostSetting::Is(false), "__tcp_transmit_skb sets PSH on bursts since 5.5")),
    ((5, 6), of_control("cubic", "hystart", HostSetting::Word("5.5"), "tcp_cubic.c: HyStart counts microseconds since 5.6")),
    (
        (5, 8),
        of_host("sack_blocks_held", HostSetting::Count(4), "tcp_sack_new_ofo_skb sends an ACK ahead of a fifth block until 5.7"),
    ),
    ((5, 8), of_host("sack_compression_slack", HostSetting::Nanoseconds(0), "sysctl tcp_comp_sack_slack_ns came with 5.8")),
    ((5, 15), of_host("prr", HostSetting::Word("rfc6937"), "tcp_cwnd_reduction follows RFC 6937bis since 5.15")),
    ((5, 18), of_host("tso_rtt", HostSetting::Is(false), "sysctl tcp_tso_rtt_log came with 5.18")),
    ((6, 5), of_host("syn_linear_timeouts", HostSetting::Count(0), "sysctl tcp_syn_linear_timeouts came with 6.5")),
    (
        (5, 18),
        of_host("expand_between_bursts", HostSetting::Is(false), "tcp_event_new_data_sent calls tcp_check_space since 5.18"),
    ),
    (
        (6, 1),
        of_host(
            "ack_push",
            HostSetting::Is(false),
            "tcp_measure_rcv_mss counts full segments with PSH since 6.6, and in 6.1.192",
        ),
    ),
    ((6, 6), of_host("window_by_payload", HostSetting::Is(false), "sysctl tcp_adv_win_scale, up to 6.5: half of the buffer")),
    (
        (6, 10),
        of_host(
            "burst_across_buffers",
            HostSetting::Is(false),
            "tcp_write_xmit takes from the next buffer since 6.10 (tcp_grow_skb)",
        ),
    ),
    (
        (6, 1),
        of_host(
            "tso_defer_near",
            HostSetting::Is(false),
            "tcp_tso_should_defer changed later, and in 6.1.192 and 6.12.117, which profiles 6.1 and 6.12 mean",
        ),
    ),
    (
        (6, 1),
        of_host(
            "early_ack_event",
            HostSetting::Is(true),
            "tcp_ack: in_ack_event moved in 6.15, and in 6.1.192 and 6.12.117, which profiles 6.1 and 6.12 mean",
        ),
    ),
    ((6, 12), of_host("ack_delay_bound", HostSetting::Is(false), "tcp_delack_max is 200 ms up to 6.1.192")),
    ((6, 12), of_host("receiver_rtt_not_zero", HostSetting::Is(false), "tcp_rtt_tsopt_us takes 0 ms for 1 ms up to 6.1.192")),
];

/// How FreeBSD 13 differs, as far as known. Most rows are from memory and were not checked against its source.
const FREEBSD_13: [Difference; 12] = [
    of_host("ecn_reduction", HostSetting::Word("immediate"), "cc_newreno.c, cc_cubic.c: CC_ECN sets cwnd at once"),
    of_host("offload", HostSetting::Word("none"), "tcp_output.c sends what the window allows and waits for no larger burst"),
    of_host("tso_rtt", HostSetting::Is(false), "no automatic size of bursts"),
    of_host("tso_defer_near", HostSetting::Is(false), "no deferral"),
    of_host("push_bursts", HostSetting::Is(false), "tcp_output.c: PSH only on a segment that empties the send buffer"),
    of_host("ack_push", HostSetting::Is(false), "tcp_input.c DELAY_ACK does not look at PSH"),
    of_host("prr", HostSetting::Word("rfc6937"), "net.inet.tcp.do_prr = 1, after RFC 6937"),
    of_host("sack_compression", HostSetting::Is(false), "it has none"),
    of_host("frto", HostSetting::Is(false), "it has another test for spurious timeouts (t_badrxtwin)"),
    of_host("send_buffer", HostSetting::Bytes(2_097_152), "net.inet.tcp.sendbuf_max"),
    of_host("receive_buffer", HostSetting::Bytes(2_097_152), "net.inet.tcp.recvbuf_max"),
    of_control("cubic", "hystart", HostSetting::Word("off"), "cc_cubic.c has HyStart++ only since FreeBSD 14"),
];

impl HostParams {
    /// Whether small buffers come from a cache of their own ([`crate::buffers`]).
    pub fn small_heads(&self) -> bool {
        self.profile.has_small_heads()
    }
}

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

    /// Whether small buffers come from a cache of their own ([`crate::buffers`]).
    fn has_small_heads(self) -> bool {
        self.is_before(6, 3) != Some(true)
    }

    /// Whether it is a Linux kernel older than a release; `None`: it is no Linux.
    pub(super) fn is_before(self, major: u32, minor: u32) -> Option<bool> {
        Some(self.linux()? < (major, minor))
    }

    fn differences(self) -> Vec<Difference> {
        match self.linux() {
            Some(release) => LINUX.iter().filter(|(since, _)| release < *since).map(|&(_, row)| row).collect(),
            None => FREEBSD_13.to_vec(),
        }
    }

    /// Every profile.
    fn list_profiles() -> Vec<Profile> {
        let crate::param::ParamKind::Choice(words) = Profile::KIND else { return Vec::new() };
        words.iter().filter_map(|&word| Profile::from_json(&json!(word)).ok()).collect()
    }

    /// Returns the switches of a host with this profile.
    pub(super) fn sets(self) -> HostParams {
        let mut params = HostParams::default();
        for (key, value) in self.hosts() {
            params.set(&key, &value).expect("rows have keys and values of hosts: a test reads them all");
        }
        params
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
        let segment_memory = tcp_overhead(profile.has_small_heads());
        json!({"hosts": profile.hosts(), "cc": profile.controls(), "sources": sources, "segment_memory": segment_memory})
    };
    Profile::list_profiles()
        .into_iter()
        .filter_map(|profile| Some((profile.to_json().as_str()?.to_string(), of(profile))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::{EcnReduction, Offload, Prr};
    use super::*;

    fn read(config: Value) -> HostParams {
        HostParams::from_json(config.as_object().unwrap()).unwrap()
    }

    #[test]
    fn every_value_of_every_profile_is_accepted_and_differs_from_the_default() {
        for profile in Profile::list_profiles() {
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
    fn small_buffers_have_a_cache_of_their_own_since_linux_6_3() {
        let of = ["linux-6.12", "linux-6.1", "linux-3.19", "freebsd-13"].map(|name| read(json!({"profile": name})).small_heads());
        assert_eq!(of, [true, false, false, true]);
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
        assert_eq!(all["linux-6.12"], json!({"hosts": {}, "cc": {}, "sources": {}, "segment_memory": 832}));
        assert_eq!(all["linux-6.1"]["segment_memory"], 768);
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
