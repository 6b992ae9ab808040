//! Queues and controls of `dumbbell.h` for Rust, version 3 of the interface: traits, and macros that export what implements them.
//!
//! All times are nanoseconds, all windows segments. A panic ends the process that the plugin is in, and with it the run.
//! Licence: MIT OR Apache-2.0.
#![allow(dead_code)]

use std::ffi::{c_char, c_int, c_void, CStr, CString};

/// The version of the interface.
pub const ABI: u32 = 3;
/// What is not known, or not set.
pub const UNKNOWN: u64 = u64::MAX;

/// A packet in the queue.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// Of this packet while it is in the queue; never 0.
    pub id: u64,
    /// When the queue took it in.
    pub arrived: u64,
    pub flow: u32,
    /// Bytes of the frame.
    pub length: u16,
    /// 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE.
    pub ecn: u8,
    /// 1: an acknowledgement on its way back.
    pub is_ack: u8,
}

#[repr(C)]
pub struct Link {
    /// bit/s.
    pub rate: u64,
    pub seed: u64,
}

/// The simulator. It keeps the packets: a plugin handles their ids, in lists of the simulator or its own.
#[repr(C)]
pub struct Host {
    mark: extern "C" fn(*mut Host, u64) -> c_int,
    drop: extern "C" fn(*mut Host, u64),
    push: extern "C" fn(*mut Host, u32, u64),
    first: extern "C" fn(*mut Host, u32) -> *const Packet,
    last: extern "C" fn(*mut Host, u32) -> *const Packet,
    packets: extern "C" fn(*mut Host, u32) -> u64,
    bytes: extern "C" fn(*mut Host, u32) -> u64,
    wait: extern "C" fn(*mut Host, u64),
}

impl Host {
    /// Sets CE; false if the packet cannot have it.
    pub fn mark(&mut self, id: u64) -> bool {
        (self.mark)(self, id) != 0
    }
    /// Drops a packet: the one that arrives, or one in the queue.
    pub fn drop(&mut self, id: u64) {
        (self.drop)(self, id);
    }
    /// Puts the packet at the end of a list.
    pub fn push(&mut self, list: u32, id: u64) {
        (self.push)(self, list, id);
    }
    /// First packet of a list.
    pub fn first(&mut self, list: u32) -> Option<Packet> {
        // SAFETY: null, or valid until the next call: it is copied before
        unsafe { (self.first)(self, list).as_ref() }.copied()
    }
    /// Last packet of a list.
    pub fn last(&mut self, list: u32) -> Option<Packet> {
        // SAFETY: null, or valid until the next call: it is copied before
        unsafe { (self.last)(self, list).as_ref() }.copied()
    }
    pub fn packets(&mut self, list: u32) -> u64 {
        (self.packets)(self, list)
    }
    pub fn bytes(&mut self, list: u32) -> u64 {
        (self.bytes)(self, list)
    }
    /// In `dequeue`: nothing leaves before `time`; return `None` then.
    pub fn wait(&mut self, time: u64) {
        (self.wait)(self, time);
    }
}

#[derive(Clone, Copy)]
#[repr(u32)]
pub enum Kind {
    Float = 0,
    Int = 1,
    Bool = 2,
    Time = 3,
    Rate = 4,
    Size = 5,
}

/// A parameter: a key of the plugin's table in an experiment file.
pub struct Param {
    pub name: &'static str,
    pub kind: Kind,
    /// Default.
    pub value: f64,
    pub min: f64,
    pub max: f64,
    pub unit: &'static str,
    pub doc: &'static str,
}

