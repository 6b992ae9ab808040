"""A trace of a made-up cellular link, in mahimahi's format: `python studies/traces/cellular.py SEED SECONDS > FILE`.

The model is that of Winstein, Sivaraman, Balakrishnan, "Stochastic Forecasts Achieve High Throughput and Low Delay over
Cellular Networks" (NSDI 2013, section 3.1), who fitted it to what they measured: opportunities come by a Poisson
process, whose rate does a Brownian motion of 200 packets/s a root second between 0 and 1000 packets/s. At 0 the link is
in an outage, which it leaves at a rate of 1/s. The rate changes in steps of 20 ms. Ours alone are the first rate, drawn
evenly, and a last opportunity at the end, where the trace starts again.

experiments/cellular.trace is 30 s of seed 4, cellular-outage.trace 30 s of seed 3, which has an outage of 1.5 s.
"""

import math
import random
import sys
from collections.abc import Iterator

STEP = 0.02  # s
FASTEST = 1000.0  # packets/s
MOTION = 200.0  # packets/s a root second
ESCAPE = 1.0  # 1/s


def generate_opportunities(seed: int, seconds: int) -> Iterator[int]:
    """Yield the times of opportunities, whole ms."""
    draw = random.Random(seed)
    rate = draw.uniform(0.0, FASTEST)
    for step in range(round(seconds / STEP)):
        time = draw.expovariate(rate) if rate > 0.0 else math.inf
        while time < STEP:
            yield int((step * STEP + time) * 1000)
            time += draw.expovariate(rate)
        if rate > 0.0 or draw.random() < 1.0 - math.exp(-ESCAPE * STEP):
            rate = min(max(rate + draw.gauss(0.0, MOTION * math.sqrt(STEP)), 0.0), FASTEST)
    yield seconds * 1000


if __name__ == "__main__":
    for time_ms in generate_opportunities(*map(int, sys.argv[1:])):
        print(time_ms)
