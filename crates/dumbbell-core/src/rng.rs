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
        // The generator multiplies a 128-bit state, so the low word evolves from itself alone: streams that share it stay related for
        // ever. The index therefore reaches both words.
        let low = mix(mix(seed ^ mix(hash)) ^ mix(index.wrapping_add(1)));
        let high = mix(low);
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
    pub fn draw_below(&mut self, bound: u64) -> u64 {
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

    /// Numbers `skip + 1` of the streams `name` with the indices 0 to `count - 1`.
    fn over_the_index(seed: u64, name: &str, skip: u32, count: u64) -> impl Iterator<Item = Rng> + use<'_> {
        (0..count).map(move |index| {
            let mut rng = Rng::stream(seed, name, index);
            (0..skip).for_each(|_| {
                rng.next_u64();
            });
            rng
        })
    }

    #[test]
    fn each_draw_is_uniform_over_the_index() {
        // 20,000 indices in 64 bins: 312.5 in each, standard deviation 17.5. Chi-square with 63 degrees of freedom has mean 63 and standard
        // deviation sqrt(126) = 11.2; its quantile of 1 - 1e-6 is 131. Shared low words give 200 to 900.
        const COUNT: u64 = 20_000;
        for seed in [0, 1, 2, 42, 1 << 40] {
            for name in ["start", "path", "udp", "bbr", "web sizes"] {
                for skip in [0, 1, 2, 10, 99] {
                    let mut bins = [0_u32; 64];
                    for mut rng in over_the_index(seed, name, skip, COUNT) {
                        bins[rng.draw_below(64) as usize] += 1;
                    }
                    let expected = COUNT as f64 / 64.0;
                    let chi_square: f64 = bins.iter().map(|&n| (f64::from(n) - expected).powi(2) / expected).sum();
                    assert!((20.0..131.0).contains(&chi_square), "seed {seed}, {name}, draw {}: {chi_square:.0}", skip + 1);
                }
            }
        }
    }

    #[test]
    fn means_over_streams_vary_as_those_of_independent_numbers() {
        // 600 seeds, 1,000 streams each: the mean of 1,000 uniform numbers has variance 1 / 12,000. The estimate of a variance from 600
        // values has standard deviation sqrt(2 / 600) = 0.058 of it.
        for skip in [0, 3] {
            let means: Vec<f64> = (1..=600)
                .map(|seed| over_the_index(seed, "start", skip, 1_000).map(|mut rng| rng.next_f64()).sum::<f64>() / 1e3)
                .collect();
            let variance = means.iter().map(|mean| (mean - 0.5).powi(2)).sum::<f64>() / means.len() as f64;
            let ratio = variance * 12_000.0;
            assert!((0.75..1.25).contains(&ratio), "draw {}: {ratio:.2} of the variance of independent numbers", skip + 1);
        }
    }

    #[test]
    fn neighbouring_streams_are_uncorrelated() {
        // 20,000 pairs of independent uniform numbers: the coefficient of correlation has standard deviation 1 / sqrt(20,000) = 0.007
        let correlate = |pair: &dyn Fn(u64) -> (Rng, Rng)| {
            let products = (0..20_000).map(|n| {
                let (mut a, mut b) = pair(n);
                (a.next_f64() - 0.5) * (b.next_f64() - 0.5)
            });
            12.0 * products.sum::<f64>() / 20_000.0
        };
        let indices = correlate(&|n| (Rng::stream(1, "start", 2 * n), Rng::stream(1, "start", 2 * n + 1)));
        let seeds = correlate(&|n| (Rng::stream(2 * n, "start", 0), Rng::stream(2 * n + 1, "start", 0)));
        let names = correlate(&|n| (Rng::stream(1, "start", n), Rng::stream(1, "udp start", n)));
        for (what, found) in [("indices", indices), ("seeds", seeds), ("names", names)] {
            assert!(found.abs() < 0.035, "{what}: {found}");
        }
    }

    #[test]
    fn below_stays_below() {
        let mut rng = Rng::stream(1, "test", 0);
        assert!((0..1000).all(|_| rng.draw_below(7) < 7));
        assert_eq!(rng.draw_below(0), 0);
    }
}
