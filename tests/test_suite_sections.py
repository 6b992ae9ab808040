"""The sections of each document stand in its suite: answered, for the author, or not covered for a reason."""

import pytest

from dumbbell.evaluate.suite_file import EvaluationSuite, list_suites, load_suite

# Sections by document, with the beginnings of their titles. Of RFC 9743, what asks for something in sections 5 to 8; of
# RFC 7928, the scenarios of figure 4 in section 13, what sections 2, 4, 11 and 12 ask for in addition, and the levels
# of section 8.2; of RFC 8867, the metrics of section 4.1, the test cases of sections 5 and 6, and section 7; of the
# common TCP evaluation suite, scenarios and tests of sections 4 to 6; of the tests of L4S, its scenarios; of the BBR
# draft, its example test cases
SECTIONS = {
    "rfc9743": {
        "5.1.1": "Protection against congestion collapse",
        "5.1.2": "Protection against bufferbloat",
        "5.1.3": "Protection against high packet loss",
        "5.1.4": "Fairness within",
        "5.1.5": "Short",
        "5.2": "Mixed",
        "5.2.1": "Existing general-purpose",
        "5.2.2": "Real-time",
        "5.2.3": "Short and long",
        "5.3.1": "Differences",
        "5.3.2": "Incremental deployment",
        "6.1": "Paths with tail-drop",
        "6.2": "Tunnel",
        "6.3": "Wired",
        "6.4": "Wireless",
        "7.1": "Active queue management",
        "7.2": "Operation with network circuit breakers",
        "7.3": "Paths with varying delay",
        "7.4": "Internet of Things",
        "7.5": "Paths with high delay",
        "7.6": "Misbehaving nodes",
        "7.7": "Extreme packet reordering",
        "7.8": "Transient events",
        "7.9": "Sudden changes in the path",
        "7.10": "Multipath transport",
        "7.11": "Data centers",
        "8": "Security considerations",
    },
    "rfc7928": {
        "2.2": "Flow startup time",
        "2.4": "Packet loss synchronization",
        "2.7": "Discussion on the trade-off",
        "4.2": "Comments on metrics measurement",
        "4.3.1": "Performance comparison",
        "4.3.2": "Deployment comparison",
        "4.4": "Packet sizes and congestion notification",
        "4.5": "Interaction with ECN",
        "4.6": "Interaction with scheduling",
        "5.1.1": "TCP-friendly sender with the same initial",
        "5.1.2": "TCP-friendly sender with different initial",
        "5.2": "Aggressive transport sender",
        "5.3": "Unresponsive transport sender",
        "5.4": "Less-than-best-effort transport sender",
        "6.2": "Round-trip time fairness",
        "7.2": "Burst absorption",
        "8.2.2": "Mild congestion",
        "8.2.3": "Medium congestion",
        "8.2.4": "Heavy congestion",
        "8.2.5": "Varying the congestion level",
        "8.2.6": "Varying available capacity",
        "8.3": "Parameter sensitivity and stability analysis",
        "9.1": "Traffic mix",
        "9.2": "Bidirectional traffic",
        "10.2": "Multi-AQM scenario",
        "11.2": "Implementation cost",
        "12.2": "Operator control and auto-tuning",
    },
    "rfc8867": {
        "4.1": "Evaluation metrics",
        "5.1": "Variable available capacity with a single flow",
        "5.2": "Variable available capacity with multiple flows",
        "5.3": "Congested feedback link",
        "5.4": "Competing media flows with the same congestion control",
        "5.5": "Round-trip time fairness",
        "5.6": "Media flow competing with a long TCP flow",
        "5.7": "Media flow competing with short TCP flows",
        "5.8": "Media pause and resume",
        "6.1": "Media flows with priority",
        "6.2": "Explicit congestion notification",
        "6.3": "Multiple bottlenecks",
        "7": "Wireless access links",
    },
    "tcpeval": {
        "4.4.1": "Data center",
        "4.4.2": "Access link",
        "4.4.3": "Trans-oceanic link",
        "4.4.4": "Geostationary satellite",
        "4.4.5": "Wireless LAN",
        "4.4.6": "Dial-up link",
        "5.1": "Trade-off between delay and throughput",
        "5.2": "Ramp-up time",
        "5.3": "Transients",
        "6.1": "Impact on standard TCP traffic",
        "6.2": "Fairness within the protocol",
        "6.3": "Multiple bottlenecks",
    },
    "l4s": {
        "1": "RTT fairness",
        "2": "The rate falls",
        "3": "The rate varies",
        "4": "Both ways",
        "5": "Tunnels",
        "6": "Queues of RFC 3168",
        "7": "One flow",
        "8": "Queues of RFC 3168, it comes first",
        "9": "Tunnels with protection against replay",
        "10": "A classic control that sets ECT(1)",
        "11": "Delay of a flow that sets ECT(1)",
    },
    "bbr": {
        "1": "Exiting STARTUP on Bandwidth Plateau",
        "2": "Exiting STARTUP on Loss",
        "3": "Exiting DRAIN Based on Inflight",
        "4": "Exiting DRAIN Based on Time",
        "5": "Exiting PROBE_UP on Bandwidth Plateau",
        "6": "Exiting PROBE_UP on Loss",
        "7a": "Never Exiting PROBE_UP",
        "7b": "Never Exiting PROBE_UP",
        "8": "Exiting PROBE_DOWN on Inflight",
        "9": "Exiting PROBE_DOWN After Max Time",
        "10": "Entering and Exiting PROBE_RTT",
        "11": "Skipping PROBE_RTT",
        "12": "Achieving Expected STARTUP Bandwidth on a Link With Aggregation",
        "13": "Achieving Expected Cruise Bandwidth on a Link With Aggregation",
        "14": "Correctly Managing Sub-Packet BDPs",
        "15": "Increasing Bandwidth 10x",
        "16": "Decreasing Bandwidth 10x",
        "17": "Handling Token Bucket Policers",
        "18": "Handling Spurious Fast Recovery",
        "19": "Handling Spurious RTO Recovery",
        "20": "Entering and Exiting PROBE_RTT During STARTUP",
        "21": "Handling Loss During PROBE_UP",
        "22": "Handling Application-Limited Sending During PROBE_REFILL",
    },
    # groups of ours, since the suite is about several documents
    "stack": {"alone": "One", "c4": "Completion", "sharing": "Sharing", "robust": "Paths", "bbr": "The BBR draft's"},
    "c4": {
        **{"alone": "Alone", "self": "Next to", "cubic": "Next to", "bbr": "Next to"},
        **{"resume": "Careful resume", "media": "Media"},
    },
}

