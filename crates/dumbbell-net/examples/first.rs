//! The smallest test with a net: packets at a steady pace into a bottleneck that marks.

use dumbbell_net::{Config, Ecn, Error, Frame, Net, NetCounters};
use std::time::Duration;

/// Sends 1200 bytes each 900 us for two seconds; returns the packets that arrived, those of them with CE, and the counters.
pub fn run() -> Result<(u64, u64, NetCounters), Error> {
    let text = "rate = '10Mbit'\naqm = { name = 'codel', ecn = true }\ndelay = '10ms'";
    // the payload is a number here; a transport puts its bytes there
    let mut net: Net<u64> = Config::parse(text)?.seed(1).build()?;
    let (mut arrived, mut marked) = (0, 0);
    let mut now = Duration::ZERO;
    for number in 0..2222 {
        now = number * Duration::from_micros(900);
        net.push(now, Frame::udp(1200).ecn(Ecn::Ect0), u64::from(number));
        while let Some(arrival) = net.pop(now) {
            arrived += 1;
            marked += u64::from(arrival.frame.ecn == Ecn::Ce);
        }
    }
    // then everything that is left comes out, each packet at its time
    while let Some(next) = net.next() {
        now = now.max(next);
        while let Some(arrival) = net.pop(now) {
            arrived += 1;
            marked += u64::from(arrival.frame.ecn == Ecn::Ce);
            assert!(arrival.at <= now);
        }
    }
    let counters = net.counters();
    assert_eq!(arrived + counters.count_dropped(), counters.pushed);
    Ok((arrived, marked, counters))
}

#[allow(dead_code)] // of the test that runs this
fn main() -> Result<(), Error> {
    let (arrived, marked, counters) = run()?;
    println!("{arrived} arrived, {marked} with CE: {counters:#?}");
    Ok(())
}
