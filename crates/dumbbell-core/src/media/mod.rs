//! Parts of applications that people see and hear: sources and receivers of media, free of I/O and driven by `(now, event)` as everything in this crate.

pub mod bola;
pub mod control;
pub mod e_model;
pub mod feedback;
pub mod nada;
pub mod playout;
pub mod video;
pub mod video_flow;
pub mod viewer;
