//! Runs one flow of a built stack through a tail-drop bottleneck, by `dumbbell.h` alone, without the engine.
//!
//! tests/stack_harness.py compiles it, with the types of `dumbbell.h` next to it; then:
//!
//!     bottleneck LIBRARY[,LIBRARY...] CONTROL MBIT/S RTT_MS SECONDS [NAME=VALUE...]
//!
//! runs a flow of each library, one after the other in one process. The names are those of parameters, and
//!
//! - seed: of the flow
//! - buffer: bandwidth-delay products, 1 by default
//! - mark=1: a packet that finds half the buffer full gets CE
//! - loss=N: every N-th packet of the client is lost
//! - bytes=N: the client sends as many and ends
//! - stop=S: after so many seconds the client forgets what is not sent
//! - ecn=0: the hosts do not let it use ECN
//!
//! Licence: MIT OR Apache-2.0.

#[path = "../../python/dumbbell/stacks/adapter/src/interface.rs"]
#[allow(dead_code)]
mod interface;

use interface::NONE;
use std::collections::VecDeque;
use std::ffi::{c_char, c_int, c_void, CStr, CString};

extern "C" {
    fn dlopen(file: *const c_char, flags: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlerror() -> *const c_char;
    fn clock_gettime(clock: c_int, time: *mut [i64; 2]) -> c_int;
}

const OVERHEAD: u64 = 42; // bytes of Ethernet, IPv4 and UDP headers

#[repr(C)]
struct Flow {
    seed: u64,
    flow: u64,
    control: *const c_char,
    payload: u32,
    ecn: u32,
}

#[repr(C)]
struct Stack {
    controls: *const *const c_char,
    create: unsafe extern "C" fn(*const Flow, *const f64) -> *mut c_void,
    destroy: unsafe extern "C" fn(*mut c_void),
    start: unsafe extern "C" fn(*mut c_void, *mut Wire, u64),
    write: unsafe extern "C" fn(*mut c_void, *mut Wire, u64, u64),
    finish: unsafe extern "C" fn(*mut c_void, *mut Wire, u32, u64),
    datagram: unsafe extern "C" fn(*mut c_void, *mut Wire, u32, *const u8, u32, u32, u64),
    wake: unsafe extern "C" fn(*const c_void, u32) -> u64,
    timer: unsafe extern "C" fn(*mut c_void, *mut Wire, u32, u64),
    stats: unsafe extern "C" fn(*const c_void, *mut interface::Stats),
    closed: unsafe extern "C" fn(*const c_void) -> *const c_char,
}

#[repr(C)]
struct Param {
    name: *const c_char,
    kind: u32,
    value: f64,
    min: f64,
    max: f64,
    unit: *const c_char,
    doc: *const c_char,
}

#[repr(C)]
struct Plugin {
    abi: u32,
    params: u32,
    name: *const c_char,
    title: *const c_char,
    source: *const c_char,
    param: *const Param,
    queue: *const c_void,
    control: *const c_void,
    stack: *const Stack,
}

struct Packet {
    at: u64,
    ecn: u32,
    payload: Vec<u8>,
}

/// The wire, which the stack knows by its first field, and both directions of the path behind it.
#[repr(C)]
struct Wire {
    send: extern "C" fn(*mut Wire, *const u8, u32, u32),
    now: u64,
    side: u32,
    rate: f64, // bytes per ns
    half: u64,
    limit: u64,
    mark: bool,
    loss: u64,
    busy: u64,
    forth: VecDeque<Packet>,
    back: VecDeque<Packet>,
    pool: Vec<Vec<u8>>,
    sent: u64,
    dropped: u64,
    marked: u64,
    acks: u64,
    codepoints: [u64; 4],
    hash: u64,
}

extern "C" fn send(wire: *mut Wire, payload: *const u8, length: u32, ecn: u32) {
    // SAFETY: the stack gives back the wire that it was called with, and a payload of this length
    let (wire, payload) = unsafe { (&mut *wire, std::slice::from_raw_parts(payload, length as usize)) };
    let mut hash = wire.hash ^ wire.now ^ (u64::from(ecn) << 62);
    for chunk in payload.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
    }
    wire.hash = hash;
    let mut copy = wire.pool.pop().unwrap_or_default();
    copy.clear();
    copy.extend_from_slice(payload);
    if wire.side == 1 {
        wire.acks += 1;
        wire.back.push_back(Packet { at: wire.now + wire.half, ecn, payload: copy });
        return;
    }
    wire.sent += 1;
    wire.codepoints[ecn as usize & 3] += 1;
    let size = u64::from(length) + OVERHEAD;
    let backlog = (wire.busy.saturating_sub(wire.now) as f64 * wire.rate) as u64;
    if backlog + size > wire.limit || (wire.loss > 0 && wire.sent % wire.loss == 0) {
        wire.dropped += 1;
        wire.pool.push(copy);
        return;
    }
    let marks = wire.mark && ecn != 0 && backlog > wire.limit / 2;
    wire.marked += u64::from(marks);
    wire.busy = wire.busy.max(wire.now) + (size as f64 / wire.rate) as u64;
    wire.forth.push_back(Packet { at: wire.busy + wire.half, ecn: if marks { 3 } else { ecn }, payload: copy });
}

