//! A queue discipline of a shared library.
#![allow(unsafe_code)]

use crate::abi::{self, Callbacks};
use crate::packet_table::PacketTable;
use dumbbell_config::extensions::PluginFault;
use dumbbell_core::aqm::{Aqm, Dequeue, QueueContext, STATES};
use dumbbell_core::fork::{CannotFork, SharedCopies};
use dumbbell_core::log::Log;
use dumbbell_core::packet::{FlowKey, Packet};
use dumbbell_core::units::{Instant, Rate};
use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void, CStr};

/// One instance. The functions that the interface requires are there: [`load`](crate::Plugin::load) has looked.
pub struct PluginQueue {
    functions: &'static abi::CQueue,
    this: *mut c_void,
    table: PacketTable,
    /// Result of timer_at() after the last call: the engine reads it several times per packet.
    next: Instant,
}

// SAFETY: `this` is used only through `&mut CQueue` or `&CQueue`, and `CQueue` is not `Sync`: by one thread at a time, as the interface
// promises. What the library shares between instances is its own to guard, as the interface says.
unsafe impl Send for PluginQueue {}

/// Target of the library's callbacks while it is called.
struct Call<'a> {
    table: &'a mut PacketTable,
    log: &'a mut dyn Log,
    now: Instant,
    /// Where a packet is put that the library looks at.
    shown: abi::CPacket,
}

/// The call behind `host`.
///
/// # Safety
/// `host` is the pointer that the library was given by [`PluginQueue::call`], and that call has not returned.
unsafe fn call_behind<'a>(host: *mut abi::CHost) -> &'a mut Call<'a> {
    // SAFETY: by the condition above, the host is that of `Callbacks`, and `call` points to the `Call` on the stack of `PluginQueue::call`, which
    // lent it to nobody else.
    unsafe { &mut *(*host.cast::<Callbacks<abi::CHost>>()).call.cast::<Call<'a>>() }
}

macro_rules! calls_back {
    ($($name:ident($call:ident $(, $arg:ident: $type:ty)*) $(-> $out:ty)? $body:block)*) => {$(
        extern "C" fn $name(host: *mut abi::CHost $(, $arg: $type)*) $(-> $out)? {
            // SAFETY: the library calls with the host that it was given, before it returns: the interface asks for that
            let $call = unsafe { call_behind(host) };
            $body
        }
    )*};
}

calls_back! {
    mark(call, id: u64) -> c_int { c_int::from(call.table.mark(id, call.now, call.log)) }
    drop_packet(call, id: u64) { call.table.drop(id, call.now, call.log) }
    push(call, list: u32, id: u64) { call.table.push(list, id) }
    first(call, list: u32) -> *const abi::CPacket { call.show(call.table.first(list)) }
    last(call, list: u32) -> *const abi::CPacket { call.show(call.table.last(list)) }
    packets(call, list: u32) -> u64 { call.table.in_list(list).0 }
    bytes(call, list: u32) -> u64 { call.table.in_list(list).1 }
    wait(call, time: u64) { call.table.wait(Instant(time)) }
}

impl Call<'_> {
    fn show(&mut self, id: Option<u64>) -> *const abi::CPacket {
        match id.and_then(|id| Some((id, self.table.packet(id)?))) {
            None => std::ptr::null(),
            Some((id, packet)) => {
                self.shown = abi::CPacket::read_packet(id, packet);
                &raw const self.shown
            }
        }
    }
}

impl abi::CPacket {
    /// Returns the fields of a packet that a queue may read.
    pub fn read_packet(id: u64, packet: &Packet) -> abi::CPacket {
        abi::CPacket {
            id,
            arrived: packet.enqueue_time.0,
            flow: packet.flow,
            length: packet.len,
            ecn: packet.ecn() as u8,
            is_ack: packet.is_back(),
        }
    }
}

impl PluginQueue {
    /// An instance with the values of its parameters.
    pub fn new(
        functions: &'static abi::CQueue,
        name: &str,
        values: &[f64],
        context: &QueueContext,
        fault: PluginFault,
    ) -> PluginQueue {
        let link = abi::CLink { rate: context.rate.bits(), seed: context.seed };
        // SAFETY: both pointers are valid for the call, and there are as many values as the library declared parameters
        let this = functions.create.map_or(std::ptr::null_mut(), |create| unsafe { create(&link, values.as_ptr()) });
        let table = PacketTable::new(name, fault);
        if this.is_null() {
            table.wrong(|| "create() returned NULL".to_owned());
        }
        let mut queue = PluginQueue { functions, this, table, next: Instant::NEVER };
        queue.ask();
        queue
    }

    /// Asks when the timer is called next, after a call that may have changed it.
    fn ask(&mut self) {
        if let Some(timer_at) = self.functions.timer_at.filter(|_| !self.this.is_null()) {
            // SAFETY: `this` came from `create`
            self.next = Instant(unsafe { timer_at(self.this) });
        }
    }

