"""Experiments in real time: kernel TCP between network namespaces, through the bottleneck of the simulator."""
