from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.remote.places import Server


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="nats-") as folder:
        one = Server(Path(folder)).start()
        yield one
        one.stop()


@pytest.fixture
def pool() -> str:
    return f"p{uuid.uuid4().hex[:8]}"