/// A queue discipline.
pub trait Queue: Sized {
    const NAME: &'static str;
    const TITLE: &'static str;
    const SOURCE: &'static str;
    const PARAMS: &'static [Param];
    fn new(link: &Link, params: &[f64]) -> Self;
    /// A packet arrives. It is in the queue then, unless it was dropped.
    fn enqueue(&mut self, host: &mut Host, packet: &Packet, now: u64);
    /// The id of the packet that leaves now.
    fn dequeue(&mut self, host: &mut Host, now: u64) -> Option<u64>;
    fn flow_starts(&mut self, _flow: u32, _src_host: u32, _dst_host: u32, _ports: u32, _dscp: u8) {}
    fn rate(&mut self, _rate: u64, _now: u64) {}
    /// When `timer` is called next; `u64::MAX` for never.
    fn timer_at(&self) -> u64 {
        u64::MAX
    }
    fn timer(&mut self, _host: &mut Host, _now: u64) {}
    /// Tells state by the names that record.queue takes, such as "p" or "count".
    fn state(&self, _tell: &mut dyn FnMut(&str, f64)) {}
}

/// What a control reads of its connection.
#[repr(C)]
pub struct Conn {
    pub now: u64,
    pub delivered: u64,
    pub delivered_ce: u64,
    pub sent: u64,
    pub acked: u64,
    pub min_rtt_us: u64,
    pub srtt_us: u32,
    pub mdev_us: u32,
    pub in_flight: u32,
    pub lost: u32,
    pub sacked: u32,
    pub retransmitted: u32,
    pub prior_cwnd: u32,
    pub cwnd_max: u32,
    pub mss: u32,
    pub state: u32,
    pub cwnd_limited: u32,
}

/// What it steers. A window that is 0, or above 2^31 - 1 as after an underflow, ends the run.
#[repr(C)]
pub struct Steer {
    pub cwnd: u32,
    pub ssthresh: u32,
    /// Only with `BY` 1 and 2, 1 or more: the connection is paced from when it is set for the first time.
    pub pacing_rate: u64,
}

/// What a control believes of its path, under the names of draft-ietf-ccwg-bbr. Volumes are segments, rates bytes of payload per second;
/// `UNKNOWN`, NaN and `u32::MAX`: not known, or not set.
#[repr(C)]
pub struct Model {
    /// Set by what `Control::model` returns.
    state: *const c_char,
    pub round: u64,
    pub max_bw: u64,
    pub bw: u64,
    pub bw_shortterm: u64,
    pub inflight_shortterm: u64,
    pub inflight_longterm: u64,
    pub min_rtt_us: u64,
    pub extra_acked: u64,
    pub inflight: u64,
    pub probe_up_step: u64,
    pub pacing_gain: f64,
    pub cwnd_gain: f64,
    pub ecn_alpha: f64,
    pub full_bw_now: u32,
    pub full_bw_reached: u32,
    pub idle_restart: u32,
}

/// What an ACK brought; -1: there is none.
#[repr(C)]
pub struct Sample {
    pub delivered: u32,
    pub lost: u32,
    pub marked: u32,
    pub ece: u32,
    pub rtt_us: i64,
    pub interval_us: i64,
    pub sample_delivered: u32,
    pub sample_lost: u32,
    pub sample_marked: u32,
    pub app_limited: u32,
    pub prior_in_flight: u32,
    pub tx_in_flight: u32,
    pub prior_delivered: u64,
}

