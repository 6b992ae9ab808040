//! The bottleneck that all engines share: a queue discipline in front of a link, on any clock, and what builds it from a configuration.

mod bottleneck;
mod build;
mod hop;

pub use bottleneck::{Bottleneck, Listeners, Passage};
pub use build::{build_queue, build_queue_at, check, check_with, queue_discipline, queue_disciplines};
pub use hop::{build_path, without_burst_marks, Hop, HopPart};
