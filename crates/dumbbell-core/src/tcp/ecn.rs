//! The sender's half of ECN: what was negotiated, what ACKs echo, which codepoint packets carry (RFC 3168, RFC 9768).

use super::{ack_flag, Ack};
use crate::cc::{Echo, EcnUse};
use crate::packet::{flag, Ecn};

/// ACE field before the first CE packet. RFC 9768 section 3.2.1; Linux `TCP_ACCECN_CEP_INIT_OFFSET`.
//= draft-ietf-tcpm-accurate-ecn-34, section 3.2.1
//# When a host enters AccECN mode, in its role as a Data Sender it initializes its counters to s.cep = 5, s.e0b = s.e1b = 1 and s.ceb = 0.
pub(super) const ACE_START: u8 = 5;
/// Largest value of the ACE field.
pub(super) const ACE_MAX: u8 = 7;
/// Bytes that the AccECN option takes of a segment: 11, padded. RFC 9768 section 3.2.3.
pub(super) const OPTION_BYTES: u16 = 12;
/// Bytes of the option next to two SACK blocks, which leave room for two of its three counters. RFC 9768 section 3.2.3.
pub(super) const SHORT_OPTION_BYTES: u16 = 8;
/// ACKs that deliver so many segments are judged by the share of bytes: twice the values of the ACE field. Linux `__tcp_accecn_process`.
const MANY: u32 = 16;
/// Average of segments an ACK (with [`AVERAGE_SHIFT`]) above which ACKs are thinned: four. Linux `ACK_COMP_THRESH`.
const THINNED: u32 = 4 << AVERAGE_SHIFT;
/// Weight and scale of that average, -log2. Linux `PKTS_ACKED_WEIGHT`, `PKTS_ACKED_PREC`.
const AVERAGE_SHIFT: u32 = 6;

/// Linux `ecn_flags`, as far as a sender has them.
#[derive(Clone, Copy, Debug)]
pub(super) struct SenderEcn {
    /// ECN is asked for.
    wanted: bool,
    /// Both ends agreed.
    pub agreed: bool,
    /// The receiver counts CE (AccECN).
    pub accurate: bool,
    /// The next new segment carries CWR.
    pub cwr_queued: bool,
    /// Use of ECN that the congestion control asks for.
    asked: EcnUse,
    /// [`Ack::ce_bytes`] of the newest option.
    ce_bytes: u32,
    /// Average of segments that an ACK delivers, in 1/64; 0 before the first.
    average: u32,
}

/// Codepoints of what a receiver sends, if ECN is agreed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackEcn {
    /// The SYN-ACK: not ECN-capable, unless the congestion control requires ECN. Linux `tcp_ecn_send_synack`.
    pub syn_ack: Ecn,
    /// Acknowledgements: as what is not new data of a sender. Linux `tcp_ecn_send`.
    pub acks: Ecn,
}

impl BackEcn {
    /// Nothing is ECN-capable.
    pub const NOT_ECT: BackEcn = BackEcn { syn_ack: Ecn::NotEct, acks: Ecn::NotEct };

    /// The receiver sends its SYN-ACK: if that does not agree to ECN, nothing of it is ECN-capable.
    #[inline]
    pub fn negotiate(&mut self, ack: &Ack) {
        if ack.has(ack_flag::SYN_ACK) && !ack.has(ack_flag::ECN_SETUP) {
            *self = BackEcn::NOT_ECT;
        }
    }

    /// Codepoint of `ack`.
    #[inline]
    pub fn ack_codepoint(&self, ack: &Ack) -> Ecn {
        if ack.has(ack_flag::SYN_ACK) {
            self.syn_ack
        } else {
            self.acks
        }
    }
}

/// ECN echo of an ACK.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AckEcho {
    /// There was CE.
    pub ece: bool,
    /// CE packets that an AccECN receiver newly counted; `None` without AccECN.
    pub new_ce: Option<u32>,
}

impl AckEcho {
    /// CE packets among `segments` newly delivered ones: those that were counted, or all, if there was CE.
    #[inline(always)]
    pub fn count_marked(&self, segments: u32) -> u32 {
        self.new_ce.unwrap_or(if self.ece { segments } else { 0 })
    }
}

