"""What runs an experiment: `sweep` all runs of it, on the simulator, on `linux` or `live`; `cluster` elsewhere."""
