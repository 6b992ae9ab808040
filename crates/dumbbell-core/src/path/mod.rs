//! Paths: what packets or acknowledgements go through on their way to a queue, or behind it.
//!
//! A [`Path`] is a row of [`Stage`]s. Each stage loses, delays or releases what passes, and knows nothing but the [`Downstream`] behind it:
//! the next stages and, at the end, whatever the path leads to ([`Sink`]). A stage works on anything that is [`PathItem`], so that the
//! same loss or batching serves both directions. A bottleneck, a queue for acknowledgements or a second bottleneck is an [`Sink`].
//!
//! To add a stage: write the file, add one line to `stages!` below.

use crate::log::DropReason;
use crate::packet::{Packet, HEADERS};
use crate::param::{algorithm_specs, AlgorithmSpec, ParamError};
use crate::reply::ReceiverReply;
use crate::rng::Rng;
use crate::units::{Duration, Instant};
use serde_json::{Map, Value};

/// An item that can pass a path: a packet or what its receiver replies.
pub trait PathItem {
    /// Names of the stages that do nothing with it.
    const REFUSED: &[&str] = &[];

    /// Length of its frame on the wire without FCS, bytes.
    fn frame(&self) -> u32;

    /// Returns the item, if it is a packet of the data direction.
    #[inline]
    fn packet_mut(&mut self) -> Option<&mut Packet> {
        None
    }
}

impl PathItem for Packet {
    #[inline]
    fn frame(&self) -> u32 {
        u32::from(self.len)
    }

    #[inline]
    fn packet_mut(&mut self) -> Option<&mut Packet> {
        Some(self)
    }
}

impl PathItem for ReceiverReply {
    const REFUSED: &[&str] = &[value_marker::NAME, bleach::NAME, gro::NAME];

    #[inline]
    fn frame(&self) -> u32 {
        u32::from(HEADERS)
    }
}

/// With something that is carried along.
impl<T: PathItem, With> PathItem for (T, With) {
    const REFUSED: &[&str] = T::REFUSED;

    #[inline]
    fn frame(&self) -> u32 {
        self.0.frame()
    }

    #[inline]
    fn packet_mut(&mut self) -> Option<&mut Packet> {
        self.0.packet_mut()
    }
}

/// Where a path leads to.
pub trait Sink<T> {
    /// `item` leaves the path.
    fn arrive(&mut self, item: T, now: Instant);

    /// The path dropped `item`.
    fn on_drop(&mut self, item: T, reason: DropReason, now: Instant);

    /// The path is about to clear the codepoint of `item`.
    fn on_clear_ecn(&mut self, _item: &T, _now: Instant) {}
}

impl<T, S: Sink<T> + ?Sized> Sink<T> for &mut S {
    fn arrive(&mut self, item: T, now: Instant) {
        (**self).arrive(item, now);
    }

    fn on_drop(&mut self, item: T, reason: DropReason, now: Instant) {
        (**self).on_drop(item, reason, now);
    }

    fn on_clear_ecn(&mut self, item: &T, now: Instant) {
        (**self).on_clear_ecn(item, now);
    }
}

/// The stages behind a stage, and the sink at the end.
pub struct Downstream<'a, T> {
    rest: &'a mut [AnyStage<T>],
    lost: &'a mut u64,
    /// Random numbers of the path.
    pub rng: &'a mut Rng,
    end: &'a mut dyn Sink<T>,
}

impl<T: PathItem> Downstream<'_, T> {
    /// `item` goes on to the next stage, or leaves the path.
    pub fn pass(&mut self, item: T, now: Instant) {
        match self.rest.split_first_mut() {
            None => self.end.arrive(item, now),
            Some((next, rest)) => next.push(item, now, &mut Downstream { rest, lost: self.lost, rng: self.rng, end: self.end }),
        }
    }

    /// The codepoint of `item` is about to be cleared.
    pub fn erase(&mut self, item: &T, now: Instant) {
        self.end.on_clear_ecn(item, now);
    }

    /// `item` is dropped.
    pub fn drop(&mut self, item: T, reason: DropReason, now: Instant) {
        *self.lost += 1;
        self.end.on_drop(item, reason, now);
    }
}

