//! Changes of a run while it is on its way, and what agents are told. No packet needs any of this.

use super::connection::Connection;
use super::delay_lines::DelayLine;
use super::endpoint::Endpoint;
use super::topology::Topology;
use super::transport::Transport;
use super::Engine;
use crate::agents::FlowObservation;
use crate::change::{Change, StagePlace};
use crate::config::{FlowConfig, RateChange, RunConfig};
use crate::extensions::TransportSpec;
use crate::hop_log::Backlog;
use crate::{ControlView, HopView};
use dumbbell_bottleneck::build_queue_at;
use dumbbell_core::aqm::{AnyAqm, Aqm, AqmSpec};
use dumbbell_core::cc::{AnyCc, CcContext, CcSpec};
use dumbbell_core::param::ParamError;
use dumbbell_core::ring::Ring;
use dumbbell_core::units::{Duration, Instant, Rate};
use std::sync::Arc;

impl<N: Topology> Engine<N> {
    /// Makes a change at `now`, up to which everything has happened.
    ///
    /// # Errors
    /// A change that this run cannot make.
    #[cold]
    pub(super) fn make_change(&mut self, change: &Change, now: Instant) -> Result<(), ParamError> {
        if !self.is_changeable {
            return Err(ParamError::new("change", "a run that was not built to be changed", "one of Builder::changeable"));
        }
        match change {
            Change::Rate { hop, rate } => self.change_rate(*hop, *rate, now),
            Change::Queue { hop, spec, keys } => return self.change_queue(*hop, (spec, keys), now),
            Change::ReplaceQueue { hop, spec } => return self.replace_queue(*hop, spec, now),
            Change::ReplaceControl { flow, spec } => return self.replace_control(*flow, spec, now),
            Change::Loss { place, stage, probability } => self.change_loss(*place, *stage, *probability),
            Change::BaseRtt { flow, rtt } => return self.change_base_rtt(*flow, *rtt, now),
            Change::Start { flow, at } => return self.change_start(*flow, *at),
            Change::Stop { flow, at } => return self.change_stop(*flow, *at),
            Change::Steer { flow, window, rate } => return self.steer(*flow, (*window, *rate), now),
        }
        Ok(())
    }

    /// The change takes its place among those of the configuration, from which capacities are computed.
    fn change_rate(&mut self, hop: usize, rate: Rate, now: Instant) {
        let number = self.clock.count_changes();
        Arc::make_mut(&mut self.config).rate_changes.insert(number, RateChange { at: now, rate, hop: hop as u16 });
        self.clock.note_change();
        self.net.change_rate(number, &self.config, now);
    }

    fn change_queue(&mut self, hop: usize, (spec, keys): (&AqmSpec, &[String]), now: Instant) -> Result<(), ParamError> {
        if keys.is_empty() {
            return Ok(());
        }
        let (config, fresh) = self.build_other_queue(hop, spec, now)?;
        let changeable = fresh.changeable();
        if let Some(key) = keys.iter().find(|key| !changeable.contains(&key.as_str())) {
            let found = format!("a parameter that {} cannot change while it runs", spec.name());
            let allowed = if changeable.is_empty() { "none".to_owned() } else { changeable.join(", ") };
            return Err(ParamError::new(format!("aqm.{key}"), found, allowed));
        }
        self.net.take_params(hop, fresh, now).map_err(|error| error.prefix_key("aqm"))?;
        self.config = Arc::new(config);
        Ok(())
    }

    /// Returns the configuration with `spec` as the queue discipline of `hop`, and the discipline.
    fn build_other_queue(&self, hop: usize, spec: &AqmSpec, now: Instant) -> Result<(RunConfig, AnyAqm), ParamError> {
        let mut config = (*self.config).clone();
        match hop.checked_sub(1) {
            None => config.aqm = spec.clone(),
            Some(other) => config.hops[other].aqm = spec.clone(),
        }
        let rate = self.present_rate(hop);
        let queue = build_queue_at(&config, hop, rate, now)?;
        Ok((config, queue))
    }

    /// Returns the rate of the link of `hop` after the changes so far.
    fn present_rate(&self, hop: usize) -> Rate {
        let changes = &self.config.rate_changes[..self.clock.count_changes()];
        let last = changes.iter().rev().find(|change| usize::from(change.hop) == hop);
        last.map_or(self.config.hop_params(hop).rate, |change| change.rate)
    }

