"""A command that exits with another code than 0 is a failed call, with all that it wrote."""

from __future__ import annotations

from pathlib import Path

import pytest
from inline_snapshot import snapshot
from tests.builtin.shell_desk import shell_desk

from ferrule import ErrorKind
from ferrule.builtin.command_result import _marked  # pyright: ignore[reportPrivateUsage]
from ferrule.process.output import Piece
from ferrule.workspace.files import files_of


@pytest.fixture(autouse=True)
def _data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FERRULE_DATA", str(tmp_path / "data"))


@pytest.mark.parametrize("name", ["Bash", "executeCommand"])
async def test_its_code_is_in_the_error_and_its_output_is_whole(tmp_path: Path, name: str) -> None:
    """T9: `success` is false, an `execution_error` with `details.exit_code`; text, data and metadata stay complete."""
    async with shell_desk(tmp_path) as desk:
        command = "seq 2000; sleep 0.3; echo broken >&2; sleep 0.3; echo on; exit 3"
        result = await desk.runtime.run(name, {"command": command})
        assert result.error is not None
        assert (result.success, result.error.kind, result.error.details) == (
            False,
            ErrorKind.EXECUTION,
            {"exit_code": 3},
        )
        head, _, output = result.llm_content.partition("\n\n")
        assert head == "Error (execution_error): The command ended with exit code 3."
        lines = output.split("\n")
        assert lines[:2000] == [str(number) for number in range(1, 2001)]
        assert lines[2000:2004] == ["[stderr]", "broken", "[stdout]", "on"]
        assert result.data["stdout"].endswith("2000\non\n")
        assert result.data["stderr"] == "broken\n"
        assert (result.metadata["command"], result.metadata["exit_code"]) == (command, 3)
        assert result.display_content == "ended with code 3"


async def test_a_command_that_only_answers_with_its_code_says_so(tmp_path: Path) -> None:
    """`grep` without a match, and `test`."""
    async with shell_desk(tmp_path) as desk:
        (desk.workspace / "a.txt").write_text("one\n")
        assert await desk.bash("grep two a.txt") == snapshot(
            "Error (execution_error): The command ended with exit code 1, and wrote nothing."
        )
        assert await desk.bash("test -d nowhere") == await desk.bash("grep two a.txt")
        assert await desk.bash("grep one a.txt") == "one"


async def test_what_a_failing_command_changed_is_real_once_approved_and_can_be_undone(tmp_path: Path) -> None:
    """X1, X2: the effects of a command that fails are those of any other."""
    async with shell_desk(tmp_path) as desk:
        result = await desk.runtime.run("Bash", {"command": "echo half > out.txt; exit 2", "description": "build it"})
        assert (desk.workspace / "out.txt").read_text() == "half\n"
        assert (result.success, result.metadata["changed"]) == (False, 1)
        assert result.display_content == "build it: ended with code 2, changed 1 file"
        files_of(desk.session).history.undo()
        assert not (desk.workspace / "out.txt").exists()


async def test_the_shell_goes_on_after_it(tmp_path: Path) -> None:
    async with shell_desk(tmp_path) as desk:
        await desk.bash("mkdir -p a; cd a; x=5; false")
        assert await desk.bash("echo $x in ${PWD##*/}") == "5 in a"


async def test_a_description_is_shown(tmp_path: Path) -> None:
    """On one line, whatever the model wrote."""
    async with shell_desk(tmp_path) as desk:
        given = {"command": "true", "description": "check\n\x1b[2J it"}
        assert (await desk.runtime.run("Bash", given)).display_content == snapshot("check \\x1b[2J it: done")


async def test_a_background_command_that_failed_can_be_read(tmp_path: Path) -> None:
    """Reading is no failure: the code is in the text, the data and what the user sees."""
    async with shell_desk(tmp_path) as desk:
        await desk.bash("echo out; exit 4", run_in_background=True)
        read = await desk.runtime.run("BashOutput", {"shell_id": "bash_1", "wait_for": "never"})
        assert (read.success, read.data["exit_code"]) == (True, 4)
        assert "[`bash_1` has ended with exit code 4.]" in read.llm_content
        assert read.display_content == "bash_1: ended with code 4"


def test_streams_that_alternate_all_the_time_are_not_marked_line_by_line() -> None:
    pieces = [Piece(stream, f"{stream[3]}{number}\n") for number in range(200) for stream in ("stdout", "stderr")]
    text = _marked(pieces)
    assert text.count("[stderr]") == 1
    assert [line for line in text.split("\n") if line.startswith("o")] == [f"o{number}" for number in range(200)]
    assert text.endswith("[stderr]\n" + "".join(f"e{number}\n" for number in range(200)))


def test_a_mark_begins_a_line() -> None:
    pieces = [Piece("stdout", "Name: "), Piece("stderr", "no terminal\n"), Piece("stdout", "bye")]
    assert _marked(pieces) == "Name: \n[stderr]\nno terminal\n[stdout]\nbye"
