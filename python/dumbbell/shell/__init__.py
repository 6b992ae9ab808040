"""`dumbbell shell`: programs behind a bottleneck. `session` starts one, `child` is its process, `watch` looks at it."""
