//! Frames and records of frames, whatever their bytes are, are read or refused.

#![no_main]

use dumbbell_live::frame::{payload, Headers};
use dumbbell_packets::{Record, RECORD};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some(headers) = Headers::read(bytes) {
        headers.tuple.key(headers.dscp);
    }
    assert!(payload(bytes) as usize <= usize::from(u16::MAX));
    // as a kernel's engine writes them: a frame's first bytes, and a file of such records
    let sent = Record::new(1, bytes, true, None);
    let kept = Record::read(&mut &sent.to_bytes()[..]).expect("a slice is read").expect("a whole record");
    assert_eq!(kept.frames(Some(1448), false).len(), sent.frames(Some(1448), false).len());
    let mut file = bytes;
    let mut records = 0;
    while let Some(record) = Record::read(&mut file).expect("a slice is read") {
        record.frames(None, true);
        records += 1;
    }
    assert_eq!(records, bytes.len() / RECORD);
});
