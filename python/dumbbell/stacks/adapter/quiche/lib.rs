//! quiche as a plugin of dumbbell, in virtual time.
//!
//! The build sets by environment variables the name, the version and the origin that are shown. Licence: MIT OR Apache-2.0.

mod flow;
pub mod interface;
mod panics;
mod params;
mod system;

use std::sync::OnceLock;

use interface::{Description, Plugin};

const NAME: &str = env!("DUMBBELL_STACK_NAME");
const TITLE: &str = env!("DUMBBELL_STACK_TITLE");
const SOURCE: &str = env!("DUMBBELL_STACK_SOURCE");
/// The names by which quiche knows its controls, its default first.
const CONTROLS: [&str; 3] = ["cubic", "reno", "bbr2_gcongestion"];

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
        let controls = CONTROLS.map(String::from).to_vec();
        let said = Description { name: NAME, title: TITLE, source: SOURCE, controls, params: &params::PARAMS };
        Described(interface::describe::<flow::Flow, { params::COUNT }>(said))
    };
    DESCRIBED.get_or_init(make).0
}
