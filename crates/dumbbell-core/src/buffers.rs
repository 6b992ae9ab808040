//! Memory of the kernel that packets take (`truesize`), by which queues and socket buffers are limited.
//!
//! Linux 6.12 `net/core/skbuff.c` (`kmalloc_reserve`, `skb_segment`), `net/ipv4/ip_output.c` (`__ip_append_data`) and
//! `net/ipv4/tcp.c`, as the kernels of `dumbbell linux` are configured: without wireless and tunnels, cache lines of 64 B.

use crate::hint::unlikely;
use crate::packet::{flag, Packet, HEADERS};

/// Linux `MAX_TCP_HEADER`, bytes: 128 and `LL_MAX_HEADER`, which is 32. Kernels with wireless and tunnels, as distributions have, have 320.
pub const MAX_TCP_HEADER: u32 = 192;
/// Largest burst of segmentation offload, bytes of payload (`sk_dst_gso_max_size`): `GSO_LEGACY_MAX_SIZE` less headers and one byte.
pub const SK_GSO_MAX_SIZE: u32 = 65_536 - (MAX_TCP_HEADER + 1);
/// Cache line, to which data is padded (`SKB_DATA_ALIGN`), bytes.
const LINE: u32 = 64;
/// `struct skb_shared_info` behind the data of every buffer, padded, bytes.
const SHARED_INFO: u32 = 320;
/// `struct sk_buff`, padded, bytes.
const SK_BUFF: u32 = 256;
/// Object of `skb_small_head_cache` (`SKB_SMALL_HEAD_CACHE_SIZE`): [`MAX_TCP_HEADER`] and [`SHARED_INFO`] would be a power of two, so that it is
/// one cache line larger, bytes.
const SMALL_HEAD: u32 = MAX_TCP_HEADER + SHARED_INFO + LINE;
/// Bytes that UDP asks for in addition to the IP packet (`__ip_append_data`): a link-layer header in units of 16 B, and 15 B; less the Ethernet
/// header, with which frames are counted here.
const UDP_ROOM: u32 = 16 + 15 - 14;

/// Returns the memory of a buffer with room for `bytes`. With `small_heads`, heads of up to 256 B come from a cache of their own (Linux since 6.3); larger ones,
/// and all with older kernels, from slabs of powers of two.
#[inline]
const fn buffer(bytes: u32, small_heads: bool) -> u32 {
    let head = bytes.next_multiple_of(LINE) + SHARED_INFO;
    SK_BUFF + if small_heads && head <= SMALL_HEAD { SMALL_HEAD } else { head.next_power_of_two() }
}

/// Returns the memory of a buffer of TCP in addition to its payload, which lies in pages: 832 B, 768 B before 6.3 (`tcp_stream_alloc_skb`, `skb_segment`).
#[inline]
pub const fn tcp_overhead(small_heads: bool) -> u32 {
    buffer(MAX_TCP_HEADER, small_heads)
}

/// Returns the send buffer that each segment of the window is given, for full segments of `mss` bytes (`tcp_sndbuf_expand`). The largest segment counts with
/// the 12 B that its time stamps take.
#[inline]
pub const fn send_buffer_per_segment(mss: u32) -> u64 {
    ((mss + 12 + MAX_TCP_HEADER + SHARED_INFO).next_power_of_two() + SK_BUFF) as u64
}

/// Returns the memory of `packet` in a queue. A segment has a head and pages of payload; UDP is one block.
#[inline]
pub fn truesize(packet: &Packet, small_heads: bool) -> u32 {
    let len = u32::from(packet.len);
    if packet.has(flag::UDP) {
        return buffer(len + UDP_ROOM, small_heads);
    }
    let payload = if packet.has(flag::NO_DATA) { 0 } else { len.saturating_sub(u32::from(HEADERS)) };
    tcp_overhead(small_heads) + payload
}

/// Memory of packets that come and go. That of segments with data follows from their number and length, so that only others cost an addition.
#[derive(Clone, Debug)]
pub struct MemoryCount {
    small_heads: bool,
    /// Memory of other packets beyond what [`MemoryCount::bytes`] takes them for.
    beyond: i64,
}

impl MemoryCount {
    /// For buffers whose small heads come from a cache of their own, or not.
    pub fn new(small_heads: bool) -> MemoryCount {
        MemoryCount { small_heads, beyond: 0 }
    }

    /// Memory of a segment with data in addition to the bytes of its frame.
    #[inline(always)]
    fn per_packet(&self) -> u64 {
        u64::from(tcp_overhead(self.small_heads) - u32::from(HEADERS))
    }

    /// Returns the sum of [`truesize`] over the packets that are there: `packets` with `bytes`.
    #[inline(always)]
    pub fn bytes(&self, packets: usize, bytes: u64) -> u64 {
        (packets as u64 * self.per_packet() + bytes).wrapping_add_signed(self.beyond)
    }

