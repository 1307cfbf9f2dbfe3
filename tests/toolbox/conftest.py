"""The servers that the toolbox's tests speak to, started once for each module."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.needs import needs
from tests.service.postgres import Cluster, programs
from tests.toolbox.calendar_server import Radicale, radicale
from tests.toolbox.database_servers import MariaServer, free_port
from tests.toolbox.mail_servers import Dovecot, Smtp, dovecot, smtp_server
from tests.toolbox.web_server import WebServer, web_server


@pytest.fixture(scope="module")
def imap() -> Iterator[Dovecot]:
    with tempfile.TemporaryDirectory(prefix="dovecot-") as folder, dovecot(Path(folder)) as server:
        yield server


@pytest.fixture
def smtp(tmp_path: Path) -> Iterator[Smtp]:
    with smtp_server() as server:
        yield server


@pytest.fixture(scope="module")
def caldav() -> Iterator[Radicale]:
    with tempfile.TemporaryDirectory(prefix="radicale-") as folder, radicale(Path(folder)) as server:
        yield server


@pytest.fixture
def web() -> Iterator[WebServer]:
    with web_server() as server:
        yield server


@pytest.fixture(scope="session")
def postgres() -> Iterator[Cluster]:
    folder = programs()
    needs(folder, "PostgreSQL: apt-get install postgresql")
    assert folder is not None
    cluster = Cluster(folder, free_port())
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaServer]:
    needs(shutil.which("mariadbd"), "MariaDB: apt-get install mariadb-server")
    server = MariaServer()
    try:
        server.start()
        yield server
    finally:
        server.stop()
