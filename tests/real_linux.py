"""Tests of a real kernel: marks and skips for machines without one, and the engine."""

import shutil

import pytest

from dumbbell.engines import find_engine
from dumbbell.engines.linux import engine as linux
from dumbbell.engines.linux import kernels
from dumbbell.errors import InputError


def has_kernel() -> bool:
    """Whether a kernel is built."""
    try:
        return bool(kernels.load().qdiscs)
    except InputError:
        return False


needs_kernel = pytest.mark.skipif(not has_kernel(), reason="no kernel is built (dumbbell linux build)")
needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
needs_tc = pytest.mark.skipif(shutil.which("tc") is None, reason="no tc (iproute2)")
needs_tools = pytest.mark.skipif(shutil.which("cc") is None or shutil.which("tc") is None, reason="no C compiler")


def require_engine() -> linux.LinuxEngine:
    """Return the engine, or skip the test."""
    if not has_kernel():
        pytest.skip("no kernel is built (dumbbell linux build)")
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    if shutil.which("tc") is None:
        pytest.skip("no tc (iproute2)")
    found = find_engine("linux")
    assert isinstance(found, linux.LinuxEngine)
    return found
