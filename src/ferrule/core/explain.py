"""Explains why arguments were refused. One walk over the schema and the value words every problem.

A validator only reports which rules were broken where (`BrokenRule`). So the messages are the same for tools made from
Python types and for those made from a JSON Schema.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

from ferrule.core.phrases import joined, phrase
from ferrule.core.problems import (
    SHOWN,
    Path,
    PathPart,
    Problem,
    against_rule,
    got,
    json_type,
    missing_field,
    one_of,
    or_list,
    out_of_form,
    show,
    unknown_field,
    wrong_choice,
    wrong_size,
)
from ferrule.core.schemas import applied, array_parts, below, followed, mapping, options, resolve, schema_at, size_of
from ferrule.core.shown_text import cut
from ferrule.core.wording import EXAMPLES, choices_of, example_of, hint, kind_of, value_form

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

UNIONS_READ = 8
"""Levels of nested unions that are explained."""
_WORK, _LEAST_READ, _MOST_READ = 50_000, 10, 1_000
"""Refusals that are explained, each of which may take a walk over the whole schema: the larger that is, the fewer."""


_ONLY_TYPED = frozenset({"type", "default", "description", "title", "minimum", "maximum", "minLength", "maxLength"})
"""Keywords of a field whose value, if it is of another type, breaks no other rule that would be reported."""


@dataclass(slots=True)
class BrokenRule:
    """A rule that a validator found broken.

    `rule` is a keyword of JSON Schema and `limit` its value, None if the validator doesn't report it. `problem` is the
    message if no schema has the rule, as for a custom validator. With `key`, the rule is about that key of the object
    at `path`. `forms` are the refusals by each form of a union. `number` and `told` are for the walk: the position
    among all refusals, and whether it is explained already.
    """

    path: Path
    rule: str = ""
    limit: Any = None
    problem: Problem | None = None
    key: str | None = None
    forms: Sequence[Sequence[BrokenRule]] = ()
    number: int = 0
    told: bool = False


class Explainer:
    """Explains refusals by one schema. It keeps what it works out, because the same mistakes come again.

    `complete`: the validator reports every broken rule, not just the first at each place. `other_names` maps aliases of
    fields to the names in the schema.
    """

    __slots__ = ("__dict__", "_missing", "complete", "known_parts", "other_names", "schema")

    def __init__(self, schema: Any, *, complete: bool, other_names: Mapping[str, str] | None = None) -> None:
        self.schema = schema
        self.complete = complete
        self.other_names = other_names or {}
        self._missing: dict[int, tuple[Any, Problem]] = {}
        self.known_parts: dict[int, tuple[Any, list[_SchemaPart]]] = {}

    @cached_property
    def most(self) -> int:
        """How many refusals may be given to `explain`: what that takes is bounded, whatever was sent."""
        return max(_LEAST_READ, min(_MOST_READ, _WORK // size_of(self.schema)))

    def explain(self, value: Any, refusals: Sequence[BrokenRule]) -> list[Problem]:
        """Every problem once, in the order of the schema. For a union, only those of the form that was meant."""
        if not self.complete and (commonest := self._commonest(value, refusals)):
            return commonest
        walk = _Walk(self, value, refusals)
        found = walk.at(self.schema, value, (), walk.refused, 0)
        for one in refusals:
            if not one.told:
                found.append(walk.by_itself(one))
        if len({one.path for one in found}) == len(found):
            return found
        return list({(one.path, one.code, one.message): one for one in found}.values())

    def _commonest(self, value: Any, refusals: Sequence[BrokenRule]) -> list[Problem]:
        """What the walk would find, in half the time, if all are fields that are missing, unknown or of another type;
        else nothing.
        """
        known = self.known_parts.get(id(self.schema))
        root, *others = self.parts(self.schema) if known is None else known[1]
        if others or root.is_union or root.patterns or self.other_names or not isinstance(value, dict):
            return []
        fields, given = root.fields, cast("dict[Any, Any]", value)
        found: list[Problem] = []
        for one in refusals:
            if len(one.path) != 1 or one.key is not None or one.problem is not None:
                return []
            name: Any = one.path[0]
            if one.rule == "required" and name in root.required and name not in given:
                found.append(self.missing(one.path, fields.get(name)))
            elif one.rule == "additionalProperties" and root.is_closed and name in given and name not in fields:
                found.append(unknown_field(one.path, fields, given))
            elif one.rule == "type" and name in given and name in fields:
                field = mapping(fields[name])
                if field.get("type") != one.limit or not _ONLY_TYPED.issuperset(field):
                    return []
                found.append(self.other_type(one.path, one.limit, field, given[name]))
            else:
                return []
        return found

    def other_type(self, path: Path, limit: Any, part: dict[str, Any], value: Any) -> Problem:
        """A value of another type. For an object or an array, the expected content is shown too."""
        types, form, rule = _kinds(tuple(cast("list[str]", limit)) if isinstance(limit, list) else limit)
        # Not if the validator accepts any text there, because then a repair may too.
        if form == "string" and not self.complete and part.get("format") in EXAMPLES:
            return out_of_form(path, "format", example_of(part["format"]), value)
        if path and form in ("object", "array") and (shown := kind_of(part, self.schema)):
            form, rule = shown, ""
        return _unexpected(path, "type", form, value, types, (), rule)

    def parts(self, schema: Any) -> list[_SchemaPart]:
        """Every part of the schema that applies to the same value. `schema` must be part of the explainer's."""
        found = [_SchemaPart(one) for one in applied(schema, self.schema)]
        self.known_parts[id(schema)] = schema, found
        return found

    def missing(self, path: Path, prop: Any) -> Problem:
        """The problem of a required field that is missing. `prop` must be part of the explainer's schema."""
        known = self._missing.get(id(prop))
        if known is None:
            said = resolve(prop, self.schema)
            about = missing_field((), hint(said, self.schema), choices_of(said, self.schema))
            known = self._missing[id(prop)] = prop, about
        return Problem(path, "missing", known[1].message, (), known[1].choices)


