"""What it costs to define many tools, to show them for the first time, and to show them again.

No two of the tools are alike: each has its own function, docstring and models. Most take models with lists of models in
them, defaults, enums and constraints; half are written with annotations as strings, as `from __future__ import
annotations` leaves them. The models themselves are the program's own and exist before.
"""

from __future__ import annotations

import gc
import inspect
import json
import sys
from time import process_time
from types import ModuleType
from typing import TYPE_CHECKING, Any, get_type_hints

from _measure import Row
from ferrule import Registry, tool
from ferrule.dialects import Exporter

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferrule import Tool

HOW_MANY = 1000

_IMPORTS = """
from datetime import date
from enum import StrEnum
from typing import Annotated, Any, Literal
from pydantic import BaseModel, ConfigDict, Field
"""
_SEARCH = '''
async def search_{n}(
    query_{n}: str,
    limit: Annotated[int, Field(ge=1, le=100, description="How many of collection {n} at most")] = 10,
    order: Literal["newest", "oldest", "by_{n}"] = "newest",
    tags: list[str] | None = None,
) -> list[str]:
    """Search collection {n}.

    Use it before asking the user about anything of department {n}.

    Args:
        query_{n}: The words to look for.
        tags: Only items with one of these tags.
    """
    return [f"{{query_{n}}} {{order}} {{tags}}"] * limit
'''
_ORDER = '''
class Discount{n}(BaseModel):
    """A discount of shop {n}."""

    code: str
    percent: float = Field(10.0, gt=0, le=100)


class Line{n}(BaseModel):
    """One line of an order in shop {n}."""

    sku_{n}: str = Field(description="As printed on the label")
    quantity: int = 1
    price: float
    taxed: bool = True
    tags: list[str] = []
    discounts: list[Discount{n}] = Field(default_factory=list)
    note: str | None = None


def order_{n}(customer: str, lines: list[Line{n}], express: bool = False, coupon: Discount{n} | None = None) -> str:
    """Place an order in shop {n}.

    Args:
        customer: Who pays.
        lines: What is bought; at least one line.
        express: Whether it is sent at once.
        coupon: A discount on the whole.
    """
    return f"{{len(lines)}} lines for {{customer}}"
'''
_REPORT = '''
class Status{n}(StrEnum):
    """Where an item of team {n} stands."""

    OPEN = "open"
    DONE = "done-{n}"
    LATE = "late"


class Filter{n}(BaseModel):
    model_config = ConfigDict(extra="forbid")

    field: Literal["status", "owner", "area_{n}"]
    values: list[str | int] = Field(min_length=1, description="Any of these")
    negate: bool = False


class Group{n}(BaseModel):
    filters: list[Filter{n}] = []
    weights: dict[str, float] = {{}}
    status: Status{n} = Status{n}.OPEN


async def report_{n}(
    team: Annotated[str, Field(min_length=1, max_length=40)],
    groups: list[Group{n}],
    status: Status{n} | None = None,
    since: date | None = None,
    columns: list[Annotated[str, Field(max_length=20)]] = ["name", "owner_{n}"],
) -> str:
    """Report on the items of team {n}, group by group.

    Groups without a filter count everything, which takes long for team {n}.

    Args:
        team: Its name.
        groups: One section of the report each.
        status: Only items that stand here.
        since: Leave out what is older.
        columns: What to show of each item.
    """
    return f"{{team}}: {{len(groups)}}"
'''
_SETTING = '''
class Option{n}(BaseModel):
    name: str
    value: str | int | float | bool | None = None
    scopes: list[Literal["user", "team_{n}", "all"]] = ["user"]


def configure_{n}(
    device: str,
    options: list[Option{n}],
    extra: dict[str, Any] | None = None,
    retries: int = Field(3, ge=0, le=10, description="Tries before device {n} counts as gone"),
    dry_run: bool = False,
) -> int:
    """Set options of the devices in room {n}.

    :param device: Its serial number.
    :param options: Every option, with what it applies to.
    :param extra: Passed to the driver of room {n} as it is.
    """
    return len(options)
'''
_SHAPES = {"search": _SEARCH, "order": _ORDER, "report": _REPORT, "configure": _SETTING}


