//! Measurements of runs: columns, each declared once, and the tables, figures and digests of simulations, captures and runs in real time.

pub mod capacity;
pub mod classes;
pub mod columns;
pub mod flow;
pub mod from_capture;
pub mod from_frames;
pub mod from_live;
pub mod hop_log;
pub mod measure;
pub mod outcome;
pub mod short_flows;
pub mod statistics;
pub mod table;
pub mod together;
pub mod trace;
pub mod transit;

pub use outcome::{Outcome, Tables};
