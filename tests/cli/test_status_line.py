"""The row at the end of the terminal: others write above it, and it is gone when it is over."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ferrule.cli.status_line import StatusLine

from .conftest import Command
from .terminal import Terminal

PROGRAM = """
import asyncio, sys
from pathlib import Path
from ferrule.cli.output import write
from ferrule.cli.status_line import StatusLine

class Going:
    words = "going on " * 30
    def rows(self, screen):
        return [self.words]
    def remark(self):
        words, self.words = self.words, ""
        return words

async def main():
    line, going = StatusLine(), Going()
    async with line.showing(going):
        await told("write")
        write("a line between")
        write("a complaint", err=True)
        await told("ask")
        with line.away():
            print("Really?", end=" ", flush=True)
            await told("end")
    write("the end")

async def told(word):
    while not Path(word).exists():
        await asyncio.sleep(0.01)

asyncio.run(main())
"""


def test_others_write_above_it_and_questions_have_the_terminal_to_themselves(ferrule: Command, tmp_path: Path) -> None:
    environment = {**ferrule.environment, "TERM": "linux"}
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    with Terminal([sys.executable, str(program)], tmp_path, environment, columns=40) as terminal:
        terminal.wait("going on going on")
        assert len(terminal.text.splitlines()) == 1, "what does not fit is cut: a row that wraps could not be erased"
        (tmp_path / "write").touch()
        terminal.wait(lambda: "complaint" in terminal.text and "going" in terminal.text.splitlines()[-1])
        (tmp_path / "ask").touch()
        terminal.wait("Really?")
        terminal.wait(lambda: "going" not in terminal.text)
        (tmp_path / "end").touch()
        assert terminal.ended() == 0
        rows = [row.strip() for row in terminal.text.splitlines() if row.strip()]
        assert rows == ["a line between", "a complaint", "Really? the end"]


async def test_in_a_pipe_nobody_looks_at_what_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    class Asked(AssertionError):
        pass

    class Going:
        def rows(self, screen: object) -> list[str]:
            raise Asked

        def remark(self) -> str:
            raise Asked

    line = StatusLine()
    async with line.showing(Going()):
        assert not line.live
    assert capsys.readouterr() == ("", "")
