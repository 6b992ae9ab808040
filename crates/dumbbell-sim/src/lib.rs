//! The discrete-event engine: N flows, each with its own base RTT, through one bottleneck, on a virtual clock.

pub mod config;
pub mod table;
pub use config::registry;
