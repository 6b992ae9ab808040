//! The bottleneck of the simulator on the real clock: frames between network namespaces pass the same queue disciplines.
//!
//! [`direction`] decides when frames leave, without any I/O. [`forwarder`] is the thread that moves them between two [`port`]s.

pub mod direction;
pub mod frame;
pub mod frames;
pub mod lateness;
pub mod trace;

#[cfg(target_os = "linux")]
pub mod apps;
#[cfg(target_os = "linux")]
pub mod clock;
#[cfg(target_os = "linux")]
pub mod flows;
#[cfg(target_os = "linux")]
pub mod forwarder;
#[cfg(target_os = "linux")]
pub mod namespaces;
#[cfg(target_os = "linux")]
mod netlink;
#[cfg(target_os = "linux")]
pub mod packet_socket;
#[cfg(target_os = "linux")]
pub mod port;
#[cfg(target_os = "linux")]
pub mod priority;
#[cfg(target_os = "linux")]
pub mod programs;
#[cfg(target_os = "linux")]
pub mod relay;
#[cfg(target_os = "linux")]
pub mod run;
#[cfg(target_os = "linux")]
pub mod shell;
#[cfg(target_os = "linux")]
mod tcp_info;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
