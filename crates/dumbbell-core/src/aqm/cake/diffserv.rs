//! The tin of each differentiated-services codepoint, and the share of each tin.

crate::choice! {
    /// How many tins there are and what goes into each.
    pub enum Diffserv {
        /// One tin for all.
        BestEffort = "besteffort",
        /// Eight tins by the three bits of IP precedence.
        Precedence = "precedence",
        /// Best effort, bulk, voice.
        Diffserv3 = "diffserv3",
        /// Best effort, bulk, video, voice.
        Diffserv4 = "diffserv4",
        /// Eight tins by application.
        Diffserv8 = "diffserv8",
    }
}

/// Codepoint of lower effort (RFC 8622).
const LE: u8 = 1;
/// TOS "maximise throughput" (RFC 1349), as it reads as a codepoint.
const TOS2: u8 = 2;
/// TOS "minimise delay" (RFC 1349), as it reads as a codepoint.
const TOS4: u8 = 4;
/// Voice admit (RFC 5865).
const VA: u8 = 44;
/// Expedited forwarding (RFC 3246).
const EF: u8 = 46;

/// Class selector `n` (RFC 2474 section 4.2.2).
const fn cs(n: u8) -> u8 {
    n << 3
}

/// Assured-forwarding class of a codepoint (RFC 2597 section 6): AFxy is 8x + 2y, y from 1 to 3.
const fn assured_class(dscp: u8) -> Option<u8> {
    match (dscp >> 3, dscp & 7) {
        (class @ 1..=4, 2 | 4 | 6) => Some(class),
        _ => None,
    }
}

impl Diffserv {
    /// Index of the tin for `dscp`.
    pub fn tin(self, dscp: u8) -> u8 {
        const CS1: u8 = cs(1);
        const CS2: u8 = cs(2);
        const CS3: u8 = cs(3);
        const CS4: u8 = cs(4);
        const CS5: u8 = cs(5);
        const CS6: u8 = cs(6);
        const CS7: u8 = cs(7);
        match self {
            Diffserv::BestEffort => 0,
            Diffserv::Precedence => (dscp >> 3) & 7,
            Diffserv::Diffserv3 => match dscp {
                CS1 | LE => 1,
                TOS4 | VA | EF | CS6 | CS7 => 2,
                _ => 0,
            },
            Diffserv::Diffserv4 => match dscp {
                CS1 | LE => 1,
                CS4 | CS5 | VA | EF | CS6 | CS7 => 3,
                TOS4 | CS2 | CS3 => 2,
                _ => {
                    if matches!(assured_class(dscp), Some(2..=4)) {
                        2
                    } else {
                        0
                    }
                }
            },
            Diffserv::Diffserv8 => match dscp {
                LE => 0,
                CS1 | TOS2 => 1,
                CS3 => 3,
                TOS4 => 4,
                CS2 => 5,
                CS4 | CS5 | VA | EF => 6,
                CS6 | CS7 => 7,
                _ => match assured_class(dscp) {
                    Some(1) => 1,
                    Some(2) => 4,
                    Some(3 | 4) => 3,
                    _ => 2,
                },
            },
        }
    }

    /// (Rate, DRR quantum) of every tin; the rate of a tin is a share of `rate`, in any unit (`cake_config_*`, sch_cake.c).
    pub fn shares(self, rate: u64) -> Vec<(u64, i32)> {
        match self {
            Diffserv::BestEffort => vec![(rate, 65535)],
            Diffserv::Diffserv3 => vec![(rate, 1024), (rate >> 4, 64), (rate >> 2, 256)],
            Diffserv::Diffserv4 => vec![(rate, 1024), (rate >> 4, 64), (rate >> 1, 512), (rate >> 2, 256)],
            Diffserv::Precedence | Diffserv::Diffserv8 => {
                std::iter::successors(Some((rate, 256)), |&(rate, quantum)| Some((rate * 7 / 8, (quantum * 7 / 8).max(1))))
                    .take(8)
                    .collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_tins_shrink_by_an_eighth() {
        // 256 * 7/8 = 224, 196, 171.5 -> 171, 149.6 -> 149, 130.4 -> 130, 113.75 -> 113, 98.9 -> 98
        let shares = Diffserv::Diffserv8.shares(8000);
        assert_eq!(shares.iter().map(|share| share.1).collect::<Vec<_>>(), [256, 224, 196, 171, 149, 130, 113, 98]);
        assert_eq!((shares[1].0, shares[7].0), (7000, 3140)); // 8000, 7000, 6125, 5359, 4689, 4102, 3589, 3140
    }

    #[test]
    fn codepoints() {
        let tins = |mode: Diffserv, dscps: &[u8]| dscps.iter().map(|&d| mode.tin(d)).collect::<Vec<_>>();
        // CS0, LE, TOS4, CS1, AF11, AF21, CS3, AF41, CS4, CS5, VA, EF, CS6, CS7, one that is not assigned
        let dscps = [0, 1, 4, 8, 10, 18, 24, 34, 32, 40, 44, 46, 48, 56, 63];
        assert_eq!(tins(Diffserv::Diffserv3, &dscps), [0, 1, 2, 1, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 0]);
        assert_eq!(tins(Diffserv::Diffserv4, &dscps), [0, 1, 2, 1, 0, 2, 2, 2, 3, 3, 3, 3, 3, 3, 0]);
        assert_eq!(tins(Diffserv::Diffserv8, &dscps), [2, 0, 4, 1, 1, 4, 3, 3, 6, 6, 6, 6, 7, 7, 2]);
        assert_eq!(tins(Diffserv::Precedence, &dscps), [0, 0, 0, 1, 1, 2, 3, 4, 4, 5, 5, 5, 6, 7, 7]);
        assert_eq!(tins(Diffserv::BestEffort, &dscps), [0; 15]);
    }
}
