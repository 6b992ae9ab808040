//! A link whose capacity comes from a trace: when it may send, and how much.
//!
//! A trace is a text in mahimahi's format: one whole number of milliseconds per line, never less than the one before. Each line is an
//! opportunity to send one full frame at that time. The trace begins again at the time of its last line, for ever. An opportunity carries
//! bytes, not packets: several small packets may share it, and a packet may take parts of several. Unused bytes are lost.
//!
//! A second column, behind blanks, is ours: how long packets take that leave from then on, one-way delay in milliseconds, in addition to the
//! propagation of the flows. All lines have it or none.
//!
//! Source of the format: mm-link(1) of mahimahi (Netravali et al., "Mahimahi: Accurate Record-and-Replay for HTTP", USENIX ATC 2015);
//! Winstein, Sivaraman, Balakrishnan, "Stochastic Forecasts Achieve High Throughput and Low Delay over Cellular Networks", NSDI 2013.
//! `docs/traces.md` says where this differs.
//!
//! [`LinkTrace`] is the trace, read and checked. [`Opportunities`] walks along it: it has no clock and can be driven by a virtual one or a
//! real one.

use crate::packet::MTU_FRAME;
use crate::param::{ParamKind, ParamType};
use crate::units::{Duration, Instant, Rate};
use serde_json::{json, Value};
use std::sync::Arc;

/// Bytes that one opportunity carries: a frame whose IP packet has 1500 bytes, counted as all frames are here. mahimahi says 1500 bytes and counts
/// 1504, the same packet with the four bytes that a TUN device puts ahead of it.
pub const OPPORTUNITY: u64 = MTU_FRAME as u64;
/// Latest time in a trace: a day, as long as a run may last.
pub const MAX_MS: u32 = 86_400_000;
/// Most lines of a trace.
pub const MAX_LINES: u32 = 2_000_000;
/// Longest delay in a trace, us: a minute, as of every hop.
pub const MAX_DELAY_US: u32 = 60_000_000;
/// Least and highest mean rate, as for every bottleneck.
const RATES: [Rate; 2] = [Rate(1_000), Rate(10_000_000_000_000)];

/// A trace that cannot be used: what was found and where, and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("found {found}, allowed: {allowed}")]
pub struct BadTrace {
    /// The invalid text, with the number of its line.
    pub found: String,
    /// The valid form.
    pub allowed: String,
}

fn bad<T>(found: impl Into<String>, allowed: impl Into<String>) -> Result<T, BadTrace> {
    Err(BadTrace { found: found.into(), allowed: allowed.into() })
}

/// All opportunities of one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OpportunityGroup {
    /// Since the start of the trace.
    at_ms: u32,
    /// Opportunities up to this instant, its own included.
    through: u32,
}

impl OpportunityGroup {
    fn time(self) -> Duration {
        Duration::from_millis(u64::from(self.at_ms))
    }
}

/// When a link may send: a trace that has been read and checked. Copies share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkTrace {
    /// Name: that of the file without folder and ending.
    pub name: Arc<str>,
    /// By time, all different. Not empty, and the last is after 0.
    moments: Arc<[OpportunityGroup]>,
    /// One-way delay from each moment on, us; empty if the trace has none.
    delays: Arc<[u32]>,
}

