//! Delivery at enqueue: which runs may deliver packets ahead of their time.
//!
//! Behind a queue that is first in, first out, on a serial link, the fate of a packet is known when it is sent: it starts when all those in front have left,
//! so that its time in queue, its mark and its departure follow ([`Bottleneck::pass`](dumbbell_bottleneck::Bottleneck::pass)). The receiver depends on its own packets and timers alone. So the
//! packet reaches it in the same turn of the event loop, and the acknowledgement begins its way at the time at which it will: the packet is never stored, and there
//! is no event of the link. A run has the same results, bit by bit, because
//!
//! - nothing that looks at counters, queues or receivers happens before the packet has left: a packet that leaves at the *horizon* or later takes the
//!   usual way. The horizon is the earliest of these: the next event of the clock except arrivals of short flows, which look at nothing; the next start of a flow, when all flows' progress
//!   is noted; the next time of the queue discipline's own clock; and the time up to which the run may go.
//! - packets that wait in the queue because of that, or because the discipline could not judge them yet, go over the link ahead of their time as soon as their fate is
//!   known ([`Bottleneck::advance_ahead`](dumbbell_bottleneck::Bottleneck::advance_ahead)). A packet that arrives meanwhile queues behind them.
//! - a receiver's timers that are due before a packet arrives fire first.
//! - acknowledgements enter their line in the order in which the event loop takes events of one instant: those of packets, as these left, and then those of
//!   timers, by slot ([`DelayLines::insert`](super::delay_lines::DelayLines::insert)).
//! - a short flow is not over before its last packet has arrived.

use crate::config::{RunConfig, Shaper};
use crate::extensions::TransportSpec;
use dumbbell_core::packet::HEADERS;
use dumbbell_core::tcp::host::Offload;
use dumbbell_core::units::{Duration, Rate};

/// Whether packets of `config`, which has one hop and no listeners, may be delivered when they are sent, if the queue discipline foresees their fate.
pub fn may_deliver_ahead(config: &RunConfig) -> bool {
    let bottleneck = &config.bottleneck;
    let is_serial = config.link.is_none() && bottleneck.trace.is_none() && bottleneck.shaper == Shaper::Link;
    let is_bare = config.path.is_empty() && config.behind.is_empty() && config.delay == Duration::ZERO;
    let stages = config.flows.iter().map(|flow| &*flow.stages);
    let stages = stages.chain(config.web.iter().map(|web| &web.stages)).chain(config.udp.iter().map(|udp| &udp.stages));
    let are_bare = stages.into_iter().all(|stages| stages.path.is_empty() && stages.ack_path.is_empty());
    let are_known = config.flows.iter().all(|flow| matches!(*flow.transport, TransportSpec::Tcp(_)))
        && config.udp.iter().all(|udp| udp.protocol.is_none());
    // an acknowledgement that a timer causes arrives after all timers of that instant
    let rtts = config.flows.iter().map(|flow| flow.params.base_rtt).chain(config.web.iter().map(|web| web.params.base_rtt));
    let takes_rtt = |rtt: Duration| rtt > Duration::ZERO;
    let hosts = &config.hosts;
    // the headers alone take a nanosecond or more: what is sent at an instant does not leave at that instant
    let rates = std::iter::once(bottleneck.rate).chain(config.rate_changes.iter().map(|change| change.rate));
    let takes_time = |rate: Rate| rate.bits() > 0 && rate.serialise(u64::from(HEADERS)) > Duration::ZERO;
    config.apps.is_empty()
        && is_serial
        && is_bare
        && are_bare
        && are_known
        && hosts.memory.is_none()
        && hosts.offload != Offload::Gso
        && config.record.trace.is_none()
        && rates.into_iter().all(takes_time)
        && rtts.into_iter().all(takes_rtt)
}