fn text(text: *const c_char) -> String {
    // SAFETY: strings of the description end with 0 and stay
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

fn cpu_s() -> f64 {
    let mut time = [0; 2];
    // SAFETY: timespec is two longs; 2 is CLOCK_PROCESS_CPUTIME_ID
    unsafe { clock_gettime(2, &mut time) };
    time[0] as f64 + time[1] as f64 * 1e-9
}

fn described(file: &str) -> &'static Plugin {
    let (file, name) = (CString::new(file).unwrap(), c"dumbbell_describe");
    // SAFETY: a library and a function of the interface; 2 is RTLD_NOW, and 0 RTLD_LOCAL
    unsafe {
        let library = dlopen(file.as_ptr(), 2);
        assert!(!library.is_null(), "{}", text(dlerror()));
        let describe = dlsym(library, name.as_ptr());
        assert!(!describe.is_null(), "no dumbbell_describe");
        let describe: extern "C" fn() -> *const Plugin = std::mem::transmute(describe);
        &*describe()
    }
}

/// What the command line asks for.
struct Asked {
    control: CString,
    mbit: f64,
    rtt_ms: f64,
    seconds: f64,
    named: Vec<(String, f64)>,
}

impl Asked {
    fn new(words: &[String]) -> Self {
        let number = |n: usize| words[n].parse().expect("a number");
        let named = words[5..].iter().map(|word| {
            let (name, value) = word.split_once('=').expect("NAME=VALUE");
            (name.to_string(), value.parse().expect("a number"))
        });
        Self {
            control: CString::new(words[1].as_str()).expect("a name"),
            mbit: number(2),
            rtt_ms: number(3),
            seconds: number(4),
            named: named.collect(),
        }
    }

    fn value(&self, name: &str) -> Option<f64> {
        self.named.iter().find(|(of, _)| of == name).map(|(_, value)| *value)
    }

    fn params(&self, plugin: &Plugin) -> Vec<f64> {
        // SAFETY: the description stays, and has as many parameters
        let params = unsafe { std::slice::from_raw_parts(plugin.param, plugin.params as usize) };
        for (name, _) in &self.named {
            let is_own = ["seed", "buffer", "mark", "loss", "bytes", "stop", "ecn"].contains(&name.as_str());
            assert!(is_own || params.iter().any(|param| text(param.name) == *name), "no parameter {name}");
        }
        params.iter().map(|param| self.value(&text(param.name)).unwrap_or(param.value)).collect()
    }
}

fn wire(asked: &Asked) -> Wire {
    let rate = asked.mbit * 1e6 / 8.0 / 1e9;
    Wire {
        send,
        now: 0,
        side: 0,
        rate,
        half: (asked.rtt_ms * 5e5) as u64,
        limit: (rate * asked.rtt_ms * 1e6 * asked.value("buffer").unwrap_or(1.0)) as u64,
        mark: asked.value("mark").is_some(),
        loss: asked.value("loss").unwrap_or(0.0) as u64,
        busy: 0,
        forth: VecDeque::new(),
        back: VecDeque::new(),
        pool: Vec::new(),
        sent: 0,
        dropped: 0,
        marked: 0,
        acks: 0,
        codepoints: [0; 4],
        hash: 0,
    }
}

