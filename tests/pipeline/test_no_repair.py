"""`repair=False` refuses arguments that would otherwise be repaired, for a tool, a runtime or in the settings (P2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from inline_snapshot import snapshot

from ferrule import RawCall, Runtime, Session, tool
from ferrule.hooks import Hook, HookReply

if TYPE_CHECKING:
    from ferrule.core.tool import Invocation

SLIPS = [
    {"name": 123},
    {"name": "a", "times": "2"},
    {"name": "a", "times": 2.0},
    {"name": "a", "times": None},
    '{"name": "a",}',
    '```json\n{"name": "a"}\n```',
    '{"name": "a\nb"}',
    '"{\\"name\\": \\"a\\"}"',
]


def repeat(name: str, times: int = 1) -> str:
    """Repeat a name. Use this to test."""
    return name * times


lenient, exact = tool(repeat), tool(repeat, repair=False)


@pytest.mark.parametrize("arguments", SLIPS)
def test_what_would_be_repaired_is_refused_by_the_tool_or_the_runtime(arguments: dict[str, object] | str) -> None:
    repaired = Runtime([lenient]).run_sync("repeat", arguments)
    assert repaired.success
    assert repaired.metadata["repairs"]
    for runtime in (Runtime([exact]), Runtime([lenient], repair=False)):
        assert runtime.run_sync("repeat", arguments).error.kind == "validation_error"  # type: ignore[union-attr]


def test_the_message_is_that_of_any_other_mistake() -> None:
    result = Runtime([lenient], repair=False).run_sync("repeat", {"name": 123})
    assert result.llm_content == snapshot("""\
Error (validation_error): The arguments of `repeat` have 1 problem:
- `name`: expected string, got integer 123

Suggestion: Call `repeat` again with {"name": string, "times": integer (optional, default 1)}.\
""")
    assert Runtime([lenient], repair=False).run_sync("repeat", {"name": "123"}).llm_content == "123"


def test_null_for_an_optional_field_of_a_strict_tool_stays_allowed() -> None:
    """Providers make models send it there."""
    strict = tool(repeat, strict=True, repair=False)
    result = Runtime([strict]).run_sync("repeat", {"name": "a", "times": None})
    assert (result.llm_content, result.metadata["repairs"]) == (
        "a",
        ["`times`: null for an optional field read as not given"],
    )
    assert not Runtime([strict]).run_sync("repeat", {"name": 1, "times": None}).success


def test_it_holds_for_batches_hooks_and_other_sessions() -> None:
    runtime = Runtime([lenient], repair=False)
    first, second = runtime.batch_sync(
        [RawCall("repeat", {"name": "a"}, id="one"), RawCall("repeat", {"name": {"$ref": "one"}, "times": "2"})]
    )
    assert (first.success, second.success) == (True, False)
    assert "`times`: expected integer" in second.llm_content
    assert not runtime.for_session(Session()).run_sync("repeat", {"name": 1}).success

    def change(invocation: Invocation, session: Session) -> HookReply:
        return HookReply(arguments={"name": 5})

    hooked = Runtime([lenient], repair=False, hooks=[Hook("changes", before=change)])
    assert "changed the input to one that is not valid" in hooked.run_sync("repeat", {"name": "a"}).llm_content