class _SchemaPart:
    """What the walk needs to know about a part of a schema."""

    __slots__ = ("fields", "is_closed", "is_union", "names", "others", "patterns", "required", "rules", "schema")

    def __init__(self, schema: dict[str, Any]) -> None:
        said: Any = schema.get("required")
        required = dict.fromkeys(cast("list[str]", said)) if isinstance(said, list) else {}
        self.schema = schema
        self.rules = [one for one in schema if one in _WORDS]
        self.is_union = "anyOf" in schema or "oneOf" in schema
        self.fields = mapping(schema.get("properties"))
        self.required = required
        self.names = list(dict.fromkeys((*self.fields, *required)))
        self.patterns = mapping(schema.get("patternProperties"))
        self.others = [schema[one] for one in ("additionalProperties", "unevaluatedProperties") if one in schema]
        self.is_closed = False in self.others


_Place = dict[PathPart | None, Any]
"""A place in the value: under None the refusals there, and by key or index the places inside it."""


def _all_refused(place: _Place) -> list[BrokenRule]:
    found: list[BrokenRule] = []
    waiting = [place]
    for one in waiting:
        found += one.get(None, ())
        waiting += [inner for part, inner in one.items() if part is not None]
    return sorted(found, key=lambda one: one.number)


class _Walk:
    __slots__ = ("_complete", "_explainer", "_known_parts", "_other_names", "_root", "_value", "refused")

    def __init__(self, explainer: Explainer, value: Any, refusals: Sequence[BrokenRule]) -> None:
        self._explainer = explainer
        self._known_parts = explainer.known_parts
        self._root = explainer.schema
        self._complete = explainer.complete
        self._other_names = explainer.other_names
        self._value = value
        self.refused: _Place = {}
        waiting = list(refusals)
        for number, one in enumerate(waiting):
            one.number = number
            place = self.refused
            for part in one.path:
                place = place.setdefault(part, {})
            place.setdefault(None, []).append(one)
            if one.forms:
                waiting += chain.from_iterable(one.forms)

    def at(self, schema: Any, value: Any, path: Path, place: _Place, unions: int) -> list[Problem]:
        """The problems of the value at a place. `unions` counts the unions around it."""
        if schema is False:
            return [_forbidden(path)] if _is_refused(place, "falseSchema") else []
        found: list[Problem] = []
        here: Sequence[BrokenRule] = place.get(None, ())
        is_refused_inside = len(place) > 1 or not here
        known = self._known_parts.get(id(schema))
        in_union = False
        for part in self._explainer.parts(schema) if known is None else known[1]:
            if here:
                self._rules(part, value, path, place, found)
            if part.is_union:
                in_union = True
                found += self._union(part.schema, value, path, place, unions)
            if not is_refused_inside:
                continue
            if isinstance(value, dict):
                self._fields(part, value, path, place, unions, found)  # pyright: ignore[reportUnknownArgumentType]
            elif isinstance(value, list):
                self._items(part, value, path, place, unions, found)  # pyright: ignore[reportUnknownArgumentType]
        if not here or in_union or (found and found[0].path == path) or any(one.path == path for one in found):
            return found
        for one in here:
            if one.problem is not None:
                one.told = True
                found.append(one.problem)
        return found

    def _rules(self, part: _SchemaPart, value: Any, path: Path, place: _Place, found: list[Problem]) -> None:
        """Add the problems with a schema's own rules."""
        schema = part.schema
        broken = [rule for rule in part.rules if _is_refused(place, rule, schema[rule], value)]
        if broken and not self._complete and "type" not in broken:  # the validator stopped at the first
            broken += [one for one in part.rules if one not in broken and _breaks(one, schema[one], value)]
        if len(broken) > 1 and "type" in broken and ("enum" in broken or "const" in broken):
            broken.remove("type")
        for rule in broken:
            if rule == "minItems" and len(value) < len(places := array_parts(schema)[0]):
                found += [
                    self._explainer.missing((*path, at), places[at])
                    for at in range(len(value), min(schema[rule], len(places)))
                ]
            elif rule == "type":
                found.append(self._explainer.other_type(path, schema[rule], schema, value))
            else:
                found.append(_WORDS[rule](path, schema[rule], value))

    def _fields(
        self, part: _SchemaPart, value: dict[str, Any], path: Path, inside: _Place, unions: int, found: list[Problem]
    ) -> None:
        fields = part.fields
        names = self._other_names
        by_other_name = {other: key for key in value if (other := names.get(key))} if names else names
        for name in part.names:
            key = name if not by_other_name or name in value else by_other_name.get(name, name)
            place = inside.get(key)
            if place is None:
                continue
            if key in value:
                found += self.at(fields.get(name), value[key], (*path, key), place, unions)
            elif name in part.required and _is_refused(place, "required"):
                found.append(self._explainer.missing((*path, name), fields.get(name)))
        for key in value:
            if key in fields or (place := inside.get(key)) is None:
                continue
            here = (*path, key)
            patterns = part.patterns
            named = [patterns[one] for one in patterns if _may_match(one, key)] if patterns else patterns
            if named or self._complete or not part.is_closed:  # pydantic reports the rule below only
                for one in named or part.others:
                    found += self.at(one, value[key], here, place, unions)
            if part.is_closed and not named and _is_refused(place, "additionalProperties"):
                found.append(unknown_field(here, fields, value, names))

    def _items(
        self, part: _SchemaPart, value: list[Any], path: Path, inside: _Place, unions: int, found: list[Problem]
    ) -> None:
        first, rest = array_parts(part.schema)
        for at in sorted([one for one in inside if isinstance(one, int)]):
            prop = first[at] if at < len(first) else rest
            if at < len(value):
                found += self.at(prop, value[at], (*path, at), inside[at], unions)
            elif at < len(first) and _is_refused(inside[at], "required"):
                found.append(self._explainer.missing((*path, at), prop))

    def _union(self, part: dict[str, Any], value: Any, path: Path, place: _Place, unions: int) -> list[Problem]:
        """Explain why no form of a union fits, for the form that was meant if that is clear."""
        rule = "anyOf" if "anyOf" in part else "oneOf"
        if self._complete and not _is_refused(place, rule):
            return []
        forms = options(part)
        if not forms:
            return []
        tag = str(mapping(part.get("discriminator")).get("propertyName", ""))
        tags = [choices_of(below(followed(one, self._root), tag), self._root) for one in forms] if tag else []
        every = tuple(choice for some in tags for choice in some)
        named = forms
        if every and isinstance(value, dict):
            given: Any = cast("dict[str, Any]", value).get(tag)
            named = [one for one, some in zip(forms, tags, strict=True) if any(_same(given, choice) for choice in some)]
        if not named and tag in value:
            found = [wrong_choice((*path, tag), every, value[tag])]
        elif not named:
            found = [missing_field((*path, tag), phrase(" (expected {kind})", kind=one_of(every)), every)]
        elif unions == UNIONS_READ:
            found = [Problem(path, "union", phrase("fits none of the {count} forms allowed here", count=len(named)))]
        else:
            each = [self.at(one, value, path, place, unions + 1) for one in named]
            told = [form for form in each if len(form) == max(map(len, each)) > 0]
            if rule == "oneOf" and not self._complete and len(told) == 1:
                found = told[0]  # a custom discriminator chose this form
            else:
                each = [form or self._otherwise(place) for form in each]
                found = union_problems(path, each, value, lambda at: self._shape(named[at])) if all(each) else []
        if found:
            for one in _all_refused(place):
                one.told = True
        return found

    def _otherwise(self, place: _Place) -> list[Problem]:
        """Why a form of a union doesn't fit, if its schema doesn't tell."""
        below = [one for one in _all_refused(place) if one.rule not in ("anyOf", "oneOf")]
        return [one.problem for one in below if one.problem] or [self.by_itself(one) for one in below]

    def _shape(self, form: Any) -> str:
        shape = value_form(form, self._root)
        return shape if shape not in ("any", "object") else ""

    def by_itself(self, refusal: BrokenRule) -> Problem:
        """The problem for a rule that the walk didn't reach, such as one in another document."""
        path, rule, limit = refusal.path, refusal.rule, refusal.limit
        if refusal.key is not None:
            about = BrokenRule((), rule, limit, refusal.problem)
            walk = _Walk(self._explainer, refusal.key, [about])
            names = schema_at(path, self._root).get("propertyNames")
            inner = (walk.at(names, refusal.key, (), walk.refused, 0) or [walk.by_itself(about)])[0]
            said = inner.rule or inner.message
            if inner.expected == ("integer",):
                said = phrase("must hold an integer")
            elif inner.code == "type":
                said = phrase("must hold a {kind}", kind=inner.expected[0])
            return Problem(path, "value", phrase("the key {key} {rule}", key=show(refusal.key), rule=said))
        if refusal.problem is not None:
            return refusal.problem
        if rule == "required":
            said = schema_at(path, self._root)
            return missing_field(path, hint(said, self._root), choices_of(said, self._root))
        around = _value_at(path[:-1], self._value)
        if rule == "additionalProperties" and path and isinstance(around, dict):
            known = mapping(schema_at(path[:-1], self._root).get("properties"))
            given = {one for one in cast("dict[str, Any]", around) if one != path[-1]}
            return unknown_field(path, known, given, self._other_names)
        if rule == "falseSchema":
            return _forbidden(path)
        here = _value_at(path, self._value)
        if rule == "type":
            return self._explainer.other_type(path, limit, schema_at(path, self._root), here)
        if rule in _WORDS and (limit is not None or rule in _WITHOUT_LIMIT):
            return _WORDS[rule](path, limit, here)
        if rule == "enum" and (choices := choices_of(schema_at(path, self._root), self._root)):
            return wrong_choice(path, choices, here)
        if rule == "enum":
            return against_rule(path, "enum", phrase("is not one of the values allowed here"), here)
        if rule in ("anyOf", "oneOf"):
            if refusal.forms:
                each = [[self.by_itself(one) for one in form] for form in refusal.forms]
                return union_problems(path, each, here, lambda _: "")[0]
            shapes = [self._shape(one) for one in options(schema_at(path, self._root))[:_SHAPES_SHOWN]]
            return _no_form(path, shapes)
        return against_rule(path, "value", phrase("does not fit the schema's `{keyword}`", keyword=cut(rule, 60)), here)