/// Data that an ACK delivers, by which the count of CE is read.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DeliveryProgress {
    /// Segments newly delivered.
    pub segments: u32,
    /// Payload of a full segment, bytes.
    pub payload: u32,
    /// Segments delivered with CE before, as far as known.
    pub delivered_ce: u64,
}

impl SenderEcn {
    /// The host wants ECN, and the congestion control has a codepoint for it; or the control requires it.
    pub fn new(wanted: bool, asked: EcnUse) -> SenderEcn {
        let wanted = (wanted && asked.codepoint != Ecn::NotEct) || asked.required;
        SenderEcn { wanted, agreed: false, accurate: false, cwr_queued: false, asked, ce_bytes: 0, average: 0 }
    }

    /// ECN is asked for.
    pub fn asks_for_ecn(&self) -> bool {
        self.wanted
    }

    /// AccECN is asked for.
    pub fn asks_for_counts(&self) -> bool {
        self.wanted && self.asked.echo == Echo::Accurate
    }

    /// A SYN-ACK has come.
    pub fn negotiate(&mut self, syn_ack: &Ack) {
        self.agreed = self.wanted && syn_ack.has(ack_flag::ECN_SETUP);
        self.accurate = self.agreed && syn_ack.has(ack_flag::ACCECN_SETUP);
        if self.asked.only_accurate {
            self.agreed = self.accurate;
        }
    }

    /// The congestion control requires ECN, and the peer did not agree to it.
    pub fn is_required_but_refused(&self) -> bool {
        self.asked.required && !self.agreed
    }

    /// Another control takes over once both ends have negotiated: it uses what they agreed on. A codepoint on every packet stays, as Linux's `TCP_ECN_ECT_PERMANENT` does.
    ///
    /// # Errors
    /// Says of the connection what the control misses.
    pub fn take_over(&mut self, asked: EcnUse) -> Result<(), &'static str> {
        if asked.required && !self.agreed {
            return Err("whose ends have not agreed to ECN");
        }
        if asked.only_accurate && !self.accurate {
            return Err("whose receiver does not count CE (AccECN)");
        }
        let every_packet = asked.every_packet || self.asked.every_packet;
        self.asked = EcnUse { every_packet, ..asked };
        Ok(())
    }

    /// Reads the echo of an ACK from a receiver that does not count.
    #[inline]
    pub fn ece(&self, ack: &Ack) -> bool {
        self.agreed && !self.accurate && ack.has(ack_flag::ECE)
    }

    /// CE packets that the receiver newly counted, by the three bits of the ACE field alone.
    #[inline]
    pub fn by_field(&self, ack: &Ack, delivered_ce: u64) -> u32 {
        //= draft-ietf-tcpm-accurate-ecn-34, section 3.2.2.2
        //# It takes the least significant 3 bits of its local s.cep counter and subtracts them from the incoming ACE counter to work out the
        //# minimum positive increment it could apply to s.cep (assuming the ACE field only wrapped at most once).
        u32::from(ack.ace().wrapping_sub(ACE_START).wrapping_sub(delivered_ce as u8) & ACE_MAX)
    }

    /// CE packets that the receiver newly counted. Linux `__tcp_accecn_process`: up to seven segments the ACE field counts them; beyond, it may have
    /// wrapped, and the count follows from the option, or from the average number of segments that ACKs deliver.
    #[inline]
    pub fn count(&mut self, ack: &Ack, progress: DeliveryProgress) -> u32 {
        let by_field = self.by_field(ack, progress.delivered_ce);
        let option = ack.has(ack_flag::ACCECN_OPTION);
        let bytes = if option { ack.ce_bytes.wrapping_sub(std::mem::replace(&mut self.ce_bytes, ack.ce_bytes)) } else { 0 };
        let new = progress.segments << AVERAGE_SHIFT;
        if new > 0 {
            let sum = (u64::from(self.average) << AVERAGE_SHIFT) - u64::from(self.average) + u64::from(new);
            self.average = if self.average == 0 { new } else { (sum >> AVERAGE_SHIFT) as u32 };
        }
        if progress.segments <= u32::from(ACE_MAX) {
            return by_field;
        }
        self.resolve(by_field, option.then_some(bytes), progress)
    }

    /// Which of the counts that the ACE field allows is meant, if it may have wrapped.
    #[cold]
    fn resolve(&self, by_field: u32, ce_bytes: Option<u32>, progress: DeliveryProgress) -> u32 {
        let segments = progress.segments;
        // the largest that is possible
        let most = segments - (segments.wrapping_sub(by_field) & u32::from(ACE_MAX));
        let Some(marked) = ce_bytes.map(u64::from) else {
            return if self.average > THINNED { by_field } else { most };
        };
        if marked == 0 {
            return by_field;
        }
        let delivered = u64::from(segments) * u64::from(progress.payload);
        if segments >= MANY {
            if delivered <= marked {
                return most;
            }
            let estimate = (marked * u64::from(segments)).div_ceil(delivered) as u32;
            return most.min(by_field + (estimate & !u32::from(ACE_MAX)));
        }
        let mss = u64::from(progress.payload) + u64::from(OPTION_BYTES);
        if marked > u64::from(by_field) * mss || marked >= (u64::from(most) * mss) >> 1 {
            most
        } else {
            by_field
        }
    }

    /// The window was reduced: the receiver is to know, if it waits for that.
    pub fn queue_cwr(&mut self) {
        self.cwr_queued = self.agreed && !self.accurate;
    }

    /// The reduction was undone.
    pub fn cancel_cwr(&mut self) {
        self.cwr_queued = false;
    }

    /// Codepoint and flags of the next new segment.
    #[inline]
    pub fn stamp(&mut self) -> (Ecn, u16) {
        if !self.agreed {
            return (Ecn::NotEct, 0);
        }
        let cwr = std::mem::take(&mut self.cwr_queued);
        (self.asked.codepoint, if cwr { flag::CWR } else { 0 })
    }

    /// Codepoint of a SYN: not ECN-capable (RFC 3168 section 6.1.1), unless the congestion control requires ECN. Linux
    /// `tcp_ecn_send_syn`.
    pub fn of_syn(&self) -> Ecn {
        if self.asked.required {
            self.asked.codepoint
        } else {
            Ecn::NotEct
        }
    }

    /// Codepoint of what is not new data, retransmissions and pure ACKs: not ECN-capable (RFC 3168 sections 6.1.4 and 6.1.5), unless the
    /// congestion control wants it otherwise or the receiver counts. Linux `tcp_ecn_send`.
    #[inline]
    pub fn of_other(&self) -> Ecn {
        if self.agreed {
            of_other(&self.asked, self.accurate)
        } else {
            Ecn::NotEct
        }
    }

    /// The codepoints of the receiver, which has the same congestion control and counts CE if `counts`.
    pub fn back(&self, counts: bool) -> BackEcn {
        if self.wanted {
            BackEcn { syn_ack: self.of_syn(), acks: of_other(&self.asked, counts) }
        } else {
            BackEcn::NOT_ECT
        }
    }
}

