//! The section "stacks" of `dumbbell.h`, version 5, for Rust: a trait, and what exports it.
//!
//! All times are nanoseconds. Licence: MIT OR Apache-2.0.

#[path = "abi.rs"]
pub mod abi;

use std::ffi::{c_char, c_void, CStr, CString};

use abi::{CFlow, CParam, CStack};
pub use abi::{CPlugin as Plugin, CStackStats as Stats, CWire as Wire};

/// What a stack does not tell, and a time that never comes.
pub const NONE: u64 = u64::MAX;

/// The stream that belongs to the end that writes to it.
pub const ONE_WAY: u64 = abi::ONE_WAY;

/// What a parameter is.
#[derive(Clone, Copy)]
#[repr(u32)]
pub enum Kind {
    /// A number.
    Float = 0,
    /// A whole number.
    Int = 1,
    /// 0 or 1.
    Bool = 2,
    /// Nanoseconds.
    Time = 3,
    /// Bytes.
    Size = 5,
}

/// A parameter: a key of the stack's table in an experiment file.
pub struct Param {
    /// Letters, digits and _.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Default.
    pub value: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// Of a number.
    pub unit: &'static str,
    /// One line.
    pub doc: &'static str,
}

/// An end of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// It connects and sends.
    Client = 0,
    /// Its application reads everything at once.
    Server = 1,
}

/// The flow that a connection is made for.
pub struct FlowSetup<'a> {
    /// Of the run and this flow.
    pub seed: u64,
    /// Its number among the flows of the run.
    pub number: u64,
    /// One of the controls that `describe` was given.
    pub control: &'a str,
    /// Bytes of UDP payload that fit into a full frame.
    pub payload: u32,
    /// Whether the hosts let it use ECN.
    pub ecn: bool,
}

impl Wire {
    /// Sends a datagram now, with the ECN codepoint in its two bits.
    pub fn send(&mut self, payload: &[u8], ecn: u32) {
        (self.send)(self, payload.as_ptr(), payload.len() as u32, ecn);
    }
}

/// One connection, both ends of it.
pub trait Stack: Sized {
    /// Makes it; `None` if that is impossible.
    fn new(setup: &FlowSetup, params: &[f64]) -> Option<Self>;
    /// The client begins to connect.
    fn start(&mut self, wire: &mut Wire, now: u64);
    /// Its application has so many bytes more to send; `u64::MAX`: without end.
    fn write(&mut self, wire: &mut Wire, bytes: u64, now: u64);
    /// It has nothing more to send; without `end` what is not yet sent is forgotten.
    fn finish(&mut self, wire: &mut Wire, end: bool, now: u64);
    /// A datagram reaches a side.
    fn datagram(&mut self, wire: &mut Wire, side: Side, payload: &[u8], ecn: u32, now: u64);
    /// When `timer` of a side is called next.
    fn wake(&self, side: Side) -> u64;
    /// A timer is due.
    fn timer(&mut self, wire: &mut Wire, side: Side, now: u64);
    /// What it counts.
    fn stats(&mut self) -> Stats;
    /// Why the connection was closed before its end.
    fn closed(&self) -> Option<&CStr>;

    /// Whether it has streams, for applications: the functions below.
    const HAS_STREAMS: bool = false;
    /// The application of a side has so many bytes more for a stream, and with `last` nothing behind them.
    fn stream_write(&mut self, _wire: &mut Wire, _side: Side, _stream: u64, _bytes: u64, _last: bool, _now: u64) {}
    /// A stream of which a side has read more, and how many bytes; 0 if there is none.
    fn stream_read(&mut self, _side: Side) -> (u64, u64) {
        (ONE_WAY, 0)
    }
    /// The client closes the connection.
    fn close(&mut self, _wire: &mut Wire, _now: u64) {}
    /// Packets that a side has taken for lost.
    fn lost(&mut self, _side: Side) -> u64 {
        NONE
    }

