"""What every tool is (T1, T2, T3, T4, T6), however it was made."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import pytest
from inline_snapshot import snapshot
from pydantic import BaseModel, Field

from ferrule import (
    DefinitionError,
    Description,
    Kind,
    Output,
    Problem,
    Registry,
    Runtime,
    Tool,
    ToolContext,
    ToolResult,
    Touch,
    tool,
    writes,
)
from ferrule.core.access import READS_ANYTHING, WRITES_ANYTHING
from ferrule.core.tool import Invocation, Style, style_of


class GreetParams(BaseModel, extra="forbid"):
    name: str = Field(description="Who to greet")
    times: int = 1


class Greet(Tool[GreetParams]):
    """Greet somebody.

    As often as wanted.

    Important:
        - Be kind.
    """

    name = "greet"
    kind = Kind.READONLY
    tags = frozenset({"social"})

    async def run(self, params: GreetParams, context: ToolContext) -> str:
        return f"Hello {params.name}! " * params.times


def test_a_class_with_parameters_and_run_is_a_tool() -> None:
    """T4."""
    result = asyncio.run(Runtime([Greet()]).run("greet", {"name": "Ada", "times": 2}))
    assert result.data == "Hello Ada! Hello Ada! "


class Greeting(BaseModel):
    words: str


def test_the_return_type_of_run_is_the_output_schema_of_a_class() -> None:
    """T4, T9: as it is for a function."""

    class GreetTyped(Tool[GreetParams]):
        def run(self, params: GreetParams, context: ToolContext) -> Output[Greeting] | ToolResult:
            return Output(Greeting(words=f"Hello {params.name}!"))

    class GreetInPieces(Tool[GreetParams]):
        def run(self, params: GreetParams, context: ToolContext) -> Iterator[str]:
            yield params.name

    assert GreetTyped().output_schema == snapshot(
        {"properties": {"words": {"type": "string"}}, "required": ["words"], "title": "Greeting", "type": "object"}
    )
    assert Greet().output_schema == {"type": "string"}
    assert GreetInPieces().output_schema is None


def test_what_a_tool_is_when_nothing_is_said() -> None:
    """T1, T2."""

    class Plain(Tool[GreetParams]):
        def run(self, params: GreetParams, context: ToolContext) -> None: ...

    one = Plain()
    assert (one.name, one.display_name, one.kind, one.version, one.category) == (
        "Plain", "Plain", Kind.EXECUTE, "1.0.0", "general",
    )  # fmt: skip
    assert (one.read_only, one.concurrency_safe, one.strict, one.enabled, one.dangerous) == (
        False, False, False, True, False,
    )  # fmt: skip
    assert (one.requires_permission, one.roles, one.idempotent, one.timeout, one.cache, one.needs) == (
        True, frozenset(), False, None, 0.0, frozenset(),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("options", "asks", "beside_others"),
    [
        ({"kind": "readonly"}, False, True),
        ({"kind": "readonly", "requires_permission": True}, True, True),
        ({"kind": "readonly", "dangerous": True}, True, True),
        ({"kind": "readonly", "concurrency_safe": False}, False, False),
        ({"kind": "readonly", "runs_alone": True}, False, False),
        ({"kind": "write"}, True, False),
        ({"kind": "write", "touches": writes("path", "a")}, True, True),
        ({"kind": "write", "touches": WRITES_ANYTHING}, True, False),
        ({}, True, False),
    ],
)
def test_a_tool_says_whether_it_asks_and_whether_a_batch_runs_it_in_order(
    options: dict[str, Any], asks: bool, beside_others: bool
) -> None:
    """T2: what holds for its calls, and not only what its author wrote."""
    one = tool(lambda: None, name="one", **options)
    assert (one.requires_permission, one.concurrency_safe) == (asks, beside_others)
    runs_alone = one.build({}).runs_alone or WRITES_ANYTHING[0] in one.build({}).touches
    assert runs_alone is not beside_others


def test_options_come_from_the_class_and_from_the_call() -> None:
    one = Greet(version="2", tags=["a", "b"], timeout=3)
    assert (one.version, one.tags, one.timeout, one.kind) == ("2", frozenset({"a", "b"}), 3, Kind.READONLY)
    assert Greet().tags == frozenset({"social"})


def test_read_only_follows_from_the_kind_unless_said() -> None:
    assert [Greet(kind=kind).read_only for kind in ("readonly", "write", "execute")] == [True, False, False]
    assert Greet(kind="execute", read_only=True).read_only
    assert not Greet(read_only=False).read_only


def test_the_docstring_is_the_description() -> None:
    assert Greet().description.text == snapshot(
        """\