# the test cases of draft-huitema-ccwg-c4-test-02, which has no numbers for them, with the criterion of each
C4_CASES = {
    "basic": "alone",
    "short, fast": "alone-fast",
    "low and up": "low-and-up",
    "drop and back": "drop-and-back",
    "black hole": "black-hole",
    "short to long": "short-to-long",
    "bad Wi-Fi": "bad-wifi",
    "fading Wi-Fi": "fading",
    "suspension": "suspension",
    "two, same start": "self-same-start",
    "two, background first": "self-first",
    "two, background later": "self-second",
    "two, long": "self-long",
    "two, long, background later": "self-later",
    "two over bad Wi-Fi": "self-bad-wifi",
    "CUBIC, same start": "cubic-same-start",
    "CUBIC, long": "cubic-long",
    "CUBIC, long, later": "cubic-later",
    "CUBIC over bad Wi-Fi": "cubic-bad-wifi",
    "BBR, same start": "bbr-same-start",
    "BBR, long": "bbr-long",
    "BBR, long, later": "bbr-later",
    "BBR over bad Wi-Fi": "bbr-bad-wifi",
}


def test_each_shipped_suite_has_a_list_of_sections() -> None:
    assert set(SECTIONS) == set(list_suites())


@pytest.mark.parametrize("name", list(SECTIONS))
def test_a_suite_has_the_sections_of_its_document(name: str) -> None:
    suite = load_suite(name)
    assert list(suite.paragraphs) == list(SECTIONS[name])
    for section, beginning in SECTIONS[name].items():
        assert suite.paragraphs[section].title.startswith(beginning), section


def _list_answered(suite: EvaluationSuite) -> set[str]:
    return {section for one in suite.criteria for section in one.answers}


@pytest.mark.parametrize("name", list(SECTIONS))
def test_each_section_is_answered_or_for_the_author_or_not_covered_for_a_reason(name: str) -> None:
    suite = load_suite(name)
    answered = _list_answered(suite)
    for section, paragraph in suite.paragraphs.items():
        ways = [section in answered, bool(paragraph.author), bool(paragraph.lacks)]
        assert ways.count(True) == 1, section
        if section not in answered:
            assert len(paragraph.author or paragraph.lacks) > 20, section  # a reason, not a word


def test_c4_has_a_criterion_for_each_of_its_cases_except_resume_and_media() -> None:
    assert {one.id for one in load_suite("c4").criteria} == set(C4_CASES.values())


def test_bars_of_documents_have_their_number_and_all_others_are_ours() -> None:
    """What passes or fails by a number of ours would say more than its document."""
    passing = {
        name: {one.id for one in load_suite(name).criteria if one.passes is not None}
        for name in ("rfc9743", "rfc7928", "tcpeval", "l4s", "rfc8867", "c4")
    }
    assert not any(passing[name] for name in ("rfc9743", "rfc7928", "tcpeval", "l4s"))
    media = load_suite("rfc8867")
    for one in media.criteria:
        for bar in (one.passes, one.fails):
            if bar is not None:
                origins = {media.words[word].origin[:8] for word in bar.names}
                assert origins in ({"RFC 8867"}, {"RFC 8868"}), one.id
    # the ratio of RFC 8868 is for flows of one RTT
    ratio = {one.id for one in media.criteria if one.passes is not None and "factor" in one.passes.names}
    assert ratio == {"variable-several-share", "competing-share", "pause-share"}
    assert passing["c4"] == {one.id for one in load_suite("c4").criteria}
