//! A trace of a link, whatever its bytes are, is read or refused with a reason; one that is read says the same as its schedule.

#![no_main]

use dumbbell_core::link_trace::LinkTrace;
use dumbbell_core::units::Instant;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    match LinkTrace::parse("fuzzed", bytes) {
        Ok(trace) => {
            let again = LinkTrace::from_schedule("fuzzed", &trace.schedule()).expect("a schedule that was written");
            assert_eq!(trace, again);
            let period = trace.period();
            let mut before = 0;
            for part in 0..=8 {
                let at = Instant::ZERO + period / 4 * part;
                let sent = trace.bytes_until(at);
                assert!(sent >= before);
                before = sent;
                trace.delay_at(at);
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = LinkTrace::from_schedule("fuzzed", text);
    }
});
