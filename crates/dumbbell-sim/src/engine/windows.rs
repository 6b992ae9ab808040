//! One run on several cores: windows of time, in which the flows run on all of them.
//!
//! No packet that leaves the link after `t` causes anything at a sender before `t` and the shortest base RTT. So all senders can run up to
//! there without the queue and the receivers, and the queue without either. Time is cut into windows of a sixteenth of the shortest base RTT, and
//! each window is computed in three parts:
//!
//! 1. *Senders*: acknowledgements and timers of senders, shard by shard; a shard is the endpoints of neighbouring slots ([`shard`]). Packets go to a list.
//! 2. *Queue*: the lists of all shards are merged, and the queue and its link run alone ([`queue`]). Packets that leave go to a list of their shard.
//! 3. *Receivers*: packets that leave and timers of receivers, shard by shard. Acknowledgements go to lines of the shard.
//!
//! Threads take whatever is ready ([`Progress::choose`]). The queue can run in a window when the senders of all shards have, the receivers of a shard when the queue has, and
//! the senders of a shard when its receivers have run in the window that ends a base RTT earlier, because what they need has left the link by then. Nothing else passes
//! between shards, or between senders and receivers, so that a thread that is late holds nobody up before the others are a base RTT ahead.
//!
//! # Why the results are the same
//!
//! The event loop (`engine.rs`) handles the events of one instant in this order: the link, acknowledgements by line and in each line in the order in which they were
//! sent, timers by slot, the clock. Here each part handles its events in the same order:
//!
//! - What the *queue* sees are packets, by time and within an instant by the event that sent them: [`Sent::order`] is line and place in the line for an acknowledgement and, above
//!   all lines, the slot for a timer. The packets of one event stay together. A departure comes before what arrives at the same instant, and both come before the timer of the queue
//!   discipline. A sender does not see the queue, so that it sends the same.
//! - A *receiver* sees packets in the order in which they leave, and its own timers; a packet comes first at one instant. A serial link at a finite rate takes at least a nanosecond for a packet
//!   ([`may_deliver_ahead`]), so that no packet leaves at an instant at which it was sent: the loop, too, handles all departures of an instant before its timers.
//! - A *sender* sees its acknowledgements and its own timers. All acknowledgements of a line have the same delay, so those that arrive at one instant were sent at one
//!   instant: first the one that a packet caused, since only one leaves at an instant, then those of timers, by slot. This is the order of their insertion in the loop. Within a
//!   shard they are inserted in this order, and between shards their place is part of [`Sent::order`].
//! - The timers of sender and receiver of one endpoint are one in the loop and two here. A timer that fires too early does nothing, and each side only looks at its own times.
//! - Everything else that looks at several parts is an event of the clock, or the start of a listed flow, which looks at the progress of all. Windows end at an event of the clock, that instant
//!   included, and it is handled by the loop's own code. The timer of a queue discipline at the same instant comes after the clock and waits for the next window. A
//!   start of a flow, its packets and everything until the next windows is handled by the loop.
//!
//! So each part sees what it sees in the loop, whatever the number of shards and threads is. Only the number of events differs, which the loop
//! counts by its turns. Runs with parts that look further do not use windows: [`are_useful`] lists them.

mod queue;
mod shard;

use super::ahead::may_deliver_ahead;
use super::delay_lines::DelayLines;
use super::endpoint::{Arena, Endpoint};
use crate::config::RunConfig;
use crate::extensions::TransportSpec;
use dumbbell_bottleneck::Bottleneck;
use dumbbell_core::aqm::{Aqm, AqmSpec};
use dumbbell_core::cc::CcSpec;
use dumbbell_core::log::Log;
use dumbbell_core::packet::Packet;
use dumbbell_core::units::{Duration, Instant};
pub use queue::Limits;
use queue::{run_queue, DepartedLists};
use shard::Shard;
use std::any::Any;
use std::ops::Range;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// A packet that a sender has sent.
#[derive(Clone, Copy)]
struct Sent {
    /// Place of the event that sent it among those of the same time.
    order: u64,
    /// With the time of the event as [`Packet::enqueue_time`].
    packet: Packet,
}

