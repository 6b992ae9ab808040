//! The states of a BBR that probes for bandwidth, each with its own variables. The draft's BBR and v2 and v3 of Linux share them.

/// `BBR.state` of the draft; Linux `mode` and `cycle_idx`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BbrState {
    /// Looks for the rate of the path.
    Startup,
    /// Empties the queue of Startup.
    Drain,
    /// Empties the queue of a probe.
    Down,
    /// Leaves room to others.
    Cruise,
    /// Fills the pipe before a probe.
    Refill,
    /// Probes.
    Up,
    /// Looks for the RTT without a queue.
    ProbeRtt,
}

impl BbrState {
    /// Name in traces.
    pub fn name(self) -> &'static str {
        match self {
            BbrState::Startup => "startup",
            BbrState::Drain => "drain",
            BbrState::Down => "probe_down",
            BbrState::Cruise => "probe_cruise",
            BbrState::Refill => "probe_refill",
            BbrState::Up => "probe_up",
            BbrState::ProbeRtt => "probe_rtt",
        }
    }

    /// IsInAProbeBWState; Linux `BBR_PROBE_BW`.
    pub fn in_cycle(self) -> bool {
        matches!(self, BbrState::Down | BbrState::Cruise | BbrState::Refill | BbrState::Up)
    }

    /// IsProbingBW; Linux `bbr_is_probing_bandwidth`.
    pub fn is_probing(self) -> bool {
        matches!(self, BbrState::Startup | BbrState::Refill | BbrState::Up)
    }

    /// Returns whether `next` may follow: by the draft's section 5.1.1, or because an undo returns to Startup or restarts a probe (5.5.11.2).
    fn may_become(self, next: BbrState) -> bool {
        match next {
            BbrState::Startup => self != BbrState::Startup,
            BbrState::Drain => self == BbrState::Startup,
            BbrState::Down => matches!(self, BbrState::Drain | BbrState::Up | BbrState::ProbeRtt),
            BbrState::Cruise => self == BbrState::Down,
            BbrState::Refill => matches!(self, BbrState::Down | BbrState::Cruise | BbrState::Refill),
            BbrState::Up => self == BbrState::Refill,
            BbrState::ProbeRtt => self != BbrState::ProbeRtt,
        }
    }
}

/// The wait of Down and Cruise for the next probe.
#[derive(Clone, Copy, Debug)]
pub struct Wait<Clock> {
    /// A probe is due after this instant.
    pub until: Clock,
    /// Rounds since the last probe, from the random number at which it began.
    pub rounds: u32,
}

/// How the last probe for bandwidth ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct LastProbe {
    /// `BBR.prev_probe_too_high`.
    pub too_high: bool,
    /// `BBR.prev_probe_precautionary`; Linux `stopped_risky_probe`.
    pub precautionary: bool,
}

/// The search for a rate that grows no more.
#[derive(Clone, Copy, Debug, Default)]
pub struct FullBw<Rate> {
    /// The rate to exceed.
    pub bw: Rate,
    /// Rounds without growth: `BBR.full_bw_count`.
    pub rounds: u32,
    pub now: bool,
    pub reached: bool,
}

impl<Rate: Default> FullBw<Rate> {
    /// ResetFullBW: the next rate has to exceed `bw`.
    pub fn restart(&mut self, bw: Rate) {
        *self = FullBw { bw, reached: self.reached, ..FullBw::default() };
    }
}

/// The smallest RTT, and when it was seen.
#[derive(Clone, Copy, Debug)]
pub struct MinRtt<Rtt, Clock> {
    pub rtt: Rtt,
    pub stamp: Clock,
}

/// How far ProbeRTT has got.
#[derive(Clone, Copy, Debug, Default)]
pub struct RttProbe<Clock> {
    /// The instant after which it may end. `None`: too much is in flight yet.
    pub done: Option<Clock>,
    /// A round has passed since little was in flight.
    pub round_done: bool,
}

/// A state and its variables. `Climb` are those of a probe.
#[derive(Clone, Debug)]
pub enum BbrPhase<Clock, Climb> {
    Startup,
    /// With `BBR.drain_start_round`.
    Drain {
        start_round: u64,
    },
    Down(Wait<Clock>),
    Cruise(Wait<Clock>),
    /// With the doublings at which the step of the next probe begins.
    Refill {
        up_rounds: u32,
    },
    Up(Climb),
    ProbeRtt(RttProbe<Clock>),
}