/// One thing that happens on a path.
///
/// Time never goes back between calls. Every item that is pushed is passed on or dropped once, at once or later.
pub trait Stage<T: PathItem> {
    /// `item` reaches the stage.
    fn push(&mut self, item: T, now: Instant, way: &mut Downstream<T>);

    /// When [`Stage::on_timer`] wants to be called next; [`Instant::NEVER`] while nothing is held.
    fn next_timer(&self) -> Instant {
        Instant::NEVER
    }

    /// The time given by [`Stage::next_timer`] has come.
    fn on_timer(&mut self, _now: Instant, _way: &mut Downstream<T>) {}

    /// How many items it holds.
    fn count_items(&self) -> usize {
        0
    }
}

/// Registers stages: `Variant: module (State)` for every file that has `Params`, `State` (which implements [`Stage`]), `NAME`,
/// `TITLE` and `SOURCE`.
macro_rules! stages {
    ($($variant:ident : $module:ident ($state:ty)),* $(,)?) => {
        $(pub mod $module;)*

        /// Any registered stage, for items of type `T`.
        #[derive(Clone, Debug)]
        pub enum AnyStage<T> { $(
            #[doc = concat!("See [`", stringify!($module), "`].")]
            $variant($state),
        )* }

        impl<T: PathItem> Stage<T> for AnyStage<T> {
            #[inline]
            fn push(&mut self, item: T, now: Instant, way: &mut Downstream<T>) {
                match self { $( AnyStage::$variant(stage) => stage.push(item, now, way), )* }
            }
            #[inline]
            fn next_timer(&self) -> Instant {
                match self { $( AnyStage::$variant(stage) => Stage::<T>::next_timer(stage), )* }
            }
            #[inline]
            fn on_timer(&mut self, now: Instant, way: &mut Downstream<T>) {
                match self { $( AnyStage::$variant(stage) => stage.on_timer(now, way), )* }
            }
            #[inline]
            fn count_items(&self) -> usize {
                match self { $( AnyStage::$variant(stage) => Stage::<T>::count_items(stage), )* }
            }
        }

        algorithm_specs! {
            /// A stage with its parameters, which builds the stages of any number of paths.
            StageSpec { $($variant: $module),* }
        }

        impl StageSpec {
            /// Builds the stage, which may draw from `rng`.
            fn build<T: PathItem>(&self, rng: &mut Rng) -> AnyStage<T> {
                match self { $( StageSpec::$variant(params) => AnyStage::$variant(<$state>::new(params.clone(), rng)), )* }
            }
        }
    };
}

stages! {
    Loss: loss (loss::State),
    BurstLoss: burst_loss (burst_loss::State),
    Jitter: jitter (jitter::State<T>),
    Delay: delay (delay::State<T>),
    Reorder: reorder (reorder::State<T>),
    Batch: batch (batch::State<T>),
    Policer: policer (policer::State),
    ValueMarker: value_marker (value_marker::State),
    Bleach: bleach (bleach::State),
    Gro: gro (gro::State<T>),
    Harq: harq (harq::State<T>),
}

impl StageSpec {
    /// A stage that loses packets with this probability.
    pub fn constant_loss(probability: f64) -> StageSpec {
        StageSpec::Loss(loss::Params { probability, ..loss::Params::default() })
    }

    /// A stage that delays packets by up to `max`.
    pub fn uniform_jitter(max: Duration) -> StageSpec {
        StageSpec::Jitter(jitter::Params { max, ..jitter::Params::default() })
    }
}

/// Stages in a row. They share one stream of random numbers.
#[derive(Clone, Debug)]
pub struct Path<T> {
    stages: Vec<AnyStage<T>>,
    rng: Rng,
    lost: u64,
}

impl<T: PathItem> Path<T> {
    /// `stages` in this order, which draw from `rng`.
    pub fn new(stages: Vec<AnyStage<T>>, rng: Rng) -> Path<T> {
        Path { stages, rng, lost: 0 }
    }

    /// Builds a path of `stages`, in this order. They draw from `rng`, the stream of this path.
    pub fn build(stages: &[StageSpec], mut rng: Rng) -> Path<T> {
        Path::new(stages.iter().map(|stage| stage.build(&mut rng)).collect(), rng)
    }