/// Codepoint of retransmissions and pure ACKs once ECN is agreed; `accurate` if the receiver counts CE.
#[inline]
fn of_other(asked: &EcnUse, accurate: bool) -> Ecn {
    if accurate || asked.required || asked.every_packet {
        asked.codepoint
    } else {
        Ecn::NotEct
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::Echo;

    fn negotiate_with(setup: u16) -> SenderEcn {
        let mut ecn = SenderEcn::new(true, EcnUse::default());
        ecn.negotiate(&Ack { flags: ack_flag::SYN_ACK | setup, ..Ack::default() });
        ecn
    }

    #[test]
    fn who_has_no_codepoint_does_not_ask() {
        let mut ecn = SenderEcn::new(true, EcnUse { codepoint: Ecn::NotEct, ..EcnUse::default() });
        ecn.negotiate(&Ack { flags: ack_flag::SYN_ACK | ack_flag::ECN_SETUP, ..Ack::default() });
        assert!(!ecn.agreed && !ecn.is_required_but_refused());
        assert_eq!(ecn.stamp(), (Ecn::NotEct, 0));
    }

    #[test]
    fn cwr_goes_once_with_new_data() {
        let mut ecn = negotiate_with(ack_flag::ECN_SETUP);
        ecn.queue_cwr();
        assert_eq!([ecn.stamp(), ecn.stamp()], [(Ecn::Ect0, flag::CWR), (Ecn::Ect0, 0)]);
        ecn.queue_cwr();
        ecn.cancel_cwr();
        assert_eq!(ecn.stamp(), (Ecn::Ect0, 0));
        assert_eq!((ecn.of_syn(), ecn.of_other()), (Ecn::NotEct, Ecn::NotEct));
        // a control that requires ECN, with the codepoint of L4S
        let mut scalable = SenderEcn::new(false, EcnUse { required: true, codepoint: Ecn::Ect1, ..EcnUse::default() });
        assert_eq!((scalable.of_syn(), scalable.of_other()), (Ecn::Ect1, Ecn::NotEct));
        scalable.negotiate(&Ack { flags: ack_flag::ECN_SETUP, ..Ack::default() });
        assert_eq!((scalable.stamp(), scalable.of_other()), ((Ecn::Ect1, 0), Ecn::Ect1));
    }

    #[test]
    fn acknowledgements_of_who_counts_are_ecn_capable_and_syn_acks_of_who_requires_ecn() {
        let (ect0, ect1, none) = (Ecn::Ect0, Ecn::Ect1, Ecn::NotEct);
        let classic = EcnUse::default();
        let required = EcnUse { required: true, ..classic };
        let every = EcnUse { every_packet: true, ..classic };
        let scalable = EcnUse { required: true, codepoint: Ecn::Ect1, echo: Echo::Accurate, ..classic };
        let unable = EcnUse { codepoint: Ecn::NotEct, ..classic };
        for (wanted, asked, counts, syn_ack, acks) in [
            (true, classic, false, none, none),
            (true, classic, true, none, ect0),
            (false, classic, true, none, none),
            (true, every, false, none, ect0),
            (false, required, false, ect0, ect0),
            (false, scalable, true, ect1, ect1),
            (true, unable, true, none, none),
        ] {
            let mut back = SenderEcn::new(wanted, asked).back(counts);
            assert_eq!(back, BackEcn { syn_ack, acks }, "{wanted} {asked:?} {counts}");
            let of = |flags| Ack { flags, ..Ack::default() };
            back.negotiate(&of(ack_flag::SYN_ACK | ack_flag::ECN_SETUP));
            assert_eq!((back.ack_codepoint(&of(ack_flag::SYN_ACK)), back.ack_codepoint(&of(0))), (syn_ack, acks));
            // a SYN that was sent again does not ask for ECN
            back.negotiate(&of(ack_flag::SYN_ACK));
            assert_eq!(back, BackEcn::NOT_ECT);
        }
    }

    /// An ACK with this ACE field and, with the option, this count of CE bytes.
    fn ack_with_counts(ace: u8, ce_bytes: Option<u32>) -> Ack {
        let flags = if ce_bytes.is_some() { ack_flag::ACCECN_OPTION } else { 0 };
        Ack { ce_bytes: ce_bytes.unwrap_or(0), flags: flags | ack_flag::ace(ace), ..Ack::default() }
    }

    /// Reads the count of `ack` that delivers `segments` of 1436 B, after `delivered_ce` and with an average of `average`, in 1/64.
    fn read(delivered_ce: u64, ack: &Ack, segments: u32, average: u32) -> u32 {
        let mut ecn = negotiate_with(ack_flag::ECN_SETUP | ack_flag::ACCECN_SETUP);
        ecn.average = average;
        ecn.count(ack, DeliveryProgress { segments, payload: 1436, delivered_ce })
    }

    #[test]
    fn the_ace_field_tells_up_to_seven() {
        // (delivered before, ACE, segments) -> newly marked: the field is 5 + count, modulo 8
        for (before, ace, segments, marked) in [(0, 5, 2, 0), (0, 6, 1, 1), (0, 4, 7, 7), (5, 1, 2, 7), (2205, 5, 3, 3)] {
            assert_eq!(read(before, &ack_with_counts(ace, None), segments, 128), marked, "{before} {ace} {segments}");
        }
    }

    #[test]
    fn beyond_seven_the_average_tells_without_the_option() {
        // two segments an ACK: as many as can be; above four, ACKs are thinned and 1 is likelier than 9
        for (before, ace, segments, average, marked) in [(6, 3, 8, 128, 8), (0, 6, 10, 128, 9), (0, 6, 10, 300, 1)] {
            assert_eq!(read(before, &ack_with_counts(ace, None), segments, average), marked, "{ace} {segments} {average}");
        }
    }

    #[test]
    fn beyond_seven_the_option_tells() {
        // (ACE, segments, CE bytes in segments of 1436 B) -> newly marked
        for (ace, segments, bytes, marked) in
            [(6, 16, 0, 1), (0, 20, 11, 11), (7, 24, 10, 10), (7, 10, 10, 10), (6, 9, 1, 1), (5, 16, 16, 16)]
        {
            assert_eq!(read(0, &ack_with_counts(ace, Some(bytes * 1436)), segments, 128), marked, "{ace} {segments} {bytes}");
        }
    }

    #[test]
    fn the_average_of_segments_an_ack_moves_by_a_64th() {
        let mut ecn = negotiate_with(ack_flag::ECN_SETUP | ack_flag::ACCECN_SETUP);
        let mut after = |segments| {
            ecn.count(&ack_with_counts(5, None), DeliveryProgress { segments, payload: 1436, delivered_ce: 0 });
            ecn.average
        };
        assert_eq!([1, 1, 2, 2, 30, 0].map(&mut after), [64, 64, 65, 65, 93, 93]);
        ecn.average = 128;
        let mut thin = || ecn.count(&ack_with_counts(5, None), DeliveryProgress { segments: 10, payload: 1436, delivered_ce: 0 });
        assert!((0..19).all(|_| thin() == 8), "above four only after the twentieth ACK");
        assert_eq!((thin(), ecn.average), (0, 259));
    }

    #[test]
    fn a_count_is_never_answered_by_cwr() {
        let mut ecn = negotiate_with(ack_flag::ECN_SETUP | ack_flag::ACCECN_SETUP);
        ecn.queue_cwr();
        assert_eq!((ecn.stamp(), ecn.of_other()), ((Ecn::Ect0, 0), Ecn::Ect0));
        assert!(!ecn.ece(&Ack { flags: ack_flag::ECE, ..Ack::default() }));
    }

    #[test]
    fn who_wants_counts_alone_is_refused_an_echo() {
        let asked =
            EcnUse { required: true, only_accurate: true, codepoint: Ecn::Ect1, echo: Echo::Accurate, ..EcnUse::default() };
        for (setup, refused) in [(0, true), (ack_flag::ECN_SETUP, true), (ack_flag::ECN_SETUP | ack_flag::ACCECN_SETUP, false)] {
            let mut ecn = SenderEcn::new(false, asked);
            ecn.negotiate(&Ack { flags: ack_flag::SYN_ACK | setup, ..Ack::default() });
            assert_eq!((ecn.is_required_but_refused(), ecn.stamp().0), (refused, if refused { Ecn::NotEct } else { Ecn::Ect1 }));
        }
    }

    #[test]
    fn a_control_that_takes_over_uses_what_both_ends_agreed_on() {
        let required = EcnUse { required: true, ..EcnUse::default() };
        let counts = EcnUse { only_accurate: true, codepoint: Ecn::Ect1, echo: Echo::Accurate, ..required };
        let every = EcnUse { every_packet: true, ..EcnUse::default() };
        assert_eq!(negotiate_with(0).take_over(required), Err("whose ends have not agreed to ECN"));
        assert_eq!(negotiate_with(0).take_over(EcnUse::default()), Ok(()));
        let mut classic = negotiate_with(ack_flag::ECN_SETUP);
        assert_eq!(classic.take_over(counts), Err("whose receiver does not count CE (AccECN)"));
        assert_eq!((classic.take_over(required), classic.stamp().0, classic.of_other()), (Ok(()), Ecn::Ect0, Ecn::Ect0));
        // BBRv3 asks for the codepoint on every packet, which stays
        assert_eq!((classic.take_over(EcnUse::default()), classic.of_other()), (Ok(()), Ecn::NotEct));
        assert_eq!((classic.take_over(every), classic.take_over(EcnUse::default())), (Ok(()), Ok(())));
        assert_eq!(classic.of_other(), Ecn::Ect0);
        let mut accurate = negotiate_with(ack_flag::ECN_SETUP | ack_flag::ACCECN_SETUP);
        assert_eq!((accurate.take_over(counts), accurate.stamp().0), (Ok(()), Ecn::Ect1));
    }

    #[test]
    fn without_agreement_nothing_is_read_or_stamped() {
        let mut ecn = negotiate_with(0);
        ecn.queue_cwr();
        assert!(!ecn.ece(&Ack { flags: ack_flag::ECE, ..Ack::default() }));
        assert_eq!(ecn.stamp(), (Ecn::NotEct, 0));
    }
}
