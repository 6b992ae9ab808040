//! Queue disciplines, congestion controls and a Linux-like TCP, free of I/O.
//!
//! Everything here is driven by `(now, event)`: time, randomness and logs are arguments. There is no clock, no
//! thread, no global and no printing, so that the same code runs in a simulator and on a real network.

// what a test expects need not be the same bits on every system
#![cfg_attr(test, allow(clippy::disallowed_methods))]

pub mod app;
pub mod aqm;
pub mod as_dyn;
pub mod bufferbloat;
pub mod buffers;
pub mod cc;
pub mod fork;
pub mod hint;
pub mod histogram;
pub mod link;
pub mod link_layer;
pub mod link_trace;
pub mod log;
pub mod media;
pub mod observe;
pub mod packet;
pub mod param;
pub mod path;
pub mod prefetch;
pub mod protocol;
pub mod real;
pub mod record;
pub mod reply;
pub mod responsiveness;
pub mod ring;
pub mod rng;
pub mod rtt;
pub mod slots;
pub mod stream_transport;
pub mod tcp;
pub mod traffic;
pub mod units;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
