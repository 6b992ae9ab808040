//! Any packets to a receiver, any acknowledgements to a sender: the promises that `tcp_properties.rs` of dumbbell-core
//! checks, with any congestion control and any host.

#![no_main]

#[path = "../../crates/dumbbell-core/tests/tcp_properties.rs"]
#[allow(dead_code, unused_imports)]
mod tcp_properties;

use arbitrary::{Arbitrary, Result, Unstructured};
use dumbbell_core::cc;
use dumbbell_core::packet::Ecn;
use dumbbell_core::tcp::host::HostParams;
use dumbbell_core::tcp::receiver::Echo;
use dumbbell_core::tcp::sender::Application;
use dumbbell_core::tcp::FlowOptions;
use dumbbell_fuzz::{algorithm, scaled, table};
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value};
use tcp_properties::{attack, receive, Arrival, Step, OF_TCP};

/// One end of a connection, and what its peer, the network or the clock does.
#[derive(Debug)]
enum Story {
    Receiver { host: HostParams, options: FlowOptions, arrivals: Vec<Arrival> },
    Sender { cc: Map<String, Value>, host: HostParams, app: Application, steps: Vec<Step> },
}

fn after_us(u: &mut Unstructured) -> Result<u64> {
    let most = *u.choose(&[3_000, 100_000, 10_000_000_000])?;
    scaled(u, 0, most)
}

/// A number relative to the first that is not acknowledged: mostly near.
fn number(u: &mut Unstructured) -> Result<i64> {
    match u.int_in_range(0..=31_u8)? {
        0 => u.arbitrary(),
        1 => Ok(*u.choose(&[i64::MIN, i64::MAX])?),
        2..=8 => u.int_in_range(-5..=60),
        _ => u.int_in_range(0..=12),
    }
}

/// Any values of the host's switches.
fn host(u: &mut Unstructured) -> Result<HostParams> {
    let config = table(u, &HostParams::specs(), &[])?;
    Ok(HostParams::from_json(&config).expect("values within their ranges"))
}

fn receiver(u: &mut Unstructured) -> Result<Story> {
    let options = FlowOptions { ecn: u.arbitrary()?, echo: *u.choose(&[Echo::UntilCwr, Echo::PerPacket, Echo::Accurate])? };
    let host = host(u)?;
    let mut arrivals = Vec::new();
    while !u.is_empty() && arrivals.len() < 400 {
        arrivals.push(Arrival {
            after_us: after_us(u)?,
            // one number is one segment: no connection comes near the end of them
            seq: if u.ratio(1_u8, 16)? { u.int_in_range(0..=1 << 62)? } else { u.int_in_range(0..=60)? },
            flags: u.arbitrary::<u16>()? & OF_TCP,
            ecn: *u.choose(&[Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce])?,
            len: u.int_in_range(66..=9000)?,
            tsval: if u.ratio(1_u8, 4)? { u.arbitrary()? } else { 0 },
            tsecr_age: u.arbitrary()?,
        });
    }
    Ok(Story::Receiver { host, options, arrivals })
}

fn sender(u: &mut Unstructured) -> Result<Story> {
    let host = host(u)?;
    let app = match u.int_in_range(0..=2_u8)? {
        0 => Application::Bulk,
        1 => Application::Size(scaled(u, 1, 1 << 60)?),
        _ => Application::Rate(scaled(u, 125, 1_250_000_000_000)?),
    };
    let cc = algorithm(u, &cc::specs())?;
    let mut steps = Vec::new();
    while !u.is_empty() && steps.len() < 200 {
        steps.push(match u.int_in_range(0..=15_u8)? {
            0 | 1 => Step::AckAll { after_us: after_us(u)? },
            2..=4 => Step::Timer,
            5 if u.ratio(1_u8, 8)? => Step::Stop,
            _ => {
                let (after_us, ack) = (after_us(u)?, number(u)?);
                let blocks = (0..u.int_in_range(0..=4_u8)?).map(|_| Ok((number(u)?, number(u)?))).collect::<Result<_>>()?;
                let window = if u.ratio(3_u8, 4)? { u32::MAX } else { scaled(u, 0, 100_000)? as u32 };
                let tsecr = if u.arbitrary()? { u32::MAX } else { scaled(u, 0, u32::MAX.into())? as u32 };
                // mostly flags that a data ACK may carry: ECE, ESCE, DSACK
                let flags = if u.ratio(1_u8, 16)? { u.arbitrary::<u8>()?.into() } else { *u.choose(&[0, 0, 1, 2, 8])? };
                let ce_bytes = if u.arbitrary()? { 0 } else { scaled(u, 0, u32::MAX.into())? as u32 };
                Step::Ack { after_us, ack, blocks, flags, window, tsecr, ce_bytes }
            }
        });
    }
    Ok(Story::Sender { cc, host, app, steps })
}

impl<'a> Arbitrary<'a> for Story {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Story> {
        if u.arbitrary()? {
            sender(u)
        } else {
            receiver(u)
        }
    }
}

fuzz_target!(|story: Story| {
    let done = match story {
        Story::Receiver { host, options, arrivals } => receive(host, options, &arrivals),
        Story::Sender { cc, host, app, steps } => match cc::build(&cc, &cc::CcContext::default()) {
            Ok(cc) => attack(cc, &host, app, &steps),
            Err(_) => return,
        },
    };
    if let Err(error) = done {
        panic!("{error}");
    }
});
