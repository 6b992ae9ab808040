//! Programs that set the rates of shapers while a run goes on, each on a clock of its own.

use super::clock::NextEvent;
use super::topology::Topology;
use super::Engine;
use crate::config::AppConfig;
use dumbbell_core::app::StreamDirection;
use dumbbell_core::protocol::ShaperControl;
use dumbbell_core::units::{Duration, Instant, Rate};

/// A program, and the shapers whose rates it sets.
pub struct RunningControl {
    control: Box<dyn ShaperControl>,
    /// Number of the hop that shapes each way, by [`StreamDirection::index`].
    hops: [Option<usize>; 2],
    /// Rates that the shapers have.
    rates: [Option<Rate>; 2],
    /// Propagation of one way.
    propagation: Duration,
    /// When it is called next, and when it stops.
    next: Instant,
    stop: Instant,
}

dumbbell_core::fork_fields! { RunningControl { control; hops, rates, propagation, next, stop } }

impl<N: Topology> Engine<N> {
    /// Adds the program of an application, which starts and stops at these times.
    pub(super) fn add_control(&mut self, one: &AppConfig, control: Box<dyn ShaperControl>, (start, stop): (Instant, Instant)) {
        let hops = StreamDirection::ALL.map(|way| self.config.shaper_of(one.route(way)));
        let propagation = one.params.base_rtt / 2;
        self.controls.push(RunningControl { control, hops, rates: [None; 2], propagation, next: start, stop });
        self.plan_controls();
    }

    /// The next call of a program.
    fn plan_controls(&mut self) {
        let end = self.config.end();
        let next = self.controls.iter().filter(|one| one.next < one.stop.min(end)).map(|one| one.next).min();
        self.clock.set(NextEvent::Control, next.unwrap_or(Instant::NEVER));
    }

    /// Calls the programs that are due.
    pub(super) fn control_shapers(&mut self, now: Instant) {
        let Engine { controls, net, .. } = self;
        for one in controls.iter_mut().filter(|one| one.next <= now && now < one.stop) {
            let carried = one.hops.map(|hop| hop.map_or(0, |hop| net.taken_bytes(hop)));
            let wanted = one.control.control(now, one.propagation, carried);
            for ((shaper, last), rate) in one.hops.into_iter().zip(&mut one.rates).zip(wanted) {
                if let (Some(hop), true) = (shaper, *last != Some(rate)) {
                    net.set_shaper(hop, rate, now);
                    *last = Some(rate);
                }
            }
            one.next = now.saturating_add(one.control.interval());
        }
        self.plan_controls();
    }
}
