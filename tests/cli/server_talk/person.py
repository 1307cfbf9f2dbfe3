"""A person who was told what to answer; what they are shown is kept."""

from __future__ import annotations

from collections.abc import Sequence

from ferrule.cli.ask import AnswerLine


class Person:
    cancelled_by = "Esc or Ctrl-C"

    def __init__(self, *answers: str | BaseException) -> None:
        self._answers = list(answers)
        self.lines: list[AnswerLine] = []

    def tell(self, lines: Sequence[AnswerLine]) -> None:
        self.lines += lines

    async def answer(self) -> str:
        if not self._answers:
            raise EOFError
        said = self._answers.pop(0)
        if isinstance(said, BaseException):
            raise said
        self.lines.append(AnswerLine(f"? {said}"))
        return said

    @property
    def shown(self) -> str:
        return "\n".join(f"  Warning: {one.words}" if one.warning else one.words for one in self.lines)