    /// Lets the library do something; not if it could not be created.
    fn call<T>(&mut self, now: Instant, log: &mut dyn Log, none: T, act: impl FnOnce(*mut c_void, *mut abi::CHost) -> T) -> T {
        if self.this.is_null() {
            return none;
        }
        let nothing = abi::CPacket { id: 0, arrived: 0, flow: 0, length: 0, ecn: 0, is_ack: false };
        let mut call = Call { table: &mut self.table, log, now, shown: nothing };
        let functions = abi::CHost { mark, drop: drop_packet, push, first, last, packets, bytes, wait };
        let mut host = Callbacks { functions, call: (&raw mut call).cast() };
        let answer = act(self.this, (&raw mut host).cast());
        self.ask();
        answer
    }
}

impl Drop for PluginQueue {
    fn drop(&mut self) {
        if let Some(destroy) = self.functions.destroy.filter(|_| !self.this.is_null()) {
            // SAFETY: `this` came from `create`, and nothing uses it any more
            unsafe { destroy(self.this) }
        }
    }
}

impl Aqm for PluginQueue {
    fn fork(&self, shared: &mut SharedCopies) -> Result<PluginQueue, CannotFork> {
        // SAFETY: `this` came from `create`, and `self` is not `Sync`
        let this = unsafe { abi::clone_instance(self.functions.clone, self.this)? };
        Ok(PluginQueue { functions: self.functions, this, table: self.table.fork(shared), next: self.next })
    }

    fn flow_starts(&mut self, flow: u32, key: &FlowKey) {
        if let Some(starts) = self.functions.flow_starts.filter(|_| !self.this.is_null()) {
            // SAFETY: `this` came from `create`
            unsafe { starts(self.this, flow, key.src_host, key.dst_host, key.ports, key.dscp) }
            self.ask();
        }
    }

    fn enqueue<L: Log>(&mut self, packet: Packet, now: Instant, log: &mut L) {
        let id = self.table.arrive(packet, now);
        let seen = self.table.packet(id).map(|kept| abi::CPacket::read_packet(id, kept));
        if let (Some(enqueue), Some(seen)) = (self.functions.enqueue, seen) {
            // SAFETY: `this` came from `create`; host and packet are valid for the call
            self.call(now, log, (), |this, host| unsafe { enqueue(this, host, &seen, now.0) });
        }
        self.table.settle(now, log);
    }

    fn dequeue<L: Log>(&mut self, now: Instant, log: &mut L) -> Dequeue {
        let Some(dequeue) = self.functions.dequeue else { return Dequeue::Empty };
        // SAFETY: `this` came from `create`; host is valid for the call
        let id = self.call(now, log, 0, |this, host| unsafe { dequeue(this, host, now.0) });
        self.table.leave(id, now, log)
    }

    fn packets(&self) -> usize {
        self.table.count_queued()
    }

    fn bytes(&self) -> u64 {
        self.table.held_bytes()
    }

    fn next_timer(&self) -> Instant {
        self.next
    }

    fn on_timer<L: Log>(&mut self, now: Instant, log: &mut L) {
        if let Some(timer) = self.functions.timer {
            // SAFETY: `this` came from `create`; host is valid for the call
            self.call(now, log, (), |this, host| unsafe { timer(this, host, now.0) });
        }
        self.table.check_timer(self.next, now);
    }

    fn set_rate(&mut self, rate: Rate, now: Instant) {
        if let Some(changes) = self.functions.rate.filter(|_| !self.this.is_null()) {
            // SAFETY: `this` came from `create`
            unsafe { changes(self.this, rate.bits(), now.0) }
            self.ask();
        }
    }

    fn state(&self, tell: &mut dyn FnMut(&'static str, f64)) {
        extern "C" fn receive_state(to: *mut c_void, name: *const c_char, value: f64) {
            // SAFETY: `to` is what `state` below passes, valid until it returns, and the name is a string of C, as the interface asks
            let (heard, name) = unsafe { (&*to.cast::<Heard>(), CStr::from_ptr(name)) };
            if let Some(place) = STATES.iter().position(|(known, _, _)| name.to_bytes() == known.as_bytes()) {
                heard[place].set(Some(value));
            }
        }
        type Heard = [Cell<Option<f64>>; STATES.len()];
        if let Some(state) = self.functions.state.filter(|_| !self.this.is_null()) {
            let heard: Heard = Default::default();
            // SAFETY: `this` came from `create`; `heard` outlives the call
            unsafe { state(self.this, receive_state, (&raw const heard).cast_mut().cast()) }
            for (value, (name, _, _)) in heard.iter().zip(STATES) {
                value.get().into_iter().for_each(|value| tell(name, value));
            }
        }
    }
}
