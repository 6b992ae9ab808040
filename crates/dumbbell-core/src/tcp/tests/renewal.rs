//! Senders and receivers that begin again in their own memory.

use super::*;
use crate::cc::{build, CcContext};
use crate::packet::{Ecn, Timestamps, MTU_FRAME};
use crate::tcp::receiver::Echo;

/// Everything of `sender` and `receiver` but what the ring of the scoreboard holds, which is written before it is read.
fn format_state(sender: &mut Sender, receiver: &Receiver) -> String {
    sender.board = sender.board.without_memory();
    format!("{sender:?} {receiver:?}")
}

#[test]
fn who_begins_again_is_as_new() {
    let made = |name: &str| {
        let cc = json!({ "name": name });
        build(cc.as_object().expect("a table"), &CcContext::default()).expect("a registered congestion control")
    };
    for (name, second) in [("cubic", "cubic"), ("reno", "dctcp"), ("bbr2", "bbr2"), ("prague", "reno")] {
        for echo in [Echo::UntilCwr, Echo::PerPacket, Echo::Accurate] {
            let host = Arc::new(HostParams { rto_min: Duration::from_millis(250), sce_feedback: true, ..HostParams::default() });
            let options = FlowOptions { ecn: true, echo };
            let mut story = Story::new(name, HostParams::default(), Application::Size(400_000));
            story.sender = Sender::new(7, made(name), Arc::clone(&host), options, Application::Size(400_000));
            let mut receiver = Receiver::new(7, Arc::clone(&host), options);
            story.start();
            // of 276 segments every 23rd is lost once, and of the others some are marked
            let mut lost = Vec::new();
            story.exchange(&mut receiver, Instant::from_secs(20), |packet| {
                let once = !packet.has(flag::NO_DATA) && packet.tcp().seq() % 23 == 7 && !lost.contains(&packet.tcp().seq());
                lost.extend(once.then_some(packet.tcp().seq()));
                packet.set_ecn([Ecn::Ce, Ecn::Ect1, packet.ecn(), packet.ecn()][packet.tcp().seq() as usize / 10 % 4]);
                once
            });
            // the last packets leave marks that no ACK has reported, a gap and a duplicate
            let next = receiver.rcv_nxt;
            for (seq, ecn) in
                [(next, Ecn::Ect0), (next + 1, Ecn::Ce), (next + 1, Ecn::Ect1), (next + 4, Ecn::Ect1), (next + 6, Ecn::Ect1)]
            {
                let timestamps = Timestamps::new(30_000, Some(29_980));
                let packet = Packet { len: MTU_FRAME, ..Packet::new_tcp(seq, ecn, 0).with_timestamps(timestamps) };
                receiver.on_packet(&packet, Instant::from_secs(30));
            }
            let Story { mut sender, .. } = story;
            assert!(sender.phase == Phase::Done && lost.len() >= 10 && sender.stats.retransmissions >= 10, "{name}: {lost:?}");

            let app = || Application::Size(3_000);
            let plain = FlowOptions { ecn: false, ..FlowOptions::default() };
            sender.renew(made(second), plain, app());
            receiver.renew(plain);
            let (mut fresh, other) =
                (Sender::new(7, made(second), Arc::clone(&host), plain, app()), Receiver::new(7, host, plain));
            assert_eq!(format_state(&mut sender, &receiver), format_state(&mut fresh, &other));
        }
    }
}
