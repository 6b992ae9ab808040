//! Named random streams: each component draws from its own, so that adding one does not disturb another.

use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// One component's random stream.
#[derive(Clone, Debug)]
pub struct Rng(Pcg64Mcg);

impl Rng {
    /// The stream `name` (with an index where there are several) of a run with `seed`.
    pub fn stream(seed: u64, name: &str, index: u64) -> Rng {
        // FNV-1a over the name, then the finaliser of SplitMix64 over each part: equal inputs, equal streams on any host.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for byte in name.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        let low = mix(seed ^ mix(hash));
        let high = mix(low ^ mix(index.wrapping_add(1)));
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&low.to_le_bytes());
        bytes[8..].copy_from_slice(&high.to_le_bytes());
        Rng(Pcg64Mcg::from_seed(bytes))
    }

    /// Uniform 32-bit number.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        self.0.next_u32()
    }

    /// Uniform 64-bit number.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in [0, 1).
    #[inline]
    pub fn next_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Uniform in `0..bound` (bias below 2^-32 for bounds below 2^32); 0 if `bound` is 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

/// Finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
pub fn mix(x: u64) -> u64 {
    let mut z = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_depend_on_seed_name_and_index_only() {
        let first = |seed, name, index| Rng::stream(seed, name, index).next_u64();
        assert_eq!(first(1, "cake", 0), first(1, "cake", 0));
        assert_ne!(first(1, "cake", 0), first(2, "cake", 0));
        assert_ne!(first(1, "cake", 0), first(1, "pie", 0));
        assert_ne!(first(1, "cake", 0), first(1, "cake", 1));
    }

    #[test]
    fn below_stays_below() {
        let mut rng = Rng::stream(1, "test", 0);
        assert!((0..1000).all(|_| rng.below(7) < 7));
        assert_eq!(rng.below(0), 0);
    }
}