def _is_refused(place: _Place, rule: str, limit: Any = None, value: Any = None) -> bool:
    """Whether the validator refused the place by this rule with this limit."""
    found = False
    for one in place.get(None, ()):
        if one.rule != rule and (rule != "const" or one.rule != "enum"):
            continue
        if rule == "type":
            same = one.limit == limit or _types(one.limit) == _types(limit)
        elif one.limit is None and rule in _BROKEN:
            same = _breaks(rule, limit, value)
        else:
            same = one.limit is None or one.limit == limit
        if same and one.key is None:
            one.told = found = True
    return found


def _value_at(path: Path, value: Any) -> Any:
    for part in path:
        value = value[part]
    return value


def _types(limit: Any) -> tuple[str, ...]:
    return tuple(sorted(cast("list[str]", limit))) if isinstance(limit, (list, tuple)) else (str(limit),)


def _forbidden(path: Path) -> Problem:
    if path and isinstance(path[-1], int):
        return Problem(path, "length", phrase("one item too many; none is allowed here"))
    return Problem(path, "unknown", phrase("not allowed here") if path else phrase("no arguments are allowed"))


@lru_cache(maxsize=256)
def _kinds(limit: Any) -> tuple[tuple[str, ...], str, str]:
    """The types that a schema allows, as a tuple, as text, and as a rule."""
    types = _types(limit)
    form = or_list(types)
    return types, form, phrase("must be {form}", form=form)


