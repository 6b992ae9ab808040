//! Blocks of pcapng (draft-ietf-opsawg-pcapng-03), little-endian.

use crate::Sink;
use dumbbell_core::units::Time;
use std::io::{self, BufWriter, Write};

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

/// A file of packets.
pub struct Pcapng {
    out: BufWriter<Sink>,
    block: Vec<u8>,
    error: Option<io::Error>,
}

/// An option, padded to 32 bits.
fn put_option(block: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    block.extend_from_slice(&code.to_le_bytes());
    block.extend_from_slice(&(value.len() as u16).to_le_bytes());
    block.extend_from_slice(value);
    pad(block);
}

fn pad(block: &mut Vec<u8>) {
    block.resize(block.len().next_multiple_of(4), 0);
}

impl Pcapng {
    /// With a section that was made by `program` and has this comment, and interfaces with names and descriptions, of which `snap` bytes per packet are kept; 0: all.
    pub fn new(sink: Sink, program: &str, comment: &str, interfaces: &[(String, String)], snap: u32) -> Pcapng {
        let mut file = Pcapng { out: BufWriter::with_capacity(BUFFER, sink), block: Vec::new(), error: None };
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
    pub fn packet(&mut self, interface: u32, time: Time, (headers, payload): (&[u8], &[u8]), (kept, len): (usize, u16), comment: &str) {
        self.write(block::PACKET, |block| {
            for word in [interface, (time.0 >> 32) as u32, time.0 as u32, kept as u32, u32::from(len)] {
                block.extend_from_slice(&word.to_le_bytes());
            }
            let end = block.len() + kept;
            block.extend_from_slice(&headers[..headers.len().min(kept)]);
            let room = end - block.len();
            block.extend_from_slice(&payload[..payload.len().min(room)]);
            block.resize(end, 0);
            pad(block);
            if !comment.is_empty() {
                put_option(block, option::COMMENT, comment.as_bytes());
                block.extend_from_slice(&[0; 4]);
            }
        });
    }

    /// A block with the body that `fill` writes. Nothing is written after an error.
    fn write(&mut self, kind: u32, fill: impl FnOnce(&mut Vec<u8>)) {
        if self.error.is_some() {
            return;
        }
        let block = &mut self.block;
        block.clear();
        block.extend_from_slice(&kind.to_le_bytes());
        block.extend_from_slice(&[0; 4]);
        fill(block);
        let length = (block.len() as u32 + 4).to_le_bytes();
        block[4..8].copy_from_slice(&length);
        block.extend_from_slice(&length);
        self.error = self.out.write_all(block).err();
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// The first that there was.
    pub fn finish(&mut self) -> io::Result<()> {
        match self.error.take() {
            Some(error) => Err(error),
            None => self.out.flush(),
        }
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
        file.packet(0, Time((3 << 32) + 5), (&[1, 2, 3], &[4, 5]), (7, 1514), "lost");
        file.finish().unwrap();
        let bytes = memory.0.lock().unwrap().clone();
        let found = blocks(&bytes);
        let types: Vec<u32> = found.iter().map(|(kind, _)| *kind).collect();
        assert_eq!(types, [block::SECTION, block::INTERFACE, block::PACKET]);
        // version 1.0, a length that is not given, comment, program, end of options
        let section = [&[0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0][..], &[255; 8], b"\x01\0\x03\0why\0\x04\0\x08\0dumbbell\0\0\0\0"].concat();
        assert_eq!(found[0].1, section);
        let interface = [&[1, 0, 0, 0, 0, 0, 0, 0][..], b"\x02\0\x06\0sender\0\0\x03\0\x03\0all\0\x09\0\x01\0\x09\0\0\0\0\0\0\0"].concat();
        assert_eq!(found[1].1, interface);
        // interface 0, the two halves of the time, 7 B of 1514, which are the headers, the payload and zeros
        let packet = [&[0, 0, 0, 0, 3, 0, 0, 0, 5, 0, 0, 0, 7, 0, 0, 0, 0xea, 5, 0, 0][..], &[1, 2, 3, 4, 5, 0, 0, 0], b"\x01\0\x04\0lost\0\0\0\0"];
        assert_eq!(found[2].1, packet.concat());
    }

    /// Types and bodies of blocks, whose lengths stand at both ends.
    fn blocks(mut bytes: &[u8]) -> Vec<(u32, Vec<u8>)> {
        let word = |bytes: &[u8]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
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
            file.packet(0, Time::ZERO, (&[0; 66], &[]), (1514, 1514), "");
        }
        assert_eq!(file.finish().map_err(|error| error.to_string()), Err("full".to_owned()));
    }
}
