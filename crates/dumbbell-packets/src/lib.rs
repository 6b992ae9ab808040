//! Packets of runs: pcapng (draft-ietf-opsawg-pcapng) with the headers that Linux would give them, or columns.
//!
//! A [`PacketRecorder`] gives a listener for each hop of a run, which writes as things happen. What is written at several points lies in one file, each point an
//! interface: the senders' hosts, the receivers', what arrives at the queue of a hop, what leaves its link. What becomes of a packet is known later than its
//! headers, so that records wait until their packet has arrived or was dropped: drops and marks are comments of the packet that they happened to.
//!
//! The simulator counts segments and the headers count bytes, so numbers are derived: data begin one behind the sequence number of the SYN, and each segment follows the one
//! before it. TCP's payload is zeros; its checksums hold for the whole frame, of which a file may keep less. Connections do not close.
//!
//! Frames of kernels are [`CapturedRun`] instead: headers as they were, from files that another engine writes while a run goes on.

mod captured;
mod columns;
mod connection;
mod fate;
mod frame;
mod pcapng;
mod recorder;
mod state;
mod write;

pub use captured::{CapturePoint, CaptureRecord, CapturedRun, InferredQueue, QueueDecision, Stream, RECORD};
pub use columns::{ColumnValues, Columns};
pub use recorder::{PacketListener, PacketRecorder};
use std::io::Write;
pub use write::{PacketSelection, WrittenPackets};

/// Where a file goes.
pub type CaptureWriter = Box<dyn Write + Send>;

/// The point at the senders of data.
pub const SENDER: &str = "sender";
/// The point at their receivers.
pub const RECEIVER: &str = "receiver";
/// Suffix of the point behind a hop's link; the name of the hop alone is the point ahead of its queue.
pub const OUT: &str = ":out";

/// The points of a run over these hops, in the order in which data pass them.
pub fn points<'a>(hops: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let hops = hops.into_iter().flat_map(|hop| [hop.to_owned(), format!("{hop}{OUT}")]);
    std::iter::once(SENDER.to_owned()).chain(hops).chain([RECEIVER.to_owned()]).collect()
}