def _unexpected(
    path: Path, code: str, form: str, value: Any, types: tuple[str, ...], choices: tuple[Any, ...] = (), rule: str = ""
) -> Problem:
    """The problem of a value that is not of any form allowed."""
    message = phrase("expected {kind}, got {found}", kind=form, found=got(value))
    return Problem(path, code, message, types, choices, form, rule or phrase("must be {form}", form=form))


# Unions: which form was meant, and what is wrong with the value in that form.


_SHAPES_SHOWN = 4
_SPEAKS_ALONE = ("range", "length", "value", "limit", "missing", "unknown")


def union_problems(path: Path, forms: list[list[Problem]], value: Any, shape: Callable[[int], str]) -> list[Problem]:
    """The problems to report for a value at `path`, given its problems with each form of a union.

    `shape` describes a form by its index, or is empty if it can't.
    """
    if all(form == forms[0] for form in forms):
        return forms[0] if forms else []
    if not isinstance(value, (dict, list)):
        # For text or a number that is only out of bounds, report the bounds. Otherwise report all forms.
        bounds = [form for form in forms if all(one.code in _SPEAKS_ALONE for one in form)]
        return bounds[0] if len(bounds) == 1 else [_merged(path, [form[0] for form in bounds or forms], value)]
    right = [form for form in forms if not any(one.path == path and _is_other_type(one) for one in form)]
    if not right:
        return [_merged(path, [form[0] for form in forms], value)]
    tagged = _by_tag(path, right, value)
    if isinstance(tagged, Problem):
        return [tagged]
    if len(tagged) == 1:
        return tagged[0]
    numbers = {id(form): at for at, form in enumerate(forms)}
    return _closest(path, tagged, value, lambda form: shape(numbers[id(form)]))


