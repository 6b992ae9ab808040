//! The state of each segment, and the counters that follow from it.

use super::*;
use crate::tcp::scoreboard::{seg, Delivered, Scoreboard};

const MS: u64 = 1_000_000;

/// A board and the connection whose counters it keeps: `n` segments, segment `k` sent at `k` ms.
struct Board {
    board: Scoreboard,
    conn: Conn,
}

impl Board {
    fn new(n: u64) -> Board {
        let mut conn = Story::new("reno", plain(10), Application::Bulk).sender.conn;
        let mut board = Scoreboard::default();
        for seq in 0..n {
            board.push(seq, 0, Instant(seq * MS), false);
            conn.snd_nxt += 1;
        }
        conn.now = Instant(n.max(100) * MS);
        Board { board, conn }
    }

    fn sack(&mut self, blocks: &[Block]) -> Delivered {
        let mut delivered = Delivered::default();
        self.board.sack(&mut self.conn, blocks, &mut delivered, &mut ());
        delivered
    }

    fn acknowledge(&mut self, ack: u64) -> Delivered {
        let mut delivered = Delivered::default();
        self.board.acknowledge(&mut self.conn, ack, u32::MAX, &mut delivered, &mut ());
        delivered
    }

    fn detect(&mut self, window: u64) -> (u32, u32, u64) {
        let (lost, again, wait) = self.board.detect_loss(&mut self.conn, Duration(window * MS), &mut ());
        (lost, again, wait.as_millis())
    }

    fn counters(&self) -> (u32, u32, u32) {
        (self.conn.sacked_out, self.conn.lost_out, self.conn.retrans_out)
    }

    fn flags(&self) -> Vec<u8> {
        (self.conn.snd_una..self.conn.snd_nxt).map(|seq| self.board.get(seq).flags).collect()
    }
}

#[test]
fn the_ring_grows_and_keeps_what_it_holds() {
    let mut board = Board::new(1000);
    for seq in 0..1000 {
        assert_eq!(board.board.get(seq).sent, Instant(seq * MS));
    }
    board.sack(&[(500, 600)]);
    assert_eq!(board.conn.sacked_out, 100);
    // segments acknowledged make room: the ring of 1024 takes 999 more without growth
    let before = board.board.heap_bytes();
    board.acknowledge(999);
    for seq in 1000..2000 {
        board.board.push(seq, 999, Instant(seq * MS), false);
        board.conn.snd_nxt += 1;
    }
    assert_eq!((board.board.heap_bytes(), board.conn.sacked_out), (before, 0));
    assert_eq!((board.board.get(999).sent, board.board.get(1999).sent), (Instant(999 * MS), Instant(1999 * MS)));
}

#[test]
fn a_segment_is_delivered_once() {
    let mut board = Board::new(10);
    assert_eq!(board.sack(&[(3, 6)]).segments, 3);
    // the same again, and one more on either side
    assert_eq!(board.sack(&[(2, 7)]).segments, 2);
    assert_eq!(board.sack(&[(2, 7)]).segments, 0);
    assert_eq!(board.conn.sacked_out, 5);
    // 0..8 acknowledged: 8 of which 5 were SACKed
    let delivered = board.acknowledge(8);
    assert_eq!((delivered.segments, delivered.acked, board.conn.sacked_out), (3, 8, 0));
}

#[test]
fn blocks_are_cut_to_what_is_in_flight() {
    let mut board = Board::new(10);
    board.acknowledge(4);
    let delivered = board.sack(&[(0, 6), (9, 50), (7, 7), (8, 5)]);
    assert_eq!((delivered.segments, board.conn.sacked_out), (3, 3));
    assert_eq!(board.flags(), [seg::SACKED, seg::SACKED, 0, 0, 0, seg::SACKED]);
}

#[test]
fn rtt_samples_come_from_segments_sent_once() {
    let mut board = Board::new(10);
    board.board.mark_lost(&mut board.conn, 0, &mut ());
    board.board.mark_retransmitted(&mut board.conn, 0, Instant(50 * MS));
    // oldest and newest of 2..5
    let sacked = board.sack(&[(2, 5)]);
    assert_eq!((sacked.first_sacked, sacked.last_sacked), (Some(Instant(2 * MS)), Some(Instant(4 * MS))));
    assert!(sacked.data_sacked);
    // 0 was sent twice, 2..5 gave their samples before: 1 and 5
    let acked = board.acknowledge(6);
    assert_eq!(
        (acked.first_acked, acked.last_acked, acked.retransmission_acked),
        (Some(Instant(MS)), Some(Instant(5 * MS)), true)
    );
    assert_eq!(board.counters(), (0, 0, 0));
}

