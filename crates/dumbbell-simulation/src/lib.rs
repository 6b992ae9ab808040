//! Simulations from C, step by step: `include/dumbbell_simulation.h` explains the interface, and a test holds the two against each other.
//!
//! Programs in Rust use [`dumbbell_sim::Sim`], of which this is a thin cover.
//!
//! Pointers come from the caller and are as the header says. Each `unsafe` says which of its sentences it leans on.

#![allow(unsafe_code, reason = "pointers of C, and names without a hash")]

use dumbbell_core::units::Instant;
use dumbbell_sim::describe::{describe_outcome, describe_view};
use dumbbell_sim::events::{EventRecorder, PacketEvent};
use dumbbell_sim::{SharedCopies, Sim};
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::{c_char, c_int, CStr, CString};
use std::sync::{Mutex, PoisonError};

/// `dumbbell_simulation`: what the header leaves open.
pub struct CSimulation {
    /// None once it is finished or has failed.
    sim: Option<Sim>,
    events: Option<EventRecorder>,
    /// Events that were taken from the recorder and not from the simulation.
    waiting: VecDeque<PacketEvent>,
    /// Text that the caller may still read.
    text: CString,
}

/// `dumbbell_simulation_event`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CEvent {
    /// Time, ns.
    pub time: u64,
    /// Number of the segment or datagram.
    pub number: u64,
    /// Name of the hop.
    pub hop: *const c_char,
    /// Name of the event.
    pub event: *const c_char,
    /// Kind of mark or drop.
    pub kind: *const c_char,
    /// Reason or place.
    pub reason: *const c_char,
    /// Number of the flow.
    pub flow: u32,
    /// Bytes of the frame.
    pub length: u16,
    /// 1 of an acknowledgement.
    pub is_ack: u16,
}

const OVER: &str = "the simulation is over: it was finished, or it failed";

/// Returns a name as text of C that stays for the life of the process: a program has few names.
fn keep_name(name: &str) -> *const c_char {
    static KNOWN: Mutex<BTreeMap<String, &'static CStr>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = known.get(name) {
        return found.as_ptr();
    }
    let kept: &'static CStr = Box::leak(CString::new(name).unwrap_or_default().into_boxed_c_str());
    known.insert(name.to_owned(), kept);
    kept.as_ptr()
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

/// Reads text of C.
///
/// # Safety
/// `text` is null or ends with 0, and nothing changes it during this call.
unsafe fn read_text<'a>(text: *const c_char, name: &str) -> Result<&'a str, String> {
    if text.is_null() {
        return Err(format!("{name}: found NULL, allowed: text"));
    }
    // SAFETY: the condition above
    unsafe { CStr::from_ptr(text) }
        .to_str()
        .map_err(|error| format!("{name}: found text that is not UTF-8 ({error}), allowed: UTF-8"))
}

fn read_json(text: &str, name: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("{name}: found text that is not JSON ({error}), allowed: JSON"))
}

impl CSimulation {
    fn new(config: &str, keeps_events: bool) -> Result<CSimulation, String> {
        let config = read_json(config, "config")?;
        let events = keeps_events.then(EventRecorder::default);
        let mut builder = Sim::builder(&config).changeable();
        if let Some(recorder) = events.clone() {
            builder = builder.listener(move |hop| recorder.listener(hop));
        }
        let sim = builder.build().map_err(|error| error.to_string())?;
        Ok(CSimulation { sim: Some(sim), events, waiting: VecDeque::new(), text: CString::default() })
    }

    fn sim(&mut self) -> Result<&mut Sim, String> {
        self.sim.as_mut().ok_or_else(|| OVER.to_owned())
    }

    fn step(&mut self, until: u64) -> Result<bool, String> {
        let stepped = self.sim()?.step(Instant(until)).map_err(|error| error.to_string());
        if stepped.is_err() {
            self.sim = None;
        }
        stepped
    }

    fn copy(&self) -> Result<CSimulation, String> {
        let sim = self.sim.as_ref().ok_or(OVER)?;
        let mut shared = SharedCopies::default();
        let copy = sim.fork_with(&mut shared).map_err(|refused| refused.to_string())?;
        let events = self.events.as_ref().map(|recorder| recorder.fork(&mut shared));
        Ok(CSimulation { sim: Some(copy), events, waiting: self.waiting.clone(), text: CString::default() })
    }

