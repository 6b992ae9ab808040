//! Segments out of order, and the blocks of them that an acknowledgement reports (RFC 2018, RFC 2883).

use super::reading::MOST_FRAGMENTS;
use super::Receiver;
use crate::tcp::Block;
use crate::units::Instant;

/// Blocks that fit next to timestamps in 40 B of options (RFC 2018).
pub(super) const MAX_BLOCKS: usize = 3;
/// Blocks that a receiver keeps to report (Linux `TCP_NUM_SACKS`).
const MOST_BLOCKS: usize = 4;

/// SACK blocks of one ACK.
#[derive(Clone, Copy, Debug, Default)]
pub struct SackBlocks {
    len: u8,
    blocks: [Block; MAX_BLOCKS],
}

impl SackBlocks {
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

/// The buffer that a segment went to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SegmentBuffer {
    /// None, since it had arrived before.
    Known,
    /// One that was there, or it is in order.
    Joined,
    /// One of its own.
    Apart,
}

impl Receiver {
    /// In-order data has reached the first block that was out of order. Linux `tcp_ofo_queue`.
    pub(super) fn fill_gap(&mut self) {
        while let Some(&(start, end)) = self.out_of_order.front() {
            if start > self.rcv_nxt {
                break;
            }
            self.rcv_nxt = end;
            self.held -= (end - start) as u32;
            self.unread.append(end - start, end);
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

    /// Remembers an out-of-order segment, behind the buffer that ends with the segment before it, if that has room. If it was known, that is
    /// reported before its block. An acknowledgement of it may be held back like any other. Linux `tcp_data_queue_ofo`.
    pub(super) fn keep_out_of_order(&mut self, seq: u64, now: Instant) -> SegmentBuffer {
        let buffers = &mut self.out_of_order;
        let index = buffers.partition_point(|buffer| buffer.0 <= seq);
        let before = index.checked_sub(1).map(|before| &mut buffers[before]);
        let kept = match before {
            Some((_, end)) if seq < *end => SegmentBuffer::Known,
            Some((start, end)) if *end == seq && *end - *start < MOST_FRAGMENTS => {
                *end += 1;
                SegmentBuffer::Joined
            }
            _ => {
                buffers.insert(index, (seq, seq + 1));
                SegmentBuffer::Apart
            }
        };
        self.has_gaps = true;
        if kept == SegmentBuffer::Known {
            self.stats.duplicates += 1;
            self.report_duplicate(seq);
        } else {
            self.held += 1;
        }
        self.report_first(seq, now);
        kept
    }

    /// The block of `seq` is the first to be reported from now on, the least recent one is forgotten. What an ACK that is held back would then
    /// not report any more is acknowledged before. Linux `tcp_sack_new_ofo_skb`.
    fn report_first(&mut self, seq: u64, now: Instant) {
        let index = self.recent.iter().position(|block| block.0 <= seq + 1 && seq <= block.1);
        let behind = index.unwrap_or(self.recent.len()) as u32;
        if behind >= self.host.sack_blocks_held && self.compressed > 0 {
            let ack = self.acknowledge(now, false, self.holds_one());
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
    pub fn blocks(&mut self) -> SackBlocks {
        let mut blocks = SackBlocks::default();
        if std::mem::take(&mut self.has_dsack) {
            blocks.push(self.dsack);
        }
        for &block in &self.recent {
            blocks.push(block);
        }
        blocks
    }
}
