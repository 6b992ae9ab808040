//! The stack's own qlog of a client, where the environment asks for it: DUMBBELL_STACK_QLOG names a folder. A file there is called after flow and
//! stack. DUMBBELL_STACK_QLOG_AHEAD has, flow by flow, at which time the clock of its client begins, ns.
//!
//! Licence: MIT OR Apache-2.0.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::time::Instant;

use proto::{QlogConfig, TransportConfig};

use crate::end::Epoch;

/// The file of one client.
struct Log {
    path: PathBuf,
    start: Instant,
    title: String,
}

impl Log {
    /// That of a flow, if it is asked for.
    fn asked(flow: u64, epoch: Epoch) -> Option<Self> {
        let folder = std::env::var_os("DUMBBELL_STACK_QLOG")?;
        let ahead = std::env::var("DUMBBELL_STACK_QLOG_AHEAD").unwrap_or_default();
        let ahead = ahead.split_whitespace().nth(usize::try_from(flow).ok()?).and_then(|time| time.parse().ok()).unwrap_or(0);
        let path = PathBuf::from(folder).join(format!("flow-{flow}-{}.sqlog", crate::NAME));
        Some(Self { path, start: epoch.instant(ahead), title: format!("{} of flow {flow}", crate::NAME) })
    }

    /// What is written to; a folder that cannot be written is said on standard error, and the run goes on.
    fn writer(&self) -> Option<Box<dyn Write + Send + Sync>> {
        match File::create(&self.path) {
            Ok(file) => Some(Box::new(BufWriter::new(file))),
            Err(error) => {
                eprintln!("{}: {error}", self.path.display());
                None
            }
        }
    }
}

#[cfg(feature = "quinn")]
fn set(config: &mut TransportConfig, log: Log) {
    let Some(writer) = log.writer() else { return };
    let mut own = QlogConfig::default();
    own.writer(writer).title(Some(log.title)).start_time(log.start);
    config.qlog_stream(own.into_stream());
}

#[cfg(feature = "noq")]
impl proto::QlogFactory for Log {
    fn for_connection(
        &self,
        _: proto::Side,
        _: std::net::SocketAddr,
        _: proto::ConnectionId,
        _: Instant,
    ) -> Option<QlogConfig> {
        let mut own = QlogConfig::new(self.writer()?);
        own.title(Some(self.title.clone())).start_time(self.start);
        Some(own)
    }
}

#[cfg(feature = "noq")]
fn set(config: &mut TransportConfig, log: Log) {
    config.qlog_factory(std::sync::Arc::new(log));
}

/// Returns the configuration of a flow's client, which writes if that is asked for.
pub fn written(mut config: TransportConfig, flow: u64, epoch: Epoch) -> TransportConfig {
    if let Some(log) = Log::asked(flow, epoch) {
        set(&mut config, log);
    }
    config
}
