"""The media tests of C4 (papers/media_tests.md), of which `traffic/c4-media` has the link and the streams."""

import json

import pytest

import dumbbell

# queueing delay with CUBIC, ms: mean and largest, of audio, low video and mid video
PUBLISHED = {"10 Mbit/s": ((6, 82), (7, 53), (13, 86)), "100 Mbit/s": ((1, 14), (1, 4), (1, 4))}


Delays = dict[tuple[str, bool], list[list[float]]]


@pytest.fixture(scope="module")
def delays() -> Delays:
    """Return queueing delays by link, by whether audio is behind the frames of its instant, and by stream."""
    measured: Delays = {}
    results = dumbbell.run(dumbbell.load("traffic/c4-media"))
    settings = {key: json.loads(values) for key, values in results.runs.select("key", "matrix").iter_rows()}
    for row in results.frame("apps").filter(direction="down").iter_rows(named=True):
        setting = settings[row["key"]]
        kind = "delay" if row["name"] == "call" else "frame_delay"
        both = (row[f"{kind}_mean_ms"], row[f"{kind}_max_ms"])
        of_run = measured.setdefault((setting["setting"], setting["app[0].start"] != "0s"), [])
        of_run.append([delay - row["base_rtt_ms"] / 2 for delay in both])
    return measured


def test_delays_over_10_mbit_are_those_that_c4_publishes(delays: Delays) -> None:
    for stream, published in zip(delays["10 Mbit/s", True], PUBLISHED["10 Mbit/s"], strict=True):
        assert stream == pytest.approx(published, rel=0.2)
    # audio ahead of the frames of its instant waits less in the mean: a fifth of its packets come with a frame
    audio = delays["10 Mbit/s", False][0]
    assert audio[0] < 0.65 * PUBLISHED["10 Mbit/s"][0][0]


def test_the_link_gives_the_delays_by_hand(delays: Delays) -> None:
    # a byte takes 8 / 9.53674 us; parts of 1400 B of a frame have 54 B more
    ms = 8 / 9.53674 / 1e3
    low, mid = (frame + 54 * -(-frame // 1400) for frame in (37_500, 62_500))
    assert delays["10 Mbit/s", False][2][1] == pytest.approx((low + mid + 134) * ms, abs=0.01)
    # the first P frame of the low video, 33.3 ms later, waits for the rest of both I frames, and for the packets of
    # audio of their instant and of 20 ms later
    p_frame = 3_750 + 54 * 3
    assert delays["10 Mbit/s", False][1][1] == pytest.approx((low + mid + 2 * 134 + p_frame) * ms - 100 / 3, abs=0.01)
    # ten times as fast, with I frames behind each other
    assert delays["100 Mbit/s", True][2][1] == pytest.approx((low + mid) * ms / 10, abs=0.01)


def test_delays_over_100_mbit_are_shorter_than_those_that_c4_publishes(delays: Delays) -> None:
    audio, low, mid = delays["100 Mbit/s", True]
    assert low[1] == pytest.approx(4, rel=0.2)
    assert all(stream[0] < 1.5 for stream in (audio, low, mid))
    # 14 ms of audio are more than the I frames take; C4's sender sends it with the next frame, up to 33.3 - 20 ms later
    assert audio[1] < 9 < 100 / 3 - 20
