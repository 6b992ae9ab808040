//! The filter of acknowledgements: one that arrives takes an older one, which says nothing that it does not say, out of its queue.
//!
//! Which are taken follows `cake_ack_filter`, sch_cake.c (Linux 6.18); tc-cake(8), `ack-filter`.

use crate::aqm::store::{Chain, Store};
use crate::log::AckLookup;
use crate::packet::Packet;
use crate::tcp::{ack_flag, Ack, Block};
use std::cmp::Ordering;

crate::choice! {
    /// Treatment of acknowledgements that follow each other in a queue.
    pub enum AckFilter {
        /// Nothing.
        Off = "off",
        /// Two that could go stay: the third lets the first go.
        On = "on",
        /// One that could go does, if it is the last but one.
        Aggressive = "aggressive",
    }
}

/// Returns the bits ECE and CWR of the TCP header, which AccECN's counter uses as well (RFC 9768, section 3.2.2).
fn echo(ack: &Ack) -> u8 {
    u8::from(ack.has(ack_flag::ECE)) | (ack.ace() & 0b11) << 1
}

/// Whether an acknowledgement may go at all: the bit that was NS is not set (ESCE, or AccECN's AE), and there is no option but time
/// stamps and SACK blocks.
fn may_go(ack: &Ack) -> bool {
    !ack.has(ack_flag::SYN_ACK | ack_flag::ESCE | ack_flag::ACCECN_OPTION) && ack.ace() & 0b100 == 0
}

/// Compares what two acknowledgements report beyond their cumulative one: less if `newer` misses something that `older` has, greater
/// if it has that and more.
fn by_blocks(older: (&Ack, &[Block]), newer: &[Block]) -> Ordering {
    let (ack, blocks) = older;
    if blocks.is_empty() || newer.is_empty() {
        return newer.len().min(1).cmp(&blocks.len().min(1));
    }
    let is_lost = |&(start, end): &Block| start < ack.ack || !newer.iter().any(|&(from, to)| from <= start && end <= to);
    if blocks.iter().any(is_lost) {
        return Ordering::Less;
    }
    let length = |all: &[Block]| all.iter().map(|(start, end)| end - start).sum::<u64>();
    match length(newer).cmp(&length(blocks)) {
        Ordering::Greater => Ordering::Greater,
        _ => Ordering::Equal,
    }
}