/// A packet that has left the link, with that time as [`Packet::enqueue_time`].
type Departed = Packet;

/// Number of threads of a run, and when it uses windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threads {
    /// Threads.
    pub count: usize,
    /// Use windows wherever they give the same results, even if they are slower: for tests.
    pub always: bool,
}

impl Threads {
    /// One thread, and no windows.
    pub const ONE: Threads = Threads { count: 1, always: false };
}

/// A module for web pages has one thread, and no windows.
pub const ARE_COMPILED: bool = !cfg!(target_family = "wasm");
/// Fewest packets of a window that are worth it.
const LEAST_PACKETS: u64 = 2_000;
/// Fewest flows.
const LEAST_FLOWS: usize = 100;
/// Windows in the shortest base RTT.
const WINDOWS_PER_RTT: u64 = 16;
/// Most windows that the senders of a shard run one after the other: they find their endpoints in the cache, but the queue waits.
const BATCH: u64 = 2;
/// Shards for each thread: what one thread has too much, others take.
const SHARDS_PER_THREAD: usize = 8;

/// Lists of packets of one kind, by window and shard.
struct Lists<T> {
    /// At the number of the window modulo [`WINDOWS_PER_RTT`], and the shard: no more windows are ever on their way.
    filled: [Vec<Mutex<Vec<T>>>; WINDOWS_PER_RTT as usize],
    /// Lists without entries, by shard. The last one comes first, since its memory may still be in the cache.
    spare: Vec<Mutex<Vec<Vec<T>>>>,
}

impl<T> Default for Lists<T> {
    fn default() -> Lists<T> {
        Lists { filled: Default::default(), spare: Vec::new() }
    }
}

impl<T> Lists<T> {
    fn resize(&mut self, shards: usize) {
        self.filled.iter_mut().for_each(|lists| lists.resize_with(shards, Mutex::default));
        self.spare.resize_with(shards, Mutex::default);
    }

    /// Returns an empty list for shard `number`.
    fn new_list(&self, number: usize) -> Vec<T> {
        lock(&self.spare[number]).pop().unwrap_or_default()
    }

    fn put(&self, window: u64, number: usize, list: Vec<T>) {
        *lock(&self.filled[(window % WINDOWS_PER_RTT) as usize][number]) = list;
    }

    fn take(&self, window: u64, number: usize) -> Vec<T> {
        std::mem::take(&mut *lock(&self.filled[(window % WINDOWS_PER_RTT) as usize][number]))
    }

    /// Nobody needs the entries of `list` any more.
    fn recycle(&self, number: usize, mut list: Vec<T>) {
        list.clear();
        lock(&self.spare[number]).push(list);
    }
}

/// By so many windows of senders and receivers, a thread prefers a shard of its own to another one.
const OTHERS: u64 = 2;

/// The state of a run between windows.
pub struct Windows {
    threads: usize,
    /// See [`Threads::always`].
    always: bool,
    /// Longest window.
    width: Duration,
    /// Starts of the listed flows, ascending.
    starts: Vec<Instant>,
    /// A shard has `1 << shift` slots.
    shift: u32,
    /// Acknowledgements and timers, while they are not in the net and the arena.
    shards: Vec<Shard>,
    sent: Lists<Sent>,
    departed: Lists<Departed>,
}

/// The lists, which are empty between windows, are made for the copy.
impl Clone for Windows {
    fn clone(&self) -> Windows {
        let mut copy = Windows {
            starts: self.starts.clone(),
            shards: self.shards.clone(),
            sent: Lists::default(),
            departed: Lists::default(),
            ..*self
        };
        copy.sent.resize(self.shards.len());
        copy.departed.resize(self.shards.len());
        copy
    }
}

/// Locks what no other thread needs at this time.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // a panic of another thread is passed on at the end
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Longest window of a run of `config`, which has flows.
fn window_width(config: &RunConfig) -> Duration {
    let shortest = config.flows.iter().map(|flow| flow.params.base_rtt).min().unwrap_or(Duration::ZERO);
    Duration(shortest.0 / WINDOWS_PER_RTT)
}

