//! A video from the server to the client: frames in datagrams, by an encoder that a congestion control may steer, and what the viewer sees of them.

use super::measure::{Measure, MeasureKind, FRAMES_LATE, FRAMES_LOST, LATE_SHARE};
use super::{AnyApp, AppContext, AppKind};
use crate::media::control::{ControlSpec, MediaControl};
use crate::media::nada::{self, Nada};
use crate::media::video::{FixedParams, FixedSource, FrameSpacing, StatisticalParams, StatisticalSource};
use crate::media::video_flow::{VideoFlow, VideoOptions, VideoSource, HEADERS};
use crate::media::viewer::ViewerParams;
use crate::param::ParamError;
use crate::params;
use crate::traffic::Codepoint;
use crate::units::{Duration, Instant, Rate};

/// Name in configurations.
pub const NAME: &str = "video";
/// Title of the application.
pub const TITLE: &str = "A video to the client, frames over UDP with or without a congestion control";
/// Where it comes from.
pub const SOURCE: &str = "RFC 8593 and draft-huitema-ccwg-c4-test-02 (frames), RFC 8698 (NADA)";
/// Kind of its traffic.
pub const KIND: AppKind = AppKind::Media;

crate::choice! {
    /// Which encoder makes the frames.
    pub enum Encoder {
        /// Groups of frames of constant size, each of which needs the one before it in its group.
        Fixed = "fixed",
        /// RFC 8593: sizes and distances vary around those of a rate, and no frame needs another.
        Statistical = "statistical",
    }
}

params! {
    /// Parameters of a video.
    pub struct Params {
        /// Encoder of the frames: groups of constant sizes, or the statistical model of RFC 8593, which follows rate or a congestion control.
        source: Encoder = Encoder::Fixed, unit "", source "the default is ours";
        /// Congestion control: nada sets the rate at which packets are sent, and that of a statistical encoder, by reports that the client sends.
        control: ControlSpec = ControlSpec::None, unit "", source "RFC 8698";
        /// Frames per second.
        frame_rate: u32 = 30, unit "frames/s", range 1_u32, 1_000_u32, source "draft-huitema-ccwg-c4-test-02; RFC 8593 figure 2";
        /// Frames of a group of a fixed encoder.
        group: u32 = 30, unit "frames", range 1_u32, 1_000_000_u32, source "draft-huitema-ccwg-c4-test-02";
        /// Size of the first frame of a group of a fixed encoder.
        intra: u32 = 37_500, unit "bytes", range 1_u32, 100_000_000_u32, source "draft-huitema-ccwg-c4-test-02, smaller stream";
        /// Size of the other frames of a fixed encoder.
        predicted: u32 = 3_750, unit "bytes", range 1_u32, 100_000_000_u32, source "draft-huitema-ccwg-c4-test-02, smaller stream";
        /// Rate of a statistical encoder without a congestion control.
        rate: Rate = Rate(1_000_000), unit "", range Rate(1_000), Rate(1_000_000_000), source "RFC 8593 figure 2, example value";
        /// Lowest rate with a congestion control, at which it starts.
        least: Rate = Rate(150_000), unit "", range Rate(1_000), Rate(1_000_000_000), source "RFC 8593 figure 2; RFC 8698 table 2";
        /// Highest rate with a congestion control.
        most: Rate = Rate(1_500_000), unit "", range Rate(1_000), Rate(1_000_000_000), source "RFC 8593 figure 2; RFC 8698 table 2";
        /// Mean deviation of sizes and distances of the frames of a statistical encoder, relative to those of its rate; Laplacian.
        variation: f64 = 0.15, unit "", range 0.0, 1.0, source "RFC 8593 figure 2, example value of SCALE_B and SCALE_t";
        /// Size of the large frame with which a statistical encoder starts, and answers an abrupt change of its rate.
        burst: u32 = 13_500, unit "bytes", range 1_u32, 100_000_000_u32, source "RFC 8593 figure 2, example value of K_B";
        /// Without a congestion control, the packets of a frame are sent at once or spread evenly over the time to the next frame.
        spacing: FrameSpacing = FrameSpacing::AtOnce, unit "", source "ours";
        /// Weight of the flow against others with nada.
        priority: f64 = 1.0, unit "", range 0.001, 1_000.0, source "RFC 8698 table 2, PRIO";
        /// Most bytes of a frame in a packet; 12 B of RTP and 42 B of UDP, IP and Ethernet are added. NADA takes the longer transmission of large packets for
        /// queueing delay: with packets of a full frame it does not ramp up below 1.2 Mbit/s.
        payload: u16 = 1_000, unit "bytes", range 1_u16, 8_900_u16, source "cisco/syncodecs, the authors' source of video for NADA";
        /// If a frame waits for longer than this at the sender, the rest of it and of its group is discarded there. Frames only wait where a congestion control sets the
        /// rate.
        cancel: Option<Duration> = None, unit "", range Duration::from_millis(1), Duration::from_secs(60), source "draft-huitema-ccwg-c4-test-02, second stream: 250 ms";
        /// A frame that is shown later than this after its capture is late.
        late: Duration = Duration::from_millis(250), unit "", range Duration::from_millis(1), Duration::from_secs(60), source "draft-huitema-ccwg-c4-test-02: lateness from which on the second stream is cancelled";
        /// The video is frozen when no new picture appears for longer than this.
        freeze: Duration = Duration::from_millis(200), unit "", range Duration::from_millis(1), Duration::from_secs(60), source "ours: six frames of 30 per second";
        /// ECN field of the packets.
        marking: Codepoint = Codepoint::NotEct, unit "", source "RFC 3168 section 5";
    }
    check check
}

