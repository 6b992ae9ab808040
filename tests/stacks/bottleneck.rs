//! Runs one flow of a built stack through a tail-drop bottleneck, by `dumbbell.h` alone, without the engine.
//!
//! rustc -O bottleneck.rs, then: bottleneck LIBRARY CONTROL MBIT/S RTT_MS SECONDS [PARAMETER=VALUE ...] [seed=N] [mark=1] [bytes=N]
//! [loss=N]. With mark=1, a packet that finds half the buffer full gets CE. With loss=N, every N-th packet of the data is lost.
//! With bytes=N, the client sends as many and ends. Licence: MIT OR Apache-2.0.

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

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let plugin = described(&words[1]);
    assert_eq!(plugin.abi, 2);
    // SAFETY: the description stays; a stack has one
    let (stack, params) = unsafe { (&*plugin.stack, std::slice::from_raw_parts(plugin.param, plugin.params as usize)) };
    let (mbit, rtt_ms, seconds): (f64, f64, f64) =
        (words[3].parse().unwrap(), words[4].parse().unwrap(), words[5].parse().unwrap());
    let mut values: Vec<f64> = params.iter().map(|param| param.value).collect();
    let (mut seed, mut mark, mut bytes, mut loss) = (1, false, NONE, 0);
    for word in &words[6..] {
        let (name, value) = word.split_once('=').expect("NAME=VALUE");
        match name {
            "seed" => seed = value.parse().unwrap(),
            "mark" => mark = value == "1",
            "bytes" => bytes = value.parse().unwrap(),
            "loss" => loss = value.parse().unwrap(),
            _ => {
                let place = params.iter().position(|param| text(param.name) == name).expect("a parameter");
                values[place] = value.parse().unwrap();
            }
        }
    }
    let control = CString::new(words[2].as_str()).unwrap();
    let flow = Flow { seed, flow: 0, control: control.as_ptr(), payload: 1472, ecn: 1 };
    let rate = mbit * 1e6 / 8.0 / 1e9;
    let mut wire = Wire {
        send,
        now: 0,
        side: 0,
        rate,
        half: (rtt_ms * 5e5) as u64,
        limit: (rate * rtt_ms * 1e6) as u64,
        mark,
        loss,
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
    };
    let (end, began, mut last) = ((seconds * 1e9) as u64, cpu_s(), 0);
    let mut why = String::new();
    let mut stats = interface::Stats::UNTOLD;
    // SAFETY, for all calls below: `this` is that of create() until destroy(), used here alone; the wire and what else is given to a
    // call live longer than the call
    unsafe {
        let this = (stack.create)(&flow, values.as_ptr());
        assert!(!this.is_null(), "it makes no flow");
        let to: *mut Wire = &mut wire;
        (stack.start)(this, to, 0);
        (stack.write)(this, to, bytes, 0);
        if bytes != NONE {
            (stack.finish)(this, to, 1, 0);
        }
        while why.is_empty() {
            let arrival = |packets: &VecDeque<Packet>| packets.front().map_or(NONE, |packet| packet.at);
            let (forth, back) = (arrival(&(*to).forth), arrival(&(*to).back));
            let wakes = [(stack.wake)(this, 0), (stack.wake)(this, 1)];
            let now = forth.min(back).min(wakes[0]).min(wakes[1]);
            if now >= end {
                break;
            }
            (*to).now = now.max((*to).now);
            let now = (*to).now;
            if forth <= now || back <= now {
                let side = u32::from(forth <= now);
                let packets = if side == 1 { &mut (*to).forth } else { &mut (*to).back };
                let packet = packets.pop_front().unwrap();
                (*to).side = side;
                (stack.datagram)(this, to, side, packet.payload.as_ptr(), packet.payload.len() as u32, packet.ecn, now);
                (*to).pool.push(packet.payload);
                last = now;
            } else {
                let side = u32::from(wakes[0] > now);
                (*to).side = side;
                (stack.timer)(this, to, side, now);
                assert!((stack.wake)(this, side) != wakes[side as usize], "the timer does not move: {wakes:?} at {now}");
            }
            let said = (stack.closed)(this);
            if !said.is_null() {
                why = text(said);
            }
        }
        (stack.stats)(this, &mut stats);
        (stack.destroy)(this);
    }
    let cpu = cpu_s() - began;
    let over = if bytes == NONE { seconds } else { last as f64 / 1e9 };
    println!(
        "{} {} {mbit} Mbit/s {rtt_ms} ms: goodput {:.3} Mbit/s, received {}, sent {}, dropped {}, marked {}, acks {}, ECT(0) {}, {:.2} CPU s, {:.3} M data packets per CPU s, hash {:016x}",
        text(plugin.name), words[2], stats.received as f64 * 8e-6 / over, stats.received, wire.sent, wire.dropped, wire.marked,
        wire.acks, wire.codepoints[2], cpu, wire.sent as f64 / cpu / 1e6, wire.hash
    );
    if std::env::var_os("STATS").is_some() {
        println!("{stats:?}");
    }
    if !why.is_empty() {
        println!("closed: {why}");
    }
}
