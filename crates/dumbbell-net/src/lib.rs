//! Queue, link and propagation of a bottleneck for tests of a transport, sans-IO.
//!
//! A test that has two endpoints in one process needs something between them. [`Net`] is one direction of it: packets are pushed in, wait in a
//! queue discipline of dumbbell in front of a link, propagate, and are popped at the far end, with CE where the AQM marked them. It has no clock, no thread, no socket and no
//! executor: the caller says what time it is. What happens in it is bit for bit what happens in the simulator.
//!
//! The text of an experiment's `[bottleneck]` describes a net: see [`Config`]. The C interface is `include/dumbbell_net.h`.

#[doc(hidden)]
pub mod c;
mod config;
mod error;
mod frame;
mod net;
mod text;
mod units;

pub use config::Config;
pub use dumbbell_core::packet::{Ecn, FlowKey};
pub use dumbbell_core::record::FlowCounters;
pub use error::Error;
pub use frame::{Arrival, Frame, NetCounters};
pub use net::Net;

/// The header of the C interface, `dumbbell_net.h`.
pub const HEADER: &str = include_str!("../include/dumbbell_net.h");

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
