//! Queues and controls of `dumbbell.h` for Rust, version 5 of the interface: traits, and macros that export what implements them.
//!
//! All times are nanoseconds, all windows segments. A panic ends the process that the plugin is in, and with it the run.
//! Licence: MIT OR Apache-2.0.
#![allow(dead_code)]

#[path = "abi.rs"]
pub mod abi;

use std::ffi::{c_char, c_void, CStr, CString};

#[allow(unused_imports)] // a plugin uses what it needs
pub use abi::{
    CConn as Conn, CHost as Host, CLink as Link, CMediaPacket as MediaPacket, CModel as Model, CPacket as Packet,
    CPlugin as Plugin, CSample as Sample, CSteer as Steer, UNKNOWN,
};
use abi::{CControl, CMedia, CParam, CQueue, Flag};

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
    /// A copy that goes on as this does, for copies of a run on its way; of a type that is `Clone`, `Some(self.clone())`.
    fn copy(&self) -> Option<Self> {
        None
    }
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
    /// A copy that goes on as this does, for copies of a run on its way; of a type that is `Clone`, `Some(self.clone())`.
    fn copy(&self) -> Option<Self> {
        None
    }
}

/// A congestion control of video: the sender's end, with reports on each packet.
pub trait Media: Sized {
    const NAME: &'static str;
    const TITLE: &'static str;
    const SOURCE: &'static str;
    const PARAMS: &'static [Param];
    /// Between two reports of the receiver, ns.
    const INTERVAL: u64 = 50_000_000;
    fn new(seed: u64, number: u64, params: &[f64]) -> Self;
    fn start(&mut self, _now: u64) {}
    /// Rate for the encoder, bit/s, with `buffered` bytes that wait to be sent.
    fn encoder_rate(&self, buffered: u64) -> u64;
    /// Rate of the pacer, bit/s.
    fn pacing_rate(&self, buffered: u64) -> u64;
    /// A report has come; `arrived` of a lost packet is -1.
    fn feedback(&mut self, packets: &[MediaPacket], rtt: u64, now: u64);
    fn packet_sent(&mut self, _packet: &MediaPacket) {}
    /// Whether a packet of so many bytes may be sent now, as far as a window says.
    fn may_send(&self, _bytes: u32) -> bool {
        true
    }
    /// When `timer` is called next; `u64::MAX` for never.
    fn timer_at(&self) -> u64 {
        u64::MAX
    }
    fn timer(&mut self, _now: u64) {}
    /// A copy that goes on as this does, for copies of a run on its way; of a type that is `Clone`, `Some(self.clone())`.
    fn copy(&self) -> Option<Self> {
        None
    }
}

type This = *mut c_void;
type Tell = extern "C" fn(*mut c_void, *const c_char, f64);

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
    let (queue, control, stack, media) = (std::ptr::null(), std::ptr::null(), std::ptr::null(), std::ptr::null());
    let param = list.as_ptr();
    Plugin { abi: abi::ABI, params: list.len() as u32, name, title, source, param, queue, control, stack, media }
}

// SAFETY, here and below: `this` is the box of `create` until `destroy` takes it back, used by one thread at a time; all other
// pointers are valid for the call. The interface says so.
unsafe fn of<'a, T>(this: This) -> &'a mut T {
    unsafe { &mut *this.cast::<T>() }
}