def _is_other_type(problem: Problem) -> bool:
    """Whether the value is not even of the expected type. An object is not one of a few texts either."""
    return problem.code in ("type", "enum", "format") or bool(problem.expected)


def _by_tag(path: Path, forms: list[list[Problem]], value: Any) -> list[list[Problem]] | Problem:
    """The forms that the tag names, or the problem with the tag itself."""
    for name in dict.fromkeys(one.path[-1] for form in forms for one in form if _is_about_tag(one, path)):
        place = (*path, name)
        about = [next((one for one in form if one.path == place), None) for form in forms]
        if any(one is not None and not _is_about_tag(one, path) for one in about):
            continue  # a form lacks this field, or wants more there than one of a few values
        meant = [form for form, one in zip(forms, about, strict=True) if one is None]
        if meant:
            return meant
        told = [one for one in about if one is not None]
        if all(one.choices == told[0].choices for one in told):
            continue  # it doesn't distinguish the forms
        choices = _distinct(told)
        if told[0].code == "missing":
            return missing_field(place, phrase(" (expected {kind})", kind=one_of(choices)), choices)
        return wrong_choice(place, choices, value[name])
    return forms


def _distinct(problems: list[Problem]) -> tuple[Any, ...]:
    """Every choice once; 1 and true are different."""
    return tuple({(json_type(one), repr(one)): one for problem in problems for one in problem.choices}.values())


