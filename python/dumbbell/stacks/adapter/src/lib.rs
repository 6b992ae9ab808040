//! A QUIC stack as a plugin of dumbbell: the state machine of quinn or noq in virtual time.
//!
//! The build sets the features, and by environment variables the name, the version and the origin that are shown.
//! Licence: MIT OR Apache-2.0.

mod controls;
mod crypto;
mod end;
mod flow;
pub mod interface;
mod panics;
mod params;
#[cfg(feature = "log")]
mod qlog;
mod streams;

use std::sync::OnceLock;

use interface::{Description, Plugin};

const NAME: &str = env!("DUMBBELL_STACK_NAME");
const TITLE: &str = env!("DUMBBELL_STACK_TITLE");
const SOURCE: &str = env!("DUMBBELL_STACK_SOURCE");

struct Described(*const Plugin);
// SAFETY: nobody writes to the description once it is made
unsafe impl Send for Described {}
// SAFETY: as above
unsafe impl Sync for Described {}

/// Returns the description of the stack.
#[no_mangle]
pub extern "C" fn dumbbell_describe() -> *const Plugin {
    static DESCRIBED: OnceLock<Described> = OnceLock::new();
    let make = || {
        panics::say(NAME);
        let said = Description { name: NAME, title: TITLE, source: SOURCE, controls: controls::names(), params: &params::PARAMS };
        Described(interface::describe::<flow::Flow, { params::COUNT }>(said))
    };
    DESCRIBED.get_or_init(make).0
}
