//! Records of JSON text sequences (RFC 7464), written by hand: there are some for every packet.

use crate::QlogWriter;
use dumbbell_core::packet::Ecn;
use dumbbell_core::units::{Duration, Instant};
use std::fmt::Write as _;
use std::io::{self, BufWriter, Write};

const SEPARATOR: char = '\u{1e}';
const BUFFER: usize = 1 << 16; // bytes

/// The codepoint as qlog spells it.
pub fn ecn(ecn: Ecn) -> &'static str {
    match ecn {
        Ecn::NotEct => "Not-ECT",
        Ecn::Ect1 => "ECT(1)",
        Ecn::Ect0 => "ECT(0)",
        Ecn::Ce => "CE",
    }
}

/// One record on its way: each value follows its key.
pub struct QlogRecord {
    text: String,
}

impl QlogRecord {
    /// A key; names of keys need no escapes.
    pub fn key(&mut self, name: &str) -> &mut QlogRecord {
        if !self.text.ends_with(['{', '[']) {
            self.text.push(',');
        }
        self.push(format_args!("\"{name}\":"))
    }

    fn push(&mut self, what: std::fmt::Arguments<'_>) -> &mut QlogRecord {
        // a String takes everything
        let _ = self.text.write_fmt(what);
        self
    }

    /// A whole number.
    pub fn integer(&mut self, value: u64) -> &mut QlogRecord {
        self.push(format_args!("{value}"))
    }

    /// A number; what is no number is null.
    pub fn real(&mut self, value: f64) -> &mut QlogRecord {
        if value.is_finite() {
            self.push(format_args!("{value}"))
        } else {
            self.null()
        }
    }

    /// No value.
    pub fn null(&mut self) -> &mut QlogRecord {
        self.push(format_args!("null"))
    }

    /// `true`.
    pub fn yes(&mut self) -> &mut QlogRecord {
        self.push(format_args!("true"))
    }

    /// A time or a duration, ms, to the nanosecond.
    pub fn ms(&mut self, time: Duration) -> &mut QlogRecord {
        self.push(format_args!("{}.{:06}", time.0 / 1_000_000, time.0 % 1_000_000))
    }

    /// A word of ours, which needs no escapes.
    pub fn text(&mut self, word: &str) -> &mut QlogRecord {
        self.push(format_args!("\"{word}\""))
    }

    /// JSON.
    pub fn json(&mut self, text: &str) -> &mut QlogRecord {
        self.text.push_str(text);
        self
    }

    /// The object that `fill` fills.
    pub fn object(&mut self, fill: impl FnOnce(&mut QlogRecord)) -> &mut QlogRecord {
        self.text.push('{');
        fill(self);
        self.text.push('}');
        self
    }

    /// Ranges, inclusive, of sorted numbers: a range of one is `[5]`.
    pub fn ranges(&mut self, numbers: &[u64]) -> &mut QlogRecord {
        self.text.push('[');
        for range in numbers.chunk_by(|one, next| one + 1 == *next) {
            let comma = if self.text.ends_with('[') { "" } else { "," };
            match range {
                [one] => self.push(format_args!("{comma}[{one}]")),
                [first, .., last] => self.push(format_args!("{comma}[{first},{last}]")),
                [] => self,
            };
        }
        self.text.push(']');
        self
    }
}

/// A file of records.
pub struct Records {
    out: BufWriter<QlogWriter>,
    record: QlogRecord,
    count: u64,
    error: Option<io::Error>,
}

impl Records {
    /// With none yet.
    pub fn new(sink: QlogWriter) -> Records {
        Records { out: BufWriter::with_capacity(BUFFER, sink), record: QlogRecord { text: String::new() }, count: 0, error: None }
    }

    /// Writes an event, whose data `fill` fills. Nothing is written after an error.
    pub fn event(&mut self, time: Instant, name: &str, fill: impl FnOnce(&mut QlogRecord)) {
        if self.error.is_some() {
            return;
        }
        let record = &mut self.record;
        record.text.clear();
        record.text.push(SEPARATOR);
        record.object(|event| {
            event.key("time").ms(time - Instant::ZERO).key("name").text(name).key("data").object(fill);
        });
        record.text.push('\n');
        self.error = self.out.write_all(record.text.as_bytes()).err();
        self.count += 1;
    }

    /// Writes what is left. Returns how many records there are.
    ///
    /// # Errors
    /// The first that there was.
    pub fn finish(&mut self) -> io::Result<u64> {
        match self.error.take() {
            Some(error) => Err(error),
            None => self.out.flush().map(|()| self.count),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_inclusive_and_as_few_as_possible() {
        let of = |numbers: &[u64]| {
            let mut record = QlogRecord { text: String::new() };
            record.ranges(numbers);
            record.text
        };
        assert_eq!(of(&[3, 4, 5, 7, 9, 10]), "[[3,5],[7],[9,10]]");
        assert_eq!(of(&[]), "[]");
    }

    #[test]
    fn times_are_exact() {
        let mut record = QlogRecord { text: String::new() };
        record.ms(Duration(1_002_003_004)).json(" ").real(f64::NAN).json(" ").real(0.1);
        assert_eq!(record.text, "1002.003004 null 0.1");
    }
}