/// A congestion control.
pub trait Control: Sized {
    const NAME: &'static str;
    const TITLE: &'static str;
    const SOURCE: &'static str;
    const PARAMS: &'static [Param];
    /// 0: the window; 1: window and pacing rate; 2: both, in `cong_control`.
    const BY: u32 = 0;
    const RATE_SAMPLES: bool = false;
    /// 0 Not-ECT, 1 ECT(1), 2 ECT(0).
    const CODEPOINT: u32 = 2;
    const ECN_REQUIRED: bool = false;
    /// 0 until CWR, 1 accurate, 2 per packet.
    const ECHO: u32 = 0;
    fn new(seed: u64, flow: u64, params: &[f64]) -> Self;
    fn init(&mut self, _conn: &Conn, _steer: &mut Steer) {}
    fn cong_avoid(&mut self, _conn: &Conn, _steer: &mut Steer, _acked: u32) {}
    /// The threshold after congestion: by ECN 0, loss 1, timeout 2.
    fn ssthresh(&mut self, conn: &Conn, steer: &Steer, by: u32) -> u32;
    fn cong_control(&mut self, _conn: &Conn, _steer: &mut Steer, _sample: &Sample) {}
    fn pkts_acked(&mut self, _conn: &Conn, _steer: &mut Steer, _acked: u32, _rtt_us: i64) {}
    fn in_ack_event(&mut self, _conn: &Conn, _steer: &mut Steer, _ece: u32, _marked: i64) {}
    fn set_state(&mut self, _conn: &Conn, _steer: &mut Steer, _state: u32) {}
    fn undo_cwnd(&mut self, conn: &Conn, steer: &Steer) -> u32 {
        steer.cwnd.max(conn.prior_cwnd)
    }
    /// Tells the model, in which nothing is known at first. Returns the state, of BBR `c"startup"` and so on; `None` without a model.
    fn model(&self, _conn: &Conn, _model: &mut Model) -> Option<&'static CStr> {
        None
    }
}

type This = *mut c_void;
type Tell = extern "C" fn(*mut c_void, *const c_char, f64);

#[repr(C)]
pub struct CParam {
    name: *const c_char,
    kind: u32,
    value: f64,
    min: f64,
    max: f64,
    unit: *const c_char,
    doc: *const c_char,
}

#[repr(C)]
struct CQueue {
    create: unsafe extern "C" fn(*const Link, *const f64) -> This,
    destroy: unsafe extern "C" fn(This),
    enqueue: unsafe extern "C" fn(This, *mut Host, *const Packet, u64),
    dequeue: unsafe extern "C" fn(This, *mut Host, u64) -> u64,
    flow_starts: unsafe extern "C" fn(This, u32, u32, u32, u32, u8),
    rate: unsafe extern "C" fn(This, u64, u64),
    timer_at: unsafe extern "C" fn(*const c_void) -> u64,
    timer: unsafe extern "C" fn(This, *mut Host, u64),
    state: unsafe extern "C" fn(*const c_void, Tell, *mut c_void),
}

#[repr(C)]
struct CControl {
    by: u32,
    rate_samples: u32,
    codepoint: u32,
    ecn_required: u32,
    echo: u32,
    create: unsafe extern "C" fn(u64, u64, *const f64) -> This,
    destroy: unsafe extern "C" fn(This),
    init: unsafe extern "C" fn(This, *const Conn, *mut Steer),
    cong_avoid: unsafe extern "C" fn(This, *const Conn, *mut Steer, u32),
    ssthresh: unsafe extern "C" fn(This, *const Conn, *const Steer, u32) -> u32,
    cong_control: Option<unsafe extern "C" fn(This, *const Conn, *mut Steer, *const Sample)>,
    pkts_acked: unsafe extern "C" fn(This, *const Conn, *mut Steer, u32, i64),
    in_ack_event: unsafe extern "C" fn(This, *const Conn, *mut Steer, u32, i64),
    set_state: unsafe extern "C" fn(This, *const Conn, *mut Steer, u32),
    undo_cwnd: unsafe extern "C" fn(This, *const Conn, *const Steer) -> u32,
    model: unsafe extern "C" fn(*const c_void, *const Conn, *mut Model),
}

#[repr(C)]
pub struct Plugin {
    abi: u32,
    params: u32,
    name: *const c_char,
    title: *const c_char,
    source: *const c_char,
    param: *const CParam,
    queue: *const CQueue,
    control: *const CControl,
    stack: *const c_void,
}

fn text(text: &str) -> *const c_char {
    // it is described once, and stays
    CString::new(text).unwrap_or_default().into_raw()
}