def _is_about_tag(problem: Problem, path: Path) -> bool:
    return len(problem.path) == len(path) + 1 and problem.code in ("enum", "missing") and bool(problem.choices)


def _closest(
    path: Path, forms: list[list[Problem]], value: Any, shape: Callable[[list[Problem]], str]
) -> list[Problem]:
    """The problems of the form with the fewest, or one problem for all forms with as few."""
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
    return [_no_form(path, [shape(form) or _in_short(form) for form in near[:_SHAPES_SHOWN]])]


def _no_form(path: Path, shapes: list[str]) -> Problem:
    if not any(shapes):
        return Problem(path, "union", phrase("fits none of the forms allowed here"))
    forms = joined(" or ", dict.fromkeys(shapes))
    return Problem(path, "union", phrase("fits none of the forms allowed here: {forms}", forms=forms))


def _in_short(form: list[Problem]) -> str:
    return joined(", ", [phrase("`{path}` {rule}", path=one.where, rule=one.rule or one.message) for one in form[:3]])


def _merged(path: Path, problems: list[Problem], value: Any) -> Problem:
    """One problem that names everything that is allowed at a place."""
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
        return _unexpected(path, code, form, value, expected, choices)
    merged = out_of_form(path, code, form, value)
    merged.expected, merged.choices = expected, choices
    return merged


# The message for each broken rule, and whether a value breaks it.


def _bound(form: Callable[[str], str]) -> Callable[[Path, Any, Any], Problem]:
    def worded(path: Path, limit: Any, value: Any) -> Problem:
        whole = isinstance(limit, float) and limit.is_integer() and abs(limit) < 1e15
        return out_of_form(path, "range", form(show(int(limit) if whole else limit)), value)

    return worded


def _size(unit: str, *, least: bool) -> Callable[[Path, Any, Any], Problem]:
    def worded(path: Path, limit: Any, value: Any) -> Problem:
        size = len(cast("str", value)) if isinstance(value, (str, list, dict)) else None
        return wrong_size(path, unit, limit, size, least=least)

    return worded


def _form(code: str, form: Callable[[Any], str]) -> Callable[[Path, Any, Any], Problem]:
    return lambda path, limit, value: out_of_form(path, code, form(limit), value)


def _twins(path: Path, limit: Any, value: Any) -> Problem:
    from pydantic_core import to_json

    seen: dict[bytes, int] = {}
    for position, item in enumerate(cast("list[Any]", value)[:10_000]):
        first = seen.setdefault(to_json(item), position)
        if first != position:
            equal = phrase(
                "items must all be different; {first} and {second} are equal",
                first=f"[{first}]",
                second=f"[{position}]",
            )
            return Problem(path, "value", equal)
    return Problem(path, "value", phrase("items must all be different"))


def _ruled_out(path: Path, limit: Any, value: Any) -> Problem:
    ruled = mapping(limit)
    if choices := choices_of(ruled, {}):
        forms = or_list([show(one) for one in choices[:SHOWN]])
        return Problem(path, "value", phrase("must not be {forms}", forms=forms))
    if set(ruled) == {"required"} and isinstance(value, dict):
        fields = joined(" together with ", [f"`{one}`" for one in ruled["required"]])
        return Problem(path, "value", phrase("must not have {fields}", fields=fields))
    return against_rule(path, "value", phrase("has a form that is ruled out here"), value)


TOO_HARD = phrase("takes too long to match against the schema's pattern. Send a shorter or simpler text")

