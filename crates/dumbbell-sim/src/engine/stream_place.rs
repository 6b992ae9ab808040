//! Which part of an application an endpoint is.

use dumbbell_core::app::StreamDirection;

/// The place of one way of a connection.
#[derive(Clone, Copy, Debug)]
pub struct StreamPlace {
    /// Number of the connection, in its application, if that is open.
    pub connection: Option<u32>,
    /// Which way data go.
    pub way: StreamDirection,
    /// Number in the run of the endpoint of the responses.
    pub pair: u32,
    /// Whether its slot is given free when it is closed and nothing is left of it.
    pub is_temporary: bool,
}