def typed_function(number: int, shape: str = "search") -> Callable[..., Any]:
    """One of many functions as a program has them: typed, described, each its own."""
    later = "from __future__ import annotations\n" if number % 8 < 4 else ""
    module = ModuleType(f"tools_{number}")
    sys.modules[module.__name__] = module  # where pydantic looks up what stands in a string
    exec(compile(later + _IMPORTS + _SHAPES[shape].format(n=number), module.__name__, "exec"), vars(module))
    return vars(module)[f"{shape}_{number}"]


def typed_functions(count: int) -> list[Callable[..., Any]]:
    """As many functions, of every shape in turn."""
    return [typed_function(number, tuple(_SHAPES)[number % len(_SHAPES)]) for number in range(count)]


def define(functions: list[Callable[..., Any]]) -> Registry:
    return Registry(tool(function, kind="readonly") for function in functions)


def by_pydantic(functions: list[Callable[..., Any]]) -> list[dict[str, Any]]:
    """The least that pydantic itself needs for the same: a model of each signature, and its schema."""
    from pydantic import create_model

    schemas: list[dict[str, Any]] = []
    for function in functions:
        hints = get_type_hints(function, include_extras=True)
        fields: dict[str, Any] = {
            name: (hints[name], ... if one.default is one.empty else one.default)
            for name, one in inspect.signature(function).parameters.items()
        }
        schemas.append(create_model(function.__name__, **fields).model_json_schema())
    return schemas


def measure_definitions(rounds: int) -> list[Row]:
    """Defining and showing are measured together, tools and all made anew each time, by turns with pydantic."""
    functions = typed_functions(HOW_MANY)
    _check(functions)
    defined: list[float] = []
    first: list[float] = []
    bare: list[float] = []
    for _ in range(max(2, rounds)):
        gc.collect()
        registry, spent = _cpu(lambda: define(functions))
        shown = _cpu(lambda registry=registry: Exporter("openai").definitions(registry.tools()))[1]
        defined.append(spent)
        first.append(spent + shown)
        gc.collect()
        bare.append(_cpu(lambda: by_pydantic(functions))[1])
    tools = registry.tools()  # pyright: ignore[reportPossiblyUnboundVariable]
    export = Exporter("openai").definitions
    export(tools)
    same = sorted(_cpu(lambda: export(tools))[1] for _ in range(10 * rounds))
    other = sorted(_cpu(lambda: Exporter("openai").definitions(tools))[1] for _ in range(10 * rounds))
    return [
        Row(f"f. {HOW_MANY} typed tools defined, registered", min(defined), "ms", 300.0, "CPU"),
        Row("   defined and shown for the first time", min(first), "ms", 900.0, f"CPU, {_median(first)}"),
        Row("   the same by pydantic alone", min(bare), "ms", None, f"CPU, {_median(bare)}; create_model, schema"),
        Row("   shown again, nothing changed", same[0], "ms", 3.0, f"CPU, {_median(same)}"),
        Row("   shown again by a new Exporter", other[0], "ms", 10.0, f"CPU, {_median(other)}"),
    ]  # fmt: skip


def _check(functions: list[Callable[..., Any]]) -> None:
    """What is measured must also be right: no two definitions alike, and the fields that pydantic sees."""
    tools: list[Tool[Any]] = define(functions).tools()
    shown = Exporter("openai").definitions(tools)
    assert len({json.dumps(one["function"]["parameters"]) for one in shown}) == len(functions)
    for one, schema in zip(shown, by_pydantic(functions), strict=True):
        parameters = one["function"]["parameters"]
        assert parameters["properties"].keys() == schema["properties"].keys()
        assert parameters.get("required") == schema.get("required")


def _median(times: list[float]) -> str:
    return f"median {sorted(times)[len(times) // 2]:.3g} ms"


def _cpu(work: Callable[[], Any]) -> tuple[Any, float]:
    began = process_time()
    done = work()
    return done, (process_time() - began) * 1e3
