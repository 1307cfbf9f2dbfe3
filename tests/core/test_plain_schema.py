"""The schema of plain parameters is what pydantic would write, without a model being built for it (T3)."""

from __future__ import annotations

import json
import warnings
from datetime import date, datetime, time, timedelta
from enum import Enum, IntEnum, StrEnum
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, Optional, TypeVar
from uuid import UUID

import pytest
from annotated_types import Ge, Len, MinLen
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    RootModel,
    computed_field,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo
from typing_extensions import TypedDict

from ferrule import DefinitionError, tool
from ferrule.core.function_params import compile_function, plain_schema
from ferrule.core.params import ModelParams


class Colour(StrEnum):
    """Which one."""

    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Discount(BaseModel):
    """Something off.

    As much as it says.
    """

    code: Annotated[str, Field(min_length=2, max_length=5, pattern="^[A-Z]+$")]
    percent: float = Field(10.0, gt=0, le=100, description="How much")
    colour: Colour = Colour.RED


class Line(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)

    sku_code: str = Field(title="SKU")
    tags: list[str] = []
    discounts: list[Discount] = Field(default_factory=list, max_length=9)
    one: Discount | None = None
    other: Discount = Field(description="Another one.")
    weights: dict[str, list[Annotated[int, Field(ge=1, description="Each")]]] = {"a": [1]}
    level: Optional[Level] = Level.LOW  # noqa: UP045 - both spellings are in use
    dash: bool = Field(False, alias="-i")

    @computed_field
    @property
    def short(self) -> str:
        return self.sku_code

    @model_validator(mode="after")
    def whole(self) -> Line:
        return self


class Forbidding(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    lines: list[Line] = []
    """All of them."""


class Ignoring(Line):
    model_config = ConfigDict(extra="ignore")

    tags: list[str] = ["own"]


T = TypeVar("T")


class Box(BaseModel, Generic[T]):
    held: T


class Tree(BaseModel):
    children: list[Tree] = []


class Checked(BaseModel):
    name: str

    @field_validator("name", mode="before")
    @classmethod
    def check(cls, name: Any) -> Any:
        return name


class Titled(BaseModel):
    model_config = ConfigDict(title="Another", json_schema_extra={"examples": [{}]})

    name: str = ""


class OwnSchema(BaseModel):
    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: Any) -> Any:
        return {"type": "string"}


class Aliased(Enum):
    ONE = 1
    UNO = 1  # noqa: PIE796 - that is the point


class Mixed(Enum):
    ONE = 1
    TWO = "two"


class Row(TypedDict):
    name: str


class Socket:
    pass


SCALARS: list[Any] = [
    str, int, float, bool, type(None), Any, date, datetime, time, timedelta, UUID, Path, Colour, Level, Discount, Line,
    Forbidding, Ignoring, list, dict, set, Literal["a"], Literal["a", "b"], Literal[1, 2], Literal["a", 1, None],
    Literal[True, 1],
]  # fmt: skip
UNUSUAL: list[Any] = [
    bytes, complex, Box[int], Tree, Checked, Titled, OwnSchema, Aliased, Mixed, Row, RootModel[int],
    Literal[Colour.RED],
    Annotated[int, AfterValidator(abs)], Annotated[str, BeforeValidator(str)], tuple[()], dict[int, str], Socket,
    Annotated[str, Ge(1)], Annotated[int, Field(ge=1.5)], Annotated[int, MinLen(1)], Annotated[str, Field(pattern="(")],
    Annotated[list[str], Field(pattern="a")], Annotated[str, Len(1, 2)], Annotated[int, Field(multiple_of=0)],
    Annotated[str, Field(min_length=-1)], Annotated[Colour, Field(min_length=1)], frozenset, tuple, object,
    Annotated[float, Field(ge=10**400)], Annotated[int, Field(ge=2**70)], Annotated[float, Field(lt=float("inf"))],
]  # fmt: skip


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        inner.map(lambda one: list[one]),
        inner.map(lambda one: dict[str, one]),
        inner.map(lambda one: set[one]),
        inner.map(lambda one: frozenset[one]),
        inner.map(lambda one: tuple[one, ...]),
        st.tuples(inner, inner).map(lambda two: tuple[two[0], two[1]]),
        inner.map(lambda one: Optional[one]),  # noqa: UP045 - built from values
        st.tuples(inner, inner, inner).map(
            lambda three: three[0] | three[1] | three[2] if _can_join(three) else three[0]
        ),
        st.tuples(inner, st.sampled_from([Field(description="Inside"), Ge(1), MinLen(1), "a remark"])).map(
            lambda two: Annotated[two]
        ),
    )


