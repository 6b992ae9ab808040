"""What `dumbbell --version` prints."""

from dumbbell._native import engine_version


def version() -> str:
    """Return the versions of the package and of its simulator, which are built together."""
    return f"dumbbell {engine_version().partition('+')[0]} (engine {engine_version()})"
