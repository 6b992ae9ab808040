//! Links: the trait and the registry.
//!
//! A link asks its queue for a packet, carries it, and asks again. One link is one file. To add one: write the file, add one line to
//! `links!` below.

pub mod pace;

use crate::param::{algorithm_specs, AlgorithmSpec, ParamError};
use crate::rng::Rng;
use crate::units::{Duration, Instant, Rate};
use serde_json::{Map, Value};

/// The hop and the run that a link is built for.
#[derive(Clone, Copy, Debug)]
pub struct LinkContext {
    /// Rate of the hop.
    pub rate: Rate,
    /// Seed of the run and the hop; a link draws from streams named after itself.
    pub seed: u64,
    /// Seed of the run, for what links of several hops have in common.
    pub run_seed: u64,
}

impl LinkContext {
    /// Random numbers of the link `name`, number `index`.
    pub fn rng(&self, name: &str, index: u64) -> Rng {
        Rng::stream(self.seed, name, index)
    }
}

/// Content of the queue in front of a link.
#[derive(Clone, Copy, Debug)]
pub struct QueueContent {
    /// Packets.
    pub packets: usize,
    /// Bytes.
    pub bytes: u64,
}

/// A link carries packets behind a queue, one after the other.
///
/// Time never goes back between calls. The caller asks [`Link::wait`] when the last packet has left, when a packet comes to an idle
/// link, and at the times that it names. If the answer is `None`, the queue is asked; what it gives is handed to [`Link::take`], and has left
/// at the time that this returns. Until then the link is busy.
pub trait Link {
    /// Whether packets that leave take longer by [`Link::delay`].
    const DELAYS: bool = false;

    /// When the link looks at the queue again: `None` if the queue may be asked now, [`Instant::NEVER`] if it is to be
    /// called for the next packet that comes.
    fn wait(&mut self, waiting: QueueContent, now: Instant) -> Option<Instant>;

    /// A packet that is `bytes` long on the link comes out of the queue. Returns when it has left, not before `now`.
    fn take(&mut self, bytes: u64, now: Instant) -> Instant;

    /// The rate changes; what was taken goes on at the old one.
    fn set_rate(&mut self, rate: Rate, now: Instant);

    /// How much longer a packet takes that leaves at `now`: propagation that changes with time. Packets stay in order.
    /// When this is asked, the next packet may have been taken already; the times of these calls do not go back among themselves.
    fn delay(&mut self, _now: Instant) -> Duration {
        Duration::ZERO
    }

    /// Bytes on the link that [`Link::take`] was given and that are not carried yet at `now`, at least: what is left of a packet, or what a bucket
    /// has lent. The rest of what was taken is what the link carried, which is never more than its capacity.
    fn unsent(&self, _now: Instant) -> u64 {
        0
    }

    /// Most bytes that [`Link::unsent`] is ever, beyond one packet and one change of the rate.
    fn most_unsent(&self) -> u64 {
        0
    }

    /// Bytes that the link could carry less until `now` than [`Link::open`] says, which knows the mean; negative if it could carry more.
    fn capacity_deficit(&self, _now: Instant) -> i64 {
        0
    }

    /// For how long the link can carry at its whole rate between two times, in the mean, seconds; a link that carries at half of the rate does
    /// for half of the time. Asked of a link that carries nothing, with times that do not go back.
    fn open(&mut self, from: Instant, until: Instant) -> f64 {
        (until - from).as_secs_f64()
    }
}

