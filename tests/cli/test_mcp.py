"""`ferrule mcp` as a group: what it means alone, and that nobody else pays for it."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tests.needs import slow

if TYPE_CHECKING:
    from .conftest import Command

HELLO = (
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    '"clientInfo":{"name":"test","version":"1"}}}\n'
)


def test_help_lists_its_commands(ferrule: Command) -> None:
    done = ferrule("mcp", "--help")
    assert done.code == 0
    assert "serve" in done.out


@pytest.mark.parametrize(
    "arguments", [(), slow(("serve",)), slow(("--mode", "plan")), slow(("serve", "--mode", "plan"))]
)
def test_alone_or_with_options_alone_it_serves(arguments: tuple[str, ...], ferrule: Command) -> None:
    with subprocess.Popen(
        ferrule.arguments("mcp", *arguments),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=ferrule.environment,
        cwd=ferrule.workspace,
        text=True,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(HELLO)
        server.stdin.flush()
        assert '"serverInfo"' in server.stdout.readline()
        server.stdin.close()
        assert server.wait(60) == 0


def test_a_command_that_there_is_not_is_named(ferrule: Command) -> None:
    done = ferrule("mcp", "srve")
    assert done.code == 2
    assert "There is no command `srve`. Did you mean `serve`?" in done.err


@pytest.mark.parametrize("arguments", [["--version"], ["tools"], ["mcp", "--help"]])
def test_what_serves_nothing_imports_nothing_of_it(arguments: list[str], ferrule: Command) -> None:
    program = (
        "import sys\n"
        f"sys.argv = ['ferrule', *{arguments!r}]\n"
        "from ferrule.cli.main import main\n"
        "try:\n    main()\n"
        "finally:\n"
        "    print({'mcp', 'mcp_types', 'starlette', 'uvicorn'} & sys.modules.keys(), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=ferrule.environment, cwd=ferrule.workspace
    )
    assert done.stderr.splitlines()[-1] == "set()"
