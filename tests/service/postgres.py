"""A throwaway PostgreSQL: a cluster of its own on a Unix socket, run as an ordinary user, without durability."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from pathlib import Path


def programs() -> Path | None:
    """The folder of PostgreSQL's programs, where Debian hides them too."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent  # it may be a link into the folder of all of them
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name.split(".")[0]))
    return folders[-1] if folders else None


class Cluster:
    """Started by `start`; every test gets a database of its own, copied from one that is migrated."""

    def __init__(self, bin_folder: Path, port: int | None = None) -> None:
        """With a `port` it listens on loopback too, where it wants passwords."""
        self.port = port
        self._bin = bin_folder
        self._folder = Path(tempfile.mkdtemp(prefix="fpg", dir="/tmp"))  # a socket's path must be short
        self._user = "postgres" if os.geteuid() == 0 else None
        self._count = 0
        self._started = False

    def _run(self, *command: str, check: bool = True) -> str:
        done = subprocess.run(
            [str(self._bin / command[0]), *command[1:]], user=self._user, capture_output=True, text=True, check=False,
            env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8"}, cwd=self._folder,
        )  # fmt: skip
        assert not check or done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    def start(self) -> None:
        if self._user is not None:
            owner = pwd.getpwnam(self._user)
            os.chown(self._folder, owner.pw_uid, owner.pw_gid)
        data, log = str(self._folder / "data"), str(self._folder / "log")
        self._run("initdb", "-D", data, "-U", "postgres", "--auth-local=trust", "--auth-host=scram-sha-256",
                  "--no-sync", "-E", "UTF8")  # fmt: skip
        listens = "-c listen_addresses=''" if self.port is None else f"-c listen_addresses=127.0.0.1 -p {self.port}"
        options = f"{listens} -c unix_socket_directories={self._folder} -c fsync=off -c max_connections=200"
        subprocess.run(
            [str(self._bin / "pg_ctl"), "-D", data, "-l", log, "-o", options, "-w", "start"], user=self._user,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True,
            env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C.UTF-8"}, cwd=self._folder,
        )  # fmt: skip
        self._started = True
        # The owner of the tables is an ordinary user, for whom row-level security holds.
        self.sql("CREATE ROLE keeper LOGIN CREATEROLE")

    def sql(self, statement: str, database: str = "postgres") -> str:
        where = ("-h", str(self._folder), "-p", str(self.port or 5432), "-U", "postgres", "-d", database)
        return self._run("psql", *where, "-v", "ON_ERROR_STOP=1", "-Atqc", statement)

    def url(self, database: str, user: str = "keeper") -> str:
        return f"postgresql://{user}@/{database}?host={self._folder}"

    def new_database(self, *, migrated: bool = True) -> str:
        """The URL of an empty database of its own."""
        self._count += 1
        name = f"test{self._count}"
        template = f" TEMPLATE {self._migrated()}" if migrated else ""
        self.sql(f"CREATE DATABASE {name} OWNER keeper{template}")
        return self.url(name)

    def _migrated(self) -> str:
        name = "migrated"
        if not self.sql(f"SELECT 1 FROM pg_database WHERE datname = '{name}'"):
            from ferrule.service.database import Database

            self.sql(f"CREATE DATABASE {name} OWNER keeper")
            database = Database(self.url(name), owner=True)
            database.migrate()
            database.close()
        return name

    def stop(self) -> None:
        if self._started:
            self._run("pg_ctl", "-D", str(self._folder / "data"), "-m", "immediate", "-w", "stop", check=False)
        for _ in range(20):
            shutil.rmtree(self._folder, ignore_errors=True)
            if not self._folder.exists():
                return
            time.sleep(0.1)
