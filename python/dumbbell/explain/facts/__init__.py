"""The facts that a run is explained by: one class per kind, its numbers, and the sentence that says them.

Times are seconds of the run. Those of flows are on the sender's clock, which is half a base RTT behind that of the
queue for data that go down. A fact holds by its numbers alone, so that it can be held against other records of the run.
"""

from dumbbell.explain.facts import base, queues, results, senders

__all__ = ["base", "queues", "results", "senders"]
