//! The congestion control of a video of a shared library.
#![allow(unsafe_code)]

use crate::abi;
use dumbbell_config::extensions::PluginFault;
use dumbbell_core::app::AppContext;
use dumbbell_core::fork::{CannotFork, SharedCopies};
use dumbbell_core::media::control::MediaPacket;
use dumbbell_core::media::feedback::{PacketReport, SenderControl};
use dumbbell_core::rng::Rng;
use dumbbell_core::units::{Duration, Instant, Rate};
use std::ffi::c_void;
use std::sync::Arc;

/// Lowest and highest rate that a control may set: those of the parameters of a link, bit/s.
const RATES: std::ops::RangeInclusive<u64> = 1_000..=1_000_000_000_000;

/// Seed of the control of a video: two videos of one run do not draw the same numbers.
pub fn derive_seed(context: &AppContext) -> u64 {
    Rng::stream(context.seed, "media plugin", context.number).next_u64()
}

/// Reads a rate that `function` returned; the error says what is allowed.
///
/// # Errors
/// A rate out of range.
pub fn read_rate(function: &str, bits: u64) -> Result<Rate, String> {
    if RATES.contains(&bits) {
        return Ok(Rate(bits));
    }
    Err(format!("{function}() returned {bits}; allowed: {} to {} bit/s", RATES.start(), RATES.end()))
}

/// The error of a timer that stands still.
pub fn describe_late_timer(at: Instant, now: Instant) -> String {
    format!("timer_at() is {at} after timer() at {now}; allowed: a later time")
}

impl abi::CMediaPacket {
    /// Returns a packet that is sent.
    pub fn read_sent(packet: &MediaPacket) -> abi::CMediaPacket {
        abi::CMediaPacket { number: packet.number, sent: packet.sent.0, arrived: -1, bytes: packet.bytes, ecn: 0 }
    }

    /// Returns a packet of a report.
    pub fn read_report(report: &PacketReport) -> abi::CMediaPacket {
        let arrived = report.arrived.map_or(-1, |at| i64::try_from(at.0).unwrap_or(i64::MAX));
        abi::CMediaPacket { arrived, ecn: report.ecn as u32, ..abi::CMediaPacket::read_sent(&report.packet) }
    }
}

/// The control of one video. The functions that the interface requires are there: [`load`](crate::Plugin::load) has looked.
pub struct PluginMedia {
    functions: &'static abi::CMedia,
    this: *mut c_void,
    name: Arc<str>,
    fault: PluginFault,
    /// Memory for the packets of a report.
    packets: Vec<abi::CMediaPacket>,
}

// SAFETY: `this` is used only through `&mut PluginMedia` or `&PluginMedia`, and `PluginMedia` is not `Sync`: by one thread at a time, as the
// interface promises. What the library shares between instances is its own to guard, as the interface says.
unsafe impl Send for PluginMedia {}

// SAFETY: a table of functions that the library keeps and nothing writes
unsafe impl Sync for abi::CMedia {}

impl PluginMedia {
    /// The control of the video of `context`, with the values of its parameters.
    pub fn new(
        functions: &'static abi::CMedia,
        name: &Arc<str>,
        values: &[f64],
        context: &AppContext,
        fault: PluginFault,
    ) -> PluginMedia {
        let seed = derive_seed(context);
        // SAFETY: there are as many values as the library declared parameters
        let create = |create: unsafe extern "C" fn(u64, u64, *const f64) -> *mut c_void| unsafe {
            create(seed, context.number, values.as_ptr())
        };
        let this = functions.create.map_or(std::ptr::null_mut(), create);
        let control = PluginMedia { functions, this, name: Arc::clone(name), fault, packets: Vec::new() };
        if this.is_null() {
            control.report_fault(|| "create() returned NULL".to_owned());
        }
        control
    }

    fn report_fault(&self, what: impl FnOnce() -> String) {
        self.fault.report(|| format!("media {}: {}", self.name, what()));
    }

    /// Returns the rate of a function of the library; the lowest if that is out of range, which is reported.
    fn ask_rate(&self, name: &str, function: Option<unsafe extern "C" fn(*const c_void, u64) -> u64>, buffered: u64) -> Rate {
        let Some(function) = function.filter(|_| !self.this.is_null()) else { return Rate(*RATES.start()) };
        // SAFETY: `this` came from `create`
        let bits = unsafe { function(self.this, buffered) };
        read_rate(name, bits).unwrap_or_else(|what| {
            self.report_fault(|| what);
            Rate(*RATES.start())
        })
    }
}

impl Drop for PluginMedia {
    fn drop(&mut self) {
        if let Some(destroy) = self.functions.destroy.filter(|_| !self.this.is_null()) {
            // SAFETY: `this` came from `create`, and nothing uses it any more
            unsafe { destroy(self.this) }
        }
    }
}

impl SenderControl for PluginMedia {
    fn fork(&self, shared: &mut SharedCopies) -> Result<PluginMedia, CannotFork> {
        // SAFETY: `this` came from `create`, and `self` is not `Sync`
        let this = unsafe { abi::clone_instance(self.functions.clone, self.this)? };
        let (name, fault) = (Arc::clone(&self.name), self.fault.fork(shared));
        Ok(PluginMedia { functions: self.functions, this, name, fault, packets: Vec::new() })
    }

    fn start(&mut self, now: Instant) {
        if let Some(start) = self.functions.start.filter(|_| !self.this.is_null()) {
            // SAFETY: `this` came from `create`
            unsafe { start(self.this, now.0) }
        }
    }

    fn encoder_rate(&self, buffered: u64) -> Rate {
        self.ask_rate("encoder_rate", self.functions.encoder_rate, buffered)
    }

    fn pacing_rate(&self, buffered: u64) -> Rate {
        self.ask_rate("pacing_rate", self.functions.pacing_rate, buffered)
    }

    fn may_send(&self, bytes: u32) -> bool {
        let may_send = self.functions.may_send.filter(|_| !self.this.is_null());
        // SAFETY: `this` came from `create`
        may_send.is_none_or(|may_send| unsafe { may_send(self.this, bytes) } != 0)
    }

    fn next_timer(&self) -> Instant {
        match self.functions.timer_at {
            // SAFETY: `this` came from `create`
            Some(timer_at) if !self.this.is_null() && self.fault.message().is_none() => Instant(unsafe { timer_at(self.this) }),
            _ => Instant::NEVER,
        }
    }

    fn on_timer(&mut self, now: Instant) {
        let Some(timer) = self.functions.timer.filter(|_| !self.this.is_null()) else { return };
        // SAFETY: `this` came from `create`
        unsafe { timer(self.this, now.0) }
        let at = self.next_timer();
        if at <= now {
            self.report_fault(|| describe_late_timer(at, now));
        }
    }

    fn on_send(&mut self, packet: &MediaPacket) {
        if let Some(packet_sent) = self.functions.packet_sent.filter(|_| !self.this.is_null()) {
            // SAFETY: `this` came from `create`; the packet is valid for the call
            unsafe { packet_sent(self.this, &abi::CMediaPacket::read_sent(packet)) }
        }
    }

    fn on_feedback(&mut self, packets: &[PacketReport], rtt: Duration, now: Instant) {
        let Some(feedback) = self.functions.feedback.filter(|_| !self.this.is_null()) else { return };
        self.packets.clear();
        self.packets.extend(packets.iter().map(abi::CMediaPacket::read_report));
        // SAFETY: `this` came from `create`; the packets are valid for the call
        unsafe { feedback(self.this, self.packets.as_ptr(), self.packets.len() as u64, rtt.0, now.0) }
    }
}
