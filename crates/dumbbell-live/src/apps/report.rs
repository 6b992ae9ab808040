//! Records of applications, as `dumbbell_measure::from_capture` reads them.

use dumbbell_core::app::{Load, StreamDirection};
use dumbbell_core::packet::Ecn;
use dumbbell_core::units::{Duration, Instant};
use dumbbell_measure::from_capture::told;
use dumbbell_measure::from_live::TcpSample;

/// Reports of a run, as bytes.
#[derive(Debug, Default)]
pub struct Report {
    /// States of senders.
    pub samples: Vec<u8>,
    /// Loads of users, datagrams that arrived, connections that opened, and values of measures.
    pub records: Vec<u8>,
}

/// The ECN field as in headers.
pub fn ecn_bits(ecn: Ecn) -> u32 {
    match ecn {
        Ecn::NotEct => 0,
        Ecn::Ect1 => 1,
        Ecn::Ect0 => 2,
        Ecn::Ce => 3,
    }
}

impl Report {
    fn record(&mut self, kind: u32, whose: u32, numbers: [u64; 4]) {
        self.records.extend_from_slice(&kind.to_le_bytes());
        self.records.extend_from_slice(&whose.to_le_bytes());
        numbers.iter().for_each(|number| self.records.extend_from_slice(&number.to_le_bytes()));
    }

    /// User `app` starts to wait for a load.
    pub fn begin_load(&mut self, app: usize, now: Instant) {
        self.record(told::BEGUN, app as u32, [now.0, 0, 0, 0]);
    }

    /// User `app` has all of a load.
    pub fn finish_load(&mut self, app: usize, load: Load) {
        self.record(told::LOAD, app as u32, [load.start.0, load.time.0, load.bytes, 0]);
    }

    /// User `app` opens its connection `connection`, which is not there for the whole run: its responses have this number in the run.
    pub fn open(&mut self, app: usize, number: u32, connection: usize) {
        self.record(told::OPENED, app as u32, [u64::from(number), connection as u64, 0, 0]);
    }

    /// A datagram has arrived that endpoint `endpoint` of all applications sent.
    pub fn arrive(&mut self, endpoint: u32, now: Instant, delay: Duration, (length, ecn): (u16, Ecn)) {
        self.record(told::ARRIVAL, endpoint, [now.0, delay.0, u64::from(length), u64::from(ecn_bits(ecn))]);
    }

    /// The values of the measures of user `app`, one way.
    pub fn figures(&mut self, app: usize, way: StreamDirection, values: &[f64]) {
        for (place, value) in (0..).zip(values) {
            self.record(told::FIGURE, app as u32, [way.index() as u64, place, value.to_bits(), 0]);
        }
    }

    /// The sender of flow `number` is in this state at `time`.
    pub fn sample(&mut self, number: u32, flags: u32, time: Instant, sender: Option<&TcpSample>) {
        let none = TcpSample { time, ..TcpSample::default() };
        let TcpSample { sender: state, min_rtt_us, payload, sent, timeouts, .. } = sender.unwrap_or(&none);
        let unknown = if sender.is_some() { u32::MAX } else { 0 };
        let timeouts = timeouts.map_or(unknown, |count| count as u32);
        self.put(time, &[number, flags, state.srtt_us, *min_rtt_us, state.cwnd, state.ssthresh]);
        self.samples.extend_from_slice(&payload.to_le_bytes());
        self.put_words(&[state.in_flight, state.retransmissions as u32, *sent as u32, timeouts, 0, 0]);
    }

    fn put(&mut self, time: Instant, words: &[u32]) {
        self.samples.extend_from_slice(&time.0.to_le_bytes());
        self.put_words(words);
    }

    fn put_words(&mut self, words: &[u32]) {
        words.iter().for_each(|word| self.samples.extend_from_slice(&word.to_le_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dumbbell_measure::from_capture::{APP_BYTES, SAMPLE_BYTES};

    #[test]
    fn a_connection_that_opens_is_a_record_of_its_user() {
        let mut report = Report::default();
        report.open(2, 300, 7);
        assert_eq!(report.records.len(), APP_BYTES);
        assert_eq!([0, 4, 8, 9, 16].map(|at| report.records[at]), [5, 2, 44, 1, 7]);
    }

    #[test]
    fn records_have_their_lengths_and_numbers_their_places() {
        let mut report = Report::default();
        report.arrive(3, Instant(5), Duration(7), (134, Ecn::Ce));
        assert_eq!(report.records.len(), APP_BYTES);
        assert_eq!(report.records[..8], [3, 0, 0, 0, 3, 0, 0, 0]);
        assert_eq!([report.records[8], report.records[16], report.records[24], report.records[32]], [5, 7, 134, 3]);
        let sample = TcpSample { payload: 9, sent: 4, timeouts: Some(2), ..TcpSample::default() };
        report.sample(1, 2, Instant(6), Some(&sample));
        assert_eq!(report.samples.len(), SAMPLE_BYTES);
        assert_eq!([0, 8, 12, 32, 48, 52].map(|at| report.samples[at]), [6, 1, 2, 9, 4, 2]);
    }
}
