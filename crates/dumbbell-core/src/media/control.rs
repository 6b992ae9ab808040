//! The interface of congestion controls of video. [`nada`](super::nada) is one whose receiver computes; [`feedback`](super::feedback) has the interface for those whose sender computes from reports on
//! single packets.

use crate::fork::{CannotFork, Fork, SharedCopies};
use crate::packet::Ecn;
use crate::param::{Factory, ParamKind, ParamType};
use crate::units::{Duration, Instant, Rate};
use serde_json::Value;

/// A packet that its sender has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MediaPacket {
    /// Number from 0, without gaps.
    pub number: u64,
    /// Payload of RTP, bytes.
    pub bytes: u32,
    /// When it was sent.
    pub sent: Instant,
}

/// A packet that has reached its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MediaArrival {
    /// The packet.
    pub packet: MediaPacket,
    /// Delay one way.
    pub delay: Duration,
    /// When it arrived, on the receiver's clock.
    pub at: Instant,
    /// ECN field that it arrived with.
    pub ecn: Ecn,
}

/// A report of the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MediaReport {
    /// Contents, or a number by which the control finds them.
    pub value: u64,
    /// Length of its frame with all headers, bytes.
    pub length: u16,
}

/// A congestion control of media, both ends in one. Sender and receiver have clocks of their own, whose distance is constant. Time never goes back between calls.
pub trait MediaControl: Send {
    /// The video starts.
    fn start(&mut self, _now: Instant) {}

    /// Rate for the encoder, with `buffered` bytes that wait to be sent.
    fn encoder_rate(&self, buffered: u64) -> Rate;

    /// Rate at which waiting packets are sent.
    fn pacing_rate(&self, buffered: u64) -> Rate;

    /// Whether a packet of `bytes` may be sent now, as far as a window says. Asked after each other call.
    fn may_send(&self, _bytes: u32) -> bool {
        true
    }

    /// When [`MediaControl::on_timer`] is called next, [`Instant::NEVER`] for not at all.
    fn next_timer(&self) -> Instant {
        Instant::NEVER
    }

    /// The time of [`MediaControl::next_timer`] has come. The next time is later.
    fn on_timer(&mut self, _now: Instant) {}

    /// The sender sends a packet.
    fn on_send(&mut self, _packet: &MediaPacket) {}

    /// A packet reaches the receiver.
    fn on_arrival(&mut self, arrival: &MediaArrival);

    /// Time until the receiver's next report, from the first packet or the last report on.
    fn report_interval(&self) -> Duration;

    /// The receiver makes a report.
    fn report(&mut self, now: Instant) -> MediaReport;

    /// The sender has a report with this value, `rtt` after the last packet was sent that had arrived when it was made.
    fn on_report(&mut self, value: u64, rtt: Duration, now: Instant);

    /// Returns a copy that goes on as the original does; a type that is `Clone` writes [`fork_by_clone!(dyn MediaControl)`](crate::fork_by_clone).
    ///
    /// # Errors
    /// It cannot be copied, which is the default.
    fn fork(&self, _shared: &mut SharedCopies) -> Result<Box<dyn MediaControl>, CannotFork> {
        Err(CannotFork::default())
    }
}

impl Fork for Box<dyn MediaControl> {
    fn fork(&self, shared: &mut SharedCopies) -> Result<Self, CannotFork> {
        (**self).fork(shared)
    }
}

/// Builds the control of a video, for its run and user.
pub type ControlFactory = Factory<crate::app::AppContext, Box<dyn MediaControl>>;

/// The congestion control of a video.
#[derive(Clone, Debug, PartialEq)]
pub enum ControlSpec {
    /// None: frames are sent whatever the net does to them.
    None,
    /// [`nada`](super::nada).
    Nada,
    /// One that a program brings along.
    Own(ControlFactory),
}

impl ParamType for ControlSpec {
    const KIND: ParamKind = ParamKind::Choice(&["none", "nada"]);

    fn from_json(value: &Value) -> Result<ControlSpec, String> {
        match value.as_str() {
            Some("none") => Ok(ControlSpec::None),
            Some("nada") => Ok(ControlSpec::Nada),
            _ => Err("none, nada".into()),
        }
    }

    fn to_json(&self) -> Value {
        match self {
            ControlSpec::None => "none".into(),
            ControlSpec::Nada => "nada".into(),
            ControlSpec::Own(factory) => factory.values().into(),
        }
    }
}
