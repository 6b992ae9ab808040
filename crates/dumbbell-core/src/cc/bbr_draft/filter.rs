//! Windowed maxima (sections 2.11, 2.12, 5.5.5 and 5.5.9).

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

/// A sample, and when it was taken.
type FilterSample = (u64, f64);

/// Kathleen Nichols' running maximum: the best sample of the window, the best since that, and the best since the second.
#[derive(Clone, Debug, Default)]
pub struct WindowedMax {
    best: [FilterSample; 3],
}

impl WindowedMax {
    /// Takes `value` at `now`; returns the largest of the last `window`.
    pub fn update(&mut self, window: u64, now: u64, value: f64) -> f64 {
        let new = (now, value);
        let best = &mut self.best;
        if value >= best[0].1 || now - best[2].0 > window {
            // the largest so far, or the first for longer than the window
            *best = [new; 3];
            return value;
        }
        if value >= best[1].1 {
            best[1] = new;
            best[2] = new;
        } else if value >= best[2].1 {
            best[2] = new;
        }
        let age = now - best[0].0;
        if age > window {
            // the best is too old: the next ones move up, at most twice
            *best = [best[1], best[2], new];
            if now - best[0].0 > window {
                *best = [best[1], best[2], new];
            }
        } else if best[1].0 == best[0].0 && age > window / 4 {
            // a quarter of the window without a second best: this one, lest none be there when the best goes
            best[1] = new;
            best[2] = new;
        } else if best[2].0 == best[1].0 && age > window / 2 {
            best[2] = new;
        }
        best[0].1
    }
}
