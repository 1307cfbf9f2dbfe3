"""The public API is chosen: a name comes or goes on purpose, with this test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from inline_snapshot import snapshot

import ferrule


def test_the_public_names_are_these() -> None:
    assert sorted(ferrule.__all__) == snapshot(
        [
            "Answer",
            "Attachment",
            "CallEvent",
            "CallInfo",
            "CallRecord",
            "Caller",
            "Choice",
            "Decision",
            "DefinitionError",
            "Description",
            "Done",
            "Environment",
            "ErrorInfo",
            "ErrorKind",
            "Example",
            "FunctionTool",
            "InvalidParamsError",
            "Invocation",
            "Kind",
            "Limits",
            "Mode",
            "NOTHING",
            "NameTakenError",
            "Output",
            "PartialOutput",
            "Pending",
            "Plugin",
            "Policy",
            "Problem",
            "Progress",
            "Question",
            "RawCall",
            "RawTool",
            "Recorder",
            "Registry",
            "RegistryEvent",
            "RulePolicy",
            "Runtime",
            "Session",
            "StoppedError",
            "Tool",
            "ToolContext",
            "ToolError",
            "ToolOptions",
            "ToolResult",
            "Touch",
            "Verdict",
            "__version__",
            "composite",
            "raw_tool",
            "reads",
            "tool",
            "tools_of",
            "writes",
        ]
    )


def test_every_public_name_is_there_and_listed() -> None:
    for name in ferrule.__all__:
        assert getattr(ferrule, name) is not None
    assert dir(ferrule) == sorted(ferrule.__all__)


def test_a_wrong_name_is_an_ordinary_attribute_error() -> None:
    assert not hasattr(ferrule, "no_such_name")


def test_importing_ferrule_imports_no_dependency() -> None:
    """`import ferrule` must stay cheap: nothing is loaded that the program does not use."""
    code = "import sys, ferrule; print(sorted({'pydantic', 'click', 'asyncio', 'sqlite3'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_package_is_typed() -> None:
    assert (Path(ferrule.__file__).parent / "py.typed").exists()


def test_without_the_extra_mcp_says_what_to_install() -> None:
    """Also where it is a `Runtime` that opens servers."""
    script = """
import asyncio, sys
sys.modules["anyio"] = None
from ferrule import Runtime

async def main():
    async with Runtime([], mcp_servers={"clock": {"command": "clock"}}):
        pass

try:
    asyncio.run(main())
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "An MCP server needs an optional part of Ferrule. Install it: pip install 'ferrule[mcp]'\n"


async def test_a_server_that_is_no_table_is_refused_in_words() -> None:
    with pytest.raises(TypeError) as caught:
        async with ferrule.Runtime([], mcp_servers={"clock": "uvx clock"}):
            pass
    assert str(caught.value) == snapshot(
        'mcp_servers: `clock` must be a table like {"command": "uvx", "args": [...]}, not \'uvx clock\'.'
    )
