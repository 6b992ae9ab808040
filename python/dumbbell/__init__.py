"""A laboratory for congestion control and active queue management."""
