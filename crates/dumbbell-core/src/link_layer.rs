//! Computes the length of a frame on the link below: headers, a least length, cells.

crate::choice! {
    /// How the link below packs frames.
    pub enum Framing {
        /// As they are.
        None = "none",
        /// ATM: cells of 53 B that carry 48 B (ITU-T I.361).
        Atm = "atm",
        /// PTM: one more byte for every 64 B (IEEE 802.3 clause 61, 64b/65b).
        Ptm = "ptm",
    }
}

crate::choice! {
    /// Kinds of links, as tc-cake(8) names them.
    pub enum Preset {
        /// Frames as they are.
        Raw = "raw",
        /// More than any link takes: 48 B and ATM.
        Conservative = "conservative",
        /// Preamble, frame check and gap: 38 B instead of the Ethernet header, at least 84 B.
        Ethernet = "ethernet",
        /// Ethernet with a VLAN tag.
        EthernetVlan = "ethernet-vlan",
        /// Cable: 18 B, at least 64 B.
        Docsis = "docsis",
        /// VDSL2 with PPPoE: 30 B, PTM.
        PppoePtm = "pppoe-ptm",
        /// VDSL2 without: 22 B, PTM.
        BridgedPtm = "bridged-ptm",
        /// ADSL: 8 B, ATM.
        IpoaVcmux = "ipoa-vcmux",
        /// ADSL: 16 B, ATM.
        IpoaLlcsnap = "ipoa-llcsnap",
        /// ADSL: 24 B, ATM.
        BridgedVcmux = "bridged-vcmux",
        /// ADSL: 32 B, ATM.
        BridgedLlcsnap = "bridged-llcsnap",
        /// ADSL with PPP: 10 B, ATM.
        PppoaVcmux = "pppoa-vcmux",
        /// ADSL with PPP: 14 B, ATM.
        PppoaLlc = "pppoa-llc",
        /// ADSL with PPPoE: 32 B, ATM.
        PppoeVcmux = "pppoe-vcmux",
        /// ADSL with PPPoE: 40 B, ATM.
        PppoeLlcsnap = "pppoe-llcsnap",
    }
}

/// Bytes in front of the network header, which the account leaves out if an overhead is given: an Ethernet header.
const NETWORK_OFFSET: u32 = 14;

/// Length of a frame on the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkLayer {
    /// Replaces the Ethernet header in the account, bytes; unset: frames as they are (`raw`).
    pub overhead: Option<u16>,
    /// No frame costs less, bytes.
    pub mpu: u16,
    /// How frames are packed.
    pub framing: Framing,
}

impl LinkLayer {
    /// Frames as they are.
    pub const RAW: LinkLayer = LinkLayer { overhead: None, mpu: 0, framing: Framing::None };

    /// Returns the link layer of a kind of link (tc-cake(8)).
    pub fn of_preset(preset: Preset) -> LinkLayer {
        let (overhead, mpu, framing) = match preset {
            Preset::Raw => return LinkLayer::RAW,
            Preset::Conservative => (48, 0, Framing::Atm),
            Preset::Ethernet => (38, 84, Framing::None),
            Preset::EthernetVlan => (42, 84, Framing::None),
            Preset::Docsis => (18, 64, Framing::None),
            Preset::PppoePtm => (30, 0, Framing::Ptm),
            Preset::BridgedPtm => (22, 0, Framing::Ptm),
            Preset::IpoaVcmux => (8, 0, Framing::Atm),
            Preset::IpoaLlcsnap => (16, 0, Framing::Atm),
            Preset::BridgedVcmux => (24, 0, Framing::Atm),
            Preset::BridgedLlcsnap => (32, 0, Framing::Atm),
            Preset::PppoaVcmux => (10, 0, Framing::Atm),
            Preset::PppoaLlc => (14, 0, Framing::Atm),
            Preset::PppoeVcmux => (32, 0, Framing::Atm),
            Preset::PppoeLlcsnap => (40, 0, Framing::Atm),
        };
        LinkLayer { overhead: Some(overhead), mpu, framing }
    }

    /// Replaces the values that are set.
    pub fn with_overrides(self, overhead: Option<u16>, mpu: Option<u16>, framing: Option<Framing>) -> LinkLayer {
        LinkLayer { overhead: overhead.or(self.overhead), mpu: mpu.unwrap_or(self.mpu), framing: framing.unwrap_or(self.framing) }
    }

    /// Bytes that a frame of `len` bytes, without FCS, takes.
    #[inline]
    pub fn wire_bytes(&self, len: u16) -> u32 {
        let len = u32::from(len);
        let bytes = self.overhead.map_or(len, |overhead| len.saturating_sub(NETWORK_OFFSET) + u32::from(overhead));
        let bytes = bytes.max(u32::from(self.mpu));
        match self.framing {
            Framing::None => bytes,
            Framing::Atm => bytes.div_ceil(48) * 53,
            Framing::Ptm => bytes + bytes.div_ceil(64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_every_kind_of_link() {
        // an ACK of 66 B and a full frame of 1514 B: without the Ethernet header 52 and 1500
        let of = |preset| [66, 1514].map(|len| LinkLayer::of_preset(preset).wire_bytes(len));
        assert_eq!(of(Preset::Raw), [66, 1514]);
        // 52 + 38 = 90; 1538
        assert_eq!(of(Preset::Ethernet), [90, 1538]);
        assert_eq!(of(Preset::Docsis), [70, 1518]);
        // 82 and 1530, and 2 and 24 blocks of 64
        assert_eq!(of(Preset::PppoePtm), [84, 1554]);
        // 92 and 1540: 2 and 33 cells
        assert_eq!(of(Preset::PppoeLlcsnap), [106, 1749]);
        assert_eq!(of(Preset::Conservative), [159, 1749]);
        // a least length counts after the overhead
        assert_eq!(LinkLayer::of_preset(Preset::Ethernet).wire_bytes(60), 84);
    }

    #[test]
    fn single_keys_replace_those_of_the_kind() {
        let layer = LinkLayer::of_preset(Preset::PppoeVcmux).with_overrides(Some(44), None, None);
        assert_eq!(layer, LinkLayer { overhead: Some(44), mpu: 0, framing: Framing::Atm });
        assert_eq!(LinkLayer::RAW.with_overrides(None, Some(64), Some(Framing::Ptm)).wire_bytes(60), 65);
    }
}
