//! Blocks of pcapng (draft-ietf-opsawg-pcapng-03), little-endian.

use crate::CaptureWriter;
use dumbbell_core::units::Instant;
use std::io::{self, Write};
use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
use std::thread::JoinHandle;

/// Types of blocks.
mod block {
    pub const SECTION: u32 = 0x0a0d_0d0a;
    pub const INTERFACE: u32 = 1;
    pub const PACKET: u32 = 6;
}

/// Codes of options.
mod option {
    pub const COMMENT: u16 = 1;
    pub const USER_APPLICATION: u16 = 4;
    pub const NAME: u16 = 2;
    pub const DESCRIPTION: u16 = 3;
    pub const RESOLUTION: u16 = 9;
}

const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// LINKTYPE_ETHERNET.
const ETHERNET: u16 = 1;
/// Times are in units of 10^-9 s.
const NANOSECONDS: u8 = 9;
const BUFFER: usize = 1 << 20; // bytes
/// Most buffers that may wait to be written.
const BUFFERS: usize = 8;
/// No block is larger, bytes: a frame, a comment.
const MOST_BLOCK: usize = 1 << 17;

/// A file of packets. Another thread writes it: the run goes on meanwhile.
pub struct Pcapng {
    /// Blocks that have not been given to that thread.
    blocks: Vec<u8>,
    full: Option<SyncSender<Vec<u8>>>,
    /// Memory that it gives back.
    empty: Receiver<Vec<u8>>,
    writer: Option<JoinHandle<io::Result<()>>>,
}

/// An option, padded to 32 bits.
fn put_option(block: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    block.extend_from_slice(&code.to_le_bytes());
    block.extend_from_slice(&(value.len() as u16).to_le_bytes());
    block.extend_from_slice(value);
    block.resize(block.len().next_multiple_of(4), 0);
}

impl Pcapng {
    /// With a section that was made by `program` and has this comment, and interfaces with names and descriptions, of which `snap` bytes per packet are kept; 0: all.
    pub fn new(sink: CaptureWriter, program: &str, comment: &str, interfaces: &[(String, String)], snap: u32) -> Pcapng {
        let (full, to_write) = sync_channel::<Vec<u8>>(BUFFERS);
        let (give_back, empty) = sync_channel(BUFFERS + 1);
        let mut sink = sink;
        let writer = std::thread::spawn(move || {
            for mut blocks in to_write {
                sink.write_all(&blocks)?;
                blocks.clear();
                // nobody takes it back at the end
                let _ = give_back.try_send(blocks);
            }
            sink.flush()
        });
        let mut file = Pcapng { blocks: Vec::with_capacity(BUFFER), full: Some(full), empty, writer: Some(writer) };
        file.write(block::SECTION, |block| {
            block.extend_from_slice(&BYTE_ORDER.to_le_bytes());
            block.extend_from_slice(&[1, 0, 0, 0]);
            block.extend_from_slice(&u64::MAX.to_le_bytes());
            put_option(block, option::COMMENT, comment.as_bytes());
            put_option(block, option::USER_APPLICATION, program.as_bytes());
            block.extend_from_slice(&[0; 4]);
        });
        for (name, description) in interfaces {
            file.write(block::INTERFACE, |block| {
                block.extend_from_slice(&ETHERNET.to_le_bytes());
                block.extend_from_slice(&[0, 0]);
                block.extend_from_slice(&snap.to_le_bytes());
                put_option(block, option::NAME, name.as_bytes());
                put_option(block, option::DESCRIPTION, description.as_bytes());
                put_option(block, option::RESOLUTION, &[NANOSECONDS]);
                block.extend_from_slice(&[0; 4]);
            });
        }
        file
    }

    /// A packet on an interface: `kept` bytes of `len`, which are `headers`, `payload` and then zeros.
    pub fn packet(
        &mut self,
        interface: u32,
        time: Instant,
        (headers, payload): (&[u8], &[u8]),
        (kept, len): (usize, u16),
        comment: &str,
    ) {
        self.write(block::PACKET, |block| {
            let mut head = [0; 20];
            let words = [interface, (time.0 >> 32) as u32, time.0 as u32, kept as u32, u32::from(len)];
            for (place, word) in head.chunks_exact_mut(4).zip(words) {
                place.copy_from_slice(&word.to_le_bytes());
            }
            block.extend_from_slice(&head);
            let end = block.len() + kept;
            block.extend_from_slice(&headers[..headers.len().min(kept)]);
            if block.len() < end {
                let room = end - block.len();
                block.extend_from_slice(&payload[..payload.len().min(room)]);
            }
            // padding, and zeros in front of it
            block.resize(end.next_multiple_of(4), 0);
            if !comment.is_empty() {
                put_option(block, option::COMMENT, comment.as_bytes());
                block.extend_from_slice(&[0; 4]);
            }
        });
    }

