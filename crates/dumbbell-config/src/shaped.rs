//! The link of a bottleneck that names none.

use crate::sections::{BottleneckParams, Shaper};
use dumbbell_core::link::{htb, serial, trace, unshaped, AnyLink, LinkContext};

impl BottleneckParams {
    /// The link that these keys describe. A queue that `shapes` needs none with a rate.
    pub fn link(&self, shapes: bool) -> AnyLink {
        let context = LinkContext { rate: self.rate, seed: 0 };
        match (&self.trace, self.shaper) {
            (Some(trace), _) => AnyLink::Trace(Box::new(trace::State::of(trace.clone()))),
            _ if shapes => AnyLink::Unshaped(unshaped::State::new(unshaped::Params {}, &context)),
            (None, Shaper::Link) => AnyLink::Serial(serial::State::new(serial::Params {}, &context)),
            (None, Shaper::Htb) => AnyLink::Htb(htb::State::new(htb::Params { burst: self.burst }, &context)),
        }
    }
}
