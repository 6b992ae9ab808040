//! The C interface: `include/dumbbell_net.h` explains it, and a test holds the two against each other.
//!
//! Pointers come from the caller and are as the header says. Each `unsafe` says which of its sentences it leans on.

#![allow(unsafe_code, reason = "pointers of C, and names without a hash")]

use crate::config::Config;
use crate::frame::{Arrival, Frame, NetCounters};
use crate::net::Net;
use dumbbell_core::packet::Ecn;
use std::ffi::{c_char, c_int, c_void, CStr};
use std::time::Duration;

/// `dumbbell_net`: what the header leaves open.
pub struct CNet {
    net: Net<Vec<u8>>,
    /// The payload that was popped last, which the caller may still read.
    last: Vec<u8>,
}

/// `dumbbell_net_frame`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CFrame {
    /// Number of its flow.
    pub flow: u32,
    /// Bytes.
    pub length: u16,
    /// ECN field.
    pub ecn: u8,
    /// Not used.
    pub zero: u8,
}

/// `dumbbell_net_arrival`.
#[repr(C)]
#[derive(Debug)]
pub struct CArrival {
    /// When, ns.
    pub at: u64,
    /// Bytes that were pushed.
    pub bytes: *const u8,
    /// Bytes of that.
    pub size: usize,
    /// Properties of it that queue and link saw.
    pub frame: CFrame,
}

const NEVER: u64 = u64::MAX;

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(NEVER)
}

fn new(text: &CStr, seed: u64, start: u64) -> Result<CNet, String> {
    let text = text.to_str().map_err(|error| format!("the text is not UTF-8: {error}"))?;
    let config = Config::parse(text).map_err(|error| error.to_string())?;
    let net = config.seed(seed).start(Duration::from_nanos(start)).build();
    Ok(CNet { net: net.map_err(|error| error.to_string())?, last: Vec::new() })
}

/// Writes as many whole letters of `message` as fit, and 0.
///
/// # Safety
/// `error` is null, or `size` bytes can be written there.
unsafe fn write_error(message: &str, error: *mut c_char, size: usize) {
    let Some(room) = size.checked_sub(1).filter(|_| !error.is_null()) else { return };
    let fits = (0..=room.min(message.len())).rev().find(|&end| message.is_char_boundary(end)).unwrap_or(0);
    // SAFETY: fits <= room = size - 1, so fits + 1 bytes lie within the size bytes that the caller of this function vouches for. The message is
    // memory of Rust, which does not overlap with memory that C handed in for writing.
    unsafe {
        std::ptr::copy_nonoverlapping(message.as_ptr().cast(), error, fits);
        error.add(fits).write(0);
    }
}

/// `dumbbell_net_new`.
///
/// # Safety
/// `text` is null or ends with 0; `error` is null or has room for `size` bytes.
#[no_mangle]
pub unsafe extern "C" fn dumbbell_net_new(
    text: *const c_char,
    seed: u64,
    start: u64,
    error: *mut c_char,
    size: usize,
) -> *mut CNet {
    let made = if text.is_null() {
        Err("text: found NULL, allowed: the keys of a bottleneck".to_owned())
    } else {
        // SAFETY: it is not null, and the header asks for a string of C, which ends with 0; nothing changes it during this call.
        new(unsafe { CStr::from_ptr(text) }, seed, start)
    };
    match made {
        Ok(net) => Box::into_raw(Box::new(net)),
        Err(message) => {
            // SAFETY: the header asks that error is NULL or has size bytes.
            unsafe { write_error(&message, error, size) };
            std::ptr::null_mut()
        }
    }
}

/// `dumbbell_net_free`.
///
/// # Safety
/// `net` is null, or comes from [`dumbbell_net_new`] and was not freed.
#[no_mangle]
pub unsafe extern "C" fn dumbbell_net_free(net: *mut CNet) {
    if !net.is_null() {
        // SAFETY: a net that is not null was made by Box::into_raw in dumbbell_net_new, and is freed once.
        drop(unsafe { Box::from_raw(net) });
    }
}

/// `dumbbell_net_push`.
///
/// # Safety
/// `net` is null or a net; `size` bytes can be read at `bytes`, which may be null if `size` is 0.
#[no_mangle]
pub unsafe extern "C" fn dumbbell_net_push(net: *mut CNet, now: u64, frame: CFrame, bytes: *const c_void, size: usize) -> c_int {
    // SAFETY: a pointer that is not null is that of a Box that lives until dumbbell_net_free, and one thread at a time uses a net, so that
    // there is no other reference to it during this call.
    let Some(CNet { net, .. }) = (unsafe { net.as_mut() }) else { return 0 };
    let payload = if bytes.is_null() || size == 0 {
        Vec::new()
    } else {
        // SAFETY: bytes is not null, and the header asks for size bytes there, which nothing changes during this call. What exists in memory
        // has at most isize::MAX bytes.
        unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), size) }.to_vec()
    };
    let seen = Frame::new(frame.length).ecn(Ecn::from_bits(frame.ecn)).flow(frame.flow);
    c_int::from(net.push(Duration::from_nanos(now), seen, payload))
}

/// `dumbbell_net_pop`.
///
/// # Safety
/// `net` is null or a net; `arrival` is null or can be written.
#[no_mangle]
pub unsafe extern "C" fn dumbbell_net_pop(net: *mut CNet, now: u64, arrival: *mut CArrival) -> c_int {
    // SAFETY: as in dumbbell_net_push. What an earlier arrival points to lies in the heap, and is no reference of Rust.
    let Some(CNet { net, last }) = (unsafe { net.as_mut() }) else { return 0 };
    last.clear();
    if arrival.is_null() {
        return 0;
    }
    let Some(Arrival { at, frame, payload }) = net.pop(Duration::from_nanos(now)) else { return 0 };
    *last = payload;
    let bytes = if last.is_empty() { std::ptr::null() } else { last.as_ptr() };
    let frame = CFrame { flow: frame.flow, length: frame.len, ecn: frame.ecn as u8, zero: 0 };
    let popped = CArrival { at: nanoseconds(at), bytes, size: last.len(), frame };
    // SAFETY: it is not null, and the header asks for an arrival that can be written. What was there has nothing to drop.
    unsafe { arrival.write(popped) };
    1
}

/// `dumbbell_net_next`.
///
/// # Safety
/// `net` is null or a net.
#[no_mangle]
pub unsafe extern "C" fn dumbbell_net_next(net: *const CNet) -> u64 {
    // SAFETY: a pointer that is not null is that of a Box that lives until dumbbell_net_free, and nothing changes it during this call, since
    // one thread at a time uses a net.
    let net = unsafe { net.as_ref() };
    net.and_then(|CNet { net, .. }| net.next()).map_or(NEVER, nanoseconds)
}

/// `dumbbell_net_count`.
///
/// # Safety
/// `net` is null or a net; `counters` is null or can be written.
#[no_mangle]
pub unsafe extern "C" fn dumbbell_net_count(net: *const CNet, counters: *mut NetCounters) {
    // SAFETY: as in dumbbell_net_next.
    let net = unsafe { net.as_ref() };
    if !counters.is_null() {
        let counted = net.map_or(NetCounters::default(), |CNet { net, .. }| net.counters());
        // SAFETY: it is not null, and the header asks for counters that can be written. What was there has nothing to drop.
        unsafe { counters.write(counted) };
    }
}
