"""Being someone who may not: root may read everything."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager

_NOBODY = 65534


@contextmanager
def as_nobody() -> Generator[None]:
    """Root becomes nobody for a while; anyone else stays who they are."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(_NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