    /// Stage number `stage` loses items with this `probability` from now on. Returns whether it is a stage of independent loss.
    pub fn set_loss(&mut self, stage: usize, probability: f64) -> bool {
        let Some(AnyStage::Loss(loss)) = self.stages.get_mut(stage) else { return false };
        loss.set_probability(probability);
        true
    }

    /// `item` enters the path, which leads to `end`.
    #[inline]
    pub fn push(&mut self, item: T, now: Instant, end: &mut dyn Sink<T>) {
        Downstream { rest: &mut self.stages, lost: &mut self.lost, rng: &mut self.rng, end }.pass(item, now);
    }

    /// When [`Path::on_timer`] wants to be called next.
    #[inline]
    pub fn next_timer(&self) -> Instant {
        self.stages.iter().map(Stage::next_timer).min().unwrap_or(Instant::NEVER)
    }

    /// The time given by [`Path::next_timer`] has come. Call again while it has.
    pub fn on_timer(&mut self, now: Instant, end: &mut dyn Sink<T>) {
        let due = self.next_timer();
        if let Some(index) = self.stages.iter().position(|stage| stage.next_timer() == due) {
            let (before, rest) = self.stages.split_at_mut(index + 1);
            before[index].on_timer(now, &mut Downstream { rest, lost: &mut self.lost, rng: &mut self.rng, end });
        }
    }

    /// How many items the stages hold.
    pub fn count_items(&self) -> usize {
        self.stages.iter().map(Stage::count_items).sum()
    }

    /// How many items were dropped.
    pub fn count_lost(&self) -> u64 {
        self.lost
    }

    /// Whether it has no stages.
    pub fn is_empty(&self) -> bool {
        self.stages.is_empty()
    }
}

/// Reads the stages that `configs` name, for a path of items of type `T`.
///
/// # Errors
/// An unknown name, key or value; the key begins with the number of the stage.
pub fn read<T: PathItem>(configs: &[Map<String, Value>]) -> Result<Vec<StageSpec>, ParamError> {
    let read_stage = |(index, config): (usize, &Map<String, Value>)| {
        let name = config.get("name").and_then(Value::as_str).unwrap_or("");
        let allowed: Vec<&str> = StageSpec::NAMES.iter().copied().filter(|known| !T::REFUSED.contains(known)).collect();
        let stage = match allowed.contains(&name) {
            true => StageSpec::from_json(config),
            false => Err(ParamError::new("name", format!("{name:?}"), allowed.join(", "))),
        };
        stage.map_err(|error| error.prefix_key(&format!("[{index}]")))
    };
    configs.iter().enumerate().map(read_stage).collect()
}

#[cfg(test)]
pub(crate) mod testing {
    //! Helpers that the tests of stages share.

    use super::{AnyStage, Path, PathItem, Sink};
    use crate::log::DropReason;
    use crate::rng::Rng;
    use crate::units::Instant;

    /// A numbered item of 1000 bytes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Item(pub u64);

    impl PathItem for Item {
        fn frame(&self) -> u32 {
            1000
        }
    }

    /// Writes down what leaves a path, and what is dropped.
    #[derive(Default)]
    pub struct SinkLog {
        pub arrived: Vec<(Instant, u64)>,
        pub dropped: Vec<(Instant, u64)>,
    }

    impl Sink<Item> for SinkLog {
        fn arrive(&mut self, item: Item, now: Instant) {
            self.arrived.push((now, item.0));
        }

        fn on_drop(&mut self, item: Item, _reason: DropReason, now: Instant) {
            self.dropped.push((now, item.0));
        }
    }

    /// A path of one stage.
    pub fn path(stage: AnyStage<Item>) -> Path<Item> {
        Path::new(vec![stage], Rng::stream(1, "test", 0))
    }

