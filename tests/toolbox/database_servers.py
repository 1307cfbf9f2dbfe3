"""Throwaway servers of databases: run as ordinary users, on loopback, without durability."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class MariaServer:
    """A MariaDB with the database `shop`; `ask` speaks as its root, through its socket."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="fmy", dir="/tmp"))  # a socket's path must be short
        self.port = free_port()
        self.socket = self.folder / "s"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        user = "mysql" if os.geteuid() == 0 else None
        if user is not None:
            owner = pwd.getpwnam(user)
            os.chown(self.folder, owner.pw_uid, owner.pw_gid)
        data = self.folder / "data"
        done = subprocess.run(
            ["mariadb-install-db", "--no-defaults", f"--datadir={data}", "--skip-test-db",
             "--auth-root-authentication-method=normal"],
            user=user, capture_output=True, text=True, cwd=self.folder,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        log = (self.folder / "log").open("wb")
        self._process = subprocess.Popen(
            ["mariadbd", "--no-defaults", f"--datadir={data}", f"--socket={self.socket}", f"--port={self.port}",
             "--bind-address=127.0.0.1", f"--pid-file={self.folder / 'pid'}", "--innodb-flush-log-at-trx-commit=0",
             "--innodb-buffer-pool-size=32M", "--skip-name-resolve", "--local-infile=1",
             f"--secure-file-priv={self.folder}"],
            user=user, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder,
        )  # fmt: skip
        log.close()
        for _ in range(300):
            with socket.socket(socket.AF_UNIX) as probe:
                if probe.connect_ex(str(self.socket)) == 0:
                    break
            assert self._process.poll() is None, (self.folder / "log").read_text()
            time.sleep(0.1)
        else:
            raise AssertionError((self.folder / "log").read_text())
        self.ask("CREATE DATABASE IF NOT EXISTS shop")

    def ask(self, *statements: str, database: str | None = None) -> list[tuple[Any, ...]]:
        import pymysql

        connection = pymysql.connect(unix_socket=str(self.socket), user="root", database=database, autocommit=True)
        try:
            with connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
                return list(cursor.fetchall())
        finally:
            connection.close()

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