impl LinkTrace {
    /// Reads a trace called `name`. Lines may end as on Windows, numbers may have blanks around them, and empty lines may follow the last.
    ///
    /// # Errors
    /// A line that is not a whole number of milliseconds up to [`MAX_MS`], or less than the one before; no lines, or more than
    /// [`MAX_LINES`]; none after 0; a mean rate that no bottleneck may have; delays in some lines only, or two at one time.
    pub fn parse(name: &str, text: &[u8]) -> Result<LinkTrace, BadTrace> {
        let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text);
        let mut moments: Vec<OpportunityGroup> = Vec::new();
        let mut delays: Vec<u32> = Vec::new();
        let mut lines = 0;
        let mut empty = None;
        for (number, line) in (1_u64..).zip(text.split(|&byte| byte == b'\n')) {
            let line = line.trim_ascii();
            if line.is_empty() {
                empty = empty.or(Some(number));
                continue;
            }
            if let Some(first) = empty {
                return bad(format!("an empty line, line {first}"), "a number on each line");
            }
            let (time, rest) = line.split_at(line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len()));
            let at_ms = milliseconds(time, line, number)?;
            let delay = delay(rest.trim_ascii(), line, number)?;
            if lines > 0 && delay.is_some() == delays.is_empty() {
                return bad(
                    format!("{:?} in line {number}", abbreviate_line(line)),
                    "a delay behind the time in all lines, or in none",
                );
            }
            lines += 1;
            if lines > MAX_LINES {
                return bad(format!("more than {MAX_LINES} lines"), format!("at most {MAX_LINES} lines"));
            }
            match moments.last_mut() {
                Some(last) if last.at_ms == at_ms && delays.last().copied() == delay => last.through = lines,
                Some(last) if last.at_ms == at_ms => {
                    return bad(
                        format!("{:?} in line {number}", abbreviate_line(line)),
                        "one delay for all lines of the same time",
                    );
                }
                Some(last) if last.at_ms > at_ms => {
                    return bad(format!("{at_ms} in line {number}, after {}", last.at_ms), "times that do not decrease");
                }
                _ => {
                    moments.push(OpportunityGroup { at_ms, through: lines });
                    delays.extend(delay);
                }
            }
        }
        LinkTrace::check_moments(name, moments, delays)
    }

    /// A trace with an opportunity each millisecond.
    pub fn every_millisecond() -> LinkTrace {
        LinkTrace {
            name: "every-millisecond".into(),
            moments: [OpportunityGroup { at_ms: 1, through: 1 }].into(),
            delays: Arc::default(),
        }
    }

    fn check_moments(name: &str, moments: Vec<OpportunityGroup>, delays: Vec<u32>) -> Result<LinkTrace, BadTrace> {
        let Some(last) = moments.last() else { return bad("no line with a time", "one line or more, the last after 0") };
        if last.at_ms == 0 {
            return bad("nothing but the time 0", "a last line after 0: there the trace starts again");
        }
        let trace = LinkTrace { name: name.into(), moments: moments.into(), delays: delays.into() };
        let rate = trace.mean_rate();
        if rate < RATES[0] || rate > RATES[1] {
            return bad(format!("a mean rate of {rate}"), format!("{} to {}", RATES[0], RATES[1]));
        }
        Ok(trace)
    }

    fn last(&self) -> OpportunityGroup {
        self.moments[self.moments.len() - 1]
    }

    /// Time after which the trace begins again.
    pub fn period(&self) -> Duration {
        self.last().time()
    }

    /// How many opportunities it has.
    pub fn lines(&self) -> u32 {
        self.last().through
    }

    /// Mean rate over a period, whole bit/s, counting frames of [`OPPORTUNITY`] bytes.
    pub fn mean_rate(&self) -> Rate {
        Rate(u64::from(self.lines()) * OPPORTUNITY * 8 * 1_000 / u64::from(self.last().at_ms))
    }

    /// Bytes of all opportunities from time 0 until `until`, that instant included.
    pub fn bytes_until(&self, until: Instant) -> u64 {
        let (laps, rest) = (until.0 / self.period().0, Duration(until.0 % self.period().0));
        let index = self.moments.partition_point(|moment| moment.time() <= rest);
        let begun = index.checked_sub(1).map_or(0, |last| self.moments[last].through);
        (laps * u64::from(self.lines()) + u64::from(begun)) * OPPORTUNITY
    }

    /// Whether packets take longer at some times than at others.
    pub fn has_delays(&self) -> bool {
        !self.delays.is_empty()
    }

    /// How long a packet takes, one way, that leaves the link at `at`, in addition to what it takes anyway: as the last line that is not
    /// after `at` says, or the first line ahead of all.
    pub fn delay_at(&self, at: Instant) -> Duration {
        if self.delays.is_empty() {
            return Duration::ZERO;
        }
        let (laps, rest) = (at.0 / self.period().0, Duration(at.0 % self.period().0));
        let begun = self.moments.partition_point(|moment| moment.time() <= rest);
        let before = if laps == 0 { 0 } else { self.delays.len() - 1 };
        Duration::from_micros(u64::from(self.delays[begun.checked_sub(1).unwrap_or(before)]))
    }

    /// Bytes of moment `index`.
    #[inline]
    fn bytes_of(&self, index: usize) -> u64 {
        let before = if index == 0 { 0 } else { self.moments[index - 1].through };
        u64::from(self.moments[index].through - before) * OPPORTUNITY
    }

    /// The trace as one word, about two characters for each different time: for each of them the milliseconds since the one before (of the
    /// first: since 0) and how many opportunities it has. A number is written in base 32, lowest digit first; a digit is a character of
    /// [`DIGITS`], 32 places further on if another digit follows. A trace with delays begins with [`WITH_DELAYS`], and each time has a third
    /// number, its delay in us.
    pub fn schedule(&self) -> String {
        let mut text = String::with_capacity(2 * self.moments.len());
        if self.has_delays() {
            text.push(WITH_DELAYS);
        }
        let mut before = OpportunityGroup { at_ms: 0, through: 0 };
        for (index, &moment) in self.moments.iter().enumerate() {
            write_number(&mut text, moment.at_ms - before.at_ms);
            write_number(&mut text, moment.through - before.through);
            if let Some(&delay) = self.delays.get(index) {
                write_number(&mut text, delay);
            }
            before = moment;
        }
        text
    }

    /// The trace called `name` that [`LinkTrace::schedule`] has written.
    ///
    /// # Errors
    /// A text that it does not write.
    pub fn from_schedule(name: &str, schedule: &str) -> Result<LinkTrace, BadTrace> {
        let allowed = "what LinkTrace::schedule writes";
        let with_delays = schedule.strip_prefix(WITH_DELAYS);
        let mut numbers = Numbers(with_delays.unwrap_or(schedule).bytes());
        let (mut moments, mut delays): (Vec<OpportunityGroup>, Vec<u32>) = (Vec::new(), Vec::new());
        let (mut at_ms, mut through) = (0_u32, 0_u32);
        while let Some(first) = numbers.next() {
            // half a pair is as wrong as a count of 0
            let (gap, count) = first.zip(numbers.next().flatten()).unwrap_or((0, 0));
            (at_ms, through) = (at_ms.saturating_add(gap), through.saturating_add(count));
            let same = gap == 0 && !moments.is_empty();
            let delay = if with_delays.is_some() { numbers.next().flatten() } else { Some(0) };
            let delay = delay.filter(|&delay| delay <= MAX_DELAY_US);
            let (Some(delay), false) = (delay, count == 0 || same || at_ms > MAX_MS || through > MAX_LINES) else {
                return bad(format!("something else at time {}", moments.len() + 1), allowed);
            };
            moments.push(OpportunityGroup { at_ms, through });
            delays.extend(with_delays.map(|_| delay));
        }
        LinkTrace::check_moments(name, moments, delays)
    }
}

