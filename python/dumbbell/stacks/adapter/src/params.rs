//! The parameters of a stack: those of its transport configuration by their names there, with its defaults.
//!
//! Licence: MIT OR Apache-2.0.

use std::time::Duration;

use proto::{AckFrequencyConfig, IdleTimeout, MtuDiscoveryConfig, TransportConfig, VarInt};

use crate::interface::{Kind, Param};

/// How many there are.
pub const COUNT: usize = 16;

const MS: f64 = 1e6; // ns
const LARGEST: f64 = 1_099_511_627_776.0; // 2^40 bytes; a variable-length integer has 62 bits
const MIN_MTU: f64 = 1200.0; // RFC 9000 section 14
const LINK_MTU: f64 = 1472.0; // an IP packet of 1500 bytes without the headers of IPv4 and UDP

const fn param(name: &'static str, kind: Kind, value: f64, range: (f64, f64), unit: &'static str, doc: &'static str) -> Param {
    Param { name, kind, value, min: range.0, max: range.1, unit, doc }
}

/// What an experiment file can set, in the order in which the values come.
#[rustfmt::skip]
pub static PARAMS: [Param; COUNT] = [
    param("stream_receive_window", Kind::Size, 1_250_000.0, (1e3, LARGEST), "", "flow control window of a stream"),
    param("receive_window", Kind::Size, 0.0, (0.0, LARGEST), "", "flow control window of the connection; 0: without limit"),
    param("send_window", Kind::Size, 1e7, (1e3, LARGEST), "", "bytes that the application may write before they are acknowledged"),
    param("initial_rtt", Kind::Time, 333.0 * MS, (MS, 60e3 * MS), "", "RTT before the first sample"),
    param("mtu", Kind::Int, 1452.0, (MIN_MTU, LINK_MTU), "bytes", "UDP payload of a full packet, at most what the link takes; the stack's own default is 1200, and then a search"),
    param("mtu_discovery", Kind::Bool, 0.0, (0.0, 1.0), "", "search for a larger MTU"),
    param("packet_threshold", Kind::Int, 3.0, (1.0, 1e6), "packets", "reordering that is taken for a loss"),
    param("time_threshold", Kind::Float, 9.0 / 8.0, (1.0, 100.0), "RTT", "time after which a packet is taken for lost"),
    param("persistent_congestion_threshold", Kind::Int, 3.0, (1.0, 1e6), "PTO", "time without an acknowledgement that is persistent congestion"),
    param("ack_frequency", Kind::Bool, 0.0, (0.0, 1.0), "", "ask the receiver for other acknowledgements: ack_eliciting_threshold, max_ack_delay, reordering_threshold"),
    param("ack_eliciting_threshold", Kind::Int, 1.0, (0.0, 1e6), "packets", "packets that the receiver need not acknowledge at once"),
    param("max_ack_delay", Kind::Time, 25.0 * MS, (0.0, 16e3 * MS), "", "delay of an acknowledgement that is asked for"),
    param("reordering_threshold", Kind::Int, 2.0, (0.0, 1e6), "packets", "reordering that the receiver acknowledges at once"),
    param("max_datagrams", Kind::Int, 10.0, (1.0, 64.0), "packets", "packets that are made at once, as for a send call with segmentation offload"),
    param("send_fairness", Kind::Bool, 1.0, (0.0, 1.0), "", "streams of an end that have data take turns; off, they are sent in the order in which they were written to"),
    param("initial_window", Kind::Size, 0.0, (0.0, LARGEST), "", "initial congestion window of the stack's own controls; 0: theirs"),
];

/// The values that were given.
pub struct Values<'a>(pub &'a [f64]);

impl Values<'_> {
    /// The value of a parameter.
    ///
    /// # Panics
    ///
    /// If there is none of this name.
    pub fn number(&self, name: &str) -> f64 {
        let place = PARAMS.iter().position(|param| param.name == name);
        self.0[place.expect("a name of PARAMS")]
    }

    /// The value of a whole number.
    pub fn whole(&self, name: &str) -> u64 {
        self.number(name) as u64
    }

    fn is_on(&self, name: &str) -> bool {
        self.number(name) != 0.0
    }

    fn time(&self, name: &str) -> Duration {
        Duration::from_nanos(self.whole(name))
    }

    fn varint(&self, name: &str) -> VarInt {
        VarInt::from_u64(self.whole(name)).unwrap_or(VarInt::MAX)
    }

    /// Whether to search for a larger MTU.
    pub fn mtu_discovery(&self) -> bool {
        self.is_on("mtu_discovery")
    }

    /// The transport configuration of both ends; a full frame takes `payload` bytes.
    ///
    /// It differs from the stack's defaults in two things that would only disturb: a silent connection stays open, and a packet has
    /// its full size from the beginning.
    pub fn transport(&self, payload: u32) -> TransportConfig {
        let fits = u16::try_from(payload).unwrap_or(u16::MAX).max(MIN_MTU as u16);
        let mut config = TransportConfig::default();
        config
            .stream_receive_window(self.varint("stream_receive_window"))
            .send_window(self.whole("send_window"))
            .send_fairness(self.is_on("send_fairness"))
            .initial_rtt(self.time("initial_rtt"))
            .initial_mtu((self.whole("mtu") as u16).min(fits))
            .packet_threshold(self.whole("packet_threshold") as u32)
            .time_threshold(self.number("time_threshold") as f32)
            .persistent_congestion_threshold(self.whole("persistent_congestion_threshold") as u32)
            .max_idle_timeout(None::<IdleTimeout>)
            .mtu_discovery_config(None);
        if self.whole("receive_window") > 0 {
            config.receive_window(self.varint("receive_window"));
        }
        if self.mtu_discovery() {
            let mut search = MtuDiscoveryConfig::default();
            search.upper_bound(fits);
            config.mtu_discovery_config(Some(search));
        }
        if self.is_on("ack_frequency") {
            let mut asked = AckFrequencyConfig::default();
            asked
                .ack_eliciting_threshold(self.varint("ack_eliciting_threshold"))
                .max_ack_delay(Some(self.time("max_ack_delay")))
                .reordering_threshold(self.varint("reordering_threshold"));
            config.ack_frequency_config(Some(asked));
        }
        config
    }
}