#[test]
fn originals_below_high_seq_are_told_apart() {
    // F-RTO: 0 was sent again, 1 was not; the episode began with 5 out
    let mut board = Board::new(10);
    board.conn.high_seq = 5;
    board.board.mark_lost(&mut board.conn, 0, &mut ());
    board.board.mark_retransmitted(&mut board.conn, 0, Instant(50 * MS));
    assert!(!board.acknowledge(1).original_sacked);
    assert!(!board.sack(&[(7, 8)]).original_sacked);
    assert!(board.sack(&[(4, 5)]).original_sacked);
    assert!(board.acknowledge(2).original_sacked);
    // sent after the episode began
    board.acknowledge(5);
    assert!(!board.acknowledge(6).original_sacked);
}

#[test]
fn what_was_sent_twice_gives_no_sample_even_when_it_was_lost_again() {
    let mut board = Board::new(10);
    board.conn.high_seq = 10;
    board.board.mark_lost(&mut board.conn, 3, &mut ());
    board.board.mark_retransmitted(&mut board.conn, 3, Instant(50 * MS));
    board.board.mark_lost(&mut board.conn, 3, &mut ());
    assert_eq!(board.counters(), (0, 1, 0));
    let delivered = board.sack(&[(3, 4)]);
    assert_eq!((delivered.first_sacked, delivered.original_sacked, delivered.segments), (None, false, 1));
    assert_eq!(board.counters(), (1, 0, 0));
}

#[test]
fn rack_waits_a_round_trip_and_a_window_and_stops_at_the_newest_delivered() {
    let mut board = Board::new(10);
    // at 100 ms the SACK of 5, sent at 5 ms: round trip 95
    board.sack(&[(5, 6)]);
    // window 10: 0 has waited 100 of 105 ms, .. 4 has waited 96
    assert_eq!(board.detect(10), (0, 0, 9));
    // window 3: 98 ms. 0, 1 and 2 waited 100, 99, 98; 3 waits 1 ms more, 4 another 2
    assert_eq!(board.detect(3), (3, 0, 2));
    assert_eq!(board.counters(), (1, 3, 0));
    // no window: 95 ms; what was sent after 5 is not looked at, however long ago
    board.conn.now = Instant(1000 * MS);
    assert_eq!(board.detect(0), (2, 0, 0));
    let lost = seg::LOST;
    assert_eq!(board.flags(), [lost, lost, lost, lost, lost, seg::SACKED, 0, 0, 0, 0]);
}

#[test]
fn a_retransmission_is_lost_when_something_sent_later_arrives() {
    let mut board = Board::new(10);
    board.sack(&[(5, 6)]);
    board.detect(0);
    assert_eq!(board.board.next_retransmission(&board.conn), Some(0));
    board.board.mark_retransmitted(&mut board.conn, 0, Instant(100 * MS));
    assert_eq!(board.board.next_retransmission(&board.conn), Some(1));
    assert_eq!(board.counters(), (1, 5, 1));
    // 6 was sent before: no news of the retransmission; one that was sent at 101 ms and takes 99 ms is
    board.conn.now = Instant(200 * MS);
    board.sack(&[(6, 7)]);
    assert_eq!(board.detect(0), (0, 0, 0));
    board.board.push(10, 0, Instant(101 * MS), false);
    board.conn.snd_nxt += 1;
    board.sack(&[(10, 11)]);
    // 7..10 as well
    assert_eq!(board.detect(0), (3, 1, 0));
    assert_eq!(board.counters(), (3, 8, 0));
    assert_eq!(board.board.next_retransmission(&board.conn), Some(0));
}

#[test]
fn a_probe_is_not_a_retransmission_in_flight_but_may_be_lost() {
    let mut board = Board::new(10);
    board.board.mark_probed(9, Instant(100 * MS));
    assert_eq!((board.counters(), board.flags()[9]), ((0, 0, 0), seg::EVER_RETRANS));
    board.board.push(10, 0, Instant(101 * MS), false);
    board.conn.snd_nxt += 1;
    board.conn.now = Instant(200 * MS);
    board.sack(&[(10, 11)]);
    // all ten: 9 waited since the probe, for 100 ms of 99
    assert_eq!(board.detect(0), (10, 0, 0));
    assert_eq!(board.counters(), (1, 10, 0));
}

