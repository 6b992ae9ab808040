//! Fates of packets, and records that wait for them.

use crate::connection::SendState;
use dumbbell_core::log::{DropReason, DropSite, Mark, MarkReason};
use dumbbell_core::units::Instant;
use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt::Write as _;

/// A mark that changed the codepoint.
#[derive(Clone, Copy, Debug)]
pub struct Marked {
    /// Number of the hop.
    pub hop: u16,
    /// Which mark.
    pub mark: Mark,
    /// Why, if that is known.
    pub reason: Option<MarkReason>,
}

/// A drop.
#[derive(Clone, Copy, Debug)]
pub struct DropRecord {
    /// Number of the hop.
    pub hop: u16,
    /// Why, if that is known.
    pub reason: Option<DropReason>,
    /// Where, if that is known.
    pub place: Option<DropSite>,
    /// When.
    pub at: Instant,
}

/// Fate of a transmission, and its payload.
#[derive(Default)]
pub struct Fate {
    /// First marks: CE and SCE.
    pub marks: [Option<Marked>; 2],
    pub dropped: Option<DropRecord>,
    /// Number of the hop on whose path its ECN field was cleared.
    pub erased: Option<u16>,
    /// Payload, if that is not zeros.
    pub payload: Option<Box<[u8]>>,
}

/// In brackets what is known of it.
fn bracket_known(words: &[Option<&str>]) -> String {
    let words: Vec<&str> = words.iter().copied().flatten().collect();
    if words.is_empty() {
        return String::new();
    }
    format!(" ({})", words.join(", "))
}

impl Fate {
    /// Notes a mark; of more than two the first two.
    pub fn mark(&mut self, marked: Marked) {
        if let Some(free) = self.marks.iter_mut().find(|mark| mark.is_none()) {
            *free = Some(marked);
        }
    }

    /// The comment of its records: empty if nothing happened to it.
    pub fn comment(&self, hops: &[String], text: &mut String) {
        text.clear();
        for Marked { hop, mark, reason } in self.marks.iter().flatten() {
            let (mark, hop, why) = (mark.phrase(), &hops[usize::from(*hop)], bracket_known(&[reason.map(MarkReason::name)]));
            // a String takes everything
            let _ = write!(text, "{}marked {mark} at {hop}{why}", if text.is_empty() { "" } else { "; " });
        }
        if let Some(hop) = self.erased {
            let start = if text.is_empty() { "" } else { "; " };
            let _ = write!(text, "{start}ECN field cleared on the path of {}", hops[usize::from(hop)]);
        }
        if let Some(DropRecord { hop, reason, place, at }) = &self.dropped {
            let (hop, why) =
                (&hops[usize::from(*hop)], bracket_known(&[reason.map(DropReason::name), place.map(DropSite::phrase)]));
            let seconds = (at.0 / 1_000_000_000, at.0 % 1_000_000_000);
            let start = if text.is_empty() { "" } else { "; " };
            let _ = write!(text, "{start}dropped at {hop}{why} at {}.{:09} s", seconds.0, seconds.1);
        }
    }
}

/// A transmission; to most nothing happens.
struct Transmission {
    start: SendState,
    /// Whether the packet has arrived or was dropped.
    is_settled: bool,
    /// Records that show it.
    records: u16,
    fate: Option<Box<Fate>>,
}

/// Transmissions and their fates by number; numbers are used again.
#[derive(Default)]
pub struct Fates {
    all: Vec<Transmission>,
    free: Vec<u32>,
}

impl Fates {
    /// The number of a new one.
    pub fn add(&mut self, start: SendState) -> u32 {
        let new = Transmission { start, is_settled: false, records: 0, fate: None };
        if let Some(number) = self.free.pop() {
            self.all[number as usize] = new;
            return number;
        }
        self.all.push(new);
        self.all.len() as u32 - 1
    }

    pub fn start(&self, number: u32) -> SendState {
        self.all[number as usize].start
    }

    pub fn is_settled(&self, number: u32) -> bool {
        self.all[number as usize].is_settled
    }

    /// Returns the fate of transmission `number`, if anything has happened to it.
    pub fn get(&self, number: u32) -> Option<&Fate> {
        self.all[number as usize].fate.as_deref()
    }

    /// Returns the fate of transmission `number` for additions.
    pub fn get_mut(&mut self, number: u32) -> &mut Fate {
        self.all[number as usize].fate.get_or_insert_default()
    }

    /// One more record shows it.
    pub fn add_reference(&mut self, number: u32) {
        self.all[number as usize].records += 1;
    }

    /// Notes that the packet of transmission `number` has arrived or was dropped.
    pub fn settle(&mut self, number: u32) {
        let one = &mut self.all[number as usize];
        one.is_settled = true;
        if one.records == 0 {
            self.free.push(number);
        }
    }

    /// One of its records has been written.
    pub fn drop_reference(&mut self, number: u32) {
        let one = &mut self.all[number as usize];
        one.records -= 1;
        if one.records == 0 && one.is_settled {
            one.fate = None;
            self.free.push(number);
        }
    }
}

