"""Stage two (P2, T3, T7): every mistake in the arguments, all at once, in words a model can act on."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

import pytest
from inline_snapshot import snapshot
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field

from ferrule import InvalidParamsError, Limits, Problem, RawCall, Runtime, StoppedError, ToolResult, tool
from ferrule.core.call import DEFAULT_LIMITS
from ferrule.pipeline.validate import validate, validate_around


class Item(BaseModel, extra="forbid"):
    name: str
    price: float


@tool(kind="readonly")
async def order(
    items: list[Item],
    colour: Literal["red", "blue"],
    count: Annotated[int, Field(ge=1, le=10)] = 1,
    note: str | None = None,
) -> str:
    """Order items.

    Args:
        items: What to order.
    """
    return f"{len(items)} {colour} {count} {note}"


def refusal(arguments: Any, limits: Limits = DEFAULT_LIMITS) -> str:
    with pytest.raises(StoppedError) as stopped:
        validate(order, RawCall("order", arguments), limits)
    assert stopped.value.kind == "validation_error"
    return f"{stopped.value.message}\n{stopped.value.suggestion}"


def test_good_arguments_become_typed_parameters_with_defaults_filled_in() -> None:
    ready = validate(order, RawCall("order", '{"items": [{"name": "a", "price": 1}], "colour": "red"}'), DEFAULT_LIMITS)
    assert ready.params.items == [Item(name="a", price=1.0)]
    assert (ready.params.count, ready.params.note, ready.repairs) == (1, None, ())


def test_every_mistake_is_told_at_once_with_its_true_place() -> None:
    """P2: missing field, wrong type, unknown field, bad enum, bad array element."""
    assert refusal(
        {
            "items": [{"name": "a", "price": 1}, {"name": "b"}, {"name": ["c"], "price": 2, "prize": 3}, 4],
            "color": "red",
            "count": 99,
            "note": {},
        }
    ) == snapshot(
        """\
