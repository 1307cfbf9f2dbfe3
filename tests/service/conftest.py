"""What the tests of the service share: a store of each kind, and a PostgreSQL that lives for one run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.needs import needs
from tests.service.postgres import Cluster, programs


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    found = programs()
    needs(found, "a PostgreSQL server to start (initdb); on Debian: apt-get install postgresql")
    assert found is not None
    made = Cluster(found)
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a store: most of what the service promises holds on either."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'service.db'}"
    return request.getfixturevalue("cluster").new_database()


@pytest.fixture
def postgres_url(cluster: Cluster) -> str:
    return cluster.new_database()


@pytest.fixture(autouse=True)
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FERRULE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("FERRULE_CONFIG", "/dev/null")
