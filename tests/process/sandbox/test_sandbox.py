"""What every sandbox gives back."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from ferrule.core.errors import ToolError
from ferrule.process.arguments import CommandLine
from ferrule.process.sandbox.denials import SandboxRefused
from ferrule.process.sandbox.sandbox import Launch, Prepared


def test_leaving_lets_go_of_everything_once() -> None:
    closed: list[int] = []
    closing = ExitStack()
    closing.callback(closed.append, 1)
    with Prepared(Launch(CommandLine(("true",))), closing=closing) as prepared:
        assert closed == []
    prepared.close()
    assert closed == [1]


def test_a_refusal_is_told_to_the_model() -> None:
    with pytest.raises(ToolError) as refused:
        raise SandboxRefused("It cannot be.", "Do this.")
    assert (refused.value.message, refused.value.suggestion, refused.value.kind) == (
        "It cannot be.",
        "Do this.",
        "permission_error",
    )
