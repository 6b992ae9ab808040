//! The simulator as a WebAssembly module: JSON in, JSON out.
//!
//! A page does not call these functions itself. `js/dumbbell.js` does, and gives it strings, objects and errors.
//!
//! Text passes through two buffers in the module's memory. [`input`] makes room for what the page writes; each call that takes text takes what
//! is there. Each call that gives text leaves it where [`output`] says, [`output_len`] bytes long, until the next call. Nothing is shared between modules,
//! and a module has one thread.
//!
//! A call that fails returns [`FAILED`], and its output is an object with `message`; a configuration that cannot be used has `key`, `found`
//! and `allowed` as well. A bug ends in a trap: [`message`] then leaves what it says, and the module is not to be used any more.

mod events;
mod session;

use session::{Reply, Session};
use std::cell::RefCell;
use std::sync::Once;

/// Return value of a call that succeeded.
pub const DONE: i32 = 0;
/// Return value of a call that failed.
pub const FAILED: i32 = -1;

thread_local! {
    static SESSION: RefCell<Session> = RefCell::default();
    static INPUT: RefCell<Vec<u8>> = RefCell::default();
    static OUTPUT: RefCell<Vec<u8>> = RefCell::default();
    static LAST_WORDS: RefCell<String> = RefCell::default();
}

/// A panic reports its place before it traps.
fn install_panic_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|panic| LAST_WORDS.with_borrow_mut(|words| *words = panic.to_string())));
    });
}

fn put(bytes: impl Into<Vec<u8>>) {
    OUTPUT.with_borrow_mut(|output| *output = bytes.into());
}

/// Answers a call: its text is the output, its number is returned.
fn answer(of: impl FnOnce(&mut Session, &[u8]) -> Result<Reply, session::CallError>) -> i32 {
    install_panic_hook();
    let given = INPUT.take();
    match SESSION.with_borrow_mut(|session| of(session, &given)) {
        Ok(Reply { code, output }) => {
            put(output);
            code
        }
        Err(refusal) => {
            put(refusal.to_json().to_string());
            FAILED
        }
    }
}

/// Makes room for `len` bytes of text, and returns where: the caller writes them before the next call.
#[cfg_attr(target_arch = "wasm32", allow(unsafe_code), no_mangle)] // unsafe if two things had one name: a module links nothing else
pub extern "C" fn input(len: usize) -> *mut u8 {
    install_panic_hook();
    INPUT.with_borrow_mut(|input| {
        input.clear();
        input.resize(len, 0);
        input.as_mut_ptr()
    })
}

/// Where the text of the last call is.
#[cfg_attr(target_arch = "wasm32", allow(unsafe_code), no_mangle)] // as `input`
pub extern "C" fn output() -> *const u8 {
    OUTPUT.with_borrow(|output| output.as_ptr())
}

/// How many bytes it has.
#[cfg_attr(target_arch = "wasm32", allow(unsafe_code), no_mangle)] // as `input`
pub extern "C" fn output_len() -> usize {
    OUTPUT.with_borrow(Vec::len)
}

/// Leaves what the bug said that ended a call in a trap.
#[cfg_attr(target_arch = "wasm32", allow(unsafe_code), no_mangle)] // as `input`
pub extern "C" fn message() {
    put(LAST_WORDS.with_borrow(String::clone));
}

/// Leaves the version of the engine.
#[cfg_attr(target_arch = "wasm32", allow(unsafe_code), no_mangle)] // as `input`
pub extern "C" fn version() {
    put(dumbbell_sim::ENGINE_VERSION);
}

/// Leaves everything that a configuration can hold, described.
#[cfg_attr(target_arch = "wasm32", allow(unsafe_code), no_mangle)] // as `input`
pub extern "C" fn registry() {
    put(dumbbell_sim::registry().to_string());
}

/// Checks the configuration that is the input.
#[cfg_attr(target_arch = "wasm32", allow(unsafe_code), no_mangle)] // as `input`
pub extern "C" fn check() -> i32 {
    answer(|_, given| session::check(given))
}

/// Runs the configuration that is the input, and leaves summary, digest and tables.
#[cfg_attr(target_arch = "wasm32", allow(unsafe_code), no_mangle)] // as `input`
pub extern "C" fn run() -> i32 {
    answer(|_, given| session::run(given))
}

/// Begins a run of the configuration that is the input. Returns its number.
#[cfg_attr(target_arch = "wasm32", allow(unsafe_code), no_mangle)] // as `input`
pub extern "C" fn begin() -> i32 {
    answer(Session::begin)
}

/// Begins a run of the configuration that is the input, and records its events. Returns its number.
#[cfg_attr(target_arch = "wasm32", allow(unsafe_code), no_mangle)] // as `input`
pub extern "C" fn watch() -> i32 {
    answer(Session::watch)
}

/// Leaves the events of run `number` since the last call: rows of seven 64-bit floats.
#[cfg_attr(target_arch = "wasm32", allow(unsafe_code), no_mangle)] // as `input`
pub extern "C" fn events(number: i32) -> i32 {
    answer(|session, _| session.take_events(number))
}

/// Leaves the names of the columns, kinds and codes of these events.
#[cfg_attr(target_arch = "wasm32", allow(unsafe_code), no_mangle)] // as `input`
pub extern "C" fn event_names(number: i32) -> i32 {
    answer(|session, _| session.describe_events(number))
}

/// Begins a run of the configuration that is the input, which may be changed. Returns its number.
#[cfg_attr(target_arch = "wasm32", allow(unsafe_code), no_mangle)] // as `input`
pub extern "C" fn begin_changeable() -> i32 {
    answer(Session::begin_changeable)
}

/// Copies run `number`. Returns the number of the copy.
#[cfg_attr(target_arch = "wasm32", allow(unsafe_code), no_mangle)] // as `input`
pub extern "C" fn fork(number: i32) -> i32 {
    answer(|session, _| session.fork(number))
}

/// Replaces run `number` by a copy of run `from`.
#[cfg_attr(target_arch = "wasm32", allow(unsafe_code), no_mangle)] // as `input`
pub extern "C" fn restore(number: i32, from: i32) -> i32 {
    answer(|session, _| session.restore(number, from))
}

/// Changes run `number`: the input is `{"key", "value"}`.
#[cfg_attr(target_arch = "wasm32", allow(unsafe_code), no_mangle)] // as `input`
pub extern "C" fn set(number: i32) -> i32 {
    answer(|session, given| session.set(number, given))
}

/// Goes on with run `number` for `ms` of simulated time. Returns 1 if it is over, otherwise 0.
#[cfg_attr(target_arch = "wasm32", allow(unsafe_code), no_mangle)] // as `input`
pub extern "C" fn step(number: i32, ms: f64) -> i32 {
    answer(|session, _| session.step(number, ms))
}

/// Leaves what there is to see of run `number`.
#[cfg_attr(target_arch = "wasm32", allow(unsafe_code), no_mangle)] // as `input`
pub extern "C" fn view(number: i32) -> i32 {
    answer(|session, _| session.view(number))
}

/// Goes on with run `number` to its end, leaves summary, digest and tables, and forgets the run.
#[cfg_attr(target_arch = "wasm32", allow(unsafe_code), no_mangle)] // as `input`
pub extern "C" fn finish(number: i32) -> i32 {
    answer(|session, _| session.finish(number))
}

/// Forgets run `number`.
#[cfg_attr(target_arch = "wasm32", allow(unsafe_code), no_mangle)] // as `input`
pub extern "C" fn forget(number: i32) -> i32 {
    answer(|session, _| session.forget(number))
}
