//! Events at given times: changes of rate, samples, begin and end of what is measured of the endpoints of each base RTT, points of the
//! series, looks at the time that flows have in common, the end of the queue's measurement, arrivals of short flows, the start of the queue's measurement, programs that set rates of
//! shapers. At one instant in this order.

use crate::config::{RunConfig, SAMPLE_INTERVAL};
use crate::min_tree::MinTree;
use dumbbell_core::units::{Duration, Instant};

/// An event that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextEvent {
    /// The bottleneck's rate changes.
    Rate,
    /// The endpoints of this line are sampled.
    Sample(usize),
    /// A point of the time series.
    Series,
    /// A look at what has arrived in the time that the flows have in common.
    Look,
    /// The queue's measured time is over.
    End,
    /// A short flow of this process arrives.
    Arrival(usize),
    /// The queue's measured time begins.
    Begin,
    /// A program that sets rates of shapers is called.
    Control,
}

/// The clock.
#[derive(Clone)]
pub struct Clock {
    times: MinTree,
    /// Times of all events except arrivals, which look at nothing.
    looks: MinTree,
    /// When flows start, the next one last: all flows are looked at then.
    starts: Vec<Instant>,
    lines: usize,
    processes: usize,
    series_interval: Duration,
    changes: usize,
    end: Instant,
}

impl Clock {
    /// For a run of `config` with lines whose senders' clocks run ahead by so much.
    pub fn new(config: &RunConfig, aheads: &[Duration]) -> Clock {
        let end = config.end();
        let mut clock = Clock {
            times: MinTree::new(aheads.len() + 6 + config.web.len()),
            looks: MinTree::new(aheads.len() + 6 + config.web.len()),
            starts: Vec::new(),
            lines: aheads.len(),
            processes: config.web.len(),
            series_interval: config.series_interval().unwrap_or(Duration::MAX),
            changes: 0,
            end,
        };
        clock.next_change(config);
        for (line, &ahead) in aheads.iter().enumerate() {
            clock.set(NextEvent::Sample(line), (Instant::ZERO + SAMPLE_INTERVAL).min(end) + ahead);
        }
        clock.set(NextEvent::Series, Instant::ZERO + clock.series_interval);
        clock.set(NextEvent::End, end);
        if config.measured_from() > Instant::ZERO {
            clock.set(NextEvent::Begin, config.measured_from());
        }
        clock
    }

    fn index(&self, due: NextEvent) -> usize {
        match due {
            NextEvent::Rate => 0,
            NextEvent::Sample(line) => 1 + line,
            NextEvent::Series => 1 + self.lines,
            NextEvent::Look => 2 + self.lines,
            NextEvent::End => 3 + self.lines,
            NextEvent::Arrival(process) => 4 + self.lines + process,
            NextEvent::Begin => 4 + self.lines + self.processes,
            NextEvent::Control => 5 + self.lines + self.processes,
        }
    }

    /// `due` happens at `time`.
    pub fn set(&mut self, due: NextEvent, time: Instant) {
        let index = self.index(due);
        self.times.set(index, time);
        if !matches!(due, NextEvent::Arrival(_)) {
            self.looks.set(index, time);
        }
    }

    /// Flows start at these times.
    pub fn set_starts(&mut self, starts: impl Iterator<Item = Instant>) {
        self.starts = starts.collect();
        self.starts.sort_unstable_by(|one, other| other.cmp(one));
    }

    /// Returns the time before which nothing looks at counters or receivers, at `now` or later.
    #[inline]
    pub fn horizon(&mut self, now: Instant) -> Instant {
        while self.starts.last().is_some_and(|&start| start < now) {
            self.starts.pop();
        }
        self.looks.min().0.min(self.starts.last().copied().unwrap_or(Instant::NEVER))
    }

    /// When something is due next.
    #[inline]
    pub fn next(&self) -> Instant {
        self.times.min().0
    }

    /// Returns the event that is due at [`Clock::next`].
    pub fn due(&self) -> NextEvent {
        match self.times.min().1 {
            0 => NextEvent::Rate,
            index if index <= self.lines => NextEvent::Sample(index - 1),
            index if index == 1 + self.lines => NextEvent::Series,
            index if index == 2 + self.lines => NextEvent::Look,
            index if index == 3 + self.lines => NextEvent::End,
            index if index == 4 + self.lines + self.processes => NextEvent::Begin,
            index if index == 5 + self.lines + self.processes => NextEvent::Control,
            index => NextEvent::Arrival(index - 4 - self.lines),
        }
    }

    /// The number of the change of rate that is due; the one after it is planned.
    pub fn take_change(&mut self, config: &RunConfig) -> usize {
        self.changes += 1;
        self.next_change(config);
        self.changes - 1
    }

    fn next_change(&mut self, config: &RunConfig) {
        self.set(NextEvent::Rate, config.rate_changes.get(self.changes).map_or(Instant::NEVER, |change| change.at));
    }

    /// Line `line` of a base RTT of twice `ahead` was sampled at `now`: plans the next sample. Returns whether that was the last one.
    pub fn plan_sample(&mut self, line: usize, ahead: Duration, now: Instant) -> bool {
        let over = now - ahead >= self.end;
        let next = (now + SAMPLE_INTERVAL).min(self.end + ahead);
        self.set(NextEvent::Sample(line), if over { Instant::NEVER } else { next });
        over
    }

    /// A line is added behind the others, which is sampled when line `like` is.
    pub fn add_line(&mut self, like: usize) {
        let (lines, count) = (self.lines, self.lines + self.processes + 6);
        let sample = self.times.get(1 + like);
        for tree in [&mut self.times, &mut self.looks] {
            let mut larger = MinTree::new(count + 1);
            for index in 0..count {
                larger.set(if index <= lines { index } else { index + 1 }, tree.get(index));
            }
            larger.set(1 + lines, sample);
            *tree = larger;
        }
        self.lines += 1;
    }

    /// A change of rate that the configuration did not have has just taken its place in it, before those that come.
    pub fn note_change(&mut self) {
        self.changes += 1;
    }

    /// Number of changes of rate so far.
    pub fn count_changes(&self) -> usize {
        self.changes
    }

    /// A point of the series was taken at `now`: plans the next.
    pub fn took_point(&mut self, now: Instant) {
        let next = now.saturating_add(self.series_interval);
        self.set(NextEvent::Series, if next > self.end { Instant::NEVER } else { next });
    }
}