/// Digits of a schedule: those of base 64 (RFC 4648 section 4).
pub const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// First character of the schedule of a trace with delays.
pub const WITH_DELAYS: char = '.';

fn write_number(text: &mut String, mut number: u32) {
    loop {
        let digit = (number & 31) as usize;
        number >>= 5;
        text.push(DIGITS[digit + if number > 0 { 32 } else { 0 }] as char);
        if number == 0 {
            return;
        }
    }
}

/// The numbers of a schedule; `None` in place of one that [`write_number`] does not write.
struct Numbers<'a>(std::str::Bytes<'a>);

impl Iterator for Numbers<'_> {
    type Item = Option<u32>;

    fn next(&mut self) -> Option<Option<u32>> {
        let mut byte = self.0.next()?;
        let mut number = 0_u64;
        for place in 0.. {
            let Some(digit) = value_of(byte) else { return Some(None) };
            number |= (digit & 31) << (5 * place);
            if digit < 32 {
                // a highest digit of 0 is not written, nor more than seven digits
                let shortest = digit > 0 || place == 0;
                return Some(u32::try_from(number).ok().filter(|_| shortest));
            }
            match self.0.next() {
                Some(next) if place < 6 => byte = next,
                _ => break,
            }
        }
        Some(None)
    }
}

fn value_of(digit: u8) -> Option<u64> {
    let value = match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(u64::from(value))
}

/// The beginning of a line, for messages.
fn abbreviate_line(line: &[u8]) -> String {
    String::from_utf8_lossy(&line[..line.len().min(40)]).into_owned()
}

/// The time in line `number`.
fn milliseconds(time: &[u8], line: &[u8], number: u64) -> Result<u32, BadTrace> {
    let digits = time.iter().all(u8::is_ascii_digit);
    // all digits, so that what does not parse is too large
    let value = std::str::from_utf8(time).ok().filter(|_| digits).map(|text| text.parse::<u32>().unwrap_or(u32::MAX));
    match value {
        Some(at_ms) if at_ms <= MAX_MS => Ok(at_ms),
        _ => bad(
            format!("{:?} in line {number}", abbreviate_line(line)),
            format!("one whole number of milliseconds per line, 0 to {MAX_MS} (a day), and perhaps a delay in ms behind it"),
        ),
    }
}

