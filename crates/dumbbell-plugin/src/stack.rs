//! A transport of a shared library: both ends of one connection.
#![allow(unsafe_code)]

mod streams;

use crate::abi::{self, Callbacks};
use crate::datagrams::Datagrams;
use dumbbell_config::extensions::PluginFault;
use dumbbell_core::fork::{CannotFork, SharedCopies};
use dumbbell_core::observe::SenderSnapshot;
use dumbbell_core::packet::{Ecn, UDP_HEADERS};
use dumbbell_core::protocol::{Answer, AnswerOutlet, Datagram, DatagramOutlet, Protocol, ProtocolContext, ProtocolStats};
use dumbbell_core::rng::Rng;
use dumbbell_core::units::{Duration, Instant};
use std::collections::BTreeMap;
use std::ffi::{c_void, CStr, CString};
use std::sync::Arc;

/// Calls of a timer in a row that ask for another at once, before it counts as a stack that never rests: some that send nothing, and all. Many
/// stacks send a few datagrams a call, so that a large window takes thousands.
const IDLE: u32 = 1_000;
const CALLS: u32 = 20_000;
/// After so many of them the next comes later by as much as a call takes on a host, at least. Pacers round down to a time at which they still lack
/// a byte, which they never get while the clock stands.
const AT_ONCE: u32 = 10;
const LATER: Duration = Duration(1_000);

/// One connection. The functions that the interface requires are there: [`load`](crate::Plugin::load) has looked.
pub struct PluginStack {
    functions: &'static abi::CStack,
    this: *mut c_void,
    name: Arc<str>,
    /// Largest payload of a datagram, bytes.
    payload: u32,
    fault: PluginFault,
    /// Bytes on their way to the server and to the client.
    up: Datagrams,
    down: Datagrams,
    /// Datagrams that the client has sent and the net has not taken yet.
    out: Vec<Datagram>,
    /// Datagrams that the server sends during a call.
    back: Vec<Datagram>,
    now: Instant,
    /// Calls in a row of the timers of both ends.
    rows: [Row; 2],
    /// Bytes that the application has not written yet, bytes per write, interval between writes, and time of the next write.
    left: u64,
    chunk: (u64, Duration),
    writes_at: Instant,
    over: bool,
    /// Bytes of streams that were written and that nobody has read, by the side that reads and the number of the stream.
    unread: BTreeMap<(u32, u64), u64>,
}

/// Calls of a timer in a row, each of which asked for another at once.
#[derive(Clone, Copy, Default)]
struct Row {
    calls: u32,
    /// The last ones, which sent nothing.
    idle: u32,
    /// The next does not come before.
    later: Instant,
}

// SAFETY: `this` is used only through `&mut CStack` or `&CStack`, and `CStack` is not `Sync`: by one thread at a time, as the interface
// promises. What the library shares between instances is its own to guard, as the interface says.
unsafe impl Send for PluginStack {}

// SAFETY: a table of functions and names that the library keeps and nothing writes
unsafe impl Sync for abi::CStack {}

/// Where a library's datagrams go while it is called.
struct Call<'a> {
    bytes: &'a mut Datagrams,
    sent: &'a mut Vec<Datagram>,
    now: Instant,
    /// Largest payload.
    room: u32,
    wrong: Option<String>,
}