Greet somebody.

As often as wanted.

IMPORTANT:
- Be kind.\
"""
    )


def test_a_description_may_be_written_as_a_string_or_in_layers() -> None:
    class Said(Greet):
        description = "Say hello."  # type: ignore[assignment]

    assert Said().description == Description("Say hello.")
    assert Said(description="Other.").description.text == "Other."
    assert Greet(description=Description("Short.", usage_notes=("Once.",))).description.text == (
        "Short.\n\nUsage notes:\n- Once."
    )


def test_a_subclass_without_docstring_has_no_borrowed_description() -> None:
    class Silent(Greet):
        pass

    assert Silent().description.text == ""


def test_the_schema_comes_from_the_parameters() -> None:
    """T3."""
    assert Greet().input_schema == snapshot(
        {
            "additionalProperties": False,
            "properties": {
                "name": {"description": "Who to greet", "type": "string"},
                "times": {"default": 1, "type": "integer"},
            },
            "required": ["name"],
            "type": "object",
        }
    )
    assert Greet().expected_form == snapshot('{"name": string, "times": integer (optional, default 1)}')


def test_parameters_are_compiled_once() -> None:
    """P3."""
    one = Greet()
    assert one.params is one.params


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"kind": "readwrite"}, 'kind must be one of "readonly", "write", "execute", not \'readwrite\''),
        ({"colour": "red"}, "there is no tool option `colour`"),
        ({"tags": "files"}, "tags takes several texts; write tags=('files',)"),
        ({"roles": "admin"}, "roles takes several texts"),
        ({"needs": ["money"]}, "needs ['money']; a context has only ['deps', 'model', 'role', 'tenant', 'user']"),
        ({"timeout": 0}, "the time limit must be more than 0 seconds, not 0"),
        ({"timeout": float("nan")}, "the time limit must be more than 0 seconds"),
        ({"kind": "write", "cache": True}, "only a read-only tool may be cached"),
        ({"timeout": "5"}, "timeout must be a number of seconds, not '5'"),
        ({"grace": "5"}, "grace must be a number of seconds"),
        ({"max_result": 1.5}, "max_result must be a number of characters, not 1.5"),
        ({"version": 2}, "version must be text, not 2"),
        ({"category": None}, "category must be text"),
        ({"tags": [1, 2]}, "tags takes text, not"),
        ({"tags": 5}, "tags takes text, not 5"),
        ({"description": 5}, "description must be text or a Description, not 5"),
        ({"description": str}, "description must be text or a Description"),
        ({"doing": "reading {"}, "doing is not a pattern"),
        ({"cache": -1}, "`cache` must be at least 0 seconds, not -1.0"),
    ],
)
def test_a_wrong_declaration_is_told_to_its_author(options: dict[str, Any], words: str) -> None:
    with pytest.raises(DefinitionError) as error:
        Greet(**options)
    assert words in str(error.value)


@pytest.mark.parametrize("name", ["", "a b", "a\n", "x" * 129, "tab\t"])
def test_a_name_no_call_could_use_is_refused(name: str) -> None:
    with pytest.raises(DefinitionError):
        tool(lambda: None, name=name or " ")


def test_parameters_must_be_said() -> None:
    class Nameless(Tool):  # type: ignore[type-arg]
        def run(self, params: Any, context: ToolContext) -> None: ...

    class Number(Tool[int]):
        def run(self, params: int, context: ToolContext) -> None: ...

    with pytest.raises(DefinitionError, match="does not declare its parameters"):
        _ = Nameless().params
    with pytest.raises(DefinitionError, match=r"a int cannot be its parameters\. Make it a pydantic model"):
        _ = Number().params


P = TypeVar("P")


class Layer(Tool[P], Generic[P]):
    pass


class Final(Layer[GreetParams]):
    def run(self, params: GreetParams, context: ToolContext) -> str:
        return params.name


def test_parameters_are_found_through_generic_classes_and_inheritance() -> None:
    class Child(Final):
        pass

    assert Child().params.load('{"name": "Ada"}').name == "Ada"


def test_a_tool_without_run_is_refused_to_its_author() -> None:
    class Idle(Tool[GreetParams]):
        kind = Kind.READONLY

    with pytest.raises(DefinitionError, match="Idle has no `run`"):
        Idle()


def test_a_class_that_forgets_super_is_refused_when_it_is_made() -> None:
    """Not at its first call, where the words would be about something else."""

    class Forgetful(Tool[GreetParams]):
        def __init__(self, path: str) -> None:
            self.path = path

        def run(self, params: GreetParams, context: ToolContext) -> None: ...

    class Heir(Forgetful):
        def __init__(self) -> None:
            super().__init__("here")

    @dataclass(eq=False)
    class Record(Tool[GreetParams]):
        path: str

        def run(self, params: GreetParams, context: ToolContext) -> None: ...

    words = r"is not complete: its `__init__` does not call super\(\)\.__init__\(\)\. Add that line"
    for make in (lambda: Forgetful("x"), Heir, lambda: Registry([Record("x")])):
        with pytest.raises(DefinitionError, match=words):
            make()


def test_a_dataclass_that_compares_by_value_is_refused() -> None:
    """Permissions and definitions are kept by tool, not by what a tool looks like."""

    @dataclass
    class Record(Tool[GreetParams]):
        greeting: str

        def __post_init__(self) -> None:
            super().__init__()

        def run(self, params: GreetParams, context: ToolContext) -> None: ...

    with pytest.raises(
        DefinitionError, match=r"`Record` compares by value and has no hash\. Write @dataclass\(eq=False\)"
    ):
        Registry([Record("Hi")])


def test_a_class_may_have_its_own_way_of_being_made() -> None:
    class Named(Greet):
        def __init__(self, greeting: str, **options: Any) -> None:
            super().__init__(**options)
            self.greeting = greeting

    class Twice(Named):
        def __init__(self) -> None:
            super().__init__("Hi", version="2")

    @dataclass(eq=False)
    class Record(Tool[GreetParams]):
        greeting: str
        kind = Kind.READONLY

        def __post_init__(self) -> None:
            super().__init__()

        def run(self, params: GreetParams, context: ToolContext) -> str:
            return f"{self.greeting} {params.name}"

    assert (Twice().version, Twice().greeting) == ("2", "Hi")
    assert str(inspect.signature(Named)) == "(greeting: 'str', **options: 'Any') -> 'None'"
    assert asyncio.run(Runtime([Record("Hi")]).run("Record", {"name": "Ada"})).data == "Hi Ada"


@pytest.mark.parametrize(
    ("run", "shown"),
    [
        (lambda self: None, "(self)"),
        (lambda self, params: None, "(self, params)"),
        (lambda self, params, context, more: None, "(self, params, context, more)"),
        (lambda self, params, *, context: None, "(self, params, *, context)"),
        (staticmethod(lambda params: None), "(params)"),
    ],
)
def test_a_run_that_could_not_be_called_is_refused_with_its_class(run: Any, shown: str) -> None:
    with pytest.raises(DefinitionError) as error:
        _subclass(run)
    assert str(error.value) == (
        f"`Wrong.run` takes {shown}, and is called with the parameters and the context. Write "
        "`def run(self, params, context)`."
    )


def _subclass(body: Any) -> type[Tool[GreetParams]]:
    class Wrong(Tool[GreetParams]):
        run = body

    return Wrong


def test_a_run_with_other_names_or_more_room_is_right() -> None:
    for body in (
        lambda self, p, c: 1,
        lambda self, *args: 1,
        lambda self, p, c=None, d=1: 1,
        staticmethod(lambda p, c: 1),
    ):
        one = _subclass(body)(kind="readonly")
        assert asyncio.run(Runtime([one]).run("Wrong", {"name": "x"})).data == 1


def test_a_tool_that_does_not_say_what_it_touches_may_touch_anything() -> None:
    params = GreetParams(name="x")
    assert Invocation(Greet(), params, "c").touches == READS_ANYTHING == (Touch("*"),)
    assert Invocation(Greet(kind="write"), params, "c").touches == WRITES_ANYTHING


def test_the_signature_of_a_call_is_its_canonical_arguments_unless_said() -> None:
    """T6."""
    invocation = Greet().build('{"times": 1, "name": "Ada"}', call_id="c")
    assert invocation.signature == '{"name":"Ada","times":1}'
    assert invocation.always_rule == "greet"
    assert invocation.touches == READS_ANYTHING
    assert invocation.summary == 'greet {"name":"Ada","times":1}'


def test_a_class_may_say_more_of_each_call() -> None:
    class Careful(Greet):
        def check(self, params: GreetParams) -> list[Problem]:
            return [Problem(("name",), "value", "must not be Bob")] if params.name == "Bob" else []

        def render(self, value: Any) -> str:
            return f"said: {value}"

    async def main() -> list[str]:
        runtime = Runtime([Careful()])
        return [(await runtime.run("greet", {"name": name})).llm_content for name in ("Ada", "Bob")]

    good, bad = asyncio.run(main())
    assert good == "said: Hello Ada! "
    assert "`name`: must not be Bob" in bad


def test_every_style_of_body_is_recognised() -> None:
    async def coroutine() -> None: ...

    async def stream() -> Any:
        yield 1

    def generator() -> Any:
        yield 1

    def plain() -> None: ...

    class Callable_:
        async def __call__(self) -> None: ...

    assert style_of(coroutine) is Style.ASYNC
    assert style_of(stream) is Style.ASYNC_STREAM
    assert style_of(generator) is Style.SYNC_STREAM
    assert style_of(plain) is Style.SYNC
    assert style_of(functools.partial(functools.partial(coroutine))) is Style.ASYNC
    assert style_of(Callable_()) is Style.ASYNC
    assert style_of(Greet().run) is Style.ASYNC


@pytest.mark.parametrize("style", ["sync", "async", "stream", "sync stream"])
def test_run_may_be_written_in_every_style(style: str) -> None:
    class Sync(Tool[GreetParams]):
        kind = Kind.READONLY

        def run(self, params: GreetParams, context: ToolContext) -> Any:
            return params.name

    class Async(Sync):
        async def run(self, params: GreetParams, context: ToolContext) -> Any:
            return params.name

    class Stream(Sync):
        async def run(self, params: GreetParams, context: ToolContext) -> Any:
            yield params.name

    class SyncStream(Sync):
        def run(self, params: GreetParams, context: ToolContext) -> Any:
            yield Output(params.name)

    kinds: dict[str, type[Sync]] = {"sync": Sync, "async": Async, "stream": Stream, "sync stream": SyncStream}
    one = kinds[style]()
    assert asyncio.run(Runtime([one]).run(one.name, {"name": "Ada"})).data == "Ada"


def test_a_tool_says_what_it_is() -> None:
    assert repr(Greet()) == "<Greet greet 1.0.0 readonly>"