/// Runs the flow; returns when the last datagram arrived, and why it was closed, if it was.
///
/// # Safety
///
/// `this` is what create() of this stack returned, and used here alone.
unsafe fn carry(stack: &Stack, this: *mut c_void, wire: &mut Wire, asked: &Asked) -> (u64, Option<String>) {
    let to: *mut Wire = wire;
    let (end, mut last) = ((asked.seconds * 1e9) as u64, 0);
    let bytes = asked.value("bytes");
    let mut stop = asked.value("stop").map_or(NONE, |seconds| (seconds * 1e9) as u64);
    let arrival = |packets: &VecDeque<Packet>| packets.front().map_or(NONE, |packet| packet.at);
    // SAFETY, for all calls below: `this` is as promised; the wire, and what else is given to a call, lives longer than the call
    unsafe {
        (stack.start)(this, to, 0);
        (stack.write)(this, to, bytes.map_or(NONE, |bytes| bytes as u64), 0);
        if bytes.is_some() {
            (stack.finish)(this, to, 1, 0);
        }
        loop {
            let (forth, back) = (arrival(&(*to).forth), arrival(&(*to).back));
            let wakes = [(stack.wake)(this, 0), (stack.wake)(this, 1)];
            let now = forth.min(back).min(wakes[0]).min(wakes[1]).min(stop).max((*to).now);
            if now >= end {
                return (last, None);
            }
            (*to).now = now;
            if stop <= now {
                (stop, (*to).side) = (NONE, 0);
                (stack.finish)(this, to, 0, now);
            } else if forth <= now || back <= now {
                let side = u32::from(forth <= now);
                (*to).side = side;
                let packets = if side == 1 { &mut (*to).forth } else { &mut (*to).back };
                let packet = packets.pop_front().expect("it has arrived");
                let length = packet.payload.len() as u32;
                (stack.datagram)(this, to, side, packet.payload.as_ptr(), length, packet.ecn, now);
                (*to).pool.push(packet.payload);
                last = now;
            } else {
                let side = u32::from(wakes[0] > now);
                (*to).side = side;
                (stack.timer)(this, to, side, now);
                assert!((stack.wake)(this, side) != wakes[side as usize], "a timer at {now} that stays: {wakes:?}");
            }
            let why = (stack.closed)(this);
            if !why.is_null() {
                assert!([0, 1].map(|side| (stack.wake)(this, side)) == [NONE; 2], "it is closed and has timers");
                return (last, Some(text(why)));
            }
        }
    }
}

fn run(library: &str, asked: &Asked) {
    let plugin = described(library);
    assert_eq!(plugin.abi, interface::abi::ABI);
    // SAFETY: the description stays, and is that of a stack
    let stack = unsafe { plugin.stack.as_ref() }.expect("a stack");
    let (params, mut wire) = (asked.params(plugin), wire(asked));
    let flow = Flow {
        seed: asked.value("seed").unwrap_or(1.0) as u64,
        flow: 0,
        control: asked.control.as_ptr(),
        payload: 1472,
        ecn: asked.value("ecn").unwrap_or(1.0) as u32,
    };
    let (began, mut stats) = (cpu_s(), interface::Stats::UNTOLD);
    // SAFETY: flow, parameters and statistics live longer than the calls; `this` is that of create() until destroy()
    let (last, why) = unsafe {
        let this = (stack.create)(&flow, params.as_ptr());
        assert!(!this.is_null(), "it makes no flow");
        let ended = carry(stack, this, &mut wire, asked);
        (stack.stats)(this, &mut stats);
        (stack.destroy)(this);
        ended
    };
    let cpu = cpu_s() - began;
    let has_end = why.is_some() || ["bytes", "stop"].iter().any(|name| asked.value(name).is_some());
    let over = if has_end { last as f64 / 1e9 } else { asked.seconds };
    let goodput = stats.received as f64 * 8e-6 / over;
    let speed = wire.sent as f64 / cpu / 1e6;
    print!("{} {} {} Mbit/s {} ms: ", text(plugin.name), words(&asked.control), asked.mbit, asked.rtt_ms);
    print!("goodput {goodput:.3} Mbit/s, received {}, sent {}, ", stats.received, wire.sent);
    print!("dropped {}, marked {}, acks {}, ECT(0) {}, ", wire.dropped, wire.marked, wire.acks, wire.codepoints[2]);
    print!("last at {:.3} s, ", last as f64 / 1e9);
    println!("{cpu:.2} CPU s, {speed:.3} M data packets per CPU s, hash {:016x}", wire.hash);
    if std::env::var_os("STATS").is_some() {
        println!("{stats:?}");
    }
    if let Some(why) = why {
        println!("closed: {why}");
    }
}

fn words(text: &CStr) -> String {
    text.to_string_lossy().into_owned()
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let asked = Asked::new(&words);
    for library in words[0].split(',') {
        run(library, &asked);
    }
}