/// A transmission that has neither arrived nor been dropped.
#[derive(Clone, Copy)]
pub struct Open {
    /// [`Packet::transmission`](dumbbell_core::packet::Packet::transmission), or the value of an answer.
    key: (u64, u32),
    fate: u32,
}

/// The transmissions of a flow that have neither arrived nor been dropped, in the order in which they were sent.
#[derive(Default)]
pub struct OpenFates(VecDeque<Open>);

impl OpenFates {
    pub fn add(&mut self, key: (u64, u32), fate: u32) {
        self.0.push_back(Open { key, fate });
    }

    /// The fate of the transmission with this key: of two that look alike the older one.
    pub fn find(&self, key: (u64, u32)) -> Option<u32> {
        self.0.iter().find(|open| open.key == key).map(|open| open.fate)
    }

    /// Finds the number of a packet that was sent a short time ago.
    pub fn find_new(&self, key: (u64, u32)) -> Option<u32> {
        self.0.iter().rev().find(|open| open.key == key).map(|open| open.fate)
    }

    /// Finds the transmission with the number `seq`.
    pub fn with_number(&self, seq: u64) -> Option<u32> {
        self.0.iter().rev().find(|open| open.key.0 == seq).map(|open| open.fate)
    }

    /// Takes the transmission of a packet that has arrived or was dropped.
    pub fn take(&mut self, key: (u64, u32)) -> Option<u32> {
        let index = match self.0.front() {
            Some(first) if first.key == key => return self.0.pop_front().map(|open| open.fate),
            _ => self.0.iter().position(|open| open.key == key)?,
        };
        self.0.remove(index).map(|open| open.fate)
    }

    /// Takes the oldest.
    pub fn pop(&mut self) -> Option<u32> {
        self.0.pop_front().map(|open| open.fate)
    }

    /// How many they are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// All that are left, at the end of a flow.
    pub fn drain(&mut self) -> impl Iterator<Item = u32> + '_ {
        self.0.drain(..).map(|open| open.fate)
    }
}

/// A record with its time, and its place among those of the same time.
struct Timed<T> {
    time: Instant,
    serial: u64,
    record: T,
}

impl<T> Timed<T> {
    fn key(&self) -> (Instant, u64) {
        (self.time, self.serial)
    }
}

impl<T> PartialEq for Timed<T> {
    fn eq(&self, other: &Timed<T>) -> bool {
        self.key() == other.key()
    }
}

impl<T> Eq for Timed<T> {}