    /// A block with the body that `fill` writes; what stands ahead of it is a multiple of 32 bits.
    fn write(&mut self, kind: u32, fill: impl FnOnce(&mut Vec<u8>)) {
        let blocks = &mut self.blocks;
        let start = blocks.len();
        blocks.extend_from_slice(&kind.to_le_bytes());
        blocks.extend_from_slice(&[0; 4]);
        fill(blocks);
        let length = ((blocks.len() - start) as u32 + 4).to_le_bytes();
        blocks[start + 4..start + 8].copy_from_slice(&length);
        blocks.extend_from_slice(&length);
        if blocks.len() + MOST_BLOCK > BUFFER {
            self.hand_over();
        }
    }

    /// Gives the blocks so far to who writes them.
    fn hand_over(&mut self) {
        let next = self.empty.try_recv().unwrap_or_else(|_| Vec::with_capacity(BUFFER));
        let blocks = std::mem::replace(&mut self.blocks, next);
        if let Some(full) = &self.full {
            // the writing thread has ended with an error, which `finish` returns
            let _ = full.send(blocks);
        }
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// The first that there was.
    pub fn finish(&mut self) -> io::Result<()> {
        self.hand_over();
        self.full = None;
        let ended = self.writer.take().map_or(Ok(Ok(())), JoinHandle::join);
        ended.unwrap_or_else(|_| Err(io::Error::other("who writes the file panicked")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<Vec<u8>>>);

    impl Write for Memory {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn blocks_are_as_the_draft_has_them() {
        let memory = Memory::default();
        let interfaces = [("sender".to_owned(), "all".to_owned())];
        let mut file = Pcapng::new(Box::new(memory.clone()), "dumbbell", "why", &interfaces, 0);
        file.packet(0, Instant((3 << 32) + 5), (&[1, 2, 3], &[4, 5]), (7, 1514), "lost");
        file.finish().unwrap();
        let bytes = memory.0.lock().unwrap().clone();
        let found = blocks(&bytes);
        let types: Vec<u32> = found.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(types, [block::SECTION, block::INTERFACE, block::PACKET]);
        // version 1.0, a length that is not given, comment, program, end of options
        let section =
            [&[0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0][..], &[255; 8], b"\x01\0\x03\0why\0\x04\0\x08\0dumbbell\0\0\0\0"].concat();
        assert_eq!(found[0].1, section);
        let interface =
            [&[1, 0, 0, 0, 0, 0, 0, 0][..], b"\x02\0\x06\0sender\0\0\x03\0\x03\0all\0\x09\0\x01\0\x09\0\0\0\0\0\0\0"].concat();
        assert_eq!(found[1].1, interface);
        // interface 0, the two halves of the time, 7 B of 1514, which are the headers, the payload and zeros
        let packet = [
            &[0, 0, 0, 0, 3, 0, 0, 0, 5, 0, 0, 0, 7, 0, 0, 0, 0xea, 5, 0, 0][..],
            &[1, 2, 3, 4, 5, 0, 0, 0],
            b"\x01\0\x04\0lost\0\0\0\0",
        ];
        assert_eq!(found[2].1, packet.concat());
    }

    /// Types and bodies of blocks, whose lengths stand at both ends.
    fn blocks(mut bytes: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let word = |at: &[u8]| u32::from_le_bytes([at[0], at[1], at[2], at[3]]);
        let mut found = Vec::new();
        while !bytes.is_empty() {
            let length = word(&bytes[4..]) as usize;
            assert_eq!((length % 4, word(&bytes[length - 4..]) as usize), (0, length));
            found.push((word(bytes), bytes[8..length - 4].to_vec()));
            bytes = &bytes[length..];
        }
        found
    }

    #[test]
    fn an_error_is_told_at_the_end() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
                Err(io::Error::other("full"))
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut file = Pcapng::new(Box::new(Full), "dumbbell", "", &[], 0);
        for _ in 0..BUFFER / 1000 {
            file.packet(0, Instant::ZERO, (&[0; 66], &[]), (1514, 1514), "");
        }
        assert_eq!(file.finish().map_err(|error| error.to_string()), Err("full".to_owned()));
    }
}