#[test]
fn an_ack_faster_than_the_path_is_of_the_first_transmission() {
    let mut board = Board::new(10);
    board.conn.rtt.sample_min(40_000, Instant::ZERO);
    board.board.mark_lost(&mut board.conn, 9, &mut ());
    board.board.mark_retransmitted(&mut board.conn, 9, Instant(90 * MS));
    // 10 ms after it was sent again: RACK learns nothing
    board.sack(&[(9, 10)]);
    assert_eq!((board.board.rack.advanced, board.detect(0)), (false, (0, 0, 0)));
    assert_eq!(board.counters(), (1, 0, 0));
}

#[test]
fn marks_are_taken_back_and_made_again() {
    let mut board = Board::new(10);
    board.sack(&[(5, 6)]);
    board.detect(0);
    board.board.mark_retransmitted(&mut board.conn, 0, Instant(100 * MS));
    board.board.unmark_all(&mut board.conn);
    assert_eq!(board.counters(), (1, 0, 1));
    assert_eq!(board.board.next_retransmission(&board.conn), None);
    // what is still missing counts as lost once more, but for the one that was just sent
    assert_eq!(board.detect(0), (4, 0, 0));
    assert_eq!(board.board.next_retransmission(&board.conn), Some(1));
    // a SACKed segment is never lost
    board.board.mark_lost(&mut board.conn, 5, &mut ());
    assert_eq!(board.counters(), (1, 4, 1));
}

#[test]
fn each_transmission_is_newly_lost_once() {
    let mut board = Board::new(3);
    let is_new = |own: &mut Board, seq| own.board.mark_lost(&mut own.conn, seq, &mut ());
    assert!(is_new(&mut board, 0));
    // as a second timeout does, before anything is sent again
    assert!(!is_new(&mut board, 0));
    board.board.mark_retransmitted(&mut board.conn, 0, Instant(100 * MS));
    assert!(is_new(&mut board, 0));
    board.sack(&[(2, 3)]);
    assert!(!is_new(&mut board, 2));
}

#[test]
fn blocks_count_in_order_of_segments() {
    // the newest block comes first in the ACK, but the highest segment is the last one walked: sent at 7 ms, now it is 100
    let mut board = Board::new(10);
    let delivered = board.sack(&[(3, 4), (7, 8), (5, 6)]);
    assert_eq!((delivered.first_sacked, delivered.last_sacked), (Some(Instant(3 * MS)), Some(Instant(7 * MS))));
    assert_eq!(board.board.rack.rtt, Duration(93 * MS));
}

#[test]
fn an_original_that_was_late_shows_nothing_of_what_was_sent_since() {
    // segment 0 is sent again at 60 ms and acknowledged at 100; the ACK was caused by a packet sent at `tsecr` ms
    for (tsecr, sent) in [(59, 0), (60, 60)] {
        let mut board = Board::new(10);
        board.conn.rtt.sample_min(1_000, Instant::ZERO);
        board.board.mark_lost(&mut board.conn, 0, &mut ());
        board.board.mark_retransmitted(&mut board.conn, 0, Instant(60 * MS));
        board.board.acknowledge(&mut board.conn, 1, tsecr, &mut Delivered::default(), &mut ());
        assert_eq!(board.board.rack.sent, Instant(sent * MS), "{tsecr} ms");
    }
}

#[test]
fn a_row_is_acknowledged_as_its_segments_are() {
    for (n, acks) in [(9, vec![1, 3, 4, 9]), (40, vec![17, 18, 40]), (3, vec![3])] {
        let (mut row, mut each) = (Board::new(n), Board::new(n));
        for seq in n..n + 5 {
            for board in [&mut row, &mut each] {
                board.board.push(seq, board.conn.snd_una, Instant(seq * MS), seq % 2 == 0);
                board.conn.snd_nxt += 1;
            }
        }
        for ack in acks.into_iter().chain([n + 2, n + 5]) {
            let delivered = each.acknowledge(ack);
            let plain = row.board.plain_row(row.conn.snd_una, ack).expect("nothing is known of any");
            row.board.acknowledge_row(&mut row.conn, ack, &plain);
            assert_eq!((Some(plain.first), Some(plain.last)), (delivered.first_acked, delivered.last_acked));
            assert_eq!(format!("{:?}", row.board), format!("{:?}", each.board));
            assert_eq!(format!("{:?}", row.conn), format!("{:?}", each.conn));
        }
        assert_eq!(row.board.bursts, 0);
    }
    let mut board = Board::new(10);
    board.sack(&[(4, 5)]);
    assert_eq!([4, 5].map(|ack| board.board.plain_row(0, ack).is_some()), [true, false]);
}
