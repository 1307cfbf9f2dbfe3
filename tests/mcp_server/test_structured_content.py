"""Every built-in tells an MCP client what it returns, and every result keeps that promise (O7, T9, T10)."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from mcp import Client, types

from ferrule import Registry, Runtime, Session
from ferrule.agent.task_tool import TaskTool
from ferrule.builtin.all_tools import builtin_tools
from ferrule.mcp_server.server import McpServer
from ferrule.mcp_server.shown_tools import LEFT_OUT, RESULT_CHARS, STRUCTURED_CHARS
from tests.mcp_server.serving import ERAS, both_eras, text_of
from tests.says_yes import SaysYes
from tests.workspace.pictures import PNG

REQUIRED = {
    "Read": {"file_path", "offset", "total_lines", "lines_read", "has_more"},
    "Write": {"file_path", "is_overwrite", "line_count", "byte_count"},
    "Edit": {"file_path", "replacements"},
    "MultiEdit": {"file_path", "replacements"},
    "Glob": {"pattern", "path", "count"},
    "Grep": {"pattern", "path", "count"},
    "FileSearch": {"files_searched", "matches"},
    "LS": {"path", "entries"},
    "Bash": {"exit_code", "timed_out", "working_directory", "stdout", "stderr"},
    "BashInput": {"exit_code", "timed_out", "working_directory", "stdout", "stderr"},
    "BashOutput": {"shell_id", "status", "exit_code", "output"},
    "KillShell": {"shell_id", "status", "exit_code"},
    "readFile": {"filePath", "content", "size", "encoding"},
    "listFiles": {"path", "files", "directories", "total"},
    "searchFiles": {"pattern", "matches", "count"},
    "getCurrentDirectory": {"path", "basename"},
    "getGitInfo": {"isRepo", "branch", "commit", "remote", "status"},
    "getCurrentDateTime": {"datetime", "timestamp", "timezone", "formatted"},
    "executeCommand": {"command", "stdout", "stderr", "exitCode", "success"},
}
METADATA = {
    "Read": REQUIRED["Read"], "Write": REQUIRED["Write"], "Edit": REQUIRED["Edit"], "MultiEdit": REQUIRED["Edit"],
    "Glob": REQUIRED["Glob"], "Grep": REQUIRED["Grep"], "FileSearch": REQUIRED["FileSearch"],
    "Bash": {"exit_code", "working_directory", "timed_out"},
}  # fmt: skip


def test_every_built_in_declares_its_output_under_the_names_of_the_catalogue() -> None:
    """T9: sections 4 and 7."""
    declared = {
        tool.name: set((tool.output_schema or {}).get("properties", ())) for tool in builtin_tools(family="all")
    }
    assert declared.keys() == REQUIRED.keys()
    assert {name: REQUIRED[name] - found for name, found in declared.items() if REQUIRED[name] - found} == {}


def test_the_task_tool_declares_its_output() -> None:
    agent: Any = None
    schema = TaskTool(agent).output_schema
    assert schema is not None
    assert set(schema["properties"]) == {"text", "steps", "input_tokens", "output_tokens"}


class Checked:
    """A client that holds every result against the schema it was shown."""

    def __init__(self, client: Client, schemas: dict[str, Any]) -> None:
        self._client = client
        self._validators = {name: jsonschema_rs.validator_for(schema) for name, schema in schemas.items()}
        self.called: set[str] = set()

    async def __call__(self, tool: str, **arguments: Any) -> types.CallToolResult:
        result = await self._client.call_tool(tool, arguments)
        self.called.add(tool)
        data = result.structured_content
        if data is None:
            assert result.is_error, f"{tool} {arguments}: there is no structured content"
            return result
        self._validators[tool].validate(data)
        assert len(json.dumps(data, ensure_ascii=False, separators=(",", ":"))) <= STRUCTURED_CHARS
        if not result.is_error:
            _says_as_much(text_of(result), data)
        return result

    async def data(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = await self(tool, **arguments)
        assert not result.is_error, text_of(result)
        assert result.structured_content is not None
        return result.structured_content


def _says_as_much(text: str, data: dict[str, Any]) -> None:
    """An agent may show its model the data in place of the words, so nothing may stand in the words alone."""
    marks = set(re.findall(r"mark\d+", text))
    cut = LEFT_OUT in data or "left out" in json.dumps(data, ensure_ascii=False)
    assert cut or marks <= set(re.findall(r"mark\d+", json.dumps(data)))
    if isinstance(notes := data.get("notes"), list):
        said = set(re.findall(r"^\[(?!…)(.+)\]$", text, re.MULTILINE))
        derived = re.compile(
            r"std(?:out|err)|Done, with no output|The whole output is in|It waits for input|Read on with|image/png"
        )
        assert {one for one in said if one not in notes and not derived.match(one)} == set()


@asynccontextmanager
async def checked(workspace: Path, era: str = "handshake") -> AsyncGenerator[Checked]:
    session = Session(workspace=workspace)
    server = McpServer(Runtime(Registry(builtin_tools(family="all")), policy=SaysYes(), session=session))
    async with Client(server.sdk, mode=ERAS[era]) as client:
        listed = (await client.list_tools()).tools
        schemas = {tool.name: tool.output_schema for tool in listed}
        assert None not in schemas.values()
        yield Checked(client, schemas)


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FERRULE_DATA", str(tmp_path / "data"))
    root = tmp_path / "ws"
    (root / "sub" / "mark1").mkdir(parents=True)
    (root / "a.txt").write_text("one mark2\ntwo\n")
    (root / "empty").touch()
    (root / "long.txt").write_text("".join(f"line {at} {'x' * 80}\n" for at in range(5000)))
    (root / "wide.txt").write_text("mark3" + "é" * 9000)
    (root / "quotes.txt").write_text('"\\\n' * 30_000)
    (root / "wide16.txt").write_bytes("mark4 日本\r\n".encode("utf-16"))
    (root / "red.png").write_bytes(PNG)
    (root / "half.png").write_bytes(PNG[:-8])
    (root / "bin").write_bytes(b"\0\1\2" * 2000)
    cells = [{"cell_type": "code", "source": "print('mark5')", "outputs": []}, {"cell_type": "markdown", "source": "x"}]
    (root / "n.ipynb").write_text(json.dumps({"cells": cells}))
    (root / "sub" / "name\nwith mark6 \udcff.txt").write_text("mark7 needle\n")
    return root


@both_eras
async def test_files_in_every_state(workspace: Path, era: str) -> None:
    async with checked(workspace, era) as call:
        names = [path.name for path in workspace.iterdir() if path.is_file()]
        for name in names:
            await call("Read", file_path=name)
            await call("Read", file_path=name, offset=1, limit=1)
            await call("Read", file_path=name, offset=99_999)
            await call("readFile", filePath=name)
        assert (await call("Read", file_path="missing")).is_error
        page = await call.data("Read", file_path="a.txt", offset=1)
        assert page | {"notes": []} == {
            "file_path": "a.txt", "media_type": "text/plain", "size": 14, "encoding": "utf-8", "offset": 1,
            "total_lines": 2, "lines_read": 1, "has_more": False, "content": "two", "notes": [],
        }  # fmt: skip
        assert [block.type for block in (await call("Read", file_path="red.png")).content] == ["text", "image"]
        await call.data("Write", file_path="new/mark8.txt", content="mark8\n")
        written = await call.data("Write", file_path="new/mark8.txt", content="")
        assert (written["is_overwrite"], written["line_count"], written["byte_count"]) == (True, 0, 0)
        await call.data("Edit", file_path="a.txt", old_string="two", new_string="three")
        assert (await call("Edit", file_path="a.txt", old_string="two", new_string="x")).is_error
        fuzzy = [{"old_string": "one mark2  ", "new_string": "1"}, {"old_string": "three", "new_string": "mark9"}]
        assert (await call.data("MultiEdit", file_path="a.txt", edits=fuzzy))["replacements"] == 2


@pytest.mark.parametrize("era", ["stateless"])
async def test_searches_that_find_much_little_and_nothing(workspace: Path, era: str) -> None:
    many = workspace / "many"
    many.mkdir()
    for number in range(1500):
        (many / f"{number:04}{'n' * 60}.txt").write_text(f"needle {number}\n" * 3)
    async with checked(workspace, era) as call:
        for pattern in ("*.txt", "*.none", "sub/**", "gone/*"):
            found = await call.data("Glob", pattern=pattern)
            assert (found["pattern"], found["path"]) == (pattern, ".")
            await call.data("searchFiles", pattern=pattern)
        for mode in ("content", "files_with_matches", "count"):
            for pattern in ("needle", "mark7", "nothing like this", "x{80}"):
                await call.data("Grep", pattern=pattern, output_mode=mode, head_limit=0, **{"-C": 1})
        for path, depth in ((".", 1), (".", 5), ("many", 1), ("sub", 2)):
            await call.data("LS", path=path, depth=depth)
        listed = await call.data("listFiles", directoryPath=".", recursive=True)
        assert listed["total"] > 1500
        assert (await call.data("FileSearch", pattern="mark7"))["matches"] == 1
        assert (await call.data("FileSearch", pattern="needle", path="many", head_limit=0))["files_searched"] == 1500
        await call.data("FileSearch", pattern="nothing like this")
        preview = await call.data("FileSearch", pattern="needle (\\d+)", replace_with="pin $1", path="many")
        assert (preview["applied"], preview["matches"]) == (False, 4500)
        assert "+pin 0" in preview["diff"]
        applied = await call.data("FileSearch", pattern="mark7", replace_with="m", path="sub", preview_only=False)
        assert (applied["applied"], applied["matches"], applied["files_searched"]) == (True, 1, 1)


@pytest.mark.parametrize("era", ["handshake"])
async def test_commands_however_they_end(workspace: Path, era: str) -> None:
    async with checked(workspace, era) as call:
        failed = await call("Bash", command="cd sub; echo mark10; echo mark11 >&2; (exit 3)")
        ran: Any = failed.structured_content
        assert failed.is_error
        assert (ran["exit_code"], ran["stdout"], ran["stderr"]) == (3, "mark10\n", "mark11\n")
        assert (ran["timed_out"], ran["truncated"], ran["shell_id"]) == (False, False, None)
        assert (await call.data("Bash", command="pwd"))["working_directory"] == str(workspace / "sub")
        big = await call.data("Bash", command="seq 100000; seq 100000 >&2; echo mark12")
        assert big["truncated"]
        assert Path(big["output_file"]).stat().st_size > 1_000_000
        await call.data("Bash", command=r"printf '\000\001\377\033[31m\\\"'")
        timed_out = await call("Bash", command="echo mark13; sleep 600", timeout=500)
        assert timed_out.is_error
        assert timed_out.structured_content is not None
        assert (timed_out.structured_content["timed_out"], timed_out.structured_content["exit_code"]) == (True, None)
        assert (await call("Bash", command="true", working_directory="gone")).is_error
        started = await call.data("Bash", command="echo mark14; sleep 600", run_in_background=True)
        moved = await call.data("Bash", command="echo mark15; sleep 600", timeout=500, background_on_timeout=True)
        assert (moved["timed_out"], started["timed_out"]) == (True, False)
        assert {one["shell_id"] for one in (await call.data("BashOutput"))["commands"]} == {
            started["shell_id"], moved["shell_id"],
        }  # fmt: skip
        read = await call.data("BashOutput", shell_id=started["shell_id"], wait_for="mark14")
        assert (read["status"], read["output"]) == ("running", "mark14\n")
        await call.data("BashOutput", shell_id=started["shell_id"], wait_for="never", timeout=10)
        for expected in (True, False):
            assert (await call.data("KillShell", shell_id=started["shell_id"]))["was_running"] is expected
        await call.data("BashOutput", shell_id=started["shell_id"])
        assert (await call("BashOutput", shell_id="bash_99")).is_error
        asked = await call.data("Bash", command="read -p 'mark16? ' x; echo mark17 $x", terminal=True)
        assert asked["waiting_for_input"] is not None
        assert "mark17" in (await call.data("BashInput", text="yes\n"))["stdout"]


@pytest.mark.parametrize("era", ["stateless"])
async def test_the_assistant_set(workspace: Path, era: str) -> None:
    async with checked(workspace, era) as call:
        failed = await call("executeCommand", command="echo mark18; echo mark19 >&2; false")
        assert failed.is_error
        assert failed.structured_content == {
            "command": "echo mark18; echo mark19 >&2; false", "stdout": "mark18\n", "stderr": "mark19\n", "exitCode": 1,
            "success": False,
        }  # fmt: skip
        await call.data("executeCommand", command="seq 100000")
        assert (await call("executeCommand", command="touch /usr/mark20")).is_error
        await call.data("getCurrentDateTime")
        await call.data("getCurrentDirectory")
        assert not (await call.data("getGitInfo"))["isRepo"]
        await call.data("executeCommand", command="git init -q . && touch n{1..700}")
        assert (await call.data("getGitInfo"))["isRepo"]


def files() -> st.SearchStrategy[bytes]:
    text = st.text(st.characters(codec="utf-8"), max_size=400)
    return st.one_of(st.binary(max_size=200), text.map(str.encode), text.map(lambda one: one.encode("utf-16")))


@settings(
    max_examples=15, phases=[Phase.explicit, Phase.reuse, Phase.generate], suppress_health_check=[HealthCheck.too_slow]
)
@given(
    contents=st.lists(files(), min_size=1, max_size=3),
    written=st.text(st.characters(codec="utf-8"), max_size=50),
    name=st.text(st.characters(codec="utf-8", exclude_characters="/\0"), min_size=1, max_size=20),
    page=st.tuples(st.integers(0, 5), st.integers(1, 5)),
    code=st.integers(0, 255),
)
@example(contents=[b"abc"], written="$q \\1 \\", name="a", page=(0, 1), code=0)
def test_whatever_stands_in_files_and_names(
    contents: list[bytes], written: str, name: str, page: tuple[int, int], code: int
) -> None:
    async def main(root: Path) -> None:
        for at, content in enumerate(contents):
            (root / f"f{at}").write_bytes(content)
        async with checked(root) as call:
            for at in range(len(contents)):
                await call("Read", file_path=f"f{at}", offset=page[0], limit=page[1])
                await call("readFile", filePath=f"f{at}")
            await call("Write", file_path=name, content=written)
            await call("Edit", file_path=name, old_string=written[:3], new_string=written[3:] + "x", replace_all=True)
            literal = written.replace("\0", "").replace("\\", "\\\\").replace("$", "$$")
            for tool, arguments in (
                ("Glob", {"pattern": "*"}),
                ("Grep", {"pattern": ".", "output_mode": "content"}),
                ("FileSearch", {"pattern": "[a-z]", "replace_with": literal}),
                ("LS", {}),
                ("listFiles", {}),
                ("searchFiles", {"pattern": "*"}),
                ("Bash", {"command": f"cat f* >&2; cat f*; (exit {code})"}),
            ):
                assert (await call(tool, **arguments)).is_error is (tool == "Bash" and code != 0)

    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("FERRULE_DATA", f"{folder}/data")
        root = Path(folder, "ws")
        root.mkdir()
        asyncio.run(main(root))


@pytest.mark.parametrize("name", ["claude-code", "codex-mcp-client", "opencode"])
@both_eras
async def test_an_agent_that_would_show_its_model_json_in_place_of_words_and_pictures_gets_those_alone(
    workspace: Path, name: str, era: str
) -> None:
    server = McpServer(Runtime(Registry(builtin_tools(family="all")), session=Session(workspace=workspace)))
    who = types.Implementation(name=name, version="1")
    async with Client(server.sdk, mode=ERAS[era], client_info=who) as client:
        assert [tool.name for tool in (await client.list_tools()).tools if tool.output_schema is not None] == []
        picture = await client.call_tool("Read", {"file_path": "red.png"})
        words = await client.call_tool("Read", {"file_path": "a.txt"})
    assert (picture.structured_content, words.structured_content) == (None, None)
    assert [block.type for block in picture.content] == ["text", "image"]
    assert text_of(words) == "     1\tone mark2\n     2\ttwo"


async def test_the_metadata_of_results_has_the_same_names(workspace: Path) -> None:
    """T9: section 7."""
    runtime = Runtime(Registry(builtin_tools(family="all")), policy=SaysYes(), session=Session(workspace=workspace))
    calls: list[tuple[str, dict[str, Any]]] = [
        ("Read", {"file_path": "a.txt"}),
        ("Write", {"file_path": "b.txt", "content": "b"}),
        ("Edit", {"file_path": "b.txt", "old_string": "b", "new_string": "c"}),
        ("MultiEdit", {"file_path": "b.txt", "edits": [{"old_string": "c", "new_string": "d"}]}),
        ("Glob", {"pattern": "*"}),
        ("Grep", {"pattern": "one"}),
        ("FileSearch", {"pattern": "one"}),
        ("FileSearch", {"pattern": "one", "replace_with": "two"}),
    ]
    for tool, arguments in calls:
        result = await runtime.run(tool, arguments)
        assert result.success, result.llm_content
        assert METADATA[tool] <= result.metadata.keys()
        assert {name: result.metadata[name] for name in METADATA[tool]} == {
            name: result.data[name] for name in METADATA[tool]
        }


async def test_a_file_that_is_too_long_for_a_context_is_cut_alike_in_both_forms(workspace: Path) -> None:
    async with checked(workspace) as call:
        result = await call("Read", file_path="long.txt")
    data = result.structured_content
    assert data is not None
    assert (data["lines_read"], data["total_lines"], data["has_more"]) == (2000, 5000, True)
    for text in (text_of(result), data["content"]):
        assert 0.9 * RESULT_CHARS < len(text) < 1.01 * RESULT_CHARS
        assert "characters left out" in text