    fn replace_queue(&mut self, hop: usize, spec: &AqmSpec, now: Instant) -> Result<(), ParamError> {
        let (config, fresh) = self.build_other_queue(hop, spec, now)?;
        let mut link = config.named_link(hop).is_none().then(|| config.hop_params(hop).link(fresh.shapes()));
        if let Some(link) = &mut link {
            link.set_rate(self.present_rate(hop), now);
        }
        self.net.replace_queue(hop, fresh, link, now);
        self.config = Arc::new(config);
        Ok(())
    }

    /// Another congestion control takes over a flow of TCP.
    fn replace_control(&mut self, flow: usize, spec: &CcSpec, now: Instant) -> Result<(), ParamError> {
        let refuse = |found: String, allowed: &str| Err(ParamError::new("cc", found, allowed));
        let Some(FlowConfig { transport, params, .. }) = self.config.flows.get(flow) else {
            return refuse(format!("flow {flow}, which is UDP"), "a flow of TCP");
        };
        let TransportSpec::Tcp(present) = &**transport else {
            return refuse(format!("flow {flow} with the stack {}", transport.name()), "a flow of TCP");
        };
        if present == spec {
            return Ok(());
        }
        if [present, spec].into_iter().any(|one| matches!(one, CcSpec::External(_))) {
            let found = format!("{} in the place of {} for flow {flow}", spec.name(), present.name());
            return refuse(found, "controls other than external, which agents of the experiment steer");
        }
        let ecn = (params.ecn.unwrap_or(self.host.ecn), params.ecn_echo);
        let context = CcContext { seed: self.config.run.seed, flow: flow as u64 };
        let Transport::Tcp(tcp) = &mut self.arena.get_mut(flow as u32).transport else {
            return refuse(format!("flow {flow}"), "a flow of TCP");
        };
        if let Err(why) = tcp.replace_control(spec.build(&context), ecn, now) {
            return refuse(format!("{} for flow {flow}, {why}", spec.name()), "a connection that can have it");
        }
        let mut config = (*self.config).clone();
        config.flows[flow].transport = Arc::new(TransportSpec::Tcp(spec.clone()));
        self.config = Arc::new(config);
        Ok(())
    }

    fn change_loss(&mut self, place: StagePlace, stage: usize, probability: f64) {
        match place {
            StagePlace::Ahead(hop) => self.net.set_loss(hop, false, stage, probability),
            StagePlace::Behind(hop) => self.net.set_loss(hop, true, stage, probability),
            StagePlace::Data(flow) => {
                let path = &mut self.arena.get_mut(flow as u32).stages.data;
                path.as_mut().is_some_and(|path| path.set_loss(stage, probability))
            }
            StagePlace::Acks(flow) => {
                let path = &mut self.arena.get_mut(flow as u32).stages.acks;
                path.as_mut().is_some_and(|path| path.set_loss(stage, probability))
            }
        };
    }

    /// The endpoint joins a line of the new delay, whose senders' clocks run ahead as its own does.
    fn change_base_rtt(&mut self, flow: usize, rtt: Duration, now: Instant) -> Result<(), ParamError> {
        let is_tcp = self.config.flows.get(flow).is_some_and(|one| matches!(*one.transport, TransportSpec::Tcp(_)));
        if !is_tcp {
            return Err(ParamError::new("base_rtt", format!("flow {flow}, which is not TCP"), "a flow of TCP"));
        }
        let slot = flow as u32;
        let (from, member) = (self.arena.get(slot).line, self.arena.get(slot).member);
        let DelayLine { delay, up, ahead, over, .. } = self.net.lines().all[from as usize];
        if rtt == delay {
            return Ok(());
        }
        let found = self.net.lines().all.iter().position(|one| (one.delay, one.up, one.ahead) == (rtt, up, ahead));
        let to = match found {
            Some(line) => line as u32,
            None => {
                let line = DelayLine { delay: rtt, up, ahead, acks: Ring::default(), members: Vec::new(), over, is_added: true };
                self.clock.add_line(from as usize);
                self.lines_left += usize::from(!over);
                self.net.lines_mut().add_line(line)
            }
        };
        let members = &mut self.net.lines_mut().all[from as usize].members;
        members.swap_remove(member as usize);
        if let Some(&moved) = members.get(member as usize) {
            self.arena.get_mut(moved).member = member;
        }
        self.arena.get_mut(slot).line = to;
        self.join(slot);
        self.net.lines_mut().move_acks(slot, from, to, now);
        self.net.set_line(slot, to);
        self.net.plan();
        Ok(())
    }