The arguments of `order` have 8 problems:
- `items[1].price`: required, but missing (expected number)
- `items[2].name`: expected string, got an array
- `items[2].prize`: unknown field. Known fields: `name`, `price`
- `items[3]`: expected object {"name": string, "price": number}, got integer 4
- `colour`: required, but missing (expected one of "red", "blue")
- `count`: must be at most 10; got integer 99
- `note`: expected string, got an empty object
- `color`: unknown field. Did you mean `colour`?
Call `order` again with {"items": [{"name": string, "price": number}, …], "colour": "red" | "blue", "count": integer (optional, default 1), "note": string | null (optional, default null)}.\
"""  # noqa: E501
    )


def test_a_bad_choice_is_answered_with_the_choices() -> None:
    assert refusal({"items": [], "colour": "green"}).split("\n")[1] == snapshot(
        '- `colour`: must be "red" or "blue"; got string "green"'
    )


def test_the_description_of_a_missing_field_is_told() -> None:
    assert refusal({"colour": "red"}).split("\n")[1] == snapshot(
        '- `items`: required, but missing (expected array [{"name": string, "price": number}, …]: What to order.)'
    )


@pytest.mark.parametrize("text", ["{", "nonsense", '{"a": }', b"\xff\xfe", "{'items': []}", '{"items": [}', "\x00"])
def test_text_that_is_not_json_is_refused_in_words(text: Any) -> None:
    assert "were not accepted: they are not valid JSON" in refusal(text)


def test_the_words_for_text_that_is_not_json() -> None:
    assert refusal('{"items": [}').split("\n")[0] == snapshot(
        'The arguments of `order` were not accepted: they are not valid JSON: a value is missing (after `{"items": [`).'
    )


@pytest.mark.parametrize(
    ("arguments", "got"),
    [("[]", "an empty array"), ("5", "integer 5"), ('"x"', 'string "x"'), (["a"], "an array"), (True, "true")],
)
def test_arguments_that_are_no_object_are_refused(arguments: Any, got: str) -> None:
    assert refusal(arguments).split("\n")[1] == f"- `arguments`: expected object, got {got}"


def test_no_arguments_are_an_empty_object() -> None:
    assert "3 problems" not in refusal(None)
    assert refusal(None) == refusal("{}") == refusal({}) == refusal(b"{}")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_are_none_are_refused(value: float) -> None:
    assert "is not JSON; numbers must be finite" in refusal({"items": [{"name": "a", "price": value}], "colour": "red"})

    @tool(kind="readonly")
    async def measure(size: float) -> float:
        return size

    with pytest.raises(StoppedError, match="numbers must be finite"):
        validate(measure, RawCall("measure", {"size": value}), DEFAULT_LIMITS)


def test_values_without_json_form_are_refused_in_words() -> None:
    assert refusal({"items": object()}).split("\n")[0] == snapshot(
        "The arguments of `order` were not accepted: they are object values that have no JSON form."
    )
    assert "half of a surrogate pair" in refusal({"colour": "\ud800"})
    loop: dict[str, Any] = {}
    loop["loop"] = loop
    assert refusal(loop).split("\n")[0] == snapshot(
        "The arguments of `order` were not accepted: they are nested too deep or refer to themselves."
    )


def test_half_a_surrogate_pair_in_text_is_explained() -> None:
    assert refusal('{"colour": "\\ud800"}').split("\n")[0] == snapshot(
        'The arguments of `order` were not accepted: they are not valid JSON: a string contains a \\u escape that is half of a surrogate pair (after `{"colour": …`).'  # noqa: E501
    )
    assert "a string contains half of a surrogate pair" in refusal('{"colour": "\ud800"}')


def test_a_key_that_stands_twice_is_refused() -> None:
    assert refusal('{"items": [], "colour": "red", "colour": "blue"}').split("\n")[0] == snapshot(
        "The arguments of `order` were not accepted: the key `colour` appears twice in one object; give it once."
    )
    assert "`name` appears twice" in refusal('{"items": [{"name": "a", "name": "b", "price": 1}], "colour": "red"}')


def test_more_arguments_than_are_taken_are_refused_before_they_are_read() -> None:
    assert refusal("x" * 101, Limits(argument_bytes=100)).split("\n")[0] == snapshot(
        "The arguments of `order` were not accepted: 101 bytes of arguments, where at most 100 are allowed."
    )


@pytest.mark.parametrize("opener", ['{"note":', "["])
@pytest.mark.parametrize("depth", [65, 500, 100_000])
def test_arguments_nested_too_deep_are_refused(opener: str, depth: int) -> None:
    text = '{"items": ' + opener * depth + "1" + ("}" if opener[0] == "{" else "]") * depth + "}"
    assert f"they are nested {depth + 1} deep, where at most 64 is allowed" in refusal(text)


def test_a_number_with_too_many_digits_is_refused() -> None:
    assert "a number has 500 digits, where at most 400 are allowed" in refusal('{"count": ' + "1" * 500 + "}")


def test_many_problems_are_counted_and_the_first_are_told() -> None:
    text = refusal({f"unknown_{number}": 1 for number in range(100)})
    assert "have 102 problems" in text
    assert "unknown_9`" in text
    assert "unknown_10`" not in text
    assert "- and 90 more" in text


def test_a_huge_key_or_value_does_not_come_back_whole() -> None:
    assert len(refusal({"k" * 1_000_000: 1})) < 6000
    assert len(refusal({"colour": "v" * 1_000_000, "items": []})) < 2000
    assert len(refusal('{"KEY": 1, "KEY": 2, "items": [], "colour": "red"}'.replace("KEY", "k" * 100_000))) < 6000


def test_a_tools_own_check_is_as_detailed_as_the_schema() -> None:
    """T7."""

    def check(params: Any) -> list[Problem]:
        if params.first > params.last:
            return [Problem(("last",), "range", f"must not be before `first` ({params.first})")]
        return []

    @tool(kind="readonly", check=check)
    async def span(first: int, last: int) -> int:
        return last - first

    async def main() -> list[ToolResult]:
        runtime = Runtime([span])
        return [await runtime.run("span", {"first": 1, "last": 3}), await runtime.run("span", {"first": 3, "last": 1})]

    good, bad = asyncio.run(main())
    assert good.data == 2
    assert bad.llm_content == snapshot(
        """\
