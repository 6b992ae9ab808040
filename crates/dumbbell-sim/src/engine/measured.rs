//! What is measured of endpoints.

use super::endpoint::{Endpoint, Tcp, Transport};
use crate::measure::{FlowResult, Samples, Seen, SeenTcp};
use dumbbell_core::record::FlowCounters;
use dumbbell_core::tcp::stats::SenderStats;
use dumbbell_core::units::Time;

impl Endpoint {
    /// What it and the queue's `counters` of it have counted until `now`.
    pub fn result(&self, counters: &FlowCounters, now: Time) -> FlowResult {
        let common = FlowResult {
            start: self.start,
            end: now,
            min_rtt_us: u32::MAX,
            counters: *counters,
            samples: self.samples,
            ..FlowResult::default()
        };
        match &self.transport {
            Transport::Tcp(Tcp { sender, receiver }) => {
                let mut samples = self.samples;
                if samples.count == 0 {
                    // over before the first sample was due: its last estimate stands for it
                    samples.take(sender);
                }
                FlowResult {
                    end: sender.finished.unwrap_or(now),
                    payload: sender.bytes_acked(),
                    min_rtt_us: sender.conn.rtt().min_us(),
                    completion: sender.finished.map(|finished| finished - sender.started),
                    slow_start_exit: sender.conn.exits().first.map(|exit| (exit.cause, exit.time.saturating_sub(sender.started))),
                    samples,
                    sender: sender.stats,
                    receiver: receiver.stats,
                    ..common
                }
            }
            Transport::Other(other) => {
                let sender = SenderStats { sent: other.sent, ..SenderStats::default() };
                let samples = other.answers.as_ref().map_or(Samples::default(), |answers| answers.samples);
                FlowResult {
                    samples,
                    min_rtt_us: other.answers.as_ref().map_or(u32::MAX, |answers| answers.least_us),
                    end: other.stopped.unwrap_or(now),
                    payload: other.received.bytes,
                    sender,
                    receiver: other.received,
                    ..common
                }
            }
            Transport::Vacant => common,
        }
    }
}

impl From<&Endpoint> for Seen {
    fn from(endpoint: &Endpoint) -> Seen {
        let tcp = endpoint.tcp().map(|tcp| SeenTcp {
            srtt_us: tcp.sender.conn.rtt().srtt_us(),
            cwnd: tcp.sender.conn.cwnd,
            ssthresh: tcp.sender.conn.ssthresh,
            in_flight: tcp.sender.conn.in_flight(),
            retransmissions: tcp.sender.stats.retransmissions,
        });
        Seen { payload: endpoint.payload(), tcp }
    }
}