extern "C" fn send(wire: *mut abi::CWire, payload: *const u8, length: u32, ecn: u32) {
    // SAFETY: the library calls with the wire that it was given, before its call returns: the interface asks for that; `call` points to
    // the `Call` on the stack of `CStack::call`, which lent it to nobody else
    let call = unsafe { &mut *(*wire.cast::<Callbacks<abi::CWire>>()).call.cast::<Call<'_>>() };
    let room = call.room;
    if payload.is_null() || length == 0 || length > room || ecn > 2 {
        call.wrong = Some(format!(
            "it sent {length} bytes with codepoint {ecn}; allowed: 1 to {room} bytes, which fit into a full frame of hosts.mss, codepoints 0 to 2"
        ));
        return;
    }
    // SAFETY: the interface makes it this number of bytes, which are valid during this call
    let payload = unsafe { std::slice::from_raw_parts(payload, length as usize) };
    let number = call.bytes.put(payload, call.now);
    call.sent.push(Datagram { number, length: length as u16 + UDP_HEADERS, ecn: Ecn::from_bits(ecn as u8) });
}

impl PluginStack {
    /// A connection that has not begun, with the congestion control `control` and the values of its parameters.
    pub fn new(
        functions: &'static abi::CStack,
        name: &Arc<str>,
        (control, values): (&str, &[f64]),
        context: &ProtocolContext,
        fault: PluginFault,
    ) -> PluginStack {
        let control = CString::new(control).unwrap_or_default();
        let (flow, ecn) = (context.number, u32::from(context.ecn));
        // of the run and this flow: stacks of one run do not draw the same numbers
        let seed = Rng::stream(context.seed, "stack", flow).next_u64();
        let payload = u32::from(context.payload);
        let flow = abi::CFlow { seed, flow, control: control.as_ptr(), payload, ecn };
        // SAFETY: both pointers are valid for the call, and there are as many values as the library declared parameters
        let this = functions.create.map_or(std::ptr::null_mut(), |create| unsafe { create(&flow, values.as_ptr()) });
        // an application of some rate writes a packet's payload at a time
        let size = u64::from(payload);
        let chunk = context.app_rate.map_or((u64::MAX, Duration::MAX), |rate| (size, rate.serialise(size)));
        let stack = PluginStack {
            functions,
            this,
            name: Arc::clone(name),
            payload,
            fault,
            up: Datagrams::default(),
            down: Datagrams::default(),
            out: Vec::new(),
            back: Vec::new(),
            now: Instant::ZERO,
            rows: [Row::default(); 2],
            left: context.size.unwrap_or(u64::MAX),
            chunk,
            writes_at: Instant::NEVER,
            over: false,
            unread: BTreeMap::new(),
        };
        if this.is_null() {
            stack.wrong(|| "create() returned NULL".to_owned());
        }
        stack
    }

    /// Returns a copy for the copy of the run.
    fn copy(&self, shared: &mut SharedCopies) -> Result<PluginStack, CannotFork> {
        // SAFETY: `this` came from `create`, and `self` is not `Sync`
        let this = unsafe { abi::clone_instance(self.functions.clone, self.this)? };
        Ok(PluginStack {
            this,
            name: Arc::clone(&self.name),
            fault: self.fault.fork(shared),
            up: self.up.clone(),
            down: self.down.clone(),
            out: self.out.clone(),
            back: self.back.clone(),
            unread: self.unread.clone(),
            ..*self
        })
    }

    fn wrong(&self, what: impl FnOnce() -> String) {
        self.fault.report(|| format!("stack {}: {}", self.name, what()));
    }

    /// Lets the library do something for `side`; not if it could not be created.
    fn call(&mut self, side: u32, now: Instant, act: impl FnOnce(&abi::CStack, *mut c_void, *mut abi::CWire)) {
        if self.this.is_null() {
            return;
        }
        self.now = now.max(self.now);
        self.rows[side as usize] = Row::default();
        let (bytes, sent) = if side == abi::CLIENT { (&mut self.up, &mut self.out) } else { (&mut self.down, &mut self.back) };
        let mut call = Call { bytes, sent, now, room: self.payload, wrong: None };
        let mut wire = Callbacks { functions: abi::CWire { send }, call: (&raw mut call).cast() };
        act(self.functions, self.this, (&raw mut wire).cast());
        if let Some(what) = call.wrong {
            self.wrong(|| what);
        }
    }

    /// When `side` wants to be called. Stacks set timers to times that have passed already, when they find what is overdue: that is now.
    fn wake(&self, side: u32) -> Instant {
        self.ask_wake(side).max(self.now).max(self.rows[side as usize].later)
    }

    fn ask_wake(&self, side: u32) -> Instant {
        match self.functions.wake {
            // SAFETY: `this` is what create() returned and destroy() has not been given
            Some(wake) if !self.this.is_null() && self.fault.message().is_none() => Instant(unsafe { wake(self.this, side) }),
            _ => Instant::NEVER,
        }
    }

    /// The timer of `side` is called, if it is due.
    fn timer(&mut self, side: u32, now: Instant) {
        if self.wake(side) > now {
            return;
        }
        let mut row = self.rows[side as usize];
        let waiting = self.out.len() + self.back.len();
        self.call(side, now, |functions, this, wire| {
            if let Some(timer) = functions.timer {
                // SAFETY: `this` lives, and `wire` is valid for the call
                unsafe { timer(this, wire, side, now.0) }
            }
        });
        let asked = self.ask_wake(side);
        if asked > now {
            return;
        }
        row.calls += 1;
        row.idle = if self.out.len() + self.back.len() > waiting { 0 } else { row.idle + 1 };
        row.later = if row.idle >= AT_ONCE { now + LATER } else { Instant::ZERO };
        self.rows[side as usize] = row;
        if row.idle >= IDLE || row.calls >= CALLS {
            let calls = row.calls;
            self.wrong(|| {
                format!("timer() was called {calls} times in a row, and at {now} wake() of side {side} is {asked}; allowed: a later time")
            });
        }
    }

    /// Returns the datagrams on their way to `side`.
    fn datagrams_to(&mut self, side: u32) -> &mut Datagrams {
        if side == abi::CLIENT {
            &mut self.down
        } else {
            &mut self.up
        }
    }

    fn deliver(&mut self, side: u32, number: u64, ecn: Ecn, now: Instant) {
        let Some(payload) = self.datagrams_to(side).take(number) else { return };
        self.call(side, now, |functions, this, wire| {
            if let Some(datagram) = functions.datagram {
                // SAFETY: `this` lives, and the other pointers are valid for the call
                unsafe { datagram(this, wire, side, payload.as_ptr(), payload.len() as u32, ecn as u32, now.0) }
            }
        });
        self.datagrams_to(side).reuse(payload);
    }

    /// The client begins to connect.
    fn start_client(&mut self, now: Instant) {
        self.call(abi::CLIENT, now, |functions, this, wire| {
            if let Some(start) = functions.start {
                // SAFETY: `this` lives, and `wire` is valid for the call
                unsafe { start(this, wire, now.0) }
            }
        });
    }

    /// The application writes what it has now.
    fn write(&mut self, now: Instant) {
        let (most, gap) = self.chunk;
        let bytes = self.left.min(most);
        if self.left != u64::MAX {
            self.left -= bytes;
        }
        self.call(abi::CLIENT, now, |functions, this, wire| {
            if let Some(write) = functions.write {
                // SAFETY: `this` lives, and `wire` is valid for the call
                unsafe { write(this, wire, bytes, now.0) }
            }
        });
        if self.left == 0 {
            self.finish(1, now);
        }
        self.writes_at = if self.over || gap == Duration::MAX { Instant::NEVER } else { now + gap };
    }

    fn finish(&mut self, end: u32, now: Instant) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        self.writes_at = Instant::NEVER;
        self.call(abi::CLIENT, now, |functions, this, wire| {
            if let Some(finish) = functions.finish {
                // SAFETY: `this` lives, and `wire` is valid for the call
                unsafe { finish(this, wire, end, now.0) }
            }
        });
    }

    /// Sends the server's datagrams back.
    fn answer(&mut self, back: &mut dyn AnswerOutlet) {
        for Datagram { number, length, ecn } in self.back.drain(..) {
            back.answer(Answer { value: number, length, ecn });
        }
    }

    fn stats(&self) -> abi::CStackStats {
        let mut stats = abi::CStackStats::UNKNOWN;
        if let (Some(tell), false) = (self.functions.stats, self.this.is_null()) {
            // SAFETY: `this` lives, and `stats` is valid for the call
            unsafe { tell(self.this, &raw mut stats) }
        }
        stats
    }
}