def _can_join(members: tuple[Any, ...]) -> bool:
    try:
        return bool(members[0] | members[1] | members[2])
    except TypeError:
        return False


annotations = st.recursive(st.sampled_from(SCALARS), containers, max_leaves=4)
strange = st.recursive(st.sampled_from(SCALARS + UNUSUAL), containers, max_leaves=3)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=4,
)
defaults = json_values | st.sampled_from(
    [Colour.RED, Level.HIGH, (1, 2), {3}, date(2024, 2, 29), Discount(code="AB", percent=1)]
)
options = st.fixed_dictionaries(
    {},
    optional={
        "description": st.sampled_from(["Words.", "Something off.\n\nAs much as it says.", ""]),
        "title": st.just("Given"),
        "ge": st.sampled_from([0, 1, 1.5, float("inf")]),
        "lt": st.sampled_from([10, 10.5]),
        "multiple_of": st.sampled_from([2, 0.5, 0]),
        "min_length": st.sampled_from([0, 1, -1]),
        "max_length": st.just(7),
        "pattern": st.sampled_from(["^a", "("]),
        "alias": st.sampled_from(["-i", "other"]),
        "examples": st.just(["a"]),
        "deprecated": st.just(True),
        "json_schema_extra": st.just({"x-own": 1}),
    },
)
missing = object()
NAMES = ["field_0", "copy", "other"]


def field(annotation: Any, given: dict[str, Any], default: Any) -> FieldInfo:
    annotation = Annotated[annotation, Field(**given)] if given else annotation
    if default is missing:
        return FieldInfo.from_annotation(annotation)
    return FieldInfo.from_annotated_attribute(annotation, default)


def by_pydantic(fields: dict[str, FieldInfo]) -> dict[str, Any]:
    from ferrule.core.function_params import _model

    model = _model("body", {name: (info.annotation, info) for name, info in fields.items()})
    return ModelParams(model).schema


def agrees(fields: dict[str, FieldInfo]) -> bool:
    """Whether the schema was written without pydantic; then it must be the one that pydantic writes, to the letter."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        written = plain_schema("body", fields)
        if written is not None:
            assert json.dumps(written) == json.dumps(by_pydantic(fields))
    return written is not None


@given(st.lists(st.tuples(annotations, options, defaults | st.just(missing)), min_size=1, max_size=3))
@settings(deadline=None, max_examples=150)
def test_what_is_written_is_what_pydantic_writes(drawn: list[tuple[Any, dict[str, Any], Any]]) -> None:
    agrees({name: field(*one) for name, one in zip(NAMES, drawn, strict=False)})


@given(st.lists(st.tuples(strange, options, defaults | st.just(missing)), min_size=1, max_size=2))
@settings(deadline=None, max_examples=150)
def test_what_pydantic_refuses_is_never_written(drawn: list[tuple[Any, dict[str, Any], Any]]) -> None:
    """R6: an author's mistake is found when the tool is shown, not when it is first called."""
    try:
        fields = {name: field(*one) for name, one in zip(NAMES, drawn, strict=False)}
    except (TypeError, RuntimeError):
        return  # pydantic refused the field itself, before there was anything to write
    agrees(fields)