    fn change_start(&mut self, flow: usize, at: Instant) -> Result<(), ParamError> {
        let refuse =
            |found: &str| Err(ParamError::new("start", format!("flow {flow}, which {found}"), "a flow that has not begun"));
        if self.config.flows.get(flow).is_some_and(|one| one.params.connect.is_some()) {
            return refuse("connects before it writes");
        }
        let slot = flow as u32;
        if self.arena.get(slot).transport.has_begun() {
            return refuse("has begun");
        }
        let ahead = self.net.lines().all[self.arena.get(slot).line as usize].ahead;
        self.arena.get_mut(slot).start = at.saturating_add(ahead);
        self.plan_timer(slot);
        Ok(())
    }

    fn change_stop(&mut self, flow: usize, at: Instant) -> Result<(), ParamError> {
        let slot = flow as u32;
        let refuse = |found: &str| Err(ParamError::new("stop", format!("flow {flow}, which {found}"), "a flow that sends"));
        if !self.arena.get(slot).transport.has_begun() {
            return refuse("has not begun");
        }
        if self.arena.get(slot).transport.is_done() {
            return refuse("is over");
        }
        let ahead = self.net.lines().all[self.arena.get(slot).line as usize].ahead;
        self.arena.get_mut(slot).stop = at.saturating_add(ahead);
        self.plan_timer(slot);
        Ok(())
    }

    fn steer(&mut self, flow: usize, (window, rate): (Option<u32>, Option<Rate>), now: Instant) -> Result<(), ParamError> {
        let slot = flow as u32;
        let is_steered = match &mut self.arena.get_mut(slot).transport {
            Transport::Tcp(tcp) => tcp.sender.steer(window, rate, now),
            _ => false,
        };
        if !is_steered {
            let name = self.config.flows.get(flow).map_or("udp", |one| one.transport.name());
            return Err(ParamError::new(
                "cwnd",
                format!("flow {flow} with the control {name}"),
                "a flow with the control external",
            ));
        }
        self.arena.timer_not_after(slot, now);
        Ok(())
    }

    /// Returns each hop as it is now.
    #[cold]
    pub(super) fn view_hops(&self) -> Vec<HopView> {
        let mut hops = Vec::new();
        self.net.hops(&mut |name, Backlog { packets, bytes }, counters| {
            hops.push(HopView { name: name.to_owned(), packets, bytes, counters: *counters, states: Vec::new() });
        });
        self.net.states(&mut |name, state, value| {
            hops.iter_mut().filter(|hop| hop.name == name).for_each(|hop| hop.states.push((state, value)));
        });
        hops
    }

    /// Returns the congestion control of each TCP connection as it is now.
    #[cold]
    pub(super) fn view_controls(&self) -> Vec<ControlView> {
        let view = |(_, endpoint): (u32, &Endpoint)| {
            let Transport::Tcp(tcp) = &endpoint.transport else { return None };
            let conn = &tcp.sender.conn;
            let pacing_rate = conn.paced.then_some(conn.pacing_rate);
            Some(ControlView { number: endpoint.number, ca_state: conn.state(), pacing_rate, model: tcp.sender.model() })
        };
        self.arena.iter().filter(|(_, one)| !one.is_vacant()).filter_map(view).collect()
    }

    /// Whether the sender in `slot`, which an acknowledgement has reached, has the control `external`.
    #[cold]
    pub(super) fn is_acked(&self, slot: u32) -> bool {
        match &self.arena.get(slot).transport {
            Transport::Tcp(tcp) => matches!(&tcp.sender.cc, AnyCc::External(control) if control.has_acks()),
            _ => false,
        }
    }

    /// Takes what the agent of listed flow number `flow` is told, if its control is `external`.
    #[cold]
    pub(super) fn observe_flow(&mut self, flow: usize) -> Option<FlowObservation> {
        if flow >= self.config.flows.len() {
            return None;
        }
        let Transport::Tcp(tcp) = &mut self.arena.get_mut(flow as u32).transport else { return None };
        let sender = &mut tcp.sender;
        let AnyCc::External(control) = &mut sender.cc else { return None };
        let rtts = control.take_rtts();
        let (conn, stats) = (&sender.conn, sender.stats());
        Some(FlowObservation {
            delivered: conn.delivered_segments(),
            delivered_ce: conn.delivered_ce(),
            lost: sender.count_lost(),
            sent: stats.sent,
            acked_bytes: sender.bytes_acked(),
            rtts,
            in_flight: conn.in_flight(),
            cwnd: conn.cwnd,
            pacing_rate: if conn.paced { conn.pacing_rate } else { 0 },
            srtt_us: conn.rtt().srtt_us(),
            min_rtt_us: conn.rtt().min_us(),
            mss: conn.mss,
        })
    }
}
