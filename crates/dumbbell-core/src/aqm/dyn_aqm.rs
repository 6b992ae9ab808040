//! Queue disciplines that this crate does not know: any [`Aqm`] in a box.

use super::{Aqm, Dequeue, FlowKey};
use crate::log::Log;
use crate::packet::Packet;
use crate::units::{Rate, Time};

/// [`Aqm`] as a trait object: its logs are trait objects, too.
trait ErasedAqm: Send {
    fn flow_starts(&mut self, flow: u32, key: &FlowKey);
    fn has_room(&self, bytes: u64) -> bool;
    fn enqueue(&mut self, packet: Packet, now: Time, log: &mut dyn Log);
    fn earliest_packet(&self, now: Time) -> Option<Time>;
    fn dequeue(&mut self, now: Time, log: &mut dyn Log) -> Dequeue;
    fn next_flow_hint(&self) -> Option<u32>;
    fn prefetch(&self, flow: u32, near: bool);
    fn bypass_max_len(&self) -> u16;
    fn packets(&self) -> usize;
    fn bytes(&self) -> u64;
    fn next_timer(&self) -> Time;
    fn on_timer(&mut self, now: Time, log: &mut dyn Log);
    fn set_rate(&mut self, rate: Rate, now: Time);
    fn state(&self, tell: &mut dyn FnMut(&'static str, f64));
    fn counters(&self) -> Vec<(String, u64)>;
    fn internal_queues(&self) -> Vec<String>;
    fn shapes(&self) -> bool;
    fn reads_acks(&self) -> bool;
}

impl<A: Aqm + Send> ErasedAqm for A {
    fn flow_starts(&mut self, flow: u32, key: &FlowKey) {
        Aqm::flow_starts(self, flow, key);
    }
    fn has_room(&self, bytes: u64) -> bool {
        Aqm::has_room(self, bytes)
    }
    fn enqueue(&mut self, packet: Packet, now: Time, mut log: &mut dyn Log) {
        Aqm::enqueue(self, packet, now, &mut log);
    }
    fn earliest_packet(&self, now: Time) -> Option<Time> {
        Aqm::earliest_packet(self, now)
    }
    fn dequeue(&mut self, now: Time, mut log: &mut dyn Log) -> Dequeue {
        Aqm::dequeue(self, now, &mut log)
    }
    fn next_flow_hint(&self) -> Option<u32> {
        Aqm::next_flow_hint(self)
    }
    fn prefetch(&self, flow: u32, near: bool) {
        Aqm::prefetch(self, flow, near);
    }
    fn bypass_max_len(&self) -> u16 {
        Aqm::bypass_max_len(self)
    }
    fn packets(&self) -> usize {
        Aqm::packets(self)
    }
    fn bytes(&self) -> u64 {
        Aqm::bytes(self)
    }
    fn next_timer(&self) -> Time {
        Aqm::next_timer(self)
    }
    fn on_timer(&mut self, now: Time, mut log: &mut dyn Log) {
        Aqm::on_timer(self, now, &mut log);
    }
    fn set_rate(&mut self, rate: Rate, now: Time) {
        Aqm::set_rate(self, rate, now);
    }
    fn state(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        Aqm::state(self, tell);
    }
    fn counters(&self) -> Vec<(String, u64)> {
        Aqm::counters(self)
    }
    fn internal_queues(&self) -> Vec<String> {
        Aqm::internal_queues(self)
    }
    fn shapes(&self) -> bool {
        Aqm::shapes(self)
    }
    fn reads_acks(&self) -> bool {
        Aqm::reads_acks(self)
    }
}

/// A queue discipline of any type.
pub struct DynAqm(Box<dyn ErasedAqm>);

impl DynAqm {
    /// `aqm` in a box.
    pub fn new(aqm: impl Aqm + Send + 'static) -> DynAqm {
        DynAqm(Box::new(aqm))
    }
}

impl Aqm for DynAqm {
    fn flow_starts(&mut self, flow: u32, key: &FlowKey) {
        self.0.flow_starts(flow, key);
    }
    fn has_room(&self, bytes: u64) -> bool {
        self.0.has_room(bytes)
    }
    fn enqueue<L: Log>(&mut self, packet: Packet, now: Time, log: &mut L) {
        self.0.enqueue(packet, now, log);
    }
    fn earliest_packet(&self, now: Time) -> Option<Time> {
        self.0.earliest_packet(now)
    }
    fn dequeue<L: Log>(&mut self, now: Time, log: &mut L) -> Dequeue {
        self.0.dequeue(now, log)
    }
    fn next_flow_hint(&self) -> Option<u32> {
        self.0.next_flow_hint()
    }
    fn prefetch(&self, flow: u32, near: bool) {
        self.0.prefetch(flow, near);
    }
    fn bypass_max_len(&self) -> u16 {
        self.0.bypass_max_len()
    }
    fn packets(&self) -> usize {
        self.0.packets()
    }
    fn bytes(&self) -> u64 {
        self.0.bytes()
    }
    fn next_timer(&self) -> Time {
        self.0.next_timer()
    }
    fn on_timer<L: Log>(&mut self, now: Time, log: &mut L) {
        self.0.on_timer(now, log);
    }
    fn set_rate(&mut self, rate: Rate, now: Time) {
        self.0.set_rate(rate, now);
    }
    fn state(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        self.0.state(tell);
    }
    fn counters(&self) -> Vec<(String, u64)> {
        self.0.counters()
    }
    fn internal_queues(&self) -> Vec<String> {
        self.0.internal_queues()
    }
    fn shapes(&self) -> bool {
        self.0.shapes()
    }
    fn reads_acks(&self) -> bool {
        self.0.reads_acks()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    /// Names of the functions in the part of `text` that begins with `from`.
    fn functions(text: &str, from: &str) -> BTreeSet<String> {
        let start = text.find(from).expect("the trait");
        let body = text[start..].split("\n}\n").next().expect("its end");
        let lines = body.lines().filter_map(|line| line.strip_prefix("    fn "));
        lines.filter_map(|line| line.split(['(', '<']).next()).map(str::to_owned).collect()
    }

    #[test]
    fn a_box_passes_every_method_on() {
        // a default of the trait would stand in for one that is missing here, and no compiler says so
        let (all, own) = (include_str!("mod.rs"), include_str!("dyn_aqm.rs"));
        let wanted = functions(all, "pub trait Aqm");
        assert!(wanted.len() > 15 && wanted.contains("bypass_max_len"), "{wanted:?}");
        for part in ["trait ErasedAqm", "impl<A: Aqm + Send> ErasedAqm for A", "impl Aqm for DynAqm"] {
            assert_eq!(functions(own, part), wanted, "{part}");
        }
        assert_eq!(functions(all, "impl Aqm for AnyAqm"), wanted);
    }
}