impl Drop for PluginStack {
    fn drop(&mut self) {
        if let (Some(destroy), false) = (self.functions.destroy, self.this.is_null()) {
            // SAFETY: it is what create() returned, and nothing uses it after this
            unsafe { destroy(self.this) }
        }
    }
}

impl Protocol for PluginStack {
    fn fork(&self, shared: &mut SharedCopies) -> Result<Box<dyn Protocol>, CannotFork> {
        Ok(Box::new(self.copy(shared)?))
    }

    fn start(&mut self, now: Instant) {
        self.start_client(now);
        self.write(now);
    }

    fn stop(&mut self, now: Instant) {
        self.finish(0, now);
    }

    fn next_timer(&self) -> Instant {
        if self.out.is_empty() {
            self.wake(abi::CLIENT).min(self.writes_at)
        } else {
            self.now
        }
    }

    fn on_timer(&mut self, now: Instant, net: &mut dyn DatagramOutlet) {
        if self.writes_at <= now {
            self.write(now);
        }
        self.timer(abi::CLIENT, now);
        self.out.drain(..).for_each(|datagram| net.send(datagram));
    }

    fn on_datagram(&mut self, datagram: &Datagram, now: Instant) -> Option<Answer> {
        self.deliver(abi::SERVER, datagram.number, datagram.ecn, now);
        None
    }

