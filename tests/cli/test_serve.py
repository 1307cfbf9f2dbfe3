"""`ferrule serve`, and `ferrule tenants`, `users`, `roles` and `keys` on its database."""

from __future__ import annotations

import os
import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from ferrule.cli.serve import LogWriter
from ferrule.service.database import Database
from ferrule.service.directory import hash_secret
from ferrule.service.tables import HEAD, key_hashes

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Command


@pytest.fixture
def database(ferrule: Command, tmp_path: Path) -> str:
    """A database that was migrated and never served."""
    url = f"sqlite:///{tmp_path / 'service.db'}"
    first = ferrule("serve", "migrate", "--database", url)
    assert (first.code, first.out) == (0, f"The schema is at {HEAD} now.\n")
    again = ferrule("serve", "--database", url, "migrate")
    assert (again.code, again.out) == (0, f"The schema is current ({HEAD}).\n")
    return url


def test_a_tenant_with_a_role_a_user_and_a_key_is_made_from_the_shell(ferrule: Command, database: str) -> None:
    of_store = ("--database", database)
    of_acme = (*of_store, "--tenant", "acme")
    made = ferrule("tenants", "create", "acme", "--calls-per-day", "9", *of_store, "--json").json
    assert (made["name"], made["operator"], made["limits"]) == ("acme", False, {"calls_per_day": 9})
    changed = ferrule("tenants", "change", "acme", "--rate", "2.5", *of_store, "--json").json
    assert changed["limits"] == {"calls_per_day": 9, "rate": 2.5}
    changed = ferrule("tenants", "change", "acme", "--tool", "Bash", "--burst", "3", *of_store, "--json").json
    assert changed["limits"]["tools"] == {"Bash": {"burst": 3}}
    refused = ferrule("tenants", "change", "acme", "--audit-days", "0.5", *of_store)
    assert refused.err == "Error: `audit_days` cannot be `0.5`: it must be 0 to keep all, or 1 or more.\n"
    assert ferrule("roles", "set", "clerk", "--allow", "Write", "--deny", "Bash", *of_acme).code == 0
    assert ferrule("users", "create", "ann", "--role", "clerk", "--role", "member", *of_acme).code == 0
    key = ferrule("keys", "create", "ann", "--expires", "30d", "--scope", "calls", *of_acme)
    secret = key.out.strip()
    assert secret.startswith("fk_")
    assert "shown this once" in key.err
    with Database(database).transaction(None) as connection:
        assert connection.execute(key_hashes.select().where(key_hashes.c.hash == hash_secret(secret))).one()
    (listed,) = ferrule("keys", "list", *of_acme, "--json").json["keys"]
    assert (listed["user"], listed["scopes"], listed["hint"]) == ("ann", ["calls"], secret[:8])
    assert "secret" not in listed
    rotated = ferrule("keys", "rotate", listed["id"], "--overlap", "1h", *of_acme)
    assert rotated.out.strip() not in ("", secret)
    assert ferrule("keys", "revoke", listed["id"], *of_acme).out == f"Revoked {listed['id']}.\n"
    names = [line.split()[0] for line in ferrule("roles", "list", *of_acme).out.splitlines()[1:]]
    assert names == ["admin", "clerk", "member"]
    assert ferrule("keys", "revoke", "x", *of_acme).err == "Error: There is no key `x`.\n"
    assert ferrule("keys", "create", "ghost", *of_acme).err == "Error: There is no user `ghost`.\n"
    assert ferrule("users", "remove", "ann", *of_acme).code == 0
    assert ferrule("users", "list", *of_acme).err == "Tenant: acme\nThere are no users.\n"


@pytest.mark.parametrize(
    "command",
    [
        *(("roles", "set", "clerk", option, "Raed(.env)") for option in ("--deny", "--ask", "--allow")),
        ("tenants", "change", "acme", "--tool", "Raed", "--burst", "3"),
    ],
)
def test_s1_a_misspelt_tool_restricts_nothing_and_is_refused(
    ferrule: Command, database: str, command: tuple[str, ...]
) -> None:
    of_tenant = ("--tenant", "acme") if command[0] == "roles" else ()
    assert ferrule("tenants", "create", "acme", "--database", database).code == 0
    done = ferrule(*command, "--database", database, *of_tenant)
    assert (done.code, done.err) == (2, "Error: There is no tool `Raed`; did you mean `Read`?\n")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("users", "create", "ann", "--tenant", "nowhere"), "Error: There is no tenant `nowhere`.\n"),
        (("tenants", "create", "No Good"), "Error: `name` cannot be `No Good`: it must be 1 to 63 lower-case"),
        (("keys", "create", "ghost"), "Error: There is no tenant `default`.\n"),
        (
            ("tenants", "create", "acme", "--display-name", "x" * 201),
            f"Error: `display_name` cannot be `{'x' * 201}`: it must have at most 200 characters.\n",
        ),
        (("roles", "set", "odd", "--allow", "Grep(x)"), "Error: There is no tenant `default`.\n"),
        (("keys", "revoke", "x", "--tenant", "nowhere"), "Error: There is no tenant `nowhere`.\n"),
    ],
)
def test_what_cannot_be_is_one_line(ferrule: Command, database: str, command: tuple[str, ...], said: str) -> None:
    done = ferrule(*command, "--database", database)
    assert done.code == 2
    assert done.err.startswith(said)
    assert done.err.count("\n") == 1


def test_a_duration_is_checked(ferrule: Command, database: str) -> None:
    done = ferrule("keys", "create", "ann", "--expires", "soon", "--database", database)
    assert done.code == 2
    assert "`soon` is not a duration. Write 90s, 15m, 12h or 30d." in done.err


def test_without_a_database_the_next_step_is_said(ferrule: Command, tmp_path: Path) -> None:
    done = ferrule("keys", "list", "--database", f"sqlite:///{tmp_path / 'none.db'}")
    assert (done.code, done.err) == (
        2,
        "Error: There is no current service database there. Start `ferrule serve`, or run `ferrule serve migrate`.\n",
    )
    wrong = ferrule("serve", "--database", "mysql://x/y")
    assert wrong.code == 2
    assert wrong.err.startswith("Error: The database is a URL: sqlite:////path/to/service.db or postgresql://")
    away = ferrule("serve", "migrate", "--database", "postgresql://nobody@127.0.0.1:1/none")
    assert away.code == 2
    assert away.err.startswith("Error: The schema could not be brought up to date: ")
    assert "Traceback" not in away.err


def test_whoever_stops_reading_the_log_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a service whose standard error is a full pipe answers nobody any more."""
    monkeypatch.setattr("ferrule.cli.serve._CLOSE_SECONDS", 0.1)
    reading, writing = os.pipe()
    with os.fdopen(reading, "r", encoding="utf-8") as reader, os.fdopen(writing, "w", encoding="utf-8") as full:
        monkeypatch.setattr("sys.stderr", full)
        lines = LogWriter()
        for number in range(3_000):
            lines.write(f"{number} {'x' * 200}")
        lines.write("the end")  # among the lost
        assert lines.close() is False
        with ThreadPoolExecutor(1) as pool:
            read = pool.submit(reader.read)
            monkeypatch.setattr("ferrule.cli.serve._CLOSE_SECONDS", 60.0)
            assert lines.close() is True
            full.close()
            said = read.result(60)
    assert said.startswith("0 xx")
    missing = [int(many.replace(",", "")) for many in re.findall(r"([\d,]+) lines are missing here", said)]
    assert missing
    assert said.count("x" * 200) + said.count("the end") + sum(missing) == 3_001
