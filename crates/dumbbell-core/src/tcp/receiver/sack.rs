//! What lies out of order, and which of it an acknowledgement reports (RFC 2018, RFC 2883).

use super::Receiver;
use crate::tcp::Block;
use crate::units::Time;

/// Blocks that fit beside timestamps in 40 B of options (RFC 2018).
pub(super) const MAX_BLOCKS: usize = 3;
/// Blocks that a receiver keeps to report (Linux `TCP_NUM_SACKS`).
const MOST_BLOCKS: usize = 4;

/// SACK blocks of one ACK.
#[derive(Clone, Copy, Debug, Default)]
pub struct Blocks {
    len: u8,
    blocks: [Block; MAX_BLOCKS],
}

impl Blocks {
    /// The blocks.
    #[inline]
    pub fn as_slice(&self) -> &[Block] {
        &self.blocks[..self.len as usize]
    }

    fn push(&mut self, block: Block) {
        if (self.len as usize) < MAX_BLOCKS {
            self.blocks[self.len as usize] = block;
            self.len += 1;
        }
    }
}

impl Receiver {
    /// Segments that lie out of order.
    pub(super) fn held(&self) -> u64 {
        self.out_of_order.iter().map(|block| block.1 - block.0).sum()
    }

    /// In-order data has reached the first block that was out of order.
    pub(super) fn fill_gap(&mut self) {
        while let Some(&(start, end)) = self.out_of_order.front() {
            if start > self.rcv_nxt {
                break;
            }
            self.rcv_nxt = self.rcv_nxt.max(end);
            self.out_of_order.pop_front();
        }
        let rcv_nxt = self.rcv_nxt;
        self.recent.retain(|block| block.1 > rcv_nxt);
        self.has_gaps = !self.out_of_order.is_empty();
        if !self.has_gaps {
            // RFC 5681 section 4.2
            self.ack_now = true;
        }
    }

    /// The next acknowledgement says that segment `seq` came once more.
    pub(super) fn report_duplicate(&mut self, seq: u64) {
        self.dsack = (seq, seq + 1);
        self.has_dsack = true;
    }

    /// Remembers an out-of-order segment. If it was known, that is reported before its block, and returns false. An acknowledgement
    /// of it may be held back like any other. Linux `tcp_data_queue_ofo`.
    pub(super) fn keep_out_of_order(&mut self, seq: u64, now: Time) -> bool {
        let blocks = &mut self.out_of_order;
        let index = blocks.partition_point(|block| block.1 < seq);
        let mut known = false;
        match blocks.get(index).copied() {
            Some((start, end)) if start <= seq && seq < end => known = true,
            Some((start, end)) if end == seq => {
                blocks[index] = (start, seq + 1);
                if let Some(&(next_start, next_end)) = blocks.get(index + 1) {
                    if next_start == seq + 1 {
                        blocks[index].1 = next_end;
                        blocks.remove(index + 1);
                    }
                }
            }
            Some((start, end)) if start == seq + 1 => blocks[index] = (seq, end),
            _ => blocks.insert(index, (seq, seq + 1)),
        }
        self.has_gaps = true;
        if known {
            self.stats.duplicates += 1;
            self.report_duplicate(seq);
        }
        self.report_first(seq, now);
        !known
    }

    /// The block of `seq` is the first to be reported from now on, the least recent one is forgotten. What an ACK that is held back would then
    /// not report any more is acknowledged before. Linux `tcp_sack_new_ofo_skb`.
    fn report_first(&mut self, seq: u64, now: Time) {
        let index = self.recent.iter().position(|block| block.0 <= seq + 1 && seq <= block.1);
        let behind = index.unwrap_or(self.recent.len()) as u32;
        if behind >= self.host.sack_blocks_held && self.compressed > 0 {
            let ack = self.acknowledge(now);
            self.send_early(ack);
        }
        let Some(index) = index else {
            self.recent.truncate(MOST_BLOCKS - 1);
            self.recent.insert(0, (seq, seq + 1));
            return;
        };
        let block = self.recent[index];
        let mut first = (block.0.min(seq), block.1.max(seq + 1));
        let touch = |one: &Block, other: &Block| other.0 <= one.1 && one.0 <= other.1;
        if index == 0 && !self.recent[1..].iter().any(|other| touch(&first, other)) {
            self.recent[0] = first;
            return;
        }
        self.recent.remove(index);
        self.recent.retain(|other| {
            let touches = touch(&first, other);
            if touches {
                first = (first.0.min(other.0), first.1.max(other.1));
            }
            !touches
        });
        self.recent.insert(0, first);
    }

    /// Whether the ACK just returned has SACK blocks.
    #[inline]
    pub fn has_blocks(&self) -> bool {
        self.has_gaps || self.has_dsack
    }

    /// SACK blocks of the ACK just returned: a duplicate first (RFC 2883), then the most recent ones.
    pub fn blocks(&mut self) -> Blocks {
        let mut blocks = Blocks::default();
        if std::mem::take(&mut self.has_dsack) {
            blocks.push(self.dsack);
        }
        for &block in &self.recent {
            blocks.push(block);
        }
        blocks
    }
}