    /// A copy that goes on as this does, for copies of a run on its way; of a type that is `Clone`, `Some(self.clone())`.
    fn copy(&self) -> Option<Self> {
        None
    }
}

type This = *mut c_void;

/// What a stack says of itself.
pub struct Description<'a> {
    /// Letters, digits, -, . and _.
    pub name: &'a str,
    /// One line.
    pub title: &'a str,
    /// Where it is specified.
    pub source: &'a str,
    /// Its congestion controls, the default first.
    pub controls: Vec<String>,
    /// How many values `Stack::new` gets.
    pub params: &'static [Param],
}

fn text(text: &str) -> *const c_char {
    // it is described once, and stays
    CString::new(text).unwrap_or_default().into_raw()
}

fn side(number: u32) -> Side {
    if number == 0 {
        Side::Client
    } else {
        Side::Server
    }
}

// SAFETY: the interface promises that `this` is what create() returned, until destroy() takes it back, and that one thread at a time
// uses it: nothing else refers to the box during a call.
unsafe fn of<'a, S: Stack>(this: *const c_void) -> &'a mut S {
    unsafe { &mut *this.cast_mut().cast::<S>() }
}

unsafe extern "C" fn create<S: Stack, const PARAMS: usize>(flow: *const CFlow, params: *const f64) -> This {
    // SAFETY: the interface promises that `flow`, its string and as many values as there are parameters are valid during the call
    let (flow, params) = unsafe { (&*flow, std::slice::from_raw_parts(params, PARAMS)) };
    // SAFETY: as above; the string ends with 0
    let control = unsafe { CStr::from_ptr(flow.control) }.to_str().unwrap_or_default();
    let setup = FlowSetup { seed: flow.seed, number: flow.flow, control, payload: flow.payload, ecn: flow.ecn != 0 };
    S::new(&setup, params).map_or(std::ptr::null_mut(), |stack| Box::into_raw(Box::new(stack)).cast())
}

unsafe extern "C" fn destroy<S: Stack>(this: This) {
    // SAFETY: it is the box of create(), which is not used after this call
    drop(unsafe { Box::from_raw(this.cast::<S>()) });
}

// SAFETY of the functions below: `this` is that of `of`; the wire, the payload of `length` bytes and the place for statistics are valid
// during the call, and nothing else refers to them meanwhile. The interface says so.
unsafe extern "C" fn start<S: Stack>(this: This, wire: *mut Wire, now: u64) {
    // SAFETY: as said above
    unsafe { of::<S>(this).start(&mut *wire, now) }
}

unsafe extern "C" fn write<S: Stack>(this: This, wire: *mut Wire, bytes: u64, now: u64) {
    // SAFETY: as said above
    unsafe { of::<S>(this).write(&mut *wire, bytes, now) }
}

unsafe extern "C" fn finish<S: Stack>(this: This, wire: *mut Wire, end: u32, now: u64) {
    // SAFETY: as said above
    unsafe { of::<S>(this).finish(&mut *wire, end != 0, now) }
}

unsafe extern "C" fn datagram<S: Stack>(
    this: This,
    wire: *mut Wire,
    to: u32,
    payload: *const u8,
    length: u32,
    ecn: u32,
    now: u64,
) {
    if length == 0 {
        return; // of no QUIC packet; the pointer need not be valid
    }
    // SAFETY: as said above
    let (stack, wire, payload) = unsafe { (of::<S>(this), &mut *wire, std::slice::from_raw_parts(payload, length as usize)) };
    stack.datagram(wire, side(to), payload, ecn, now);
}

unsafe extern "C" fn wake<S: Stack>(this: *const c_void, of_side: u32) -> u64 {
    // SAFETY: as said above
    unsafe { of::<S>(this) }.wake(side(of_side))
}

unsafe extern "C" fn timer<S: Stack>(this: This, wire: *mut Wire, of_side: u32, now: u64) {
    // SAFETY: as said above
    unsafe { of::<S>(this).timer(&mut *wire, side(of_side), now) }
}

