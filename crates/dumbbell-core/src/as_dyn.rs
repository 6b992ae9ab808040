//! Code that a module for web pages has once.
//!
//! Generic code is compiled for each type that it is used with, so that a packet costs no calls through tables. A page loads all of these copies. In a module for web pages
//! the queue disciplines therefore have one type of log, and the senders and receivers one type of net: a trait object. A packet takes some nanoseconds longer there.

/// `as_dyn!(value, Trait)` is a trait object of `value` in a module for web pages, and `value` elsewhere.
#[cfg(target_family = "wasm")]
#[macro_export]
macro_rules! as_dyn {
    ($value:expr, $what:path) => {
        &mut $value as &mut dyn $what
    };
}

/// `as_dyn!(value, Trait)` is a trait object of `value` in a module for web pages, and `value` elsewhere.
#[cfg(not(target_family = "wasm"))]
#[macro_export]
macro_rules! as_dyn {
    ($value:expr, $what:path) => {
        $value
    };
}
