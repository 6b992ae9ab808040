//! The largest of a window of rounds.

/// Kathleen Nichols' running maximum (the draft's section 5.5.9; Linux `lib/win_minmax.c`): the best sample of the window, the best since that, and the best since the second.
#[derive(Clone, Copy, Debug, Default)]
pub struct WindowedMax<T> {
    /// When each was taken, and its value.
    pub(in crate::cc) best: [(u64, T); 3],
}

impl<T: Copy + PartialOrd> WindowedMax<T> {
    /// Takes `value` at `now`; returns the largest of the last `window`.
    pub fn update(&mut self, window: u64, now: u64, value: T) -> T {
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

    /// The largest of the window at the last update.
    pub fn largest(&self) -> T {
        self.best[0].1
    }
}