fn described(texts: [&str; 3], params: &[Param]) -> Plugin {
    let read = |one: &Param| CParam {
        name: text(one.name),
        kind: one.kind as u32,
        value: one.value,
        min: one.min,
        max: one.max,
        unit: text(one.unit),
        doc: text(one.doc),
    };
    let list: &'static [CParam] = params.iter().map(read).collect::<Vec<_>>().leak();
    let [name, title, source] = texts.map(text);
    let (queue, control, stack) = (std::ptr::null(), std::ptr::null(), std::ptr::null());
    Plugin { abi: ABI, params: list.len() as u32, name, title, source, param: list.as_ptr(), queue, control, stack }
}

// SAFETY, here and below: `this` is the box of `create` until `destroy` takes it back, used by one thread at a time; all other
// pointers are valid for the call. The interface says so.
unsafe fn of<'a, T>(this: This) -> &'a mut T {
    unsafe { &mut *this.cast::<T>() }
}

/// What `export_queue!` exports.
pub fn queue<Q: Queue>() -> *const Plugin {
    unsafe extern "C" fn create<Q: Queue>(link: *const Link, params: *const f64) -> This {
        let params = unsafe { std::slice::from_raw_parts(params, Q::PARAMS.len()) };
        Box::into_raw(Box::new(Q::new(unsafe { &*link }, params))).cast()
    }
    unsafe extern "C" fn destroy<Q: Queue>(this: This) {
        drop(unsafe { Box::from_raw(this.cast::<Q>()) });
    }
    unsafe extern "C" fn enqueue<Q: Queue>(this: This, host: *mut Host, packet: *const Packet, now: u64) {
        unsafe { of::<Q>(this).enqueue(&mut *host, &*packet, now) }
    }
    unsafe extern "C" fn dequeue<Q: Queue>(this: This, host: *mut Host, now: u64) -> u64 {
        unsafe { of::<Q>(this).dequeue(&mut *host, now) }.unwrap_or(0)
    }
    unsafe extern "C" fn flow_starts<Q: Queue>(this: This, flow: u32, src: u32, dst: u32, ports: u32, dscp: u8) {
        unsafe { of::<Q>(this) }.flow_starts(flow, src, dst, ports, dscp)
    }
    unsafe extern "C" fn rate<Q: Queue>(this: This, rate: u64, now: u64) {
        unsafe { of::<Q>(this) }.rate(rate, now)
    }
    unsafe extern "C" fn timer_at<Q: Queue>(this: *const c_void) -> u64 {
        unsafe { &*this.cast::<Q>() }.timer_at()
    }
    unsafe extern "C" fn timer<Q: Queue>(this: This, host: *mut Host, now: u64) {
        unsafe { of::<Q>(this).timer(&mut *host, now) }
    }
    unsafe extern "C" fn state<Q: Queue>(this: *const c_void, tell: Tell, to: *mut c_void) {
        unsafe { &*this.cast::<Q>() }.state(&mut |name, value| {
            let name = CString::new(name).unwrap_or_default();
            tell(to, name.as_ptr(), value);
        });
    }
    let queue = Box::leak(Box::new(CQueue {
        create: create::<Q>,
        destroy: destroy::<Q>,
        enqueue: enqueue::<Q>,
        dequeue: dequeue::<Q>,
        flow_starts: flow_starts::<Q>,
        rate: rate::<Q>,
        timer_at: timer_at::<Q>,
        timer: timer::<Q>,
        state: state::<Q>,
    }));
    Box::leak(Box::new(Plugin { queue, ..described([Q::NAME, Q::TITLE, Q::SOURCE], Q::PARAMS) }))
}