    fn finish(&mut self) -> Result<*const c_char, String> {
        let sim = self.sim.take().ok_or(OVER)?;
        let outcome = sim.finish().map_err(|error| error.to_string())?;
        Ok(self.put(&describe_outcome(&outcome)))
    }

    fn put(&mut self, value: &Value) -> *const c_char {
        // JSON has no byte 0
        self.text = CString::new(value.to_string()).unwrap_or_default();
        self.text.as_ptr()
    }

    /// Takes the next event.
    fn take_event(&mut self) -> Option<CEvent> {
        let recorder = self.events.as_ref()?;
        if self.waiting.is_empty() {
            self.waiting.extend(recorder.take());
        }
        let PacketEvent { time, hop, event, kind, reason, flow, number, length, is_ack } = self.waiting.pop_front()?;
        let hops = recorder.hops();
        let hop = keep_name(hops.get(usize::from(hop)).map_or("", String::as_str));
        let [event, kind, reason] = [event, kind, reason].map(keep_name);
        Some(CEvent { time: time.0, number, hop, event, kind, reason, flow, length, is_ack: u16::from(is_ack) })
    }
}

/// Returns the result of a call; after an error it writes the message and returns `otherwise`.
///
/// # Safety
/// `error` is null, or `size` bytes can be written there.
unsafe fn answer<T>(found: Result<T, String>, otherwise: T, error: *mut c_char, size: usize) -> T {
    found.unwrap_or_else(|message| {
        // SAFETY: the condition above
        unsafe { write_error(&message, error, size) };
        otherwise
    })
}

/// Returns the simulation at `simulation`. It is an error if there is none.
///
/// # Safety
/// `simulation` is null, or comes from this library and was not freed, and no other call uses it.
unsafe fn find_simulation<'a>(simulation: *mut CSimulation) -> Result<&'a mut CSimulation, String> {
    // SAFETY: the condition above: the pointer is that of a Box, and nobody else has a reference to it
    unsafe { simulation.as_mut() }.ok_or_else(|| "simulation: found NULL, allowed: one of dumbbell_simulation_new()".to_owned())
}

fn box_up(found: Result<CSimulation, String>) -> Result<*mut CSimulation, String> {
    found.map(|made| Box::into_raw(Box::new(made)))
}

/// `dumbbell_simulation_new`.
///
/// # Safety
/// `config` is null or ends with 0; `error` is null or has room for `size` bytes.
#[no_mangle]
pub unsafe extern "C" fn dumbbell_simulation_new(
    config: *const c_char,
    events: c_int,
    error: *mut c_char,
    size: usize,
) -> *mut CSimulation {
    // SAFETY: the header asks for text of C
    let made = unsafe { read_text(config, "config") }.and_then(|config| CSimulation::new(config, events != 0));
    // SAFETY: the header asks that error is NULL or has size bytes
    unsafe { answer(box_up(made), std::ptr::null_mut(), error, size) }
}

/// `dumbbell_simulation_free`.
///
/// # Safety
/// `simulation` is null, or comes from this library and was not freed.
#[no_mangle]
pub unsafe extern "C" fn dumbbell_simulation_free(simulation: *mut CSimulation) {
    if !simulation.is_null() {
        // SAFETY: a simulation that is not null was made by Box::into_raw, and is freed once
        drop(unsafe { Box::from_raw(simulation) });
    }
}

/// `dumbbell_simulation_step`.
///
/// # Safety
/// `simulation` is null or a simulation; `error` is null or has room for `size` bytes.
#[no_mangle]
pub unsafe extern "C" fn dumbbell_simulation_step(
    simulation: *mut CSimulation,
    until: u64,
    error: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: the header asks for a simulation that one thread uses
    let stepped = unsafe { find_simulation(simulation) }.and_then(|one| one.step(until)).map(c_int::from);
    // SAFETY: the header asks that error is NULL or has size bytes
    unsafe { answer(stepped, -1, error, size) }
}

/// `dumbbell_simulation_time`.
///
/// # Safety
/// `simulation` is null or a simulation.
#[no_mangle]
pub unsafe extern "C" fn dumbbell_simulation_time(simulation: *const CSimulation) -> u64 {
    // SAFETY: the header asks for a simulation that one thread uses
    unsafe { simulation.as_ref() }.and_then(|one| one.sim.as_ref()).map_or(0, |sim| sim.now().0)
}

