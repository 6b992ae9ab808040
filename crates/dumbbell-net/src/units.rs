//! Quantities with units, as experiment files spell them (`python/dumbbell/experiment/units.py`). A test holds the two against each other.

use serde_json::Value;

/// Quantity of a number with a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// A time, in nanoseconds.
    Time,
    /// A rate, in bits per second.
    Rate,
    /// A size, in bytes.
    Size,
}

type Units = &'static [(&'static str, u64)];

const TIME: Units =
    &[("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000), ("min", 60_000_000_000), ("h", 3_600_000_000_000)];
const RATE: Units = &[("bit", 1), ("kbit", 1_000), ("Mbit", 1_000_000), ("Gbit", 1_000_000_000), ("Tbit", 1_000_000_000_000)];
const SIZE: Units = &[
    ("B", 1),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];

/// Most digits before the point, and behind it.
const MOST_DIGITS: usize = 30;

impl Quantity {
    fn units(self) -> Units {
        match self {
            Quantity::Time => TIME,
            Quantity::Rate => RATE,
            Quantity::Size => SIZE,
        }
    }

    fn example(self) -> &'static str {
        match self {
            Quantity::Time => r#"a time such as "20ms", "1.5s" or "100us""#,
            Quantity::Rate => r#"a rate such as "10Mbit", "500kbit" or "1Gbit""#,
            Quantity::Size => r#"a size such as "4MB", "64KiB" or "1514B""#,
        }
    }

    /// How many of the smallest unit are in one `word`. The case of rates does not matter.
    fn factor(self, word: &str) -> Option<u64> {
        let named = |wanted: &str| self.units().iter().find(|(unit, _)| *unit == wanted).map(|(_, size)| *size);
        named(word).or_else(|| match (self, word) {
            (Quantity::Time, "µs") => named("us"),
            (Quantity::Size, "KB") => named("kB"),
            (Quantity::Rate, _) => RATE.iter().find(|(unit, _)| unit.eq_ignore_ascii_case(word)).map(|(_, size)| *size),
            _ => None,
        })
    }

    /// `value` in ns, bit/s or bytes. The bare number 0 needs no unit.
    ///
    /// # Errors
    /// The allowed values in words, for another number without a unit, an unknown unit, or a fraction of the smallest unit.
    pub fn parse(self, value: &Value) -> Result<u64, String> {
        if value.as_u64() == Some(0) {
            return Ok(0);
        }
        let wrong = || self.example().to_owned();
        let (whole, part, word) =
            value.as_str().and_then(|text| split_quantity(text, self == Quantity::Rate)).ok_or_else(wrong)?;
        let factor = u128::from(self.factor(word).ok_or_else(wrong)?);
        let whole: u128 = whole.parse().map_err(|_| wrong())?;
        let part = part.trim_end_matches('0');
        let fraction = if part.is_empty() {
            0
        } else {
            // part / 10^digits of the factor, without a remainder
            let divisor = 10_u128.pow(part.len() as u32);
            let common = greatest_common_divisor(factor, divisor);
            let part: u128 = part.parse().map_err(|_| wrong())?;
            if part % (divisor / common) != 0 {
                return Err(format!("a multiple of 1{}", self.units()[0].0));
            }
            part / (divisor / common) * (factor / common)
        };
        let exact = whole.checked_mul(factor).and_then(|whole| whole.checked_add(fraction));
        exact.and_then(|exact| u64::try_from(exact).ok()).ok_or_else(|| format!("{}, below 2^64{}", wrong(), self.units()[0].0))
    }
}

fn greatest_common_divisor(mut one: u128, mut other: u128) -> u128 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

/// Digits at the beginning of `text`, if they are not too many, and the rest.
fn digits(text: &str) -> Option<(&str, &str)> {
    let (found, rest) = text.split_at(text.bytes().take_while(u8::is_ascii_digit).count());
    (1..=MOST_DIGITS).contains(&found.len()).then_some((found, rest))
}

/// Digits before the point, behind it, and the unit, of which `/s` is taken off if the quantity may have it.
fn split_quantity(text: &str, per_second: bool) -> Option<(&str, &str, &str)> {
    let (whole, rest) = digits(text.trim_ascii())?;
    let (part, rest) = rest.strip_prefix('.').map_or(Some(("0", rest)), digits)?;
    let word = rest.trim_ascii_start();
    Some((whole, part, word.strip_suffix("/s").filter(|_| per_second).unwrap_or(word)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// The cases that the reader of experiment files is held against, too (`tests/test_units.py`).
    #[test]
    fn quantities_are_those_of_experiment_files() {
        let cases: Value = serde_json::from_str(include_str!("../tests/quantities.json")).expect("JSON");
        for (name, kind) in [("time", Quantity::Time), ("rate", Quantity::Rate), ("size", Quantity::Size)] {
            let of_kind = cases[name].as_array().expect("a list");
            assert!(of_kind.len() > 10, "{name}");
            for case in of_kind {
                let found = kind.parse(&case[0]).ok();
                assert_eq!(found, case[1].as_u64(), "{name} {}", case[0]);
            }
        }
    }

    #[test]
    fn what_is_wrong_says_what_is_allowed() {
        assert_eq!(Quantity::Time.parse(&json!("0.1ns")), Err("a multiple of 1ns".into()));
        assert!(Quantity::Rate.parse(&json!(10)).is_err_and(|allowed| allowed.starts_with("a rate such as")));
        assert!(Quantity::Size.parse(&json!("20000000TB")).is_err_and(|allowed| allowed.ends_with("below 2^64B")));
    }
}
