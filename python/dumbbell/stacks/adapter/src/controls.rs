//! The congestion controls of a stack, and those of a crate that the user gave.
//!
//! Licence: MIT OR Apache-2.0.

use std::sync::Arc;
use std::time::Instant;

use proto::congestion::{self, Controller, ControllerFactory};

/// What makes a control for a connection.
pub type Factory = Arc<dyn ControllerFactory + Send + Sync>;

#[cfg(feature = "quinn")]
const OWN: [&str; 3] = ["cubic", "newreno", "bbr"];
#[cfg(feature = "noq")]
const OWN: [&str; 3] = ["cubic", "newreno", "bbr3"];

/// Controls of the user's crate.
#[cfg(feature = "user")]
fn of_user() -> Vec<(&'static str, Factory)> {
    user::controllers()
}

/// Controls of the user's crate: there is none.
#[cfg(not(feature = "user"))]
fn of_user() -> Vec<(&'static str, Factory)> {
    Vec::new()
}

/// The names: the stack's own, its default first, then the user's.
pub fn names() -> Vec<String> {
    let own = OWN.into_iter().map(String::from);
    own.chain(of_user().into_iter().map(|(name, _)| name.to_string())).collect()
}

macro_rules! own {
    ($config:ty, $window:expr) => {{
        let mut config = <$config>::default();
        if let Some(bytes) = $window {
            config.initial_window(bytes);
        }
        Arc::new(config)
    }};
}

/// The control of this name, with an initial window in bytes where it is the stack's own.
fn called(name: &str, window: Option<u64>) -> Option<Factory> {
    Some(match name {
        "cubic" => own!(congestion::CubicConfig, window),
        "newreno" => own!(congestion::NewRenoConfig, window),
        #[cfg(feature = "quinn")]
        "bbr" => own!(congestion::BbrConfig, window),
        #[cfg(feature = "noq")]
        "bbr3" => own!(congestion::Bbr3Config, window),
        _ => of_user().into_iter().find(|(of_user, _)| *of_user == name)?.1,
    })
}

/// Makes controls whose random numbers follow from a seed.
struct Seeded {
    seed: u64,
    factory: Factory,
}

impl ControllerFactory for Seeded {
    /// Makes it in a thread of its own. Controls seed their generators from that of the thread, which cannot be seeded again from
    /// outside and which a new thread has new: from `virtual_random`.
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let made = std::thread::spawn(move || {
            virtual_random::seed(self.seed);
            self.factory.clone().build(now, current_mtu)
        });
        made.join().unwrap_or_else(|_| std::process::abort())
    }
}

/// The control of this name; its random numbers follow from the seed.
pub fn factory(name: &str, window: Option<u64>, seed: u64) -> Option<Factory> {
    Some(Arc::new(Seeded { seed, factory: called(name, window)? }))
}
