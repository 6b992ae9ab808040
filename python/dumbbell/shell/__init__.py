"""`dumbbell shell`: programs behind a bottleneck. `session` starts one in a `shell_child`; `watch` shows it."""
