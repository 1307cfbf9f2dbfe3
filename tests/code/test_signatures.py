"""Tools as typed functions: what a model reads, and what its program is checked against (R3, X5)."""
# ruff: noqa: E501 - a text that is pinned stands on one line

from __future__ import annotations

from enum import Enum
from typing import Any, Literal

import pytest
from inline_snapshot import snapshot
from pydantic import BaseModel

from ferrule import Caller, Registry, RulePolicy, Runtime, Session, raw_tool, tool
from ferrule.agent import Agent
from ferrule.code import RunCode
from ferrule.code.run_code import only_code
from ferrule.code.signatures import functions_of
from ferrule.testing import ScriptedModel

from .shop import Shop


def stubs(*tools: Any) -> str:
    return "\n".join(one.stub() for one in functions_of(tools).values())


def made(name: str, properties: dict[str, Any], about: str = "Do it.", **more: Any) -> Any:
    """A tool from elsewhere, of which only the schema is known."""
    schema = {"type": "object", "properties": properties, "required": list(properties)[:1], **more}
    return raw_tool(name, schema, lambda given: f"{name} {given}", description=about)


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Line(BaseModel):
    sku: str
    count: int = 1


class Basket(BaseModel):
    lines: list[Line]
    note: str | None = None


def test_schemas_become_types() -> None:
    @tool
    def order(
        basket: Basket,
        colour: Colour,
        size: Literal["S", "L"] = "S",
        tags: list[str] | None = None,
        extra: dict[str, float] | None = None,
        flag: bool = False,
        anything: Any = None,
    ) -> Basket:
        """Order."""
        raise NotImplementedError

    children = {"type": "array", "items": {"$ref": "#/$defs/Tree"}}
    tree = {"type": "object", "properties": {"name": {"type": "string"}, "children": children}}
    defs: dict[str, Any] = {"$defs": {"Tree": tree}}
    grow = made("grow", {"root": {"$ref": "#/$defs/Tree"}}, **defs)
    assert stubs(order, grow) == snapshot("""\
class OrderLine(TypedDict):
    sku: str
    count: NotRequired[int]
class OrderBasket(TypedDict):
    lines: list[OrderLine]
    note: NotRequired[str | None]
class OrderResult(TypedDict):
    lines: list[OrderLine]
    note: NotRequired[str | None]
async def order(basket: OrderBasket, colour: Literal['red', 'blue'], size: Literal['S', 'L'] = ..., tags: list[str] | None = ..., extra: dict[str, float] | None = ..., flag: bool = ..., anything: Any = ...) -> OrderResult: ...

class GrowTree(TypedDict):
    name: NotRequired[str]
    children: NotRequired[list[Any]]
async def grow(root: GrowTree) -> str: ...
""")


def test_names_that_python_does_not_take_are_changed_and_no_two_are_alike() -> None:
    text = {"type": "string"}
    assert stubs(
        made("github.search-issues", {"q": text}),
        made("github_search_issues", {"q": text}),
        made("print", {"from": text, "x-y": {"type": "integer"}}),
        made("class", {"a": {"type": ["string", "null"]}, "b": {"enum": ["x", 1, None]}}),
        made("7zip", {"a": text}, additionalProperties=True),
        made("查找", {"名": text}),
        made("import", {"deep": {"type": "object", "properties": {"a b": {"const": True}}}}),
    ) == snapshot("""\
async def github_search_issues(q: str) -> str: ...

async def github_search_issues_2(q: str) -> str: ...

PrintArguments = TypedDict('PrintArguments', {'from': str, 'x-y': NotRequired[int]})
async def print_(arguments: PrintArguments) -> str: ...

async def class_(a: str | None, b: Literal['x', 1, None] = ...) -> str: ...

async def tool_7zip(a: str, **more: Any) -> str: ...

ToolArguments = TypedDict('ToolArguments', {'名': str})
async def tool(arguments: ToolArguments) -> str: ...

ImportDeep = TypedDict('ImportDeep', {'a b': NotRequired[Literal[True]]})
async def import_(deep: ImportDeep) -> str: ...
""")


async def test_every_name_can_be_called() -> None:
    text = {"type": "string"}
    named = {"github.search-issues": "q", "print": "from", "7zip": "a", "查找": "名"}
    tools = [made(name, {first: text}) for name, first in named.items()]
    names = list(functions_of(tools))
    code = (
        f"[await {names[0]}('x'), await {names[1]}({{'from': 'y'}}), await {names[2]}(a='z'), "
        f"await {names[3]}({{'名': 'w'}})]"
    )
    result = await Runtime([RunCode(tools)]).run("run_code", {"code": code})
    assert result.data["result"] == [
        "github.search-issues {'q': 'x'}", "print {'from': 'y'}", "7zip {'a': 'z'}", "查找 {'名': 'w'}",
    ]  # fmt: skip


async def test_names_that_programs_need_or_cannot_see_are_changed_and_none_is_that_of_a_class() -> None:
    text = {"type": "string"}
    tools = [
        made("signatures", {"a": text}),
        made("_hidden", {"a": text}),
        made("__import__", {"a": text}),
        made("order", {"line": {"type": "object", "properties": {"a": text}}}),
        made("OrderLine", {"a": text}),
    ]
    assert list(functions_of(tools)) == ["signatures_", "hidden", "import_", "order", "OrderLine"]
    for name, function in functions_of(tools).items():
        given = "{'a': 'x'}" if name == "order" else "'x'"
        result = await Runtime([RunCode(tools)]).run("run_code", {"code": f"await {name}({given})"})
        assert result.llm_content.startswith(f"{function.tool.name} "), result.llm_content


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]}, {"required": ["b"]}]},
        {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {"patternProperties": {"^a": {"type": "string"}}, "additionalProperties": False},
        {"$ref": "#/$defs/A", "$defs": {"A": {"properties": {"a": {"type": "string"}}}}},
    ],
)
async def test_arguments_that_a_schema_names_elsewhere_can_be_given(schema: dict[str, Any]) -> None:
    result = await Runtime([RunCode([made("pick", {}, **schema)])]).run("run_code", {"code": "await pick(a='x')"})
    assert result.llm_content == "pick {'a': 'x'}"