    /// Pushes items 0, 1, ... at `times`, ascending, and lets the path finish.
    pub fn drive(path: &mut Path<Item>, times: impl IntoIterator<Item = Instant>) -> SinkLog {
        let mut seen = SinkLog::default();
        for (number, time) in (0..).zip(times) {
            while path.next_timer() <= time {
                path.on_timer(path.next_timer(), &mut seen);
            }
            path.push(Item(number), time, &mut seen);
        }
        while path.next_timer() < Instant::NEVER {
            path.on_timer(path.next_timer(), &mut seen);
        }
        assert_eq!((path.count_items(), path.count_lost()), (0, seen.dropped.len() as u64));
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{drive, Item};
    use super::*;
    use serde_json::json;

    fn build_stages(stages: Value) -> Result<Path<Item>, ParamError> {
        let stages: Vec<_> = stages.as_array().unwrap().iter().map(|stage| stage.as_object().unwrap().clone()).collect();
        Ok(Path::build(&read::<Item>(&stages)?, Rng::stream(1, "test", 0)))
    }

    #[test]
    fn an_empty_path_passes_at_once() {
        let seen = drive(&mut build_stages(json!([])).unwrap(), [Instant(1), Instant(1), Instant(5)]);
        assert_eq!(seen.arrived, [(Instant(1), 0), (Instant(1), 1), (Instant(5), 2)]);
    }

    #[test]
    fn stages_follow_each_other() {
        // policed to one frame of 1000 B a millisecond, then sent on every 10 ms: what is dropped is never held
        let mut path = build_stages(json!([
            {"name": "policer", "rate": 8_000_000, "burst": 1000},
            {"name": "batch", "interval": 10_000_000, "frames": 3},
        ]))
        .unwrap();
        let seen = drive(&mut path, (0..40).map(|n| Instant(500_000 * n)));
        assert_eq!(seen.arrived.len(), 20);
        assert!(seen.arrived.iter().all(|(_, number)| number % 2 == 0));
        assert_eq!(seen.dropped.len(), 20);
    }

    #[test]
    fn paths_of_any_stages_keep_every_packet_once_and_all_but_one_kind_keep_the_order() {
        let mut rng = Rng::stream(7, "test", 0);
        let names: Vec<&str> = specs().iter().map(|spec| spec.name).collect();
        for _ in 0..300 {
            let row: Vec<&str> = (0..1 + rng.draw_below(4)).map(|_| names[rng.draw_below(names.len() as u64) as usize]).collect();
            let stages = row.iter().map(|name| json!({"name": name})).collect();
            let mut path = build_stages(stages).unwrap();
            let mut now = Instant::ZERO;
            let times: Vec<Instant> = (0..300)
                .map(|_| {
                    now += Duration(rng.draw_below(3) * rng.draw_below(1_000_000));
                    now
                })
                .collect();
            let seen = drive(&mut path, times.iter().copied());
            let numbers: Vec<u64> = seen.arrived.iter().map(|(_, number)| *number).collect();
            let mut all: Vec<u64> = numbers.iter().copied().chain(seen.dropped.iter().map(|(_, number)| *number)).collect();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..300), "{row:?}");
            assert!(seen.arrived.windows(2).all(|two| two[0].0 <= two[1].0), "{row:?}: time goes back");
            assert!(seen.arrived.iter().all(|&(time, number)| time >= times[number as usize]), "{row:?}: too early");
            assert!(row.contains(&"reorder") || numbers.windows(2).all(|two| two[0] < two[1]), "{row:?}: out of order");
        }
    }

    #[test]
    fn errors_name_the_stage() {
        let error = |stages| build_stages(stages).unwrap_err().to_string();
        assert!(
            error(json!([{"name": "loss"}, {"name": "los"}])).starts_with("[1].name: found \"los\", allowed: loss, burst_loss")
        );
        assert!(error(json!([{"name": "loss", "probability": 2.0}])).starts_with("[0].probability: found 2.0"));
    }

    #[test]
    fn every_stage_is_described_and_can_be_built_with_its_defaults() {
        for spec in specs() {
            assert!(!spec.title.is_empty() && !spec.source.is_empty(), "{}", spec.name);
            for param in &spec.params {
                assert!(!param.doc.trim().is_empty() && !param.source.is_empty(), "{}: {}", spec.name, param.name);
                assert_eq!(param.min.is_null(), param.max.is_null(), "{}: {}", spec.name, param.name);
            }
            assert!(build_stages(json!([{"name": spec.name}])).is_ok(), "{}", spec.name);
        }
    }
}
