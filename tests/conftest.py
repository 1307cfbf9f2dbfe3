"""Shared settings of the tests."""

from __future__ import annotations

import asyncio
import inspect
import os
import sys

import pytest
from hypothesis import settings

# Hundreds of tests start Python: compiling everything anew for each of them, as this variable has it, takes minutes.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A loaded machine is no reason to fail, and no test may depend on the order of examples. In CI the examples are the
# same in every run, so that a change is judged by what it changed; elsewhere they are new each time.
settings.register_profile("ferrule", deadline=None, print_blob=True, derandomize=bool(os.environ.get("CI")))
settings.load_profile("ferrule")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine in a loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True
