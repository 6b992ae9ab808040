//! Any sequence of arrivals, requests, time and changes of rate against every queue discipline: the promises that
//! `aqm_properties.rs` of dumbbell-core checks.

#![no_main]

#[path = "../../crates/dumbbell-core/tests/aqm_properties.rs"]
#[allow(dead_code, unused_imports)]
mod aqm_properties;

use aqm_properties::{run, Op, LENGTHS};
use arbitrary::{Arbitrary, Result, Unstructured};
use dumbbell_core::aqm::{build, QueueContext};
use dumbbell_core::packet::Ecn;
use dumbbell_core::units::Rate;
use dumbbell_core::with_aqm;
use dumbbell_fuzz::{queue, scaled};
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value};

/// A queue and what happens to it.
#[derive(Debug)]
struct Story {
    config: Map<String, Value>,
    rate: Rate,
    seed: u64,
    ops: Vec<Op>,
}

fn op(u: &mut Unstructured) -> Result<Op> {
    Ok(match u.int_in_range(0..=15_u8)? {
        0..=4 => {
            let ecn = *u.choose(&[Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce])?;
            Op::Arrive { flow: u.choose_index(LENGTHS.len())?, ecn, burst: u.int_in_range(1..=60)? }
        }
        5..=8 => Op::Ask { times: u.int_in_range(1..=40)? },
        9..=14 => Op::Pass { nanos: scaled(u, 0, 10_000_000_000)? },
        _ => Op::Rate { bits: if u.arbitrary()? { 0 } else { scaled(u, 1_000, 10_000_000_000_000)? } },
    })
}

impl<'a> Arbitrary<'a> for Story {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Story> {
        let config = queue(u)?;
        let rate = Rate(*u.choose(&[0, 1_000, 100_000, 10_000_000, 1_000_000_000, 10_000_000_000_000])?);
        let seed = u.arbitrary()?;
        let mut ops = Vec::new();
        while !u.is_empty() && ops.len() < 400 {
            ops.push(op(u)?);
        }
        Ok(Story { config, rate, seed, ops })
    }
}

fuzz_target!(|story: Story| {
    let context = QueueContext::new(story.rate, story.seed);
    if let Ok(any) = build(&story.config, &context) {
        with_aqm!(any, aqm => run(aqm, &story.ops));
    }
});
