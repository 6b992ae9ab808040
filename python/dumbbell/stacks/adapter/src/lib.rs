//! A QUIC stack as a plugin of dumbbell: the state machine of quinn or noq in virtual time.
//!
//! The build sets the features, and by environment variables the name, the version and the origin that are shown.
//! Licence: MIT OR Apache-2.0.

mod controls;
mod crypto;
mod end;
mod flow;
pub mod interface;
mod params;
mod qlog;

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

/// A panic ends the process: this says why, in one line.
fn say_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let payload = panic.payload();
        let text = payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic");
        let place = panic.location().map_or_else(String::new, |place| {
            let parts: Vec<&str> = place.file().split(['/', '\\']).collect();
            let file = parts[parts.len().saturating_sub(4)..].join("/");
            format!(" ({file}:{})", place.line())
        });
        eprintln!("{NAME} panicked: {}{place}", text.replace(['\n', '\r'], " "));
    }));
}

/// Returns the description of the stack.
#[no_mangle]
pub extern "C" fn dumbbell_describe() -> *const Plugin {
    static DESCRIBED: OnceLock<Described> = OnceLock::new();
    let make = || {
        say_panics();
        let said = Description { name: NAME, title: TITLE, source: SOURCE, controls: controls::names(), params: &params::PARAMS };
        Described(interface::describe::<flow::Flow, { params::COUNT }>(said))
    };
    DESCRIBED.get_or_init(make).0
}