unsafe extern "C" fn stats<S: Stack>(this: *const c_void, to: *mut Stats) {
    // SAFETY: as said above
    unsafe { to.write(of::<S>(this).stats()) }
}

unsafe extern "C" fn closed<S: Stack>(this: *const c_void) -> *const c_char {
    // SAFETY: as said above
    unsafe { of::<S>(this) }.closed().map_or(std::ptr::null(), CStr::as_ptr)
}

unsafe extern "C" fn stream_write<S: Stack>(
    this: This,
    wire: *mut Wire,
    of_side: u32,
    stream: u64,
    bytes: u64,
    last: u32,
    now: u64,
) {
    // SAFETY: as said above
    unsafe { of::<S>(this).stream_write(&mut *wire, side(of_side), stream, bytes, last != 0, now) }
}

unsafe extern "C" fn stream_read<S: Stack>(this: This, of_side: u32, stream: *mut u64) -> u64 {
    // SAFETY: as said above; the place for the number is valid during the call
    let (number, bytes) = unsafe { of::<S>(this) }.stream_read(side(of_side));
    // SAFETY: as above
    unsafe { stream.write(number) };
    bytes
}

unsafe extern "C" fn close<S: Stack>(this: This, wire: *mut Wire, now: u64) {
    // SAFETY: as said above
    unsafe { of::<S>(this).close(&mut *wire, now) }
}

unsafe extern "C" fn lost<S: Stack>(this: *const c_void, of_side: u32) -> u64 {
    // SAFETY: as said above
    unsafe { of::<S>(this) }.lost(side(of_side))
}

unsafe extern "C" fn clone<S: Stack>(this: *const c_void) -> This {
    // SAFETY: as said above
    unsafe { &*this.cast::<S>() }.copy().map_or(std::ptr::null_mut(), |copy| Box::into_raw(Box::new(copy)).cast())
}

/// Returns what `dumbbell_describe` is to return. `PARAMS` is how many parameters there are.
pub fn describe<S: Stack, const PARAMS: usize>(said: Description) -> *const Plugin {
    assert_eq!(said.params.len(), PARAMS);
    let read = |one: &Param| CParam {
        name: text(one.name),
        kind: one.kind as u32,
        value: one.value,
        min: one.min,
        max: one.max,
        unit: text(one.unit),
        doc: text(one.doc),
    };
    let params: &'static [CParam] = said.params.iter().map(read).collect::<Vec<_>>().leak();
    let ended = said.controls.iter().map(|control| text(control)).chain([std::ptr::null()]);
    let controls: &'static [*const c_char] = ended.collect::<Vec<_>>().leak();
    let stack = Box::leak(Box::new(CStack {
        controls: controls.as_ptr(),
        create: Some(create::<S, PARAMS>),
        destroy: Some(destroy::<S>),
        start: Some(start::<S>),
        write: Some(write::<S>),
        finish: Some(finish::<S>),
        datagram: Some(datagram::<S>),
        wake: Some(wake::<S>),
        timer: Some(timer::<S>),
        stats: Some(stats::<S>),
        closed: Some(closed::<S>),
        stream_write: if S::HAS_STREAMS { Some(stream_write::<S>) } else { None },
        stream_read: if S::HAS_STREAMS { Some(stream_read::<S>) } else { None },
        close: if S::HAS_STREAMS { Some(close::<S>) } else { None },
        lost: if S::HAS_STREAMS { Some(lost::<S>) } else { None },
        clone: Some(clone::<S>),
    }));
    Box::leak(Box::new(Plugin {
        abi: abi::ABI,
        params: params.len() as u32,
        name: text(said.name),
        title: text(said.title),
        source: text(said.source),
        param: params.as_ptr(),
        queue: std::ptr::null(),
        control: std::ptr::null(),
        stack,
        media: std::ptr::null(),
    }))
}
