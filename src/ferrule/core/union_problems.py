"""A value that fits none of several forms: which form was meant, and what is wrong with it in that one.

Telling a model every problem of every form helps nobody. Most unions have a field whose value says which form it is
(a tag); in the others the form with the fewest problems was probably meant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferrule.core.phrases import joined, phrase
from ferrule.core.problems import (
    PathPart,
    Problem,
    json_type,
    missing_field,
    one_of,
    or_list,
    out_of_form,
    show,
    unexpected,
    wrong_choice,
)

if TYPE_CHECKING:
    from collections.abc import Callable

Path = tuple[PathPart, ...]

_SHAPES_SHOWN = 4
_SPEAKS_ALONE = ("range", "length", "value", "limit", "missing", "unknown")


def union_problems(path: Path, forms: list[list[Problem]], value: Any, shape: Callable[[int], str]) -> list[Problem]:
    """What to tell of a value at `path`, from the problems it has with each form.

    `shape` shows one of the forms; empty where that is not known.
    """
    if not isinstance(value, (dict, list)):
        return _scalar(path, forms, value)
    right = [form for form in forms if not _is_other_type(path, form)]
    if not right:
        return [_merged(path, [form[0] for form in forms], value)]
    tagged = _by_tag(path, right, value)
    if isinstance(tagged, Problem):
        return [tagged]
    if len(tagged) == 1:
        return tagged[0]
    numbers = {id(form): at for at, form in enumerate(forms)}
    return _closest(path, tagged, value, lambda form: shape(numbers[id(form)]))


def _scalar(path: Path, forms: list[list[Problem]], value: Any) -> list[Problem]:
    """Text or a number: one that is only out of bounds is told the bounds, any other all that would do."""
    bounds = [form for form in forms if all(one.code in _SPEAKS_ALONE for one in form)]
    if len(bounds) == 1:
        return bounds[0]
    return [_merged(path, [form[0] for form in bounds or forms], value)]


def _is_other_type(path: Path, form: list[Problem]) -> bool:
    """Whether the value is not even of the type that a form asks for. No object is one of a few texts either."""
    return any(one.path == path and (one.code in ("type", "enum", "format") or one.expected) for one in form)


def _by_tag(path: Path, forms: list[list[Problem]], value: Any) -> list[list[Problem]] | Problem:
    """The forms that the tag names, or what is wrong with the tag itself."""
    for name in dict.fromkeys(one.path[-1] for form in forms for one in form if _is_about_tag(one, path)):
        place = (*path, name)
        about = [next((one for one in form if one.path == place), None) for form in forms]
        if any(one is not None and not _is_about_tag(one, path) for one in about):
            continue  # some form knows no such field, or asks for more than one of a few values
        meant = [form for form, one in zip(forms, about, strict=True) if one is None]
        if meant:
            return meant
        told = [one for one in about if one is not None]
        if all(one.choices == told[0].choices for one in told):
            continue  # it tells no form from another
        choices = _distinct(told)
        if told[0].code == "missing":
            return missing_field(place, phrase(" (expected {kind})", kind=one_of(choices)), choices)
        return wrong_choice(place, choices, value[name])
    return forms


def _distinct(problems: list[Problem]) -> tuple[Any, ...]:
    """Every choice once, where 1 and true are two."""
    return tuple({(json_type(one), repr(one)): one for problem in problems for one in problem.choices}.values())


def _is_about_tag(problem: Problem, path: Path) -> bool:
    return len(problem.path) == len(path) + 1 and problem.code in ("enum", "missing") and bool(problem.choices)


def _closest(
    path: Path, forms: list[list[Problem]], value: Any, shape: Callable[[list[Problem]], str]
) -> list[Problem]:
    """The form with the fewest problems; where several have as few, one problem for all of them."""
    fewest = min(len(form) for form in forms)
    near = [form for form in forms if len(form) == fewest]
    if len(near) > 1:
        deepest = max(min(len(one.path) for one in form) for form in near)
        near = [form for form in near if min(len(one.path) for one in form) == deepest]
    if len(near) == 1 or all(form == near[0] for form in near):
        return near[0]
    place = near[0][0].path
    if fewest == 1 and all(form[0].path == place and form[0].form for form in near):
        here = value
        for part in place[len(path) :]:
            here = here[part]
        return [_merged(place, [form[0] for form in near], here)]
    told = [shape(form) or _in_short(form) for form in near[:_SHAPES_SHOWN]]
    said = phrase("fits none of the forms allowed here: {forms}", forms=joined(" or ", dict.fromkeys(told)))
    return [Problem(path, "union", said)]


def _in_short(form: list[Problem]) -> str:
    return joined(", ", [phrase("`{path}` {rule}", path=one.where, rule=one.rule or one.message) for one in form[:3]])


def _merged(path: Path, problems: list[Problem], value: Any) -> Problem:
    """One problem that names everything which would do at a place."""
    if len(problems) == 1:
        return problems[0]
    expected = tuple(dict.fromkeys(kind for one in problems for kind in one.expected))
    choices = _distinct(problems)
    forms: list[str] = []
    for one in problems:
        few = one.code == "enum" and len(one.choices) <= _SHAPES_SHOWN * 3
        forms += [show(choice) for choice in one.choices] if few else [one.form] if one.form else []
    codes = {one.code for one in problems}
    code = codes.pop() if len(codes) == 1 else "union"
    form = or_list(list(dict.fromkeys(forms)))
    if code != "enum":
        return unexpected(path, code, form, value, expected, choices)
    merged = out_of_form(path, code, form, value)
    merged.expected, merged.choices = expected, choices
    return merged