/// Refuses a range of rates without a rate.
fn check(params: &Params) -> Result<(), ParamError> {
    if params.least > params.most {
        return Err(ParamError::new("most", params.most, format!("at least least, {}", params.least)));
    }
    Ok(())
}

/// Measures in addition to the delays and losses of packets.
pub static MEASURES: [Measure; 10] = [
    LATE_SHARE,
    FRAMES_LATE,
    FRAMES_LOST,
    Measure {
        name: "freezes",
        unit: "freezes",
        label: "freezes",
        doc: &["Times for which the video showed no new picture for longer than freeze, the time to its first picture and after its last one included."],
        kind: MeasureKind::Count,
    },
    Measure {
        name: "frozen_s",
        unit: "s",
        label: "time frozen",
        doc: &["Length of all freezes of the video together."],
        kind: MeasureKind::Real,
    },
    Measure {
        name: "groups_discarded",
        unit: "groups",
        label: "discarded groups",
        doc: &["Groups of frames of which the sender discarded a part because a frame waited for longer than cancel."],
        kind: MeasureKind::Count,
    },
    Measure {
        name: "encoder_mbit",
        unit: "Mbit/s",
        label: "rate of the encoder",
        doc: &["Size of the frames that were captured, over the measured time."],
        kind: MeasureKind::Real,
    },
    Measure {
        name: "frame_delay_mean_ms",
        unit: "ms",
        label: "frame delay, mean",
        doc: &["Mean time from the capture of a frame of the video until its last byte was at the viewer, of the frames that came as a whole."],
        kind: MeasureKind::Real,
    },
    Measure {
        name: "frame_delay_p95_ms",
        unit: "ms",
        label: "frame delay, P95",
        doc: &["Time from the capture of a frame of the video until its last byte was at the viewer that 95 % of the frames that came as a whole did not exceed."],
        kind: MeasureKind::Binned,
    },
    Measure {
        name: "frame_delay_max_ms",
        unit: "ms",
        label: "frame delay, largest",
        doc: &["Longest time from the capture of a frame of the video until its last byte was at the viewer, of the frames that came as a whole."],
        kind: MeasureKind::Real,
    },
];

/// Length of a full packet with all headers, bytes.
pub fn largest_frame(params: &Params) -> u16 {
    params.payload + HEADERS
}

/// Builds the video of a user.
pub fn build(params: &Params, context: &AppContext) -> AnyApp {
    let frame_rate = params.frame_rate;
    let source = match params.source {
        Encoder::Fixed => {
            let Params { group, intra, predicted, .. } = *params;
            VideoSource::Fixed(FixedSource::new(FixedParams { frame_rate, group, intra, predicted }, Instant::ZERO))
        }
        Encoder::Statistical => {
            let (target, least, most) = match params.control {
                ControlSpec::None => (params.rate, params.rate, params.rate),
                _ => (params.least, params.least, params.most),
            };
            let (interval_scale, size_scale) = (params.variation, params.variation);
            let own = StatisticalParams {
                target,
                frame_rate: f64::from(frame_rate),
                burst_size: params.burst,
                interval_scale,
                size_scale,
                least,
                most,
                ..StatisticalParams::default()
            };
            VideoSource::Statistical(StatisticalSource::new(own, Instant::ZERO, context.rng("video frames")))
        }
    };
    let control: Option<Box<dyn MediaControl>> = match &params.control {
        ControlSpec::None => None,
        ControlSpec::Nada => {
            let Params { priority, least, most, .. } = *params;
            let own = nada::Params { priority, least, most, frame_rate: f64::from(frame_rate), ..nada::Params::default() };
            Some(Box::new(Nada::new(&own)))
        }
        ControlSpec::Own(factory) => Some(factory.build(context)),
    };
    let options = VideoOptions {
        payload: params.payload,
        spacing: params.spacing,
        cancel: params.cancel,
        ecn: params.marking.into(),
        viewer: ViewerParams { late: params.late, freeze: params.freeze },
    };
    AnyApp::Media(Box::new(VideoFlow::new(source, control, options)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(keys: &serde_json::Value) -> Result<Params, ParamError> {
        Params::from_json(keys.as_object().expect("a table"))
    }

    #[test]
    fn keys_that_contradict_each_other_are_refused() {
        let error = read(&json!({"most": 100_000})).expect_err("an error");
        assert_eq!(error.to_string(), "most: found 100kbit, allowed: at least least, 150kbit");
        let unknown = read(&json!({"control": "gcc"})).expect_err("an error");
        assert_eq!(unknown.to_string(), "control: found \"gcc\", allowed: none, nada");
        assert_eq!(read(&json!({"control": "nada"})).expect("parameters").values()["control"], json!("nada"));
    }

    #[test]
    fn a_full_packet_has_all_headers() {
        // 1,000 B, 12 B of RTP, 8 B of UDP, 20 B of IP, 14 B of Ethernet
        assert_eq!(largest_frame(&Params::default()), 1_054);
    }
}
