//! Records of a guest: what was captured of packets, and what senders said of themselves.

use super::CaptureError;
use crate::flow::SenderState;
use dumbbell_core::packet::Ecn;
use dumbbell_core::units::Instant;

/// Length of a packet's record.
pub const PACKET_BYTES: usize = 32;
/// Length of a sample's record.
pub const SAMPLE_BYTES: usize = 64;

/// Bits of a sample's flags.
pub mod sampled {
    /// The SYN, or the first packet of UDP, left.
    pub const START: u32 = 1;
    /// One of the samples every 200 ms.
    pub const POLL: u32 = 2;
    /// The flow's measured time is over.
    pub const END: u32 = 8;
    /// The flow is over because everything was acknowledged.
    pub const COMPLETE: u32 = 16;
    /// An answer to a packet of UDP came back; its RTT in ns is where `bytes_acked` stands.
    pub const ANSWER: u32 = 32;
}

/// A `timeouts` of a kernel that does not count them.
pub const UNKNOWN: u32 = u32::MAX;

pub(super) fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

pub(super) fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}

/// A frame, or one segment of a burst that crossed the host as one.
#[derive(Clone, Copy, Debug)]
pub struct CapturedFrame {
    pub time: Instant,
    pub flow: u32,
    pub seq: u32,
    pub id: u16,
    pub len: u16,
    pub ecn: Ecn,
    /// Whether the frame goes back to the sender of the flow: an acknowledgement, or UDP's answer.
    pub back: bool,
    /// Payload of TCP.
    pub payload: u32,
}

/// The frames in a capture; a record of a burst (gso_size > 0) is as many frames.
pub fn frames(records: &[u8], started: u64) -> Result<Vec<CapturedFrame>, CaptureError> {
    let mut all = Vec::with_capacity(records.len() / PACKET_BYTES);
    for record in records.chunks_exact(PACKET_BYTES) {
        let (whole, payload, gso) = (word(record, 16), word(record, 20), u32::from(half(record, 26)));
        let ecn = [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce][usize::from(record[28] & 3)];
        let time = Instant(long(record, 0).saturating_sub(started));
        let back = record[29] != 0;
        let (flow, seq, id) = (word(record, 8), word(record, 12), half(record, 24));
        let headers = whole.saturating_sub(payload);
        let step = if gso > 0 && payload > gso { gso } else { payload };
        let mut offset = 0;
        for number in 0.. {
            let part = step.min(payload - offset);
            let len = u16::try_from(headers + part)
                .map_err(|_| CaptureError::Capture(format!("flow {flow}: a frame of {} bytes", headers + part)))?;
            all.push(CapturedFrame {
                time,
                flow,
                seq: seq.wrapping_add(offset),
                id: id.wrapping_add(number),
                len,
                ecn,
                back,
                payload: part,
            });
            offset += part;
            if offset >= payload {
                break;
            }
        }
    }
    Ok(all)
}

/// A report of a sender.
#[derive(Clone, Copy, Debug)]
pub struct CapturedSample {
    pub time: Instant,
    pub flow: u32,
    pub flags: u32,
    /// For an answer to a packet of UDP, `srtt_us` is its RTT.
    pub sender: SenderState,
    pub min_rtt_us: u32,
    pub bytes_acked: u64,
    pub sent: u32,
    pub timeouts: u32,
    pub duplicates: u32,
}

impl CapturedSample {
    /// Reads a record of [`SAMPLE_BYTES`].
    pub fn read(record: &[u8]) -> CapturedSample {
        CapturedSample {
            time: Instant(long(record, 0)),
            flow: word(record, 8),
            flags: word(record, 12),
            sender: SenderState {
                srtt_us: word(record, 16),
                cwnd: word(record, 24),
                ssthresh: word(record, 28),
                in_flight: word(record, 40),
                retransmissions: u64::from(word(record, 44)),
            },
            min_rtt_us: word(record, 20),
            bytes_acked: long(record, 32),
            sent: word(record, 48),
            timeouts: word(record, 52),
            duplicates: word(record, 56),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_are_as_many_frames() {
        // 3 segments of 1448 B and one of 100 B behind 66 B of headers
        let mut bytes = [0_u8; PACKET_BYTES];
        bytes[..8].copy_from_slice(&1000_u64.to_le_bytes());
        bytes[12..16].copy_from_slice(&5_u32.to_le_bytes());
        bytes[16..20].copy_from_slice(&(66 + 3 * 1448 + 100_u32).to_le_bytes());
        bytes[20..24].copy_from_slice(&(3 * 1448 + 100_u32).to_le_bytes());
        bytes[24..26].copy_from_slice(&u16::MAX.to_le_bytes());
        bytes[26..28].copy_from_slice(&1448_u16.to_le_bytes());
        let found: Vec<_> =
            frames(&bytes, 100).expect("frames").iter().map(|frame| (frame.time.0, frame.seq, frame.id, frame.len)).collect();
        assert_eq!(found, [(900, 5, 65535, 1514), (900, 1453, 0, 1514), (900, 2901, 1, 1514), (900, 4349, 2, 166)]);
    }
}
