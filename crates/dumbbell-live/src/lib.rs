//! The bottleneck of the simulator on the real clock: frames between network namespaces pass the same queue disciplines.
//!
//! [`direction`] decides when frames leave, without any I/O.

pub mod direction;
pub mod frame;
pub mod frames;
