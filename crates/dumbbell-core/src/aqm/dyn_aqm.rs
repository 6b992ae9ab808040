//! Queue disciplines that this crate does not know: any [`Aqm`] in a box.

use super::{Aqm, Dequeue, FlowKey};
use crate::fork::{CannotFork, SharedCopies};
use crate::log::Log;
use crate::packet::Packet;
use crate::units::{Instant, Rate};

/// Gives `$with!` every method of [`Aqm`] that is not generic: those that look at the queue, and those that change it. A method that is added to the trait is added here, and then every
/// box and enum passes it on. Generic methods, which get a log, are written out.
macro_rules! plain_methods {
    ($with:ident) => {
        $with! {
            look {
                has_room(bytes: u64) -> bool;
                earliest_packet(now: Instant) -> Option<Instant>;
                next_flow_hint() -> Option<u32>;
                prefetch(flow: u32, near: bool) -> ();
                bypass_max_len() -> u16;
                packets() -> usize;
                bytes() -> u64;
                next_timer() -> Instant;
                state(tell: &mut dyn FnMut(&'static str, f64)) -> ();
                counters() -> Vec<(String, u64)>;
                internal_queues() -> Vec<String>;
                shapes() -> bool;
                changeable() -> &'static [&'static str];
                reads_acks() -> bool;
            }
            change {
                flow_starts(flow: u32, key: &FlowKey);
                set_rate(rate: Rate, now: Instant);
                set_shaper(rate: Rate, now: Instant);
            }
        }
    };
}

macro_rules! declare {
    (look { $($look:ident($($arg:ident: $type:ty),*) -> $out:ty;)* } change { $($change:ident($($to:ident: $what:ty),*);)* }) => {
        $( fn $look(&self, $($arg: $type),*) -> $out; )*
        $( fn $change(&mut self, $($to: $what),*); )*
    };
}

macro_rules! call_trait {
    (look { $($look:ident($($arg:ident: $type:ty),*) -> $out:ty;)* } change { $($change:ident($($to:ident: $what:ty),*);)* }) => {
        $( fn $look(&self, $($arg: $type),*) -> $out { Aqm::$look(self, $($arg),*) } )*
        $( fn $change(&mut self, $($to: $what),*) { Aqm::$change(self, $($to),*); } )*
    };
}

macro_rules! call_box {
    (look { $($look:ident($($arg:ident: $type:ty),*) -> $out:ty;)* } change { $($change:ident($($to:ident: $what:ty),*);)* }) => {
        $( fn $look(&self, $($arg: $type),*) -> $out { self.0.$look($($arg),*) } )*
        $( fn $change(&mut self, $($to: $what),*) { self.0.$change($($to),*); } )*
    };
}

/// [`Aqm`] as a trait object: its logs are trait objects, too.
trait ErasedAqm: Send {
    plain_methods!(declare);
    fn enqueue(&mut self, packet: Packet, now: Instant, log: &mut dyn Log);
    fn dequeue(&mut self, now: Instant, log: &mut dyn Log) -> Dequeue;
    fn on_timer(&mut self, now: Instant, log: &mut dyn Log);
    fn fork(&self, shared: &mut SharedCopies) -> Result<Box<dyn ErasedAqm>, CannotFork>;
}

impl<A: Aqm + Send + 'static> ErasedAqm for A {
    plain_methods!(call_trait);
    fn enqueue(&mut self, packet: Packet, now: Instant, mut log: &mut dyn Log) {
        Aqm::enqueue(self, packet, now, &mut log);
    }
    fn dequeue(&mut self, now: Instant, mut log: &mut dyn Log) -> Dequeue {
        Aqm::dequeue(self, now, &mut log)
    }
    fn on_timer(&mut self, now: Instant, mut log: &mut dyn Log) {
        Aqm::on_timer(self, now, &mut log);
    }
    fn fork(&self, shared: &mut SharedCopies) -> Result<Box<dyn ErasedAqm>, CannotFork> {
        Ok(Box::new(Aqm::fork(self, shared)?))
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
    plain_methods!(call_box);
    fn enqueue<L: Log>(&mut self, packet: Packet, now: Instant, log: &mut L) {
        self.0.enqueue(packet, now, log);
    }
    fn dequeue<L: Log>(&mut self, now: Instant, log: &mut L) -> Dequeue {
        self.0.dequeue(now, log)
    }
    fn on_timer<L: Log>(&mut self, now: Instant, log: &mut L) {
        self.0.on_timer(now, log);
    }
    fn fork(&self, shared: &mut SharedCopies) -> Result<DynAqm, CannotFork> {
        self.0.fork(shared).map(DynAqm)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    /// Names of the functions in the part of `text` that begins with `from`.
    fn functions(text: &str, from: &str) -> BTreeSet<String> {
        let start = text.find(from).expect("the trait");
        let body = text[start..].split("\n}\n").next().expect("its end");
        let lines = body.lines().map(str::trim_start).filter(|line| !line.starts_with('$') && line.contains(['(', '<']));
        let named = lines.filter_map(|line| line.strip_prefix("fn ").or_else(|| line.ends_with(';').then_some(line)));
        named.filter_map(|line| line.split(['(', '<', '!']).next()).map(str::to_owned).collect()
    }

    #[test]
    fn a_box_passes_every_method_on() {
        // a default of the trait would stand in for one that is missing here, and no compiler says so
        let (all, own) = (include_str!("mod.rs"), include_str!("dyn_aqm.rs"));
        let trait_methods = all.split("pub trait Aqm").nth(1).and_then(|text| text.split("\n}\n").next()).expect("the trait");
        let of_trait = trait_methods.lines().filter_map(|line| line.strip_prefix("    fn "));
        let names = of_trait.filter_map(|line| line.split(['(', '<']).next());
        // a box does not foresee what becomes of a packet, and nothing of another type comes out of one
        let not_boxed = ["pass", "dequeue_foreseen", "note_start", "take_params"];
        let wanted: BTreeSet<String> = names.filter(|name| !not_boxed.contains(name)).map(str::to_owned).collect();
        assert!(wanted.len() > 15 && wanted.contains("bypass_max_len"), "{wanted:?}");
        let plain = functions(own, "macro_rules! plain_methods");
        for (text, part) in [
            (own, "trait ErasedAqm"),
            (own, "impl<A: Aqm + Send + 'static> ErasedAqm for A"),
            (own, "impl Aqm for DynAqm"),
            (all, "impl Aqm for AnyAqm"),
        ] {
            assert!(text.split(part).nth(1).expect("it is there").contains("plain_methods!("), "{part}");
            let written: BTreeSet<String> = functions(text, part);
            let both: BTreeSet<String> = plain.union(&written).filter(|name| wanted.contains(*name)).cloned().collect();
            assert_eq!(both, wanted, "{part}");
        }
    }
}