_WORDS: dict[str, Callable[[Path, Any, Any], Problem]] = {
    "type": lambda path, limit, value: _unexpected(path, "type", or_list(_types(limit)), value, _types(limit)),
    "enum": wrong_choice,
    "const": lambda path, limit, value: wrong_choice(path, [limit], value),
    "minimum": _bound(lambda bound: phrase("at least {ge}", ge=bound)),
    "maximum": _bound(lambda bound: phrase("at most {le}", le=bound)),
    "exclusiveMinimum": _bound(lambda bound: phrase("more than {gt}", gt=bound)),
    "exclusiveMaximum": _bound(lambda bound: phrase("less than {lt}", lt=bound)),
    "multipleOf": _bound(lambda bound: phrase("a multiple of {multiple_of}", multiple_of=bound)),
    "minLength": _size("character", least=True),
    "maxLength": _size("character", least=False),
    "minItems": _size("item", least=True),
    "maxItems": _size("item", least=False),
    "additionalItems": _size("item", least=False),
    "minProperties": _size("field", least=True),
    "maxProperties": _size("field", least=False),
    "uniqueItems": _twins,
    "pattern": lambda path, limit, value: against_rule(
        path, "format", phrase("must match {pattern}", pattern=show(limit, 200)), value
    ),
    "format": _form("format", example_of),
    "contentEncoding": _form("format", lambda encoding: phrase("{encoding} text", encoding=encoding)),
    "contentMediaType": lambda path, limit, value: against_rule(
        path, "format", phrase("must hold text of the type {type}", type=limit), value
    ),
    "unevaluatedItems": lambda path, limit, value: Problem(
        path,
        "length",
        phrase("items not allowed: {items}", items=", ".join(cut(str(one), 60) for one in limit[:SHOWN])),
    ),
    "contains": lambda path, limit, value: Problem(
        path, "value", phrase("too few or too many of its items are of the kind it must contain")
    ),
    "not": _ruled_out,
}
_WITHOUT_LIMIT = ("uniqueItems", "contains")


@lru_cache(maxsize=256)
def _matcher(pattern: str) -> Callable[[Any], bool] | None:
    """A function that matches text in linear time; None for patterns that need more."""
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern)).isinstance_python
    except SchemaError:
        return None


def _may_match(pattern: str, text: str) -> bool:
    matcher = _matcher(pattern)
    return matcher is None or matcher(text)


def _breaks(rule: str, limit: Any, value: Any) -> bool:
    try:
        return rule in _BROKEN and _BROKEN[rule](limit, value)
    except (TypeError, ValueError, ZeroDivisionError):  # the author of a type may write any schema for it
        return False


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _same(one: Any, other: Any) -> bool:
    return one == other and isinstance(one, bool) is isinstance(other, bool)


_BROKEN: dict[str, Callable[[Any, Any], bool]] = {
    "enum": lambda limit, value: value not in limit or not any(_same(one, value) for one in limit),
    "const": lambda limit, value: not _same(limit, value),
    "minimum": lambda limit, value: _is_number(value) and value < limit,
    "maximum": lambda limit, value: _is_number(value) and value > limit,
    "exclusiveMinimum": lambda limit, value: _is_number(value) and value <= limit,
    "exclusiveMaximum": lambda limit, value: _is_number(value) and value >= limit,
    "multipleOf": lambda limit, value: isinstance(value, int) and isinstance(limit, int) and value % limit != 0,
    "minLength": lambda limit, value: isinstance(value, str) and len(value) < limit,
    "maxLength": lambda limit, value: isinstance(value, str) and len(value) > limit,
    "minItems": lambda limit, value: isinstance(value, list) and len(cast("list[Any]", value)) < limit,
    "maxItems": lambda limit, value: isinstance(value, list) and len(cast("list[Any]", value)) > limit,
    "minProperties": lambda limit, value: isinstance(value, dict) and len(cast("list[Any]", value)) < limit,
    "maxProperties": lambda limit, value: isinstance(value, dict) and len(cast("list[Any]", value)) > limit,
    "pattern": lambda limit, value: isinstance(value, str) and not _may_match(limit, value),
}