/// Takes one acknowledgement out of `queue`, whose last packet has just arrived, if that makes it superfluous.
pub fn filter(mode: AckFilter, store: &mut Store, queue: &mut Chain, acks: &dyn AckLookup) -> Option<Packet> {
    let newest = store.last(queue).filter(|packet| packet.is_back())?;
    let (newer, newer_blocks) = acks.find_ack(newest).filter(|(ack, _)| !ack.has(ack_flag::SYN_ACK))?;
    let (flow, newest_slot) = (newest.flow, newest.ack_slot());
    // the first that may go: the place ahead of it, its echo, and whether it is the last ahead of the newest
    let mut first: Option<(Option<u32>, u8, bool)> = None;
    let mut found = 0;
    let mut two = false;
    let mut ahead = None;
    for (place, packet) in store.entries(queue) {
        let is_newest = packet.is_back() && packet.flow == flow && packet.ack_slot() == newest_slot;
        if is_newest {
            break;
        }
        let before = ahead.replace(place);
        if let Some(first) = &mut first {
            first.2 = false;
        }
        let Some((older, blocks)) = (packet.is_back() && packet.flow == flow).then(|| acks.find_ack(packet)).flatten() else {
            continue;
        };
        if first.is_some_and(|(_, of_first, _)| of_first != echo(older)) {
            // what it echoes would be lost with it
            first = None;
            found -= 1;
        }
        if !may_go(older) || older.ack > newer.ack || older.tsval.wrapping_sub(newer.tsval) as i32 > 0 {
            continue;
        }
        let more = by_blocks((older, blocks), newer_blocks);
        if more == Ordering::Less || (older.ack == newer.ack && more == Ordering::Equal) {
            continue;
        }
        if first.is_none() {
            first = Some((before, echo(older), true));
        }
        found += 1;
        if found > 1 {
            two = true;
            break;
        }
    }
    let (before, of_first, is_last) = first?;
    let alone = mode == AckFilter::Aggressive && is_last && of_first == echo(newer);
    (two || alone).then(|| store.take_behind(queue, before))?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Ecn;

    /// Contents of the acknowledgements, by the number that a packet has.
    struct Said(Vec<(Ack, Vec<Block>)>);

    impl AckLookup for Said {
        fn find_ack(&self, packet: &Packet) -> Option<(&Ack, &[Block])> {
            self.0.get(packet.ack_slot() as usize).map(|(ack, blocks)| (ack, blocks.as_slice()))
        }
    }

    /// Offers acknowledgements one after the other to a filter; returns the numbers of those that go, each with that of the one that
    /// arrived.
    fn filter_acks(mode: AckFilter, said: Vec<(Ack, Vec<Block>)>) -> Vec<(u64, u64)> {
        let (mut store, mut queue) = (Store::new(true), Chain::default());
        let count = said.len() as u64;
        let log = Said(said);
        let mut found = Vec::new();
        for seq in 0..count {
            let flow = log.0[seq as usize].0.flow;
            store.push(&mut queue, Packet { flow, len: 66, ..Packet::new_ack_slot(seq, Ecn::NotEct) });
            if let Some(packet) = filter(mode, &mut store, &mut queue, &log) {
                found.push((seq, packet.ack_slot()));
            }
        }
        let left: Vec<u64> = store.entries(&queue).map(|(_, packet)| packet.ack_slot()).collect();
        assert_eq!(left.len() as u64 + found.len() as u64, count);
        assert_eq!(std::iter::from_fn(|| store.pop(&mut queue)).map(|packet| packet.ack_slot()).collect::<Vec<_>>(), left);
        found
    }

    fn plain(acks: &[u64]) -> Vec<(Ack, Vec<Block>)> {
        acks.iter().map(|&ack| (Ack { ack, ..Ack::default() }, Vec::new())).collect()
    }

    #[test]
    fn the_third_lets_the_first_go_and_the_aggressive_one_needs_only_two() {
        assert_eq!(filter_acks(AckFilter::On, plain(&[1, 3, 5, 7, 9])), [(2, 0), (3, 1), (4, 2)]);
        assert_eq!(filter_acks(AckFilter::Aggressive, plain(&[1, 3, 5, 7])), [(1, 0), (2, 1), (3, 2)]);
    }

    #[test]
    fn duplicates_stay_unless_they_report_more() {
        assert_eq!(filter_acks(AckFilter::Aggressive, plain(&[5, 5, 5])), []);
        let blocks = |of: &[&[Block]]| of.iter().map(|b| (Ack { ack: 5, ..Ack::default() }, b.to_vec())).collect::<Vec<_>>();
        assert_eq!(
            filter_acks(AckFilter::Aggressive, blocks(&[&[], &[(7, 8)], &[(7, 9)], &[(11, 12), (7, 9)]])),
            [(1, 0), (2, 1), (3, 2)]
        );
        // the newer one no longer has what the older one reports
        assert_eq!(filter_acks(AckFilter::Aggressive, blocks(&[&[(7, 9)], &[(11, 15)]])), []);
        // a duplicate below the cumulative acknowledgement is reported once
        let twice =
            vec![(Ack { ack: 5, ..Ack::default() }, vec![(2, 3)]), (Ack { ack: 9, ..Ack::default() }, vec![(2, 3), (11, 12)])];
        assert_eq!(filter_acks(AckFilter::Aggressive, twice), []);
    }

    #[test]
    fn nothing_is_lost_that_an_echo_says() {
        let mut said = plain(&[1, 2, 3, 4, 5, 6]);
        said[2].0.flags = ack_flag::ECE;
        // 1 stays, since 2 begins to echo, and 2, since 3 stops
        assert_eq!(filter_acks(AckFilter::On, said.clone()), [(2, 0), (5, 3)]);
        for flags in [ack_flag::ESCE, ack_flag::ACCECN_OPTION] {
            said[2].0.flags = flags;
            assert_eq!(filter_acks(AckFilter::On, said.clone()), [(2, 0), (4, 1), (5, 3)]);
        }
    }

    #[test]
    fn other_flows_are_left_alone() {
        let mut said = plain(&[1, 1, 3, 3, 5, 5]);
        said.iter_mut().enumerate().for_each(|(n, (ack, _))| ack.flow = n as u32 % 2);
        assert_eq!(filter_acks(AckFilter::On, said), [(4, 0), (5, 1)]);
    }
}