impl<T> PartialOrd for Timed<T> {
    fn partial_cmp(&self, other: &Timed<T>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Timed<T> {
    /// The earliest is the greatest: a heap gives that first.
    fn cmp(&self, other: &Timed<T>) -> Ordering {
        other.key().cmp(&self.key())
    }
}

/// Rows that are searched for each record.
const MOST_ROWS: usize = 8;

/// Records in the order of time. They come from hosts whose clocks differ by half of their base RTT: those of one clock come in order, and make a
/// row. What finds no row, of many clocks, is sorted.
pub struct TimeOrder<T> {
    /// Each in order; the last of one is later than the last of the next.
    rows: [VecDeque<Timed<T>>; MOST_ROWS],
    /// Number of rows that have been used.
    used: usize,
    others: BinaryHeap<Timed<T>>,
    serial: u64,
}

impl<T> TimeOrder<T> {
    /// None yet.
    pub fn new() -> TimeOrder<T> {
        TimeOrder { rows: Default::default(), used: 1, others: BinaryHeap::new(), serial: 0 }
    }

    pub fn push(&mut self, time: Instant, record: T) {
        self.serial += 1;
        let timed = Timed { time, serial: self.serial, record };
        let fits = |row: &VecDeque<Timed<T>>| row.back().is_none_or(|last| last.time <= time);
        match self.rows[..self.used].iter().position(fits) {
            Some(row) => self.rows[row].push_back(timed),
            None if self.used < MOST_ROWS => {
                self.rows[self.used].push_back(timed);
                self.used += 1;
            }
            None => self.others.push(timed),
        }
    }

    /// The row with the earliest record; `MOST_ROWS`: the others.
    fn row(&self) -> Option<usize> {
        let rows = self.rows[..self.used].iter().enumerate();
        let fronts = rows.filter_map(|(row, records)| records.front().map(|first| (first.key(), row)));
        let other = self.others.peek().map(|first| (first.key(), MOST_ROWS));
        fronts.chain(other).min().map(|(_, row)| row)
    }

    /// Takes the earliest, if it is to be taken.
    pub fn pop_if(&mut self, is_due: impl FnOnce(Instant, &T) -> bool) -> Option<(Instant, T)> {
        let row = self.row()?;
        let first = if row < MOST_ROWS { self.rows[row].front() } else { self.others.peek() };
        if !first.is_some_and(|timed| is_due(timed.time, &timed.record)) {
            return None;
        }
        let timed = if row < MOST_ROWS { self.rows[row].pop_front() } else { self.others.pop() };
        timed.map(|timed| (timed.time, timed.record))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_leave_in_the_order_of_time_and_then_of_arrival() {
        let mut waiting = TimeOrder::new();
        for (number, time) in [5, 7, 6, 7, 5, 9, 6].into_iter().enumerate() {
            waiting.push(Instant(time), number);
        }
        let mut found = Vec::new();
        assert_eq!(waiting.pop_if(|time, &number| (time, number) != (Instant(5), 0)), None);
        while let Some((time, number)) = waiting.pop_if(|_, _| true) {
            found.push((time.0, number));
        }
        assert_eq!(found, [(5, 0), (5, 4), (6, 2), (6, 6), (7, 1), (7, 3), (9, 5)]);
    }

    #[test]
    fn clocks_of_any_number_come_into_one_order() {
        for clocks in [1, 2, MOST_ROWS, 3 * MOST_ROWS] {
            let (mut waiting, mut found, mut pushed, mut has_others) = (TimeOrder::new(), Vec::new(), Vec::new(), false);
            for now in 1000..1500_u64 {
                // the clocks differ by 9 each; nothing comes before the last of them
                let time = now - now * 31 % clocks as u64 * 9;
                waiting.push(Instant(time), now);
                pushed.push((time, now));
                has_others |= !waiting.others.is_empty();
                let last = now - 9 * clocks as u64;
                found.extend(std::iter::from_fn(|| waiting.pop_if(|first, _| first.0 < last)));
            }
            assert_eq!(has_others, clocks > MOST_ROWS);
            found.extend(std::iter::from_fn(|| waiting.pop_if(|_, _| true)));
            pushed.sort_unstable();
            assert_eq!(found.iter().map(|(time, now)| (time.0, *now)).collect::<Vec<_>>(), pushed);
        }
    }

    #[test]
    fn transmissions_of_one_segment_are_distinguished_by_their_time_stamps() {
        let mut open = OpenFates::default();
        for (fate, (seq, tsval)) in [(1, 10), (2, 10), (1, 12), (1, 12)].into_iter().enumerate() {
            open.add((seq, tsval), fate as u32);
        }
        assert_eq!((open.find((1, 12)), open.find_new((1, 12))), (Some(2), Some(3)));
        // the second overtakes the first
        assert_eq!([2, 1].map(|seq| open.take((seq, 10))), [Some(1), Some(0)]);
        assert_eq!([open.take((1, 12)), open.take((1, 12)), open.take((1, 12))], [Some(2), Some(3), None]);
    }

    #[test]
    fn a_comment_says_what_happened_where() {
        let hops = ["bottleneck".to_owned(), "second".to_owned()];
        let mut text = String::new();
        let mut fate = Fate::default();
        fate.comment(&hops, &mut text);
        assert_eq!(text, "");
        fate.mark(Marked { hop: 0, mark: Mark::Sce, reason: Some(MarkReason::Ramp) });
        fate.mark(Marked { hop: 1, mark: Mark::Ce, reason: Some(MarkReason::Aqm) });
        fate.erased = Some(0);
        let (reason, place) = (Some(DropReason::Overflow), Some(DropSite::Arrival));
        fate.dropped = Some(DropRecord { hop: 1, reason, place, at: Instant(1_000_000_050) });
        fate.comment(&hops, &mut text);
        let expected = "marked SCE at bottleneck (ramp); marked CE at second (aqm); ECN field cleared on the path of bottleneck; dropped at second (overflow, on arrival) at 1.000000050 s";
        assert_eq!(text, expected);
        let unknown = Marked { hop: 0, mark: Mark::Ce, reason: None };
        let dropped = Some(DropRecord { hop: 1, reason: Some(DropReason::Aqm), place: None, at: Instant(5) });
        Fate { marks: [Some(unknown), None], dropped, ..Fate::default() }.comment(&hops, &mut text);
        assert_eq!(text, "marked CE at bottleneck; dropped at second (aqm) at 0.000000005 s");
    }

    #[test]
    fn a_fate_is_used_again_once_it_is_settled_and_written() {
        let mut fates = Fates::default();
        let start = |id| SendState { id, ..SendState::default() };
        let [one, other] = [fates.add(start(1)), fates.add(start(2))];
        fates.add_reference(one);
        fates.get_mut(one).erased = Some(1);
        assert_eq!((fates.get(one).and_then(|fate| fate.erased), fates.get(other).is_none()), (Some(1), true));
        fates.settle(other);
        fates.drop_reference(one);
        // the other has no records, and the first is under way still
        assert_eq!((fates.add(start(3)), fates.add(start(4))), (other, 2));
        fates.add_reference(one);
        fates.settle(one);
        fates.drop_reference(one);
        assert_eq!((fates.add(start(5)), fates.start(one).id, fates.get(one).is_none()), (one, 5, true));
    }
}