    fn receive(&mut self, datagram: &Datagram, now: Instant, back: &mut dyn AnswerOutlet) {
        self.on_datagram(datagram, now);
        self.answer(back);
    }

    fn on_answer(&mut self, answer: &Answer, _rtt: Duration, now: Instant) {
        self.deliver(abi::CLIENT, answer.value, answer.ecn, now);
    }

    fn receiver_timer(&self) -> Instant {
        self.wake(abi::SERVER)
    }

    fn on_receiver_timer(&mut self, now: Instant, back: &mut dyn AnswerOutlet) {
        self.timer(abi::SERVER, now);
        self.answer(back);
    }

    fn stats(&self) -> Option<ProtocolStats> {
        let known = |value: u64| Some(value).filter(|&value| value != u64::MAX);
        let stats = self.stats();
        let abi::CStackStats { received, cwnd, ssthresh, in_flight, rtt, min_rtt, lost, spurious, .. } = stats;
        let abi::CStackStats { congestion_events, ce, timeouts, pacing_rate, .. } = stats;
        Some(ProtocolStats {
            received: known(received).unwrap_or(0),
            sender: SenderSnapshot {
                cwnd: known(cwnd),
                ssthresh: known(ssthresh),
                in_flight: known(in_flight),
                srtt: known(rtt).map(Duration),
                min_rtt: known(min_rtt).map(Duration),
                lost: known(lost),
            },
            pacing_rate: known(pacing_rate),
            segment: u64::from(self.payload),
            spurious: known(spurious),
            loss_reductions: known(congestion_events),
            probes: known(timeouts),
            ce: known(ce),
        })
    }

    fn payload(&self, number: u64, is_answer: bool) -> Option<&[u8]> {
        (if is_answer { &self.down } else { &self.up }).get(number)
    }

    fn close_reason(&self) -> Option<&str> {
        let closed = self.functions.closed.filter(|_| !self.this.is_null())?;
        // SAFETY: `this` lives; the answer is null or a string that stays until the next call, and `self` is borrowed that long
        unsafe { closed(self.this).as_ref().map(|text| CStr::from_ptr(text).to_str().unwrap_or("a reason that is no UTF-8")) }
    }
}
