"""Shared settings of the tests."""

from __future__ import annotations

from hypothesis import settings

# A loaded machine is no reason to fail, and no test may depend on the order of examples.
settings.register_profile("ferrule", deadline=None, print_blob=True)
settings.load_profile("ferrule")