/// Whether a run of `config` over one hop without listeners can use windows, and is faster then on this number of threads.
pub fn are_useful(config: &RunConfig, threads: Threads) -> bool {
    if !ARE_COMPILED || (threads.count < 2 && !threads.always) {
        return false;
    }
    // short flows come and go at any time, and answers of datagrams may come without a delay
    let only_flows = config.web.is_empty() && config.udp.is_empty();
    // algorithms from elsewhere may share something
    let is_own = |transport: &TransportSpec| matches!(transport, TransportSpec::Tcp(cc) if !matches!(cc, CcSpec::Dyn(_)));
    let are_own = config.flows.iter().all(|flow| is_own(&flow.transport)) && !matches!(config.aqm, AqmSpec::Dyn(_));
    let width = window_width(config);
    if !(only_flows && are_own && may_deliver_ahead(config)) || width == Duration::ZERO {
        return false;
    }
    // an event of the clock ends a window
    let usual = config.series_interval().map_or(width, |interval| interval.min(width));
    let bits = u128::from(config.bottleneck.rate.bits()) * u128::from(usual.0) / 1_000_000_000;
    let packets = bits / (8 * u128::from(config.hosts.full_frame()));
    threads.always || (packets >= u128::from(LEAST_PACKETS) && config.flows.len() >= LEAST_FLOWS)
}

impl Windows {
    /// For a run of `config` for which they [are useful](are_useful). Its endpoints are in `arena`.
    pub fn new(config: &RunConfig, arena: &mut Arena, threads: Threads) -> Windows {
        let endpoints = arena.all_mut();
        let mut starts: Vec<Instant> = endpoints.iter().map(|endpoint| endpoint.start).collect();
        starts.sort_unstable();
        let shards = threads.count.max(2) * SHARDS_PER_THREAD;
        let shift = endpoints.len().div_ceil(shards).next_power_of_two().trailing_zeros();
        Windows {
            threads: threads.count,
            always: threads.always,
            width: window_width(config),
            starts,
            shift,
            shards: Vec::new(),
            sent: Lists::default(),
            departed: Lists::default(),
        }
    }

    /// Returns whether acknowledgements and timers are in shards.
    pub fn is_split(&self) -> bool {
        !self.shards.is_empty()
    }

    /// Returns the first start of a flow at `now` or later.
    pub fn next_start(&self, now: Instant) -> Instant {
        let index = self.starts.partition_point(|&start| start < now);
        self.starts.get(index).copied().unwrap_or(Instant::NEVER)
    }

    /// Returns whether it is worth the effort to split the run at `now`, if windows end at `until`.
    pub fn should_split(&self, now: Instant, until: Instant) -> bool {
        let least = if self.always { 1 } else { 2 * WINDOWS_PER_RTT };
        until.saturating_since(now) >= Duration(least * self.width.0)
    }

    /// Returns the number of events that the loop should handle before it tries windows again.
    pub fn loop_events(&self) -> u64 {
        if self.always {
            16
        } else {
            1024
        }
    }

    /// Takes acknowledgements out of `lines`, and timers.
    pub fn split_flows(&mut self, arena: &mut Arena, lines: &mut DelayLines) {
        let crowded = arena.is_crowded();
        let endpoints = arena.all_mut();
        let size = 1 << self.shift;
        let shards = endpoints.chunks(size).zip((0..).step_by(size));
        self.shards = shards.map(|(part, first)| Shard::new(first, part, lines, crowded)).collect();
        self.sent.resize(self.shards.len());
        self.departed.resize(self.shards.len());
        let DelayLines { all, times, pool, .. } = lines;
        for (number, line) in all.iter_mut().enumerate() {
            let (mut last, mut tie) = (Instant::NEVER, 0);
            for ack in line.acks.drain() {
                tie = if ack.at == last { tie + 1 } else { 0 };
                last = ack.at;
                self.shards[(ack.reply.flow() >> self.shift) as usize].take_ack(number, ack, tie, pool);
            }
            times.set(number, Instant::NEVER);
        }
    }

