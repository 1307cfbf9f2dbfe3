"""`run_code`: the model writes a program in which tools are functions, and reads what comes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict
from weakref import WeakKeyDictionary

from pydantic import BaseModel, ConfigDict, Field

from ferrule.agent.limits import runtime_above
from ferrule.code.program import CodeLimits, Program
from ferrule.code.signatures import functions_of, is_callable, shown_functions
from ferrule.core.access import READS_ANYTHING
from ferrule.core.call import CallInfo
from ferrule.core.description import Description
from ferrule.core.errors import ToolError
from ferrule.core.phrases import phrase
from ferrule.core.result import Output
from ferrule.core.tool import Kind, Tool
from ferrule.pipeline.authorise import UsableTools
from ferrule.registry.registry import Filtered, Registry, ToolSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ferrule.code.signatures import ToolFunction
    from ferrule.core.context import Session, ToolContext

NAME = "run_code"
_DEFAULTS = CodeLimits()

_ABOUT = """Run a Python program that calls tools as functions. The value of its last line is the result.

Use one program for everything that needs no decision of yours in between: loops, filters, joins, many calls. Print or \
return only what you need to read: other results never reach you.

- Every function is async: write `await`. `await asyncio.gather(a(), b())` runs independent calls together; it takes \
no options.
- A failed call raises `PermissionError` (refused), `ValueError` (wrong arguments), `LookupError` (not found), \
`TimeoutError` or `RuntimeError`; its text says why.
- There are no files, network or environment but through these functions. Of the standard library, `asyncio`, \
`collections`, `datetime`, `json`, `math`, `re` and a few others can be imported.
- Types are checked before it runs. Nothing is kept from one program to the next.

```python
{functions}
```"""


class CodeParams(BaseModel):
    """The program."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    code: str = Field(min_length=1, max_length=200_000, description="The program, in Python.")


class CodeResult(TypedDict):
    """What came of a program."""

    result: Any
    printed: str
    calls: dict[str, int]


class RunCode(Tool[CodeParams]):
    """Runs programs in which the tools that it is given are functions.

    It shows a model the functions' signatures. Each of their calls passes all stages of the runtime that `run_code`
    itself is called in, under its policy, questions, hooks and records. The changes of a program are undone as one.
    """

    name = NAME
    category = "agent"
    tags = frozenset({"standard", "agent"})
    kind = Kind.READONLY  # what it changes is weighed call by call
    may_block = False
    calls_tools = True
    continues = True
    timeout = 3600.0
    grace = 5.0
    doing = "running a program"

    def __init__(self, tools: Iterable[Tool[Any]] | ToolSource, *, limits: CodeLimits = _DEFAULTS) -> None:
        super().__init__()
        self._source = tools if isinstance(tools, ToolSource) else Registry(tools)
        self._limits = limits
        self._within: WeakKeyDictionary[Any, RunCode] = WeakKeyDictionary()
        self._shown: tuple[tuple[Tool[Any], ...], Description] | None = None
        self._made: tuple[tuple[Tool[Any], ...], dict[str, ToolFunction], Registry] | None = None

    def within(self, keep: Callable[[Tool[Any]], bool]) -> RunCode:
        """The same with fewer tools, for those who may see only tools that pass a test."""
        found = self._within.get(keep)
        if found is None:
            found = self._within[keep] = RunCode(Filtered(self._source, keep), limits=self._limits)
        return found

    def can_call(self, tool: Tool[Any]) -> bool:
        """Whether a tool is one of its functions."""
        return is_callable(tool) and self._source.get(tool.name) is tool

    @property
    def description(self) -> Description:
        tools = tuple(self._source.tools())
        if self._shown is None or self._shown[0] != tools:
            self._shown = tools, Description(_ABOUT.format(functions=shown_functions(functions_of(tools))))
        return self._shown[1]

    def _callable(self, source: ToolSource) -> tuple[dict[str, ToolFunction], Registry]:
        """The functions of a program, and their tools: those that it began with, whatever comes meanwhile."""
        tools = tuple(source.tools())
        if self._made is None or self._made[0] != tools:
            functions = functions_of(tools)
            self._made = tools, functions, Registry(one.tool for one in functions.values())
        return self._made[1:]

    def describe(self, params: CodeParams, session: Session) -> CallInfo:
        alone = any(not tool.read_only for tool in self._source.tools())
        first = params.code.strip().partition("\n")[0]
        return CallInfo(READS_ANYTHING, signature=params.code, summary=f"{NAME}: {first}", runs_alone=alone)

    async def run(self, params: CodeParams, context: ToolContext) -> Output[CodeResult]:
        runtime = runtime_above(context)
        if runtime is None:
            raise ToolError(phrase("A program runs only where its tools run, and they run on another machine."))
        functions, registry = self._callable(UsableTools(self._source, runtime.policy, context.session))
        context.change = context.change or context.call_id
        program = Program(params.code, functions, context, runtime.with_tools(registry), self._limits)
        value = await program.run()
        printed, made = program.printed, program.calls.total()
        notes = [
            phrase("[`{name}` was called without `await`, so it did not run.]", name=name) for name in program.unawaited
        ]
        text = value if isinstance(value, str) else "" if value is None else _as_json(value)
        words = "\n".join(filter(None, [printed.rstrip("\n"), text, *notes]))
        return Output(
            {"result": value, "printed": printed, "calls": dict(program.calls)},
            words or phrase("The program ended without a result. Print or return what you want to read."),
            phrase("{count} calls", count=made) if made != 1 else phrase("1 call"),
        )


def _as_json(value: Any) -> str:
    from pydantic_core import to_json

    return to_json(value).decode()


def only_code(tools: ToolSource) -> ToolSource:
    """The tools without those that the programs of a `RunCode` among them can call."""

    def shown(tool: Tool[Any]) -> bool:
        code = tools.get(NAME)
        return not (isinstance(code, RunCode) and code.can_call(tool))

    return Filtered(tools, shown, within=lambda tool: True)
