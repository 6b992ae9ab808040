//! The bytes of the frames that wait, in buffers that are used again.

/// Room for one frame: an MTU of 1500 with its Ethernet header and a VLAN tag, rounded up to whole cache lines.
pub const FRAME_ROOM: usize = 1536;

/// Buffers that are allocated at a time.
const CHUNK: usize = 256;

/// Buffers of frames, by number. They are allocated as they are needed, up to a limit, and never given back: memory follows the longest
/// queue that there was.
pub struct FrameBuffers {
    chunks: Vec<Box<[[u8; FRAME_ROOM]]>>,
    lengths: Vec<u16>,
    free: Vec<u32>,
    most: usize,
}

impl FrameBuffers {
    /// At most about `most` frames.
    pub fn new(most: usize) -> FrameBuffers {
        FrameBuffers { chunks: Vec::new(), lengths: Vec::new(), free: Vec::new(), most }
    }

    /// Keeps a copy of `frame` and returns its number; `None` if it is too long or there is no room.
    pub fn keep(&mut self, frame: &[u8]) -> Option<u32> {
        if frame.len() > FRAME_ROOM || (self.free.is_empty() && !self.grow()) {
            return None;
        }
        let number = self.free.pop()?;
        self.lengths[number as usize] = frame.len() as u16;
        self.get_mut(number).copy_from_slice(frame);
        Some(number)
    }

    fn grow(&mut self) -> bool {
        let known = self.lengths.len();
        if known >= self.most {
            return false;
        }
        self.chunks.push(vec![[0; FRAME_ROOM]; CHUNK].into_boxed_slice());
        self.lengths.resize(known + CHUNK, 0);
        // so that `release` never allocates
        self.free.reserve(known + CHUNK);
        self.free.extend((known as u32..(known + CHUNK) as u32).rev());
        true
    }

    /// The bytes of frame `number`.
    pub fn get(&self, number: u32) -> &[u8] {
        let number = number as usize;
        &self.chunks[number / CHUNK][number % CHUNK][..usize::from(self.lengths[number])]
    }

    /// Returns the bytes of frame `number` for changes.
    pub fn get_mut(&mut self, number: u32) -> &mut [u8] {
        let number = number as usize;
        &mut self.chunks[number / CHUNK][number % CHUNK][..usize::from(self.lengths[number])]
    }

    /// Frame `number` is not needed any more.
    pub fn release(&mut self, number: u32) {
        self.free.push(number);
    }

    /// Frames that are kept.
    pub fn count_used(&self) -> usize {
        self.lengths.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_used_again_and_limited() {
        let mut frames = FrameBuffers::new(CHUNK);
        let numbers: Vec<u32> = (0..CHUNK).map(|i| frames.keep(&[i as u8; 60]).expect("room")).collect();
        assert_eq!((frames.keep(&[1]), frames.count_used()), (None, CHUNK));
        assert!(numbers.iter().enumerate().all(|(i, &number)| frames.get(number) == [i as u8; 60]));
        frames.release(numbers[3]);
        let again = frames.keep(&[9; FRAME_ROOM]).expect("room");
        assert_eq!((again, frames.get(again).len(), frames.count_used()), (numbers[3], FRAME_ROOM, CHUNK));
        frames.release(again);
        assert_eq!(frames.keep(&[0; FRAME_ROOM + 1]), None);
    }
}