impl<Clock: Copy, Climb> BbrPhase<Clock, Climb> {
    /// ProbeRTT before little is in flight.
    pub const PROBE_RTT: BbrPhase<Clock, Climb> = BbrPhase::ProbeRtt(RttProbe { done: None, round_done: false });

    #[inline]
    pub fn state(&self) -> BbrState {
        match self {
            BbrPhase::Startup => BbrState::Startup,
            BbrPhase::Drain { .. } => BbrState::Drain,
            BbrPhase::Down(_) => BbrState::Down,
            BbrPhase::Cruise(_) => BbrState::Cruise,
            BbrPhase::Refill { .. } => BbrState::Refill,
            BbrPhase::Up(_) => BbrState::Up,
            BbrPhase::ProbeRtt(_) => BbrState::ProbeRtt,
        }
    }

    /// Goes to `next`, which must be allowed to follow.
    pub fn enter(&mut self, next: BbrPhase<Clock, Climb>) {
        debug_assert!(self.state().may_become(next.state()), "{:?} to {:?}", self.state(), next.state());
        *self = next;
    }

    pub fn count_round(&mut self) {
        if let BbrPhase::Down(wait) | BbrPhase::Cruise(wait) = self {
            wait.rounds = wait.rounds.saturating_add(1);
        }
    }
}

/// The part of a probe that the arriving ACKs answer: `BBR.ack_phase`, section 2.14; Linux `bbr_ack_phase`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckPhase {
    Init,
    Refilling,
    ProbeStarting,
    ProbeFeedback,
    ProbeStopping,
}

/// Access for tests.
#[cfg(test)]
impl<Clock: Copy, Climb> BbrPhase<Clock, Climb> {
    /// `state`, with these variables.
    pub fn in_state(state: BbrState, until: Clock, climb: Climb) -> BbrPhase<Clock, Climb> {
        let wait = Wait { until, rounds: 0 };
        match state {
            BbrState::Startup => BbrPhase::Startup,
            BbrState::Drain => BbrPhase::Drain { start_round: 0 },
            BbrState::Down => BbrPhase::Down(wait),
            BbrState::Cruise => BbrPhase::Cruise(wait),
            BbrState::Refill => BbrPhase::Refill { up_rounds: 0 },
            BbrState::Up => BbrPhase::Up(climb),
            BbrState::ProbeRtt => BbrPhase::PROBE_RTT,
        }
    }

    pub fn wait(&mut self) -> &mut Wait<Clock> {
        let (BbrPhase::Down(wait) | BbrPhase::Cruise(wait)) = self else { panic!("it does not wait") };
        wait
    }

    pub fn climb(&mut self) -> &mut Climb {
        let BbrPhase::Up(climb) = self else { panic!("it does not climb") };
        climb
    }

    pub fn rtt_probe(&mut self) -> &mut RttProbe<Clock> {
        let BbrPhase::ProbeRtt(probe) = self else { panic!("it does not look for an RTT") };
        probe
    }
}

#[cfg(test)]
mod tests {
    use super::BbrState::{self, Cruise, Down, Drain, ProbeRtt, Refill, Startup, Up};

    #[test]
    fn states_follow_each_other_as_the_draft_draws_them() {
        let all = [Startup, Drain, Down, Cruise, Refill, Up, ProbeRtt];
        let after = |state: BbrState| all.into_iter().filter(|&next| state.may_become(next)).collect::<Vec<_>>();
        assert_eq!(after(Startup), [Drain, ProbeRtt]);
        assert_eq!(after(Drain), [Startup, Down, ProbeRtt]);
        assert_eq!(after(Down), [Startup, Cruise, Refill, ProbeRtt]);
        assert_eq!(after(Cruise), [Startup, Refill, ProbeRtt]);
        assert_eq!(after(Refill), [Startup, Refill, Up, ProbeRtt]);
        assert_eq!(after(Up), [Startup, Down, ProbeRtt]);
        assert_eq!(after(ProbeRtt), [Startup, Down]);
    }
}
