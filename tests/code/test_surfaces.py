"""Code mode in the command line, over MCP and in the service (M1, M3, R8, O7)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ferrule import Registry, RulePolicy
from ferrule.app.settings import load_settings
from ferrule.code import RunCode
from ferrule.code.run_code import only_code
from tests.cli.conftest import Command
from tests.mcp_server.serving import ERAS, answering, both_eras, client_of, serving, text_of

from .shop import Shop
from .test_signatures import names, secret

CODE = "total = 0\nfor n in range(3):\n    total += await look(n)\ntotal"


@pytest.fixture
def ferrule(tmp_path: Path) -> Command:
    return Command(tmp_path)


def test_a_call_from_the_shell(ferrule: Command) -> None:
    (ferrule.workspace / "a.txt").write_text("hi\n")
    code = json.dumps({"code": "(await Read(file_path='a.txt'))['content']"})
    assert ferrule("call", "run_code", code, "--code").out == "hi\n"
    assert "There is no tool `run_code`" in ferrule("call", "run_code", code).err


def test_the_assistant_is_shown_one_tool_in_place_of_those_that_programs_call(ferrule: Command) -> None:
    script = ferrule.folder / "script.json"
    code = "for name in ['a', 'b']:\n    await Write(file_path=f'{name}.txt', content=name)\nprint('both')"
    script.write_text(json.dumps([{"calls": [{"name": "run_code", "arguments": {"code": code}}]}, "Done."]))
    done = ferrule("run", "go", "--code", "--yes", "--json", "--model", f"scripted:{script}")
    assert done.code == 0, done.err
    assert sorted(one.name for one in ferrule.workspace.glob("*.txt")) == ["a.txt", "b.txt"]
    assert ferrule("undo").code == 0
    assert list(ferrule.workspace.glob("*.txt")) == []


def test_the_setting_does_the_same_and_a_workspace_cannot_turn_it_on(ferrule: Command) -> None:
    (ferrule.workspace / "ferrule.toml").write_text("[tools]\ncode = true\n")
    loaded = load_settings(ferrule.workspace)
    assert (loaded.settings.tools.code, loaded.set_aside) == (False, ["tools.code"])


@both_eras
async def test_an_mcp_client_is_shown_run_code_and_asked_about_its_calls(era: str) -> None:
    shop = Shop()
    registry = Registry([*shop.tools, secret])
    registry.register(RunCode(registry))
    ask = answering(answer="once")
    server = serving(only_code(registry), policy=RulePolicy(deny=["note"]))
    async with client_of(server, era, elicitation_callback=ask) as client:
        (shown,) = (await client.list_tools()).tools
        assert shown.name == "run_code"
        assert "look" in names({"run_code": _Shown(shown.description)})
        assert not {"note", "secret"} & names({"run_code": _Shown(shown.description)})
        assert text_of(await client.call_tool("run_code", {"code": CODE})) == "6"
        assert text_of(await client.call_tool("run_code", {"code": "await refund(7)"})) == "refunded 7"
        assert shop.did == ["look 0", "look 1", "look 2", "refund 7"]
        failed = await client.call_tool("run_code", {"code": "await note('x')"})
        assert failed.is_error
        assert "`note` used when not defined" in text_of(failed)


async def test_the_service_shows_each_user_a_program_of_their_own_tools(tmp_path: Path) -> None:
    from tests.service.serving import running
    from tests.service.test_mcp import connected, member

    shop = Shop()
    registry: Any = Registry(shop.tools)
    registry.register(RunCode(registry))
    async with running(f"sqlite:///{tmp_path / 's.db'}", tmp_path, tools=registry) as service:
        admin = await service.client()
        assert "run_code" in {one.name for one in await admin.tools()}
        called = await admin.call("run_code", {"code": CODE})
        assert called.result is not None
        assert called.result.llm_content == "6"
        await admin.put_role("reader", deny=["refund", "note"])
        service.service.in_code_mode = True
        async with connected(service, next(iter(ERAS)), await member(service, "ann", "reader")) as client:
            listed = {one.name: one for one in (await client.list_tools()).tools}
            assert set(listed) == {"run_code", "query_entity_schema"}  # what is the tenant's own is shown beside
            shown = listed["run_code"]
            assert not {"refund", "note"} & names({"run_code": _Shown(shown.description)})
            assert "look" in names({"run_code": _Shown(shown.description)})
            assert text_of(await client.call_tool("run_code", {"code": CODE})) == "6"
            refused = await client.call_tool("run_code", {"code": "await refund(1)"})
            assert "`refund` used when not defined" in text_of(refused)
    assert [one for one in shop.did if one.startswith("refund")] == []


class _Shown:
    """A definition that came over the wire."""

    def __init__(self, text: str | None) -> None:
        self.description: Any = self
        self.text = text or ""


def test_the_code_package_is_imported_only_where_it_is_used() -> None:
    import subprocess
    import sys

    words = (
        "import sys, ferrule, ferrule.app.build; print([n for n in sys.modules if 'ferrule.code' in n or 'monty' in n])"
    )
    assert subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True).stdout == "[]\n"
