//! The maximum of cycles (sections 2.11 and 5.5.5).

/// Most cycles that [`MaxOfCycles`] remembers.
pub const MAX_CYCLES: u32 = 8;

/// The largest of each of the last cycles of ProbeBW. Two of them are the two slots that section 5.5.6 speaks of.
#[derive(Clone, Debug)]
pub struct MaxOfCycles {
    /// The present cycle first.
    largest: [f64; MAX_CYCLES as usize],
    cycles: usize,
}

impl MaxOfCycles {
    /// Over `cycles`, the present one included.
    pub fn new(cycles: u32) -> MaxOfCycles {
        MaxOfCycles { largest: [0.0; MAX_CYCLES as usize], cycles: cycles.clamp(1, MAX_CYCLES) as usize }
    }

    /// Takes a sample of the present cycle; returns the largest of all.
    pub fn update(&mut self, value: f64) -> f64 {
        self.largest[0] = self.largest[0].max(value);
        self.largest[..self.cycles].iter().copied().fold(0.0, f64::max)
    }

    /// A new cycle begins: AdvanceMaxBwFilter, section 5.5.6.
    pub fn advance(&mut self) {
        self.largest.rotate_right(1);
        self.largest[0] = 0.0;
    }
}