    /// `packet` comes.
    #[inline(always)]
    pub fn add(&mut self, packet: &Packet) {
        if unlikely(!is_segment(packet)) {
            self.beyond += self.beyond_segment(packet);
        }
    }

    /// `packet` goes.
    #[inline(always)]
    pub fn subtract(&mut self, packet: &Packet) {
        if unlikely(!is_segment(packet)) {
            self.beyond -= self.beyond_segment(packet);
        }
    }

    #[inline(never)]
    fn beyond_segment(&self, packet: &Packet) -> i64 {
        i64::from(truesize(packet, self.small_heads)) - self.per_packet() as i64 - i64::from(packet.len)
    }
}

/// Whether `packet` is a segment of TCP with data.
#[inline(always)]
fn is_segment(packet: &Packet) -> bool {
    !packet.has(flag::NO_DATA) && packet.len >= HEADERS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Ecn;
    use crate::units::Instant;

    fn udp(len: u16) -> Packet {
        Packet { len, ..Packet::new_udp(0, Ecn::NotEct, Instant::ZERO) }
    }

    #[test]
    fn datagrams_are_one_block_with_room_for_headers() {
        // 200 + 17 = 217 -> 256; 256 + 320 = 576 fits the small head: 576 + 256. Without that cache: 1024 + 256.
        // 239 + 17 = 256 still fits; 240 + 17 -> 320 does not: 640 -> 1024. 700 + 17 -> 768; 1088 -> 2048. 687 + 17 = 704; 1024.
        // 1514 + 17 -> 1536; 1856 -> 2048. 9014 + 17 -> 9088; 9408 -> 16384
        for (len, since_6_3, before) in [
            (60, 832, 768),
            (175, 832, 768),
            (176, 832, 1280),
            (200, 832, 1280),
            (239, 832, 1280),
            (240, 1280, 1280),
            (260, 1280, 1280),
            (687, 1280, 1280),
            (688, 2304, 2304),
            (1514, 2304, 2304),
            (9014, 16_640, 16_640),
        ] {
            assert_eq!([true, false].map(|small| truesize(&udp(len), small)), [since_6_3, before], "{len} B");
        }
    }

    #[test]
    fn segments_are_a_head_and_their_payload() {
        let of = |len, flags| {
            let mut packet = Packet { len, ..Packet::EMPTY };
            packet.add_flags(flags);
            [true, false].map(|small| truesize(&packet, small))
        };
        // 192 + 320 = 512, in the cache 576, and 256; the payload of a full frame is 1514 - 66
        assert_eq!(of(1514, 0), [832 + 1448, 768 + 1448]);
        assert_eq!(of(322, flag::RETRANSMISSION), [832 + 256, 768 + 256]);
        assert_eq!(of(74, flag::SYN), [832, 768]);
        assert_eq!(of(94, flag::BACK), [832, 768]);
    }

    #[test]
    fn memory_is_the_sum_of_all_packets() {
        for small_heads in [true, false] {
            let (mut count, mut sums) = (MemoryCount::new(small_heads), (0, 0, 0));
            let plain = |len, flags| {
                let mut packet = Packet { len, ..Packet::EMPTY };
                packet.add_flags(flags);
                packet
            };
            let all =
                [plain(1514, 0), udp(1514), plain(74, flag::SYN), plain(94, flag::BACK), plain(66, 0), plain(60, 0), udp(60)];
            for packet in &all {
                count.add(packet);
                sums = (sums.0 + 1, sums.1 + u64::from(packet.len), sums.2 + u64::from(truesize(packet, small_heads)));
                assert_eq!(count.bytes(sums.0, sums.1), sums.2);
            }
            for packet in &all {
                count.subtract(packet);
                sums = (sums.0 - 1, sums.1 - u64::from(packet.len), sums.2 - u64::from(truesize(packet, small_heads)));
                assert_eq!(count.bytes(sums.0, sums.1), sums.2);
            }
        }
    }

    #[test]
    fn the_send_buffer_of_a_segment_is_a_power_of_two_and_a_descriptor() {
        // mss + 12 + 192 + 320: 780, 984, 1972, 4524, 9458
        let of = [256, 460, 1448, 4000, 8934].map(send_buffer_per_segment);
        assert_eq!(of, [1024 + 256, 1024 + 256, 2048 + 256, 8192 + 256, 16_384 + 256]);
        // 1524 + 12 + 512 = 2048 is the last of its size
        assert_eq!([1524, 1525].map(send_buffer_per_segment), [2304, 4352]);
    }

    #[test]
    fn a_burst_is_64_kib_less_headers() {
        // 65536 - 193: 45 segments of 1448 B, 255 of 256 B
        assert_eq!([SK_GSO_MAX_SIZE / 1448, SK_GSO_MAX_SIZE / 256], [45, 255]);
    }
}