def test_what_the_model_reads() -> None:
    shop = Shop()
    assert RunCode([shop.find_orders, shop.refund]).description.text == snapshot('''\
Run a Python program that calls tools as functions. The value of its last line is the result.

Use one program for everything that needs no decision of yours in between: loops, filters, joins, many calls. Print or return only what you need to read: other results never reach you.

- Every function is async: write `await`. `await asyncio.gather(a(), b())` runs independent calls together; it takes no options.
- A failed call raises `PermissionError` (refused), `ValueError` (wrong arguments), `LookupError` (not found), `TimeoutError` or `RuntimeError`; its text says why.
- There are no files, network or environment but through these functions. Of the standard library, `asyncio`, `collections`, `datetime`, `json`, `math`, `re` and a few others can be imported.
- Types are checked before it runs. Nothing is kept from one program to the next.

```python
class FindOrdersOrder(TypedDict):
    id: int
    customer: str
    amount: float
async def find_orders(customer: str = ..., status: Literal['open', 'paid'] = ...) -> list[FindOrdersOrder]:
    """Find orders.

    customer: Only those of this customer.
    """

async def refund(order: int) -> str:
    """Refund an order."""

```\
''')


def test_many_functions_are_shown_in_bounded_length_and_the_rest_can_be_looked_up() -> None:
    value, much = {"value": {"type": "string"}}, "It does much. " * 20
    text = RunCode([made(f"tool_{n}", value, f"Do number {n}. {much}") for n in range(1000)]).description.text
    assert len(text) < 45_000
    assert "more functions. `print(signatures('what you need'))` shows those that fit." in text


async def test_a_program_looks_functions_up() -> None:
    result = await Shop().runtime().run("run_code", {"code": "print(signatures('refund'))\nprint(signatures('zzz'))"})
    assert result.llm_content == snapshot('''\
async def refund(order: int) -> str:
    """Refund an order."""

No function fits. Use other words, or fewer.\
''')


def names(tools: Any) -> set[str]:
    """The functions that a model reads of in a source of tools."""
    text = tools.get("run_code").description.text
    return {line.partition("(")[0].removeprefix("async def ") for line in text.splitlines() if line.startswith("async")}


@tool(kind="readonly", roles=["admin"])
def secret() -> str:
    """Only for admins."""
    return "secret"


class TestWhatIsForbiddenOrHidden:
    """It does not exist: neither for the model nor for the check nor in the program (R3, X5)."""

    async def test_a_denied_tool(self) -> None:
        runtime = Runtime([RunCode(Shop().tools)], policy=RulePolicy(deny=["refund", "note"]))
        assert not names(runtime.usable_tools()) & {"refund", "note"}
        agent = Agent(ScriptedModel([]), runtime=runtime)
        assert not names(agent.tools) & {"refund", "note"}
        result = await runtime.run("run_code", {"code": "await refund(1)"})
        assert result.error is not None
        assert "`refund` used when not defined" in result.error.message
        result = await runtime.run("run_code", {"code": "print(signatures('refund'))"})
        assert result.llm_content == "No function fits. Use other words, or fewer."

    async def test_a_tool_of_another_role(self) -> None:
        runtime = Runtime([RunCode([secret])])
        for role, expected in (("admin", {"secret"}), ("guest", set[str]())):
            session = Session(caller=Caller(role=role))
            assert names(runtime.usable_tools(session)) == expected
            agent = Agent(ScriptedModel([]), runtime=Runtime([RunCode([secret])], session=session))
            assert names(agent.tools) == expected
            result = await runtime.run("run_code", {"code": "await secret()"}, session=session)
            assert result.success == (role == "admin")

    def test_plan_mode(self) -> None:
        agent = Agent(ScriptedModel([]), runtime=Runtime([RunCode(Shop().tools)], policy=RulePolicy(mode="plan")))
        assert names(agent.tools) == {"find_orders", "look", "missing", "stall", "big"}

    def test_a_view_and_a_view_of_a_view(self) -> None:
        registry = Registry(Shop().tools)
        registry.register(RunCode(registry))
        view = registry.filtered(lambda tool: tool.name != "refund").filtered(lambda tool: tool.name != "look")
        assert names(view) == {"find_orders", "note", "missing", "stall", "big"}
        assert [tool.name for tool in only_code(view)] == ["run_code"]
        assert names(only_code(view)) == names(view)

    def test_a_disabled_tool_and_one_that_comes_and_goes(self) -> None:
        registry = Registry(Shop().tools)
        registry.register(RunCode(registry))
        registry.disable("refund")
        assert "refund" not in names(registry)
        registry.unregister("look")
        assert "look" not in names(registry)
        registry.register(secret)
        assert "secret" in names(registry)


async def test_a_program_reaches_only_the_tools_that_it_was_given() -> None:
    result = await Runtime([RunCode([secret]), *Shop().tools]).run("run_code", {"code": "await look(1)"})
    assert not result.success


@pytest.mark.parametrize("code", ["await run_code('1')", "run_code"])
async def test_a_program_runs_no_programs(code: str) -> None:
    registry = Registry(Shop().tools)
    registry.register(RunCode(registry))
    assert not (await Runtime(registry).run("run_code", {"code": code})).success