/// `dumbbell_simulation_view`.
///
/// # Safety
/// `simulation` is null or a simulation.
#[no_mangle]
pub unsafe extern "C" fn dumbbell_simulation_view(simulation: *mut CSimulation) -> *const c_char {
    // SAFETY: the header asks for a simulation that one thread uses
    let Ok(one) = (unsafe { find_simulation(simulation) }) else { return std::ptr::null() };
    let seen = one.sim.as_ref().map(describe_view);
    seen.map_or(std::ptr::null(), |seen| one.put(&seen))
}

/// `dumbbell_simulation_set`.
///
/// # Safety
/// `simulation` is null or a simulation; `key` and `value` are null or end with 0; `error` is null or has room for `size` bytes.
#[no_mangle]
pub unsafe extern "C" fn dumbbell_simulation_set(
    simulation: *mut CSimulation,
    key: *const c_char,
    value: *const c_char,
    error: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: the header asks for text of C
    let given = unsafe { read_text(key, "key").and_then(|name| Ok((name, read_text(value, "value")?))) };
    let done = given.and_then(|(name, text)| {
        let parsed = read_json(text, name)?;
        // SAFETY: the header asks for a simulation that one thread uses
        unsafe { find_simulation(simulation) }?.sim()?.set(name, &parsed).map_err(|refused| refused.to_string())
    });
    // SAFETY: the header asks that error is NULL or has size bytes
    unsafe { answer(done.map(|()| 0), -1, error, size) }
}

/// `dumbbell_simulation_snapshot`.
///
/// # Safety
/// `simulation` is null or a simulation; `error` is null or has room for `size` bytes.
#[no_mangle]
pub unsafe extern "C" fn dumbbell_simulation_snapshot(
    simulation: *const CSimulation,
    error: *mut c_char,
    size: usize,
) -> *mut CSimulation {
    // SAFETY: the header asks for a simulation that one thread uses
    let copied = unsafe { find_simulation(simulation.cast_mut()) }.and_then(|one| one.copy());
    // SAFETY: the header asks that error is NULL or has size bytes
    unsafe { answer(box_up(copied), std::ptr::null_mut(), error, size) }
}

/// `dumbbell_simulation_restore`.
///
/// # Safety
/// `simulation` and `snapshot` are null or simulations; `error` is null or has room for `size` bytes.
#[no_mangle]
pub unsafe extern "C" fn dumbbell_simulation_restore(
    simulation: *mut CSimulation,
    snapshot: *const CSimulation,
    error: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: the header asks for a simulation that one thread uses; the reference ends before the next one begins, as both may be one simulation
    let copied = unsafe { find_simulation(snapshot.cast_mut()) }.and_then(|one| one.copy());
    let done = copied.and_then(|copy| {
        // SAFETY: as above
        *unsafe { find_simulation(simulation) }? = copy;
        Ok(0)
    });
    // SAFETY: the header asks that error is NULL or has size bytes
    unsafe { answer(done, -1, error, size) }
}

/// `dumbbell_simulation_events`.
///
/// # Safety
/// `simulation` is null or a simulation; `room` events can be written at `to`.
#[no_mangle]
pub unsafe extern "C" fn dumbbell_simulation_events(simulation: *mut CSimulation, to: *mut CEvent, room: usize) -> usize {
    // SAFETY: the header asks for a simulation that one thread uses
    let Ok(one) = (unsafe { find_simulation(simulation) }) else { return 0 };
    let mut count = 0;
    while count < room {
        let Some(event) = one.take_event() else { break };
        // SAFETY: count < room, and the header asks for room events there
        unsafe { to.add(count).write(event) };
        count += 1;
    }
    count
}

/// `dumbbell_simulation_finish`.
///
/// # Safety
/// `simulation` is null or a simulation; `error` is null or has room for `size` bytes.
#[no_mangle]
pub unsafe extern "C" fn dumbbell_simulation_finish(
    simulation: *mut CSimulation,
    error: *mut c_char,
    size: usize,
) -> *const c_char {
    // SAFETY: the header asks for a simulation that one thread uses
    let finished = unsafe { find_simulation(simulation) }.and_then(CSimulation::finish);
    // SAFETY: the header asks that error is NULL or has size bytes
    unsafe { answer(finished, std::ptr::null(), error, size) }
}