Error (validation_error): The arguments of `span` have 1 problem:
- `last`: must not be before `first` (3)

Suggestion: Call `span` again with {"first": integer, "last": integer}.\
"""
    )
    assert bad.error is not None
    assert bad.error.details == {
        "problems": [{"path": "last", "code": "range", "message": "must not be before `first` (3)"}]
    }
    with pytest.raises(InvalidParamsError, match="last: must not be before"):
        span.build({"first": 3, "last": 1})


def test_a_value_error_from_a_check_is_one_problem_with_the_whole() -> None:
    def check(params: Any) -> list[Problem]:
        raise ValueError("give a or b")

    @tool(kind="readonly", check=check)
    async def either(a: int = 0, b: int = 0) -> int:
        return a + b

    with pytest.raises(StoppedError, match="`arguments`: give a or b"):
        validate(either, RawCall("either", {}), DEFAULT_LIMITS)


def test_a_tool_that_is_defined_wrongly_is_its_authors_problem() -> None:
    @tool(kind="readonly")
    async def broken(thing: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    result = asyncio.run(Runtime([broken]).run("broken", {"thing": 1}))
    assert result.llm_content == snapshot(
        """\
Error (execution_error): The tool `broken` is not defined correctly and cannot be called.

Suggestion: Use another tool; its author has to fix this one.\
"""
    )


def test_places_whose_values_are_not_known_yet_are_passed_over() -> None:
    arguments = {"items": {"$ref": "x"}, "colour": "red"}
    assert validate_around(order, arguments, [("items",)], DEFAULT_LIMITS, []) == arguments
    with pytest.raises(StoppedError, match="`items`"):
        validate_around(order, arguments, [("note",)], DEFAULT_LIMITS, [])


def test_what_a_check_raises_is_cleaned_and_a_secret_is_not_quoted() -> None:
    """P10."""

    def check(params: Any) -> Any:
        raise ValueError("cannot reach postgres://admin:hunter2@db/x from /srv/app/internal/conf.py")

    @tool(kind="readonly", check=check)
    def ask(question: str) -> str:
        """Ask."""
        return question

    result = asyncio.run(Runtime([ask]).run("ask", {"question": "x"}))
    assert "hunter2" not in str(result.to_dict())
    assert "/srv/app" not in str(result.to_dict())

    @tool(kind="readonly")
    def pay(pin: int, password: str) -> str:
        """Pay."""
        return "paid"

    wrong = asyncio.run(Runtime([pay]).run("pay", {"pin": "12a4", "password": ["s3cr3t"]}))
    mended = asyncio.run(Runtime([pay]).run("pay", {"pin": "1234", "password": 5555}))
    for told in (str(wrong.to_dict()), str(mended.to_dict())):
        assert not any(secret in told for secret in ("12a4", "s3cr3t", "1234", "5555"))


def _halved(given: int) -> int:
    return {5: 2}[given]


def _shortened(given: Any) -> Any:
    return given.strip()


@tool(kind="readonly")
def halve(
    number: Annotated[int, AfterValidator(_halved)] = 5, word: Annotated[int, BeforeValidator(_shortened)] = 0
) -> int:
    """Halve."""
    return number


def test_a_validator_that_breaks_is_the_tools_fault_and_not_the_programs() -> None:
    """T7: as `check` does, a validator in an annotation may raise anything."""
    result = Runtime([halve]).run_sync("halve", {"number": 0})
    assert result.llm_content == snapshot(
        """\
Error (execution_error): `halve` was not run: its own check of the arguments failed. KeyError: 0

Suggestion: Try other arguments or another tool; its author has to fix this one.\
"""
    )
    calls = [
        RawCall("halve", {"number": 5}, id="first"),
        RawCall("halve", {"number": 0, "word": {"$ref": "first"}}, id="second"),
    ]
    assert Runtime([halve]).batch_sync(calls)[1].llm_content == result.llm_content


def test_a_validator_that_breaks_on_a_mended_value_leaves_the_problem_as_it_was() -> None:
    result = Runtime([halve]).run_sync("halve", {"word": "5"})
    assert result.error is not None
    assert result.error.message.endswith('- `word`: expected integer, got string "5"')