/// Registers links: `Variant: module (State)` for every file that has `Params`, `State` (which implements [`Link`]; large ones in a box),
/// `NAME`, `TITLE` and `SOURCE`.
macro_rules! links {
    ($($variant:ident : $module:ident ($state:ty)),* $(,)?) => {
        $(pub mod $module;)*

        /// Any registered link.
        #[derive(Clone, Debug)]
        pub enum AnyLink { $(
            #[doc = concat!("See [`", stringify!($module), "`].")]
            $variant($state),
        )* }

        /// A link that is chosen at run time.
        impl AnyLink {
            /// See [`Link::wait`].
            #[inline]
            pub fn wait(&mut self, waiting: QueueContent, now: Instant) -> Option<Instant> {
                match self { $( AnyLink::$variant(link) => link.wait(waiting, now), )* }
            }
            /// See [`Link::take`].
            #[inline]
            pub fn take(&mut self, bytes: u64, now: Instant) -> Instant {
                match self { $( AnyLink::$variant(link) => link.take(bytes, now), )* }
            }
            /// See [`Link::set_rate`].
            pub fn set_rate(&mut self, rate: Rate, now: Instant) {
                match self { $( AnyLink::$variant(link) => link.set_rate(rate, now), )* }
            }
            /// See [`Link::delay`].
            pub fn delay(&mut self, now: Instant) -> Duration {
                match self { $( AnyLink::$variant(link) => link.delay(now), )* }
            }
            /// See [`Link::unsent`].
            pub fn unsent(&self, now: Instant) -> u64 {
                match self { $( AnyLink::$variant(link) => link.unsent(now), )* }
            }
            /// See [`Link::most_unsent`].
            pub fn most_unsent(&self) -> u64 {
                match self { $( AnyLink::$variant(link) => link.most_unsent(), )* }
            }
            /// See [`Link::capacity_deficit`].
            pub fn capacity_deficit(&self, now: Instant) -> i64 {
                match self { $( AnyLink::$variant(link) => link.capacity_deficit(now), )* }
            }
            /// See [`Link::open`].
            pub fn open(&mut self, from: Instant, until: Instant) -> f64 {
                match self { $( AnyLink::$variant(link) => link.open(from, until), )* }
            }
        }

        algorithm_specs! {
            /// A link with its parameters, which builds any number of links.
            LinkSpec { $($variant: $module),* }
        }

        impl LinkSpec {
            /// Whether packets that leave it take longer at some times than at others.
            pub fn delays(&self) -> bool {
                match self { $( LinkSpec::$variant(_) => $module::State::DELAYS, )* }
            }

            /// Such a link at time 0.
            pub fn build(&self, context: &LinkContext) -> AnyLink {
                match self { $( LinkSpec::$variant(params) => AnyLink::$variant($module::State::new(params.clone(), context).into()), )* }
            }
        }
    };
}

links! {
    Serial: serial (serial::State),
    Htb: htb (htb::State),
    Unshaped: unshaped (unshaped::State),
    Trace: trace (Box<trace::State>),
    Wifi: wifi (Box<wifi::State>),
    OnOff: onoff (Box<onoff::State>),
    Leo: leo (Box<leo::State>),
    Docsis: docsis (Box<docsis::State>),
    Cellular: cellular (Box<cellular::State>),
}

#[cfg(test)]
pub(crate) mod testing {
    //! Helpers that the tests of links share.

    use super::{Link, LinkContext, QueueContent};
    use crate::units::{Instant, Rate};
    use std::collections::VecDeque;

    /// Returns the context of a link of `mbit` Mbit/s.
    pub fn context(mbit: u64) -> LinkContext {
        LinkContext { rate: Rate::from_mbit(mbit), seed: 1, run_seed: 1 }
    }

    /// Returns a queue with packets of 1000 bytes.
    pub fn waiting(packets: usize) -> QueueContent {
        QueueContent { packets, bytes: 1_000 * packets as u64 }
    }

    /// When packets leave that come as (ns, bytes), in order, and wait in a queue without limit: (ns when taken, ns when gone).
    pub fn carry(link: &mut impl Link, arrivals: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let (mut queue, mut gone) = (VecDeque::new(), Vec::new());
        let mut arrivals = arrivals.iter().copied().peekable();
        // when the link needs attention; the packet on it is the last of `gone`
        let mut next = Instant::NEVER;
        loop {
            let arrives = arrivals.peek().map_or(Instant::NEVER, |&(at, _)| Instant(at));
            let now = next.min(arrives);
            if now == Instant::NEVER {
                assert!(queue.is_empty(), "{} packets are left", queue.len());
                return gone;
            }
            if arrives < next || (arrives == next && next == Instant::NEVER) {
                queue.extend(arrivals.next().map(|(_, bytes)| bytes));
                if next != Instant::NEVER {
                    continue;
                }
            }
            let waiting = QueueContent { packets: queue.len(), bytes: queue.iter().sum() };
            next = match link.wait(waiting, now) {
                Some(until) => {
                    assert!(until > now, "it looks again at {until}, which is not after {now}");
                    until
                }
                None => match queue.pop_front() {
                    None => Instant::NEVER,
                    Some(bytes) => {
                        let at = link.take(bytes, now);
                        assert!(at >= now, "what is taken at {now} leaves at {at}");
                        gone.push((now.0, at.0));
                        at
                    }
                },
            };
        }
    }
}