/// The delay behind the time in line `number`, us: ms with up to three digits behind the point.
fn delay(text: &[u8], line: &[u8], number: u64) -> Result<Option<u32>, BadTrace> {
    if text.is_empty() {
        return Ok(None);
    }
    let value = std::str::from_utf8(text).ok().and_then(|text| {
        let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |one: &str| !one.is_empty() && one.bytes().all(|byte| byte.is_ascii_digit());
        let us = format!("{part:0<3}").parse::<u32>().ok().filter(|_| digits(whole) && digits(part) && part.len() <= 3)?;
        whole.parse::<u32>().ok()?.checked_mul(1_000)?.checked_add(us)
    });
    match value {
        Some(us) if us <= MAX_DELAY_US => Ok(Some(us)),
        _ => bad(
            format!("{:?} in line {number}", abbreviate_line(line)),
            format!(
                "behind the time nothing, or a delay from 0 to {} ms with up to three digits behind the point",
                MAX_DELAY_US / 1_000
            ),
        ),
    }
}

impl ParamType for LinkTrace {
    const KIND: ParamKind = ParamKind::LinkTrace;

    fn from_json(value: &Value) -> Result<Self, String> {
        let text = |key: &str| value.get(key).and_then(Value::as_str);
        match (text("file"), text("schedule"), value.as_object().map(serde_json::Map::len)) {
            (Some(name), Some(schedule), Some(2)) => LinkTrace::from_schedule(name, schedule).map_err(|error| error.to_string()),
            _ => Err("{\"file\": name, \"schedule\": text}".into()),
        }
    }

    fn to_json(&self) -> Value {
        json!({"file": &*self.name, "schedule": self.schedule()})
    }
}

/// The opportunities of a link, in order, each used once.
///
/// A link asks its queue for a packet when [`Opportunities::next`] has come, and [`Opportunities::take`]s its bytes. After a time without
/// packets it [`Opportunities::skip_to`]s the present first: what came before is lost.
///
/// ```
/// use dumbbell_core::{link_trace::{LinkTrace, Opportunities}, units::Instant};
/// let trace = LinkTrace::parse("example", b"2\n5\n").unwrap();
/// let mut link = Opportunities::new(trace, Instant::ZERO);
/// assert_eq!(link.next(), Instant::from_millis(2));
/// // 2000 bytes: 1514 of the first opportunity, the rest of the second, which has 1028 left
/// assert_eq!(link.take(2000), Instant::from_millis(5));
/// assert_eq!(link.take(1028), Instant::from_millis(5));
/// // the trace began again at 5 ms
/// assert_eq!(link.next(), Instant::from_millis(7));
/// ```
#[derive(Clone, Debug)]
pub struct Opportunities {
    trace: LinkTrace,
    /// When the trace last began.
    lap: Instant,
    /// The moment whose bytes are used, and how many of them are left; at least one.
    index: usize,
    left: u64,
}

impl Opportunities {
    /// All of `trace`, which begins at `start`.
    pub fn new(trace: LinkTrace, start: Instant) -> Opportunities {
        let left = trace.bytes_of(0);
        Opportunities { trace, lap: start, index: 0, left }
    }

    /// When the next byte may leave.
    #[inline]
    pub fn next(&self) -> Instant {
        self.lap.saturating_add(self.trace.moments[self.index].time())
    }

    #[inline]
    fn step(&mut self) {
        self.index += 1;
        if self.index == self.trace.moments.len() {
            self.index = 0;
            self.lap = self.lap.saturating_add(self.trace.period());
        }
        self.left = self.trace.bytes_of(self.index);
    }

    /// Bytes of all opportunities that are used up or lost; of a trace that began at time 0.
    pub fn used_bytes(&self) -> u64 {
        let laps = self.lap.0 / self.trace.period().0 * u64::from(self.trace.lines());
        (laps + u64::from(self.trace.moments[self.index].through)) * OPPORTUNITY - self.left
    }

    /// Uses `bytes`, at least one; returns when the last of them leaves.
    pub fn take(&mut self, mut bytes: u64) -> Instant {
        while bytes > self.left {
            bytes -= self.left;
            self.step();
        }
        self.left -= bytes;
        let at = self.next();
        if self.left == 0 {
            self.step();
        }
        at
    }

    /// Nothing was there to send until `now`: opportunities before that are lost, those of this instant are not.
    #[inline]
    pub fn skip_to(&mut self, now: Instant) {
        if self.next() < now {
            self.skip_far(now);
        }
    }

    fn skip_far(&mut self, now: Instant) {
        let period = self.trace.period();
        // the lap in which it comes to `now`, the instant of its end included: it is not the first instant of the trace, which is not before `now`
        let since = now - self.lap;
        let laps = (since.0 - 1) / period.0;
        self.lap += Duration(laps * period.0);
        let within = Duration(since.0 - laps * period.0);
        self.index = self.trace.moments.partition_point(|moment| moment.time() < within);
        self.left = self.trace.bytes_of(self.index);
    }
}

#[cfg(test)]
mod tests;
