//! The parameters of a connection: those of `quiche::Config`, with its defaults, or those of quiche's own client where it has none.
//!
//! Licence: MIT OR Apache-2.0.

use std::time::Duration;

use boring::ssl::SslContextBuilder;

use crate::interface::{Kind, Param};

/// How many there are.
pub const COUNT: usize = 12;

const MS: f64 = 1e6; // ns
const LARGEST: f64 = 1_099_511_627_776.0; // 2^40 bytes; a variable-length integer has 62 bits

const fn param(name: &'static str, kind: Kind, value: f64, range: (f64, f64), unit: &'static str, doc: &'static str) -> Param {
    Param { name, kind, value, min: range.0, max: range.1, unit, doc }
}

/// What an experiment file can set, in the order in which the values come.
#[rustfmt::skip]
pub static PARAMS: [Param; COUNT] = [
    param("mtu", Kind::Int, 1350.0, (1200.0, 1472.0), "bytes", "UDP payload of a full packet, at most what the link takes: 1500 bytes less the headers of IPv4 and UDP"),
    param("initial_rtt", Kind::Time, 333.0 * MS, (MS, 60e3 * MS), "", "RTT before the first sample"),
    param("initial_window", Kind::Int, 10.0, (1.0, 1e6), "packets", "initial congestion window"),
    param("initial_max_data", Kind::Size, 1e7, (1e3, LARGEST), "", "flow control window of the connection at its begin"),
    param("initial_max_stream_data", Kind::Size, 1e6, (1e3, LARGEST), "", "flow control window of the stream at its begin"),
    param("max_connection_window", Kind::Size, 25_165_824.0, (1e3, LARGEST), "", "largest flow control window of the connection"),
    param("max_stream_window", Kind::Size, 16_777_216.0, (1e3, LARGEST), "", "largest flow control window of the stream"),
    param("max_ack_delay", Kind::Time, 25.0 * MS, (0.0, 16e3 * MS), "", "delay of an acknowledgement that is told to the sender"),
    param("hystart", Kind::Bool, 1.0, (0.0, 1.0), "", "HyStart++, of reno and cubic"),
    param("pacing", Kind::Bool, 1.0, (0.0, 1.0), "", "send at the time that the stack gives a packet"),
    param("relaxed_loss_threshold", Kind::Bool, 0.0, (0.0, 1.0), "", "let the threshold of losses by time grow with spurious ones"),
    param("cubic_idle_restart_fix", Kind::Bool, 1.0, (0.0, 1.0), "", "the stack's own repair of cubic after idle times"),
];

/// The configuration of one end; a full frame takes `payload` bytes. `None` if the stack does not take it.
pub fn config(tls: SslContextBuilder, control: &str, values: &[f64], payload: u32) -> Option<quiche::Config> {
    let number = |name: &str| PARAMS.iter().zip(values).find(|(param, _)| param.name == name).map_or(0.0, |(_, value)| *value);
    let whole = |name: &str| number(name) as u64;
    let is_on = |name: &str| number(name) != 0.0;
    let mut config = quiche::Config::with_boring_ssl_ctx_builder(quiche::PROTOCOL_VERSION, tls).ok()?;
    config.set_application_protos(&[b"dumbbell"]).ok()?;
    config.verify_peer(false);
    config.set_max_idle_timeout(0);
    config.set_max_send_udp_payload_size((whole("mtu") as usize).min(payload as usize));
    config.set_initial_rtt(Duration::from_nanos(whole("initial_rtt")));
    config.set_cc_algorithm_name(control).ok()?;
    config.set_initial_congestion_window_packets(whole("initial_window") as usize);
    config.set_initial_max_data(whole("initial_max_data"));
    config.set_initial_max_stream_data_uni(whole("initial_max_stream_data"));
    config.set_initial_max_streams_uni(1);
    config.set_max_connection_window(whole("max_connection_window"));
    config.set_max_stream_window(whole("max_stream_window"));
    config.set_max_ack_delay(whole("max_ack_delay") / 1_000_000);
    config.enable_hystart(is_on("hystart"));
    config.enable_pacing(is_on("pacing"));
    config.set_enable_relaxed_loss_threshold(is_on("relaxed_loss_threshold"));
    config.set_enable_cubic_idle_restart_fix(is_on("cubic_idle_restart_fix"));
    Some(config)
}