    /// Gives acknowledgements back to `lines`, and timers to `arena`.
    pub fn unite_flows(&mut self, arena: &mut Arena, lines: &mut DelayLines) {
        for number in 0..lines.all.len() {
            let mut acks = Vec::new();
            self.shards.iter_mut().for_each(|shard| acks.extend(shard.give_acks(number, &mut lines.pool)));
            // those of one event stay in their order
            acks.sort_by_key(|&(order, ..)| order);
            acks.into_iter().for_each(|((at, _), reply, blocks)| lines.append(number as u32, reply, blocks, at));
        }
        self.shards.clear();
        for slot in 0..arena.all_mut().len() {
            let timer = arena.get(slot as u32).next_timer();
            arena.timers.set(slot, timer);
        }
    }

    /// Lets everything happen from `from` until `limits.until`. The run must be split.
    pub fn run<A: Aqm, L: Log>(&mut self, arena: &mut Arena, queue: &mut Bottleneck<A, L>, from: Instant, limits: Limits) {
        let windows = limits.until.saturating_since(from).0.div_ceil(self.width.0).max(1);
        let crowded = arena.is_crowded();
        let parts = arena.all_mut().chunks_mut(1 << self.shift);
        let shards: Vec<_> = self.shards.iter_mut().zip(parts).map(Mutex::new).collect();
        let crew = &Crew {
            sent: &self.sent,
            departed: &self.departed,
            from,
            until: limits.until,
            windows,
            progress: Mutex::new(Progress {
                shards: vec![ShardProgress::default(); shards.len()],
                queued: 0,
                waiting: 0,
                failed: false,
            }),
            shards,
            moved: Condvar::new(),
        };
        let shift = self.shift;
        let run_queue = |window: u64| {
            let numbers = 0..crew.shards.len();
            let lists: Vec<_> = numbers.clone().map(|number| crew.sent.take(window, number)).collect();
            let mut out: Vec<_> = numbers.map(|number| crew.departed.new_list(number)).collect();
            let slices = lists.iter().map(Vec::as_slice).collect();
            let limits = Limits { until: crew.end(window), ..limits };
            run_queue(queue, slices, limits, &mut DepartedLists { lists: &mut out, shift }, crowded);
            lists.into_iter().enumerate().for_each(|(number, list)| crew.sent.recycle(number, list));
            out.into_iter().enumerate().for_each(|(number, list)| crew.departed.put(window, number, list));
        };
        // what fits into a window or two is not worth a thread
        let helpers = if windows < 2 { 0 } else { self.threads - 1 };
        let failure = thread::scope(|scope| {
            // fewer threads than wanted are only slower
            let start = |number| thread::Builder::new().spawn_scoped(scope, move || crew.work(number, |_| ())).ok();
            let started: Vec<_> = (1..=helpers).map_while(start).collect();
            let own = crew.work(0, run_queue);
            let others = started.into_iter().map(|helper| helper.join().unwrap_or_else(Some));
            others.fold(own, Option::or)
        });
        if let Some(failure) = failure {
            resume_unwind(failure);
        }
    }
}

/// A thread's panic.
type Failure = Box<dyn Any + Send>;

/// A shard with its endpoints.
type ShardWork<'a> = (&'a mut Shard, &'a mut [Endpoint]);

/// How far a shard has come.
#[derive(Clone, Copy, Default)]
struct ShardProgress {
    /// Windows for which its senders have run, and its receivers.
    sent: u64,
    received: u64,
    /// A thread is at work on it.
    taken: bool,
    /// The thread that was the last at work on it, which may have some of it in its cache.
    thread: usize,
}

/// How far the parts have come.
struct Progress {
    shards: Vec<ShardProgress>,
    /// Windows for which the queue has run.
    queued: u64,
    /// Threads that wait.
    waiting: usize,
    /// A thread has panicked.
    failed: bool,
}

/// Work for a thread.
enum Task {
    /// The queue in this window.
    Queue(u64),
    /// Receivers of a shard in some windows, then its senders in others.
    Shard { number: usize, receive: Range<u64>, send: Range<u64> },
    /// There will be some when another thread is done.
    Wait,
    /// Nothing is left.
    Done,
}

