"""Interpreters, compilers, build tools, package managers."""

from __future__ import annotations

import pytest

from ferrule.policy.commands.analyse import analyse


@pytest.mark.parametrize(
    "command",
    [
        "python --version",
        "node -v",
        "pip list",
        "npm ls",
        "go env GOPATH",
        "dpkg -l",
        "rpm -qa",
        "apt list",
        "openssl version",
        "nm -D a",
        "uv pip list",
        "conda env list",
    ],
)
def test_these_only_read(command: str):
    assert analyse(command).read_only


@pytest.mark.parametrize(
    "command",
    [
        "python -c 1",
        "python x.py",
        "node -e 1",
        "pip install x",
        "npm run x",
        "go env -w A=b",
        "go list",
        "rpm -q --eval x",
        "apt list -o a=b",
        "openssl enc -in a",
        "nm @a",
        "nm --plugin=x a",
        "make",
        "pytest -v",
        "uv run ls",
        "cargo tree",
    ],
)
def test_these_ask(command: str):
    assert not analyse(command).read_only
