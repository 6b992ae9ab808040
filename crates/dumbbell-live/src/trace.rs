//! Headers of the frames of a direction, written to files while a run goes on; `dumbbell_packets` makes packets of them.

use dumbbell_core::units::Instant;
use dumbbell_packets::{CaptureRecord, QueueDecision, RECORD};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{sync_channel, Receiver, SyncSender, TrySendError};
use std::thread::JoinHandle;

/// Bytes that are handed over at a time.
const BATCH: usize = 1024 * RECORD;
/// Most batches that may wait for the disk, 60 MB: a second of full frames at 2 Gbit/s.
const BATCHES: usize = 512;

/// The files of a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceFile {
    /// Frames that arrive from the senders' side.
    Arrived,
    /// Frames that leave the link.
    Left,
    /// Frames that are sent on to the other side.
    Sent,
    /// Frames that the queue marked or dropped.
    Told,
}

impl TraceFile {
    const ALL: [TraceFile; 4] = [TraceFile::Arrived, TraceFile::Left, TraceFile::Sent, TraceFile::Told];

    /// The name of its file.
    pub fn name(self, direction: usize) -> String {
        let word = match self {
            TraceFile::Arrived => "arrived",
            TraceFile::Left => "left",
            TraceFile::Sent => "sent",
            TraceFile::Told => "told",
        };
        format!("{word}.{direction}")
    }
}

/// Writes records; a thread of its own waits for the disk.
pub struct TraceWriter {
    /// Records of each file that have not been handed to the writer yet.
    batches: [Vec<u8>; 4],
    full: Option<SyncSender<(usize, Vec<u8>)>>,
    empty: Receiver<Vec<u8>>,
    writer: Option<JoinHandle<io::Result<()>>>,
    /// The disk was too slow.
    lost: u64,
}

impl TraceWriter {
    /// Into files in `folder`, those of direction `number`.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn new(folder: &Path, number: usize) -> io::Result<TraceWriter> {
        let mut files = Vec::new();
        for kind in TraceFile::ALL {
            files.push(File::create(folder.join(kind.name(number)))?);
        }
        let (full, to_write) = sync_channel::<(usize, Vec<u8>)>(BATCHES);
        let (give_back, empty) = sync_channel(BATCHES);
        let writer = std::thread::spawn(move || {
            for (file, mut batch) in to_write {
                files[file].write_all(&batch)?;
                batch.clear();
                // nobody takes it back at the end
                let _ = give_back.try_send(batch);
            }
            Ok(())
        });
        let batches = [(); 4].map(|()| Vec::with_capacity(BATCH));
        Ok(TraceWriter { batches, full: Some(full), empty, writer: Some(writer), lost: 0 })
    }

    /// A frame is seen; those that arrive leave their host.
    pub fn write_frame(&mut self, kind: TraceFile, time: Instant, frame: &[u8]) {
        self.put(kind, &CaptureRecord::new(time.0, frame, kind == TraceFile::Arrived, None));
    }

    /// The queue has marked or dropped a frame.
    pub fn write_decision(&mut self, time: Instant, frame: &[u8], told: QueueDecision) {
        self.put(TraceFile::Told, &CaptureRecord::new(time.0, frame, true, Some(told)));
    }

    fn put(&mut self, kind: TraceFile, record: &CaptureRecord) {
        let batch = &mut self.batches[kind as usize];
        batch.extend_from_slice(&record.to_bytes());
        if batch.len() < BATCH {
            return;
        }
        let next = self.empty.try_recv().unwrap_or_else(|_| Vec::with_capacity(BATCH));
        let batch = std::mem::replace(batch, next);
        if let Some(full) = &self.full {
            // otherwise the writing thread has ended with an error, which `finish` returns
            if let Err(TrySendError::Full((_, batch))) = full.try_send((kind as usize, batch)) {
                self.lost += (batch.len() / RECORD) as u64;
            }
        }
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// The first that there was, or records that the disk was too slow for.
    pub fn finish(mut self) -> io::Result<()> {
        for (file, batch) in self.batches.iter_mut().enumerate() {
            if let Some(full) = &self.full {
                // as above
                let _ = full.send((file, std::mem::take(batch)));
            }
        }
        self.full = None;
        let ended = self.writer.take().map_or(Ok(Ok(())), JoinHandle::join);
        ended.unwrap_or_else(|_| Err(io::Error::other("who writes a trace panicked")))?;
        match self.lost {
            0 => Ok(()),
            lost => Err(io::Error::other(format!("the disk was too slow for {lost} packets of the trace"))),
        }
    }
}
