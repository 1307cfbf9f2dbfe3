"""A scripted person: answers questions in order, and fails the test when the questions are not the expected ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from ferrule.pipeline.confirm import Answer, Choice

if TYPE_CHECKING:
    from types import TracebackType

    from ferrule.pipeline.confirm import Question


class ScriptedAsker:
    """Give it to a runtime as `ask`, with the answers in order: `ScriptedAsker("once", "no")`.

    A runtime turns whatever an asker raises into a result, so a wrong question cannot fail the test there and then.
    It is answered with "no", kept, and raised by `check`, which leaving a `with` block calls.
    """

    def __init__(self, *answers: Answer | Choice | str) -> None:
        self._answers = [one if isinstance(one, Answer) else Answer(Choice(one)) for one in answers]
        self.questions: list[Question] = []
        """Every question, as the user would have seen it."""

    async def __call__(self, question: Question) -> Answer:
        self.questions.append(question)
        if len(self.questions) > len(self._answers):
            return Answer(Choice.NO, "the test's script has no answer to this question")
        return self._answers[len(self.questions) - 1]

    def check(self) -> None:
        """Fail the test unless there was exactly one question for each answer."""
        if problem := self._problem():
            raise AssertionError(problem)

    def _problem(self) -> str | None:
        asked, scripted = len(self.questions), len(self._answers)
        if asked > scripted:
            listed = "\n".join(f"- {one.summary} ({one.reason})" for one in self.questions[scripted:])
            return f"Questions came that the script has no answer to ({scripted} expected):\n{listed}"
        if asked < scripted:
            left = ", ".join(answer.choice.value for answer in self._answers[asked:])
            return f"{scripted} questions were expected and {asked} came. Answers never used: {left}."
        return None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.check()
        elif problem := self._problem():
            error.add_note(problem)  # most likely the cause of the failure that is under way
