//! Queue disciplines, congestion controls, those of video, and stacks from shared libraries with the interface of `include/dumbbell.h`.
//!
//! A library is code: whoever loads one trusts it. It can crash or hang the process that it is in; what it does wrong with packets and
//! windows is found, and ends the run with one line.

#[allow(missing_docs)] // some fields say all by their names
pub mod abi;
mod control;
mod datagrams;
mod load;
pub mod media;
pub mod packet_table;
mod queue;
mod stack;
pub mod steering;
pub mod trial;

pub use load::{check_interval, BadPlugin, Declared, Make, Plugin};

/// The header that a plugin in C includes.
pub const HEADER: &str = include_str!("../include/dumbbell.h");