@pytest.mark.parametrize("annotation", SCALARS, ids=str)
@pytest.mark.parametrize("default", [missing, None], ids=["required", "optional"])
def test_plain_types_need_no_pydantic(annotation: Any, default: Any) -> None:
    assert agrees({"one": field(annotation, {"description": "What it is."}, default)})
    assert agrees({"one": field(list[annotation], {}, default), "two": field(annotation, {}, default)})


@pytest.mark.parametrize(
    ("annotation", "given", "default"),
    [
        (int, {"ge": 1, "lt": 10}, 5),
        (float, {"gt": 0.5, "multiple_of": 0.5}, missing),
        (str, {"min_length": 1, "pattern": "^a"}, "a"),
        (list[str], {"min_length": 1, "max_length": 3}, missing),
        (dict[str, int], {"max_length": 3}, missing),
        (int | None, {"ge": 1}, None),
        (Discount | Line | None, {}, None),
        (bool, {"alias": "-i"}, False),
        (Colour, {"description": "Which to take."}, Colour.BLUE),
        (list[Discount], {}, []),
        (str | int, {}, {"a": [1, None]}),
    ],
)
def test_the_usual_constraints_need_no_pydantic(annotation: Any, given: dict[str, Any], default: Any) -> None:
    assert agrees({"one": field(annotation, given, default)})


@pytest.mark.parametrize("annotation", UNUSUAL, ids=str)
def test_what_is_unusual_is_left_to_pydantic(annotation: Any) -> None:
    assert plain_schema("body", {"one": FieldInfo.from_annotation(annotation)}) is None
    assert plain_schema("body", {"one": FieldInfo.from_annotation(list[annotation])}) is None


@pytest.mark.parametrize("name", ["_hidden", "model_config", "model_fields", "default", "properties"])
def test_names_that_mean_something_to_pydantic_are_left_to_it(name: str) -> None:
    assert plain_schema("body", {name: FieldInfo.from_annotation(int)}) is None


def test_two_models_of_one_name_are_told_apart() -> None:
    def other() -> type[BaseModel]:
        class Line(BaseModel):
            number: int

        return Line

    both = {"one": FieldInfo.from_annotation(Line), "two": FieldInfo.from_annotation(other())}
    assert plain_schema("body", both) is None
    assert sum("Line" in name for name in by_pydantic(both)["$defs"]) == 2
    assert plain_schema("Line", {"one": FieldInfo.from_annotation(Line)}) is None, "the tool itself has that name"


def test_the_model_is_built_at_the_first_call() -> None:
    def order(lines: list[Line], note: str = "") -> None:
        """Order."""

    params = compile_function("order", order).params
    assert params.schema["required"] == ["lines"]
    assert params._model is None
    assert params.load('{"lines": []}').note == ""
    assert params._model is params.model is not None


def test_what_is_shown_does_not_hold_the_authors_own_default() -> None:
    own = {"list": [1]}

    def collect(into: dict[str, list[int]] = own) -> None:
        """Collect."""

    shown: Any = tool(collect).input_schema
    shown["properties"]["into"]["default"]["list"].append(2)
    assert own == {"list": [1]}


def test_a_model_that_misses_a_name_is_told_to_the_author() -> None:
    """R6."""

    class Unfinished(BaseModel):
        other: Nowhere  # type: ignore[name-defined]  # noqa: F821  # pyright: ignore[reportUndefinedVariable]

    def body(it: Any) -> None: ...

    body.__annotations__["it"] = Unfinished
    with pytest.raises(DefinitionError, match="Nowhere"):
        compile_function("body", body)


def test_a_default_that_is_the_type_itself_is_told_to_the_author() -> None:
    """R6."""

    def body(number: Any) -> None: ...

    body.__annotations__["number"] = int
    body.__defaults__ = (int,)
    with pytest.raises(DefinitionError, match="`body`: `number`"):
        compile_function("body", body)