/// What `export_control!` exports.
pub fn control<C: Control>() -> *const Plugin {
    unsafe extern "C" fn create<C: Control>(seed: u64, flow: u64, params: *const f64) -> This {
        let params = unsafe { std::slice::from_raw_parts(params, C::PARAMS.len()) };
        Box::into_raw(Box::new(C::new(seed, flow, params))).cast()
    }
    unsafe extern "C" fn destroy<C: Control>(this: This) {
        drop(unsafe { Box::from_raw(this.cast::<C>()) });
    }
    unsafe extern "C" fn init<C: Control>(this: This, conn: *const Conn, steer: *mut Steer) {
        unsafe { of::<C>(this).init(&*conn, &mut *steer) }
    }
    unsafe extern "C" fn cong_avoid<C: Control>(this: This, conn: *const Conn, steer: *mut Steer, acked: u32) {
        unsafe { of::<C>(this).cong_avoid(&*conn, &mut *steer, acked) }
    }
    unsafe extern "C" fn ssthresh<C: Control>(this: This, conn: *const Conn, steer: *const Steer, by: u32) -> u32 {
        unsafe { of::<C>(this).ssthresh(&*conn, &*steer, by) }
    }
    unsafe extern "C" fn cong_control<C: Control>(this: This, conn: *const Conn, steer: *mut Steer, sample: *const Sample) {
        unsafe { of::<C>(this).cong_control(&*conn, &mut *steer, &*sample) }
    }
    unsafe extern "C" fn pkts_acked<C: Control>(this: This, conn: *const Conn, steer: *mut Steer, acked: u32, rtt_us: i64) {
        unsafe { of::<C>(this).pkts_acked(&*conn, &mut *steer, acked, rtt_us) }
    }
    unsafe extern "C" fn in_ack_event<C: Control>(this: This, conn: *const Conn, steer: *mut Steer, ece: u32, marked: i64) {
        unsafe { of::<C>(this).in_ack_event(&*conn, &mut *steer, ece, marked) }
    }
    unsafe extern "C" fn set_state<C: Control>(this: This, conn: *const Conn, steer: *mut Steer, state: u32) {
        unsafe { of::<C>(this).set_state(&*conn, &mut *steer, state) }
    }
    unsafe extern "C" fn undo_cwnd<C: Control>(this: This, conn: *const Conn, steer: *const Steer) -> u32 {
        unsafe { of::<C>(this).undo_cwnd(&*conn, &*steer) }
    }
    unsafe extern "C" fn model<C: Control>(this: *const c_void, conn: *const Conn, model: *mut Model) {
        let model = unsafe { &mut *model };
        model.state = unsafe { &*this.cast::<C>() }.model(unsafe { &*conn }, model).map_or(std::ptr::null(), CStr::as_ptr);
    }
    let control = Box::leak(Box::new(CControl {
        by: C::BY,
        rate_samples: C::RATE_SAMPLES.into(),
        codepoint: C::CODEPOINT,
        ecn_required: C::ECN_REQUIRED.into(),
        echo: C::ECHO,
        create: create::<C>,
        destroy: destroy::<C>,
        init: init::<C>,
        cong_avoid: cong_avoid::<C>,
        ssthresh: ssthresh::<C>,
        cong_control: if C::BY == 2 { Some(cong_control::<C>) } else { None },
        pkts_acked: pkts_acked::<C>,
        in_ack_event: in_ack_event::<C>,
        set_state: set_state::<C>,
        undo_cwnd: undo_cwnd::<C>,
        model: model::<C>,
    }));
    Box::leak(Box::new(Plugin { control, ..described([C::NAME, C::TITLE, C::SOURCE], C::PARAMS) }))
}

#[allow(unused_macros)]
macro_rules! export_queue {
    ($type:ty) => {
        #[no_mangle]
        pub extern "C" fn dumbbell_describe() -> *const $crate::dumbbell::Plugin {
            $crate::dumbbell::queue::<$type>()
        }
    };
}
#[allow(unused_macros)]
macro_rules! export_control {
    ($type:ty) => {
        #[no_mangle]
        pub extern "C" fn dumbbell_describe() -> *const $crate::dumbbell::Plugin {
            $crate::dumbbell::control::<$type>()
        }
    };
}
#[allow(unused_imports)]
pub(crate) use {export_control, export_queue};
