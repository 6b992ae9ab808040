//! The link of a bottleneck that names none.

use crate::sections::{BottleneckParams, Shaper};
use dumbbell_core::link::{htb, serial, trace, unshaped, AnyLink, LinkContext};

impl BottleneckParams {
    /// The link that these keys describe, at their rate. A queue that `shapes` has a token bucket: of one frame, unless these keys name another.
    pub fn link(&self, shapes: bool) -> AnyLink {
        let context = LinkContext { rate: self.rate, seed: 0, run_seed: 0 };
        match (&self.trace, self.shaper) {
            (Some(trace), _) => AnyLink::Trace(Box::new(trace::State::from_trace(trace.clone()))),
            (None, Shaper::Link) if shapes => AnyLink::Unshaped(unshaped::State::new(unshaped::Params {}, &context)),
            (None, Shaper::Link) => AnyLink::Serial(serial::State::new(serial::Params {}, &context)),
            (None, Shaper::Htb) => AnyLink::Htb(htb::State::new(htb::Params { burst: self.burst }, &context)),
        }
    }
}