unsafe fn copied<T>(this: *const c_void, copy: fn(&T) -> Option<T>) -> This {
    copy(unsafe { &*this.cast::<T>() }).map_or(std::ptr::null_mut(), |copy| Box::into_raw(Box::new(copy)).cast())
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
    unsafe extern "C" fn clone<Q: Queue>(this: *const c_void) -> This {
        unsafe { copied::<Q>(this, Q::copy) }
    }
    let queue = Box::leak(Box::new(CQueue {
        create: Some(create::<Q>),
        destroy: Some(destroy::<Q>),
        enqueue: Some(enqueue::<Q>),
        dequeue: Some(dequeue::<Q>),
        flow_starts: Some(flow_starts::<Q>),
        rate: Some(rate::<Q>),
        timer_at: Some(timer_at::<Q>),
        timer: Some(timer::<Q>),
        state: Some(state::<Q>),
        clone: Some(clone::<Q>),
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
    unsafe extern "C" fn clone<C: Control>(this: *const c_void) -> This {
        unsafe { copied::<C>(this, C::copy) }
    }
    let control = Box::leak(Box::new(CControl {
        by: C::BY,
        rate_samples: C::RATE_SAMPLES.into(),
        codepoint: C::CODEPOINT,
        ecn_required: C::ECN_REQUIRED.into(),
        echo: C::ECHO,
        create: Some(create::<C>),
        destroy: Some(destroy::<C>),
        init: Some(init::<C>),
        cong_avoid: Some(cong_avoid::<C>),
        ssthresh: Some(ssthresh::<C>),
        cong_control: if C::BY == 2 { Some(cong_control::<C>) } else { None },
        pkts_acked: Some(pkts_acked::<C>),
        in_ack_event: Some(in_ack_event::<C>),
        set_state: Some(set_state::<C>),
        undo_cwnd: Some(undo_cwnd::<C>),
        model: Some(model::<C>),
        clone: Some(clone::<C>),
    }));
    Box::leak(Box::new(Plugin { control, ..described([C::NAME, C::TITLE, C::SOURCE], C::PARAMS) }))
}

/// What `export_media!` exports.
pub fn media<M: Media>() -> *const Plugin {
    unsafe extern "C" fn create<M: Media>(seed: u64, number: u64, params: *const f64) -> This {
        let params = unsafe { std::slice::from_raw_parts(params, M::PARAMS.len()) };
        Box::into_raw(Box::new(M::new(seed, number, params))).cast()
    }
    unsafe extern "C" fn destroy<M: Media>(this: This) {
        drop(unsafe { Box::from_raw(this.cast::<M>()) });
    }
    unsafe extern "C" fn encoder_rate<M: Media>(this: *const c_void, buffered: u64) -> u64 {
        unsafe { &*this.cast::<M>() }.encoder_rate(buffered)
    }
    unsafe extern "C" fn pacing_rate<M: Media>(this: *const c_void, buffered: u64) -> u64 {
        unsafe { &*this.cast::<M>() }.pacing_rate(buffered)
    }
    unsafe extern "C" fn feedback<M: Media>(this: This, packets: *const MediaPacket, count: u64, rtt: u64, now: u64) {
        let packets = if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(packets, count as usize) } };
        unsafe { of::<M>(this) }.feedback(packets, rtt, now)
    }
    unsafe extern "C" fn start<M: Media>(this: This, now: u64) {
        unsafe { of::<M>(this) }.start(now)
    }
    unsafe extern "C" fn packet_sent<M: Media>(this: This, packet: *const MediaPacket) {
        unsafe { of::<M>(this).packet_sent(&*packet) }
    }
    unsafe extern "C" fn may_send<M: Media>(this: *const c_void, bytes: u32) -> Flag {
        unsafe { &*this.cast::<M>() }.may_send(bytes).into()
    }
    unsafe extern "C" fn timer_at<M: Media>(this: *const c_void) -> u64 {
        unsafe { &*this.cast::<M>() }.timer_at()
    }
    unsafe extern "C" fn timer<M: Media>(this: This, now: u64) {
        unsafe { of::<M>(this) }.timer(now)
    }
    unsafe extern "C" fn clone<M: Media>(this: *const c_void) -> This {
        unsafe { copied::<M>(this, M::copy) }
    }
    let media = Box::leak(Box::new(CMedia {
        interval: M::INTERVAL,
        create: Some(create::<M>),
        destroy: Some(destroy::<M>),
        encoder_rate: Some(encoder_rate::<M>),
        pacing_rate: Some(pacing_rate::<M>),
        feedback: Some(feedback::<M>),
        start: Some(start::<M>),
        packet_sent: Some(packet_sent::<M>),
        may_send: Some(may_send::<M>),
        timer_at: Some(timer_at::<M>),
        timer: Some(timer::<M>),
        clone: Some(clone::<M>),
    }));
    Box::leak(Box::new(Plugin { media, ..described([M::NAME, M::TITLE, M::SOURCE], M::PARAMS) }))
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
#[allow(unused_macros)]
macro_rules! export_media {
    ($type:ty) => {
        #[no_mangle]
        pub extern "C" fn dumbbell_describe() -> *const $crate::dumbbell::Plugin {
            $crate::dumbbell::media::<$type>()
        }
    };
}
#[allow(unused_imports)]
pub(crate) use {export_control, export_media, export_queue};
