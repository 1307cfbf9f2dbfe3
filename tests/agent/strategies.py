"""Conversations of any sort that a turn can leave behind."""

from __future__ import annotations

from hypothesis import strategies as st

from ferrule.core.call import RawCall
from ferrule.core.model import AssistantMessage, Message, ToolResults, UserMessage
from ferrule.core.result import Attachment, ToolResult

TEXT = st.one_of(st.text(max_size=30), st.sampled_from(["x" * 3000, "中文" * 400, "[note]"]))


@st.composite
def exchanges(draw: st.DrawFn) -> list[Message]:
    """An answer with its results, or words, or something the person said."""
    kind = draw(st.sampled_from(["user", "words", "calls", "calls"]))
    if kind == "user":
        picture = draw(st.sampled_from([(), (Attachment("image/png", b"p"),)]))
        return [UserMessage(draw(TEXT), picture)]
    if kind == "words":
        return [AssistantMessage(draw(TEXT))]
    names = draw(st.lists(st.sampled_from(["Read", "Bash"]), min_size=1, max_size=3))
    file = {"file_path": draw(st.sampled_from(["a.py", "b.py", "c`.py"]))}
    calls = tuple(RawCall(name, file, id=f"{draw(st.uuids())}") for name in names)
    results = tuple(ToolResult(one.id, one.name, True, draw(TEXT), "ok") for one in calls)
    return [AssistantMessage(draw(TEXT), calls), ToolResults(results)]


def conversations(most: int = 14) -> st.SearchStrategy[list[Message]]:
    return st.builds(
        lambda first, rest: [UserMessage(first), *(one for part in rest for one in part)],
        TEXT,
        st.lists(exchanges(), max_size=most),
    )
