//! The types of `include/dumbbell.h`, which explains them; a test holds the two against each other.

use std::ffi::{c_char, c_int, c_void};

/// Version of the interface.
pub const ABI: u32 = 3;
/// The one before, whose controls are a [`CHooks`].
pub const ABI_WITHOUT_MODELS: u32 = 2;
/// The first, whose description is a [`CDescription`] and whose controls are a [`CHooks`].
pub const ABI_WITHOUT_STACKS: u32 = 1;

pub const FLOAT: u32 = 0;
pub const INT: u32 = 1;
pub const BOOL: u32 = 2;
pub const TIME: u32 = 3;
pub const RATE: u32 = 4;
pub const SIZE: u32 = 5;

#[repr(C)]
pub struct CParam {
    pub name: *const c_char,
    pub kind: u32,
    pub value: f64,
    pub min: f64,
    pub max: f64,
    pub unit: *const c_char,
    pub doc: *const c_char,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct CPacket {
    pub id: u64,
    pub arrived: u64,
    pub flow: u32,
    pub length: u16,
    pub ecn: u8,
    pub is_ack: u8,
}

#[repr(C)]
pub struct CLink {
    pub rate: u64,
    pub seed: u64,
}

#[repr(C)]
pub struct CHost {
    pub mark: extern "C" fn(*mut CHost, u64) -> c_int,
    pub drop: extern "C" fn(*mut CHost, u64),
    pub push: extern "C" fn(*mut CHost, u32, u64),
    pub first: extern "C" fn(*mut CHost, u32) -> *const CPacket,
    pub last: extern "C" fn(*mut CHost, u32) -> *const CPacket,
    pub packets: extern "C" fn(*mut CHost, u32) -> u64,
    pub bytes: extern "C" fn(*mut CHost, u32) -> u64,
    pub wait: extern "C" fn(*mut CHost, u64),
    /// What is behind it; plugins do not know of this field.
    pub call: *mut c_void,
}

type This = *mut c_void;

#[repr(C)]
pub struct CQueue {
    pub create: Option<unsafe extern "C" fn(*const CLink, *const f64) -> This>,
    pub destroy: Option<unsafe extern "C" fn(This)>,
    pub enqueue: Option<unsafe extern "C" fn(This, *mut CHost, *const CPacket, u64)>,
    pub dequeue: Option<unsafe extern "C" fn(This, *mut CHost, u64) -> u64>,
    pub flow_starts: Option<unsafe extern "C" fn(This, u32, u32, u32, u32, u8)>,
    pub rate: Option<unsafe extern "C" fn(This, u64, u64)>,
    pub timer_at: Option<unsafe extern "C" fn(*const c_void) -> u64>,
    pub timer: Option<unsafe extern "C" fn(This, *mut CHost, u64)>,
    pub state: Option<unsafe extern "C" fn(*const c_void, extern "C" fn(*mut c_void, *const c_char, f64), *mut c_void)>,
}

#[repr(C)]
pub struct CConn {
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

#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CSteer {
    pub cwnd: u32,
    pub ssthresh: u32,
    pub pacing_rate: u64,
}

#[repr(C)]
pub struct CSample {
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

/// What a model has where nothing is known.
pub const UNKNOWN: u64 = u64::MAX;
/// The same of a flag.
pub const NO_FLAG: u32 = u32::MAX;

#[repr(C)]
pub struct CModel {
    pub state: *const c_char,
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

impl CModel {
    /// Nothing is known.
    pub const NOTHING: CModel = CModel {
        state: std::ptr::null(),
        round: UNKNOWN,
        max_bw: UNKNOWN,
        bw: UNKNOWN,
        bw_shortterm: UNKNOWN,
        inflight_shortterm: UNKNOWN,
        inflight_longterm: UNKNOWN,
        min_rtt_us: UNKNOWN,
        extra_acked: UNKNOWN,
        inflight: UNKNOWN,
        probe_up_step: UNKNOWN,
        pacing_gain: f64::NAN,
        cwnd_gain: f64::NAN,
        ecn_alpha: f64::NAN,
        full_bw_now: NO_FLAG,
        full_bw_reached: NO_FLAG,
        idle_restart: NO_FLAG,
    };
}

#[repr(C)]
pub struct CHooks {
    pub by: u32,
    pub rate_samples: u32,
    pub codepoint: u32,
    pub ecn_required: u32,
    pub echo: u32,
    pub create: Option<unsafe extern "C" fn(u64, u64, *const f64) -> This>,
    pub destroy: Option<unsafe extern "C" fn(This)>,
    pub init: Option<unsafe extern "C" fn(This, *const CConn, *mut CSteer)>,
    pub cong_avoid: Option<unsafe extern "C" fn(This, *const CConn, *mut CSteer, u32)>,
    pub ssthresh: Option<unsafe extern "C" fn(This, *const CConn, *const CSteer, u32) -> u32>,
    pub cong_control: Option<unsafe extern "C" fn(This, *const CConn, *mut CSteer, *const CSample)>,
    pub pkts_acked: Option<unsafe extern "C" fn(This, *const CConn, *mut CSteer, u32, i64)>,
    pub in_ack_event: Option<unsafe extern "C" fn(This, *const CConn, *mut CSteer, u32, i64)>,
    pub set_state: Option<unsafe extern "C" fn(This, *const CConn, *mut CSteer, u32)>,
    pub undo_cwnd: Option<unsafe extern "C" fn(This, *const CConn, *const CSteer) -> u32>,
}

/// Tells state and model.
pub type TellsModel = unsafe extern "C" fn(*const c_void, *const CConn, *mut CModel);

#[repr(C)]
pub struct CControl {
    pub hooks: CHooks,
    pub model: Option<TellsModel>,
}

pub const CLIENT: u32 = 0;
pub const SERVER: u32 = 1;

#[repr(C)]
pub struct CFlow {
    pub seed: u64,
    pub flow: u64,
    pub control: *const c_char,
    pub payload: u32,
    pub ecn: u32,
}

#[repr(C)]
pub struct CWire {
    pub send: extern "C" fn(*mut CWire, *const u8, u32, u32),
    /// What is behind it; plugins do not know of this field.
    pub call: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CStackStats {
    pub received: u64,
    pub cwnd: u64,
    pub ssthresh: u64,
    pub in_flight: u64,
    pub pacing_rate: u64,
    pub rtt: u64,
    pub min_rtt: u64,
    pub lost: u64,
    pub spurious: u64,
    pub congestion_events: u64,
    pub acks: u64,
    pub ce: u64,
    pub timeouts: u64,
    pub state: u64,
    pub connected: u64,
}

impl CStackStats {
    /// What a stack that tells nothing leaves.
    pub const UNKNOWN: CStackStats = CStackStats {
        received: u64::MAX,
        cwnd: u64::MAX,
        ssthresh: u64::MAX,
        in_flight: u64::MAX,
        pacing_rate: u64::MAX,
        rtt: u64::MAX,
        min_rtt: u64::MAX,
        lost: u64::MAX,
        spurious: u64::MAX,
        congestion_events: u64::MAX,
        acks: u64::MAX,
        ce: u64::MAX,
        timeouts: u64::MAX,
        state: u64::MAX,
        connected: u64::MAX,
    };
}

#[repr(C)]
pub struct CStack {
    pub controls: *const *const c_char,
    pub create: Option<unsafe extern "C" fn(*const CFlow, *const f64) -> This>,
    pub destroy: Option<unsafe extern "C" fn(This)>,
    pub start: Option<unsafe extern "C" fn(This, *mut CWire, u64)>,
    pub write: Option<unsafe extern "C" fn(This, *mut CWire, u64, u64)>,
    pub finish: Option<unsafe extern "C" fn(This, *mut CWire, u32, u64)>,
    pub datagram: Option<unsafe extern "C" fn(This, *mut CWire, u32, *const u8, u32, u32, u64)>,
    pub wake: Option<unsafe extern "C" fn(*const c_void, u32) -> u64>,
    pub timer: Option<unsafe extern "C" fn(This, *mut CWire, u32, u64)>,
    pub stats: Option<unsafe extern "C" fn(*const c_void, *mut CStackStats)>,
    pub closed: Option<unsafe extern "C" fn(*const c_void) -> *const c_char>,
}

#[repr(C)]
pub struct CDescription {
    pub abi: u32,
    pub params: u32,
    pub name: *const c_char,
    pub title: *const c_char,
    pub source: *const c_char,
    pub param: *const CParam,
    pub queue: *const CQueue,
    pub control: *const CHooks,
}

#[repr(C)]
pub struct CPlugin {
    pub first: CDescription,
    pub stack: *const CStack,
}