impl Progress {
    /// Chooses a task among `windows` windows for thread number `thread`. The first one runs the queue.
    fn choose(&mut self, windows: u64, thread: usize) -> Task {
        let (mut done, mut all_sent) = (true, windows);
        let mut best: Option<(u64, Task)> = None;
        for (number, shard) in self.shards.iter().enumerate() {
            done &= shard.received == windows;
            all_sent = all_sent.min(shard.sent);
            let receive = shard.received..self.queued;
            // what the senders of a window need leaves the link a base RTT before its end
            let last = (self.queued + WINDOWS_PER_RTT - 1).min(shard.sent + BATCH).min(windows);
            let send = shard.sent..last;
            let rank = shard.sent + shard.received + if shard.thread == thread { 0 } else { OTHERS };
            let has_work = !(receive.is_empty() && send.is_empty());
            if !shard.taken && has_work && best.as_ref().is_none_or(|&(least, _)| rank < least) {
                best = Some((rank, Task::Shard { number, receive, send }));
            }
        }
        if done || self.failed {
            return Task::Done;
        }
        if thread == 0 && all_sent > self.queued {
            return Task::Queue(self.queued);
        }
        let Some((_, task)) = best else { return Task::Wait };
        if let Task::Shard { number, .. } = task {
            self.shards[number].taken = true;
            self.shards[number].thread = thread;
        }
        task
    }

    /// A task is done.
    fn finish(&mut self, task: &Task) {
        match task {
            Task::Queue(window) => self.queued = window + 1,
            Task::Shard { number, receive, send } => {
                let shard = &mut self.shards[*number];
                shard.sent = shard.sent.max(send.end);
                shard.received = shard.received.max(receive.end);
                shard.taken = false;
            }
            Task::Wait | Task::Done => {}
        }
    }
}

/// State that the threads share while windows run.
struct Crew<'a> {
    shards: Vec<Mutex<ShardWork<'a>>>,
    sent: &'a Lists<Sent>,
    departed: &'a Lists<Departed>,
    from: Instant,
    until: Instant,
    /// Number of windows.
    windows: u64,
    progress: Mutex<Progress>,
    /// Tells threads that wait of progress.
    moved: Condvar,
}

impl Crew<'_> {
    /// The end of a window.
    fn end(&self, window: u64) -> Instant {
        let length = u128::from(self.until.saturating_since(self.from).0);
        self.from + Duration((length * u128::from(window + 1) / u128::from(self.windows)) as u64)
    }

    /// Takes tasks until none is left. Returns what this thread panicked with.
    fn work(&self, thread: usize, mut run_queue: impl FnMut(u64)) -> Option<Failure> {
        let mut task = Task::Wait;
        loop {
            task = self.next_task(&task, thread);
            let result = catch_unwind(AssertUnwindSafe(|| match &task {
                Task::Queue(window) => run_queue(*window),
                Task::Shard { number, receive, send } => self.run_shard(*number, receive.clone(), send.clone()),
                Task::Wait | Task::Done => {}
            }));
            if let Err(failure) = result {
                lock(&self.progress).failed = true;
                self.moved.notify_all();
                return Some(failure);
            }
            if matches!(task, Task::Done) {
                return None;
            }
        }
    }

    /// `last` is done: returns the next task, for which the thread may have to wait.
    fn next_task(&self, last: &Task, thread: usize) -> Task {
        let mut progress = lock(&self.progress);
        progress.finish(last);
        if progress.waiting > 0 {
            self.moved.notify_all();
        }
        loop {
            match progress.choose(self.windows, thread) {
                Task::Wait => {
                    progress.waiting += 1;
                    progress = self.moved.wait(progress).unwrap_or_else(PoisonError::into_inner);
                    progress.waiting -= 1;
                }
                task => return task,
            }
        }
    }

    fn run_shard(&self, number: usize, receive: Range<u64>, send: Range<u64>) {
        let mut work = lock(&self.shards[number]);
        let (shard, endpoints) = &mut *work;
        for window in receive {
            let arriving = self.departed.take(window, number);
            shard.run_receivers(endpoints, &arriving, self.end(window));
            self.departed.recycle(number, arriving);
        }
        for window in send {
            let mut sent = self.sent.new_list(number);
            shard.run_senders(endpoints, self.end(window), &mut sent);
            self.sent.put(window, number, sent);
        }
    }
}
