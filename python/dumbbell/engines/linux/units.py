"""Times in the units that kernels take."""

from dumbbell.errors import InputError, WrongValue

US, MS = 1_000, 1_000_000


def divide_exactly(time: int, unit: int) -> int:
    """Return a time in milliseconds or microseconds; raises InputError, without a key, if it is not a whole number."""
    if time % unit:
        raise WrongValue(f"{time} ns", f"whole {'ms' if unit == MS else 'us'}: the kernel has no finer ones")
    return time // unit


def to_whole_microseconds(where: str, time: int) -> int:
    """Return a time in microseconds; raises InputError, with its key, if it is not a whole number: tc cuts the rest."""
    try:
        return divide_exactly(time, US)
    except InputError as error:
        raise error.move("", where) from None
