//! Where frames come from and go to.

use std::io;
use std::os::fd::BorrowedFd;

/// One interface: all its frames are read, and frames are written to it.
pub trait FramePort {
    /// Takes up to `most` frames that have arrived, in order, without waiting: bytes, and when they arrived, ns since 1970. Returns how many.
    ///
    /// # Errors
    /// The interface is gone.
    fn receive(&mut self, most: usize, take: &mut dyn FnMut(&[u8], u64)) -> io::Result<usize>;

    /// Sends frames in order without waiting. Returns how many were sent; the rest did not fit now.
    ///
    /// # Errors
    /// The interface is gone.
    fn send(&mut self, frames: &[&[u8]]) -> io::Result<usize>;

    /// Readable when a frame has arrived.
    fn fd(&self) -> BorrowedFd<'_>;

    /// Frames that arrived so far and found no room.
    ///
    /// # Errors
    /// The interface is gone.
    fn overrun(&mut self) -> io::Result<u64>;
}

/// Most frames of one [`FramePort::send`].
pub const BATCH: usize = 32;
