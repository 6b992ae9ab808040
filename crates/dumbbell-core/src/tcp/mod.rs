//! Transport as Linux does it, sans-IO: sender and receiver apart.

pub mod conn;
pub mod rtt;
