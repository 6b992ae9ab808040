"""Times in the units that kernels take."""

from dumbbell.errors import InputError, WrongValue

US, MS = 1_000, 1_000_000


def whole(time: int, unit: int) -> int:
    """Return a time in milliseconds or microseconds; raises InputError, without a key, if it is not a whole number."""
    if time % unit:
        raise WrongValue(f"{time} ns", f"whole {'ms' if unit == MS else 'us'}: the kernel has no finer ones")
    return time // unit


def whole_us(where: str, time: int) -> int:
    """Return a time in microseconds; raises InputError, with its key, if it is not a whole number: tc cuts the rest."""
    try:
        return whole(time, US)
    except InputError as error:
        raise error.moved("", where) from None
