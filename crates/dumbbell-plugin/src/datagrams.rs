//! The bytes of datagrams that are under way: the net moves their numbers only.

use dumbbell_core::units::{Duration, Instant};

/// No datagram is under way for longer: what is older was dropped, and its place may be given to another.
const LONGEST_WAY: Duration = Duration::from_secs(120);
/// So few places are not worth a look.
const FEW: usize = 1024;

/// A place.
#[derive(Clone, Default)]
struct DatagramPlace {
    bytes: Vec<u8>,
    sent: Instant,
    /// How often it was given away: the upper half of the number of what is in it.
    uses: u32,
    taken: bool,
}

/// Datagrams by number.
#[derive(Clone, Default)]
pub struct Datagrams {
    places: Vec<DatagramPlace>,
    free: Vec<u32>,
    /// Memory of those that have arrived.
    spare: Vec<Vec<u8>>,
    /// With so many places, those of datagrams that were lost are looked for.
    look_at: usize,
}

impl Datagrams {
    /// Keeps a copy of `payload`, sent at `now`: its number.
    pub fn put(&mut self, payload: &[u8], now: Instant) -> u64 {
        if self.free.is_empty() && self.places.len() >= self.look_at.max(FEW) {
            self.free_lost(now);
        }
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(DatagramPlace::default());
            self.places.len() as u32 - 1
        });
        let place = &mut self.places[index as usize];
        place.bytes = self.spare.pop().unwrap_or_default();
        place.bytes.clear();
        place.bytes.extend_from_slice(payload);
        (place.sent, place.uses, place.taken) = (now, place.uses.wrapping_add(1), true);
        u64::from(place.uses) << 32 | u64::from(index)
    }

    /// Returns the datagram that is kept as `number`.
    pub fn get(&self, number: u64) -> Option<&[u8]> {
        let place = self.places.get(number as u32 as usize)?;
        (place.taken && u64::from(place.uses) == number >> 32).then_some(&place.bytes)
    }

    /// Gives what was kept as `number`, once; nothing of a datagram that was under way for too long.
    pub fn take(&mut self, number: u64) -> Option<Vec<u8>> {
        let index = number as u32;
        let place = self.places.get_mut(index as usize).filter(|place| place.taken && u64::from(place.uses) == number >> 32)?;
        place.taken = false;
        self.free.push(index);
        Some(std::mem::take(&mut place.bytes))
    }

    /// The memory of what was taken is used again.
    pub fn reuse(&mut self, bytes: Vec<u8>) {
        self.spare.push(bytes);
    }

    #[cold]
    fn free_lost(&mut self, now: Instant) {
        for (index, place) in (0..).zip(&mut self.places) {
            if place.taken && place.sent.saturating_add(LONGEST_WAY) < now {
                place.taken = false;
                self.spare.push(std::mem::take(&mut place.bytes));
                self.free.push(index);
            }
        }
        self.look_at = 2 * (self.places.len() - self.free.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_is_taken_once_and_its_place_used_again() {
        let mut all = Datagrams::default();
        let (first, second) = (all.put(b"one", Instant(1)), all.put(b"two", Instant(2)));
        assert_eq!((all.take(first).as_deref(), all.take(first)), (Some(&b"one"[..]), None));
        let third = all.put(b"three", Instant(3));
        // the same place, another number
        assert_eq!((third as u32, third == first), (first as u32, false));
        assert_eq!((all.take(first), all.take(third).as_deref()), (None, Some(&b"three"[..])));
        assert_eq!(all.take(second).as_deref(), Some(&b"two"[..]));
    }

    #[test]
    fn places_of_what_was_lost_are_used_again_two_minutes_later() {
        let mut all = Datagrams::default();
        // one of four is lost
        for number in 0..400_000_u64 {
            let kept = all.put(&number.to_be_bytes(), Instant::from_millis(number * 2));
            if number % 4 > 0 {
                assert_eq!(all.take(kept).as_deref(), Some(&number.to_be_bytes()[..]));
            }
        }
        // 125 a second are lost: 15,000 in two minutes, and at most twice that before the next look
        assert!((15_000..=31_000).contains(&all.places.len()), "{}", all.places.len());
    }
}
