"""OpenAPI documents of version 2.0, 3.0 and 3.1: their operations, and schemas that stand on their own.

Nothing is fetched: a reference that leads out of the document makes the operation that needs it unusable, and says so.
Schemas are written out without references, as deep as is of use to a model; what refers to itself ends in «anything».
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ferrule import ErrorKind, ToolError
from ferrule.extension import NOWHERE, advice, cut, phrase, pointed, visible

if TYPE_CHECKING:
    from ferrule.toolbox.child import ChildAnswer

JsonObject = dict[str, Any]

METHODS = ("get", "head", "post", "put", "patch", "delete", "options")
_MOST_BYTES = 64_000_000
_MOST_NODES = 2_000_000
_DEEPEST = 200
_MOST_STEPS = 32
"""References that lead on to another reference."""
_SCHEMA_NODES = 600
"""Schemas within the schema of one operation, and how deep they go where there would be more."""
_SCHEMA_DEPTHS = (12, 7, 5, 4, 3, 2, 1)
_DESCRIPTION, _PART_DESCRIPTION = 1_500, 300
_MOST_CHOICES = 300


# Reading a document


def read_document(path: Path) -> JsonObject:
    """The document in a file; a `ToolError` says why it cannot be used."""
    try:
        with path.open("rb") as opened:
            data = opened.read(_MOST_BYTES + 1)
    except OSError as error:
        raise _unusable(path.name, phrase("it cannot be read: {why}", why=error.strerror or error)) from None
    return parse_document(data, path.name)


def parse_document(data: bytes, name: str) -> JsonObject:
    """The document in these bytes, JSON or YAML; YAML is read in a child."""
    from pydantic_core import from_json

    if len(data) > _MOST_BYTES:
        raise _unusable(name, phrase("it has more than {most} bytes", most=f"{_MOST_BYTES:,}"))
    data = data.removeprefix(b"\xef\xbb\xbf")
    if not data.lstrip().startswith(b"{"):
        from ferrule.toolbox.child import ChildBounds, in_child

        bounds = ChildBounds(seconds=120.0, memory=4 << 30)
        data = in_child(
            "ferrule.toolbox.openapi:yaml_as_json", {}, what=f"`{name}`", data=data or b" ", bounds=bounds
        ).data
    try:
        document: Any = from_json(data, allow_inf_nan=True)
    except ValueError as error:
        raise _unusable(name, phrase("it is not valid JSON: {why}", why=error)) from None
    if not isinstance(document, dict) or not ("swagger" in document or "openapi" in document):
        raise _unusable(name, phrase("it says neither `openapi` nor `swagger`"))
    found = cast("JsonObject", document)
    version = str(found.get("openapi") or found.get("swagger"))
    if not re.match(r"2\.0|3\.[012](?:\.|$)", version):
        raise _unusable(name, phrase("it is of version {version}; 2.0, 3.0 and 3.1 are known", version=version[:20]))
    return found


def _unusable(name: str, why: str) -> ToolError:
    return ToolError(phrase("`{name}` is not an OpenAPI document that can be used: {why}.", name=name, why=why))


def yaml_as_json(_order: JsonObject, data: bytes = b"") -> ChildAnswer:
    """YAML as JSON, in the child: plain values alone, of bounded depth and number, aliases written out."""
    import yaml

    from ferrule.toolbox.child import ChildAnswer

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        """Knows the values that JSON has; no dates, no `on` and `off`, no times as numbers to the base of 60."""

        yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - PyYAML's own

    for tag, pattern, first in (
        ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
        ("null", r"null|Null|NULL|~|", ["n", "N", "~", ""]),
        ("int", r"[-+]?(?:0|[1-9][0-9]{0,400})", "-+0123456789"),
        ("float", r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
        ("merge", r"<<", "<"),
    ):
        cast("Any", Loader).add_implicit_resolver(
            f"tag:yaml.org,2002:{tag}", re.compile(rf"(?:{pattern})\Z"), list(first)
        )
    try:
        value: Any = yaml.load(data, Loader)  # noqa: S506 - a safe loader
    except yaml.YAMLError as error:
        mark: Any = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1})" if mark is not None else ""
        raise ToolError(
            phrase("It is neither JSON nor YAML: {why}.", why=f"{getattr(error, 'problem', error)}{where}")
        ) from None
    except (ValueError, RecursionError, TypeError) as error:
        raise ToolError(phrase("It is YAML that cannot be read: {why}.", why=error)) from None
    left = [_MOST_NODES]

    def plain(node: Any, depth: int) -> Any:
        left[0] -= 1
        if left[0] < 0 or depth > _DEEPEST:
            raise ToolError(phrase("It holds too much, or is nested too deep, once its aliases are written out."))
        if isinstance(node, dict):
            return {_key(key): plain(inner, depth + 1) for key, inner in cast("dict[Any, Any]", node).items()}
        if isinstance(node, list):
            return [plain(inner, depth + 1) for inner in cast("list[Any]", node)]
        return node if isinstance(node, (str, int, float, bool, type(None))) else str(node)

    return ChildAnswer(None, json.dumps(plain(value, 0)).encode())


def _key(key: object) -> str:
    return key if isinstance(key, str) else json.dumps(key) if isinstance(key, (bool, int, float)) else str(key)


def _object(value: Any) -> JsonObject:
    return cast("JsonObject", value) if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _text(value: Any, most: int = _PART_DESCRIPTION) -> str:
    return cut(visible(value.strip()), most) if isinstance(value, str) else ""


# Operations


@dataclass(slots=True, frozen=True)
class ApiParameter:
    """One value of a request outside its body. `argument` is the name that a model gives it by."""

    name: str
    place: str
    argument: str
    required: bool
    schema: JsonObject
    style: str
    explode: bool
    as_json: bool = False
    reserved: bool = False


@dataclass(slots=True, frozen=True)
class Body:
    """The body of a request. `files` are the fields that are files of the workspace."""

    media_type: str
    argument: str
    required: bool
    schema: JsonObject
    files: frozenset[str] = frozenset()
    encoding: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(slots=True, frozen=True)
class Details:
    """All that is needed to call an operation."""

    base_url: str
    parameters: tuple[ApiParameter, ...]
    body: Body | None
    schema: JsonObject
    gives_files: bool
    """Whether it may answer with something else than text."""


class ApiOperation:
    """One operation of a document. What it takes is worked out when it is asked for."""

    def __init__(
        self, document: OpenApi, name: str, method: str, path: str, item: JsonObject, spec: JsonObject
    ) -> None:
        self.id, self.method, self.path = name, method.upper(), path
        said = _text(spec.get("summary")) or _text(spec.get("description")).partition("\n")[0]
        self.summary = said or f"{self.method} {path}"
        self.deprecated = spec.get("deprecated") is True
        self._document, self._item, self._spec = document, item, spec

    @property
    def description(self) -> str:
        said = _text(self._spec.get("description"), _DESCRIPTION)
        return said if said != self.summary else ""

    @property
    def only_reads(self) -> bool:
        return self.method in ("GET", "HEAD", "OPTIONS")

    @property
    def words(self) -> str:
        """What it is searched by."""
        tags = [one for one in _list(self._spec.get("tags")) if isinstance(one, str)]
        return " ".join([self.id, self.path, self.summary, *tags, self.description])

    @cached_property
    def details(self) -> Details:
        """A `ToolError` says why it cannot be called."""
        return self._document.details(self, self._item, self._spec)


class OpenApi:
    """A document's operations. `base_url` stands in for the servers that the document names."""

    def __init__(self, document: JsonObject, base_url: str = "") -> None:
        self._root = document
        self._base_url = base_url
        self._is_2 = "swagger" in document
        self.title = _text(_object(document.get("info")).get("title"), 100)
        self.problems: list[str] = []
        """Paths that were left out, and why."""
        self.operations = self._operations()

    def _operations(self) -> list[ApiOperation]:
        found: list[ApiOperation] = []
        taken: set[str] = set()
        for path, given in _object(self._root.get("paths")).items():
            try:
                item = _object(self.resolved(given))
            except ToolError as error:
                self.problems.append(f"{path}: {error.message}")
                continue
            for method in METHODS:
                spec = item.get(method)
                if not isinstance(spec, dict) or not path.startswith("/"):
                    continue
                said = cast("JsonObject", spec).get("operationId")
                name = said if isinstance(said, str) and said else f"{method} {path}"
                name = re.sub(r"[^A-Za-z0-9_.-]+", "_", name).strip("_")[:120] or method
                unique, count = name, 2
                while unique in taken:
                    unique, count = f"{name}_{count}", count + 1
                taken.add(unique)
                found.append(ApiOperation(self, unique, method, path, item, cast("JsonObject", spec)))
        return found

    def resolved(self, value: Any) -> Any:
        """What a value stands for: itself, or what its reference leads to. Beside a reference, other keys count too."""
        beside: JsonObject = {}
        for _ in range(_MOST_STEPS):
            if not isinstance(value, dict) or not isinstance(ref := cast("JsonObject", value).get("$ref"), str):
                return {**_object(value), **beside} if beside and isinstance(value, dict) else cast("Any", value)
            beside = {**{key: one for key, one in cast("JsonObject", value).items() if key != "$ref"}, **beside}
            value = self.pointed(ref)
        raise ToolError(phrase("its references lead in a circle"))

    def pointed(self, ref: str) -> Any:
        """What a reference within the document leads to."""
        if not ref.startswith("#"):
            raise ToolError(
                phrase(
                    "it refers to `{ref}`, and nothing is ever fetched; bundle the document into one file",
                    ref=ref[:100],
                )
            )
        here, _ = pointed(ref, self._root)
        if here is NOWHERE:
            raise ToolError(phrase("it refers to `{ref}`, which is not in the document", ref=ref[:100]))
        return here

    # What one operation takes

    def details(self, operation: ApiOperation, item: JsonObject, spec: JsonObject) -> Details:
        try:
            return self._details(operation, item, spec)
        except ToolError as error:
            raise ToolError(
                phrase("The operation `{id}` cannot be called: {why}.", id=operation.id, why=error.message.rstrip(".")),
                kind=ErrorKind.EXECUTION,
                suggestion=error.suggestion
                or advice("Ask the user to correct the API's document.", "Correct the API's document."),
            ) from None

    def _details(self, operation: ApiOperation, item: JsonObject, spec: JsonObject) -> Details:
        raw: dict[tuple[str, str], JsonObject] = {}
        for given in (*_list(item.get("parameters")), *_list(spec.get("parameters"))):
            one = _object(self.resolved(given))
            if isinstance(one.get("name"), str) and isinstance(one.get("in"), str):
                raw[one["in"], one["name"]] = one
        names = _ArgumentNames()
        for name in re.findall(r"\{([^{}]+)\}", operation.path):
            raw.setdefault(("path", name), {"name": name, "in": "path", "type": "string", "schema": {"type": "string"}})
        parameters = [self._parameter(one, names) for key, one in raw.items() if self._is_sent(*key)]
        body = self._body_2(raw, spec, names) if self._is_2 else self._body_3(spec, names)
        properties = {one.argument: one.schema for one in parameters}
        required = [one.argument for one in parameters if one.required]
        if body is not None:
            properties[body.argument] = body.schema
            required += [body.argument] if body.required else []
        schema: JsonObject = {"type": "object", "properties": properties, "additionalProperties": False}
        if required:
            schema["required"] = required
        return Details(self._server(item, spec), tuple(parameters), body, schema, self._gives_files(spec))

    def _is_sent(self, place: str, name: str) -> bool:
        """Whether a parameter is for a model to give: not what the client itself sends, nor a credential."""
        from ferrule.extension import is_secret_name

        if place == "header":
            ours = ("accept", "content-type", "authorization", "host", "content-length", "cookie")
            return name.lower() not in ours and not is_secret_name(name) and (place, name.lower()) not in self._keys
        return place in ("path", "query", "cookie") and (place, name.lower()) not in self._keys

    @cached_property
    def _keys(self) -> set[tuple[str, str]]:
        """Where the document wants credentials to be: those come from the settings."""
        listed = _object(self._root.get("securityDefinitions")) or _object(
            _object(self._root.get("components")).get("securitySchemes")
        )
        schemes = [_object(one) for one in listed.values()]
        return {(str(one.get("in")), str(one.get("name")).lower()) for one in schemes if one.get("type") == "apiKey"}

    def _parameter(self, one: JsonObject, names: _ArgumentNames) -> ApiParameter:
        place, name = one["in"], one["name"]
        style, explode, as_json = str(one.get("style") or ""), one.get("explode"), False
        if self._is_2:
            raw: Any = {
                key: value for key, value in one.items() if key not in ("name", "in", "required", "description")
            }
            form = one.get("collectionFormat") or "csv"
            style = {"ssv": "spaceDelimited", "pipes": "pipeDelimited", "tsv": "tabDelimited"}.get(form, "")
            explode = form == "multi"
        else:
            raw = one.get("schema")
            if raw is None and (content := _object(one.get("content"))):
                as_json, raw = True, _object(self.resolved(next(iter(content.values())))).get("schema")
        style = style or ("form" if place in ("query", "cookie") else "simple")
        schema = self._written_out(raw)
        if said := _text(one.get("description")):
            schema = {**schema, "description": said}
        return ApiParameter(
            name, place, names.taken(name, place), one.get("required") is True or place == "path", schema, style,
            style == "form" if explode is None else explode is True, as_json, one.get("allowReserved") is True,
        )  # fmt: skip

    def _body_3(self, spec: JsonObject, names: _ArgumentNames) -> Body | None:
        given = _object(self.resolved(spec.get("requestBody")))
        content = _object(given.get("content"))
        media_type = _chosen(content)
        if media_type is None:
            return None
        media = _object(self.resolved(content[media_type]))
        plain = media_type.partition(";")[0].strip().lower()
        required = given.get("required") is True
        files, schema = self._files(media.get("schema"), plain)
        for name in files:
            _as_files(_object(schema.get("properties")), name)
        if (said := _text(given.get("description"))) and "description" not in schema:
            schema["description"] = said
        return Body(plain, names.taken("body", "body"), required, schema, files, _object(media.get("encoding")))

    def _files(self, schema: Any, media_type: str) -> tuple[frozenset[str], JsonObject]:
        """The fields that are files, and the schema of the body, which may be one as a whole, or text."""
        if media_type == "multipart/form-data":
            properties = _object(_object(self.resolved(schema)).get("properties"))
            found: set[str] = set()
            for name, given in properties.items():
                one = _object(self.resolved(given))
                inner = _object(self.resolved(one.get("items"))) if one.get("type") == "array" else one
                if inner.get("format") in ("binary", "base64") or "contentMediaType" in inner:
                    found.add(name)
            return frozenset(found), self._written_out(schema)
        if _is_json(media_type) or media_type == "application/x-www-form-urlencoded":
            return frozenset(), self._written_out(schema)
        if media_type.startswith("text/") or media_type.endswith(("xml", "yaml")):
            return frozenset(), {"type": "string", "description": f"The body, as {media_type}."}
        return frozenset({""}), {"type": "string", "description": "A file of the workspace to send."}

    def _body_2(
        self, raw: Mapping[tuple[str, str], JsonObject], spec: JsonObject, names: _ArgumentNames
    ) -> Body | None:
        consumes = [one for one in _list(spec.get("consumes") or self._root.get("consumes")) if isinstance(one, str)]
        whole = next((one for (place, _), one in raw.items() if place == "body"), None)
        if whole is not None:
            media_type = _chosen(dict.fromkeys(consumes)) or "application/json"
            plain = media_type.partition(";")[0].strip().lower()
            files, schema = self._files(whole.get("schema"), plain)
            if said := _text(whole.get("description")):
                schema = {**schema, "description": said}
            return Body(plain, names.taken("body", "body"), whole.get("required") is True, schema, files)
        fields = {name: one for (place, name), one in raw.items() if place == "formData"}
        if not fields:
            return None
        files = frozenset(name for name, one in fields.items() if one.get("type") == "file")
        multipart = bool(files) or "multipart/form-data" in consumes
        schema = self._written_out({"type": "object", "properties": fields})
        for name in files:
            _as_files(_object(schema.get("properties")), name)
        required = [name for name, one in fields.items() if one.get("required") is True]
        if required:
            schema["required"] = required
        kind = "multipart/form-data" if multipart else "application/x-www-form-urlencoded"
        multi = {name: {"explode": one.get("collectionFormat") == "multi"} for name, one in fields.items()}
        return Body(kind, names.taken("body", "body"), bool(required), schema, files, multi)

    def _server(self, item: JsonObject, spec: JsonObject) -> str:
        if self._base_url:
            return self._base_url.rstrip("/")
        if self._is_2:
            host = self._root.get("host")
            if not isinstance(host, str) or not host:
                return ""
            schemes = _list(self._root.get("schemes"))
            scheme = "http" if schemes and "https" not in schemes else "https"
            return f"{scheme}://{host}{self._root.get('basePath') or ''}".rstrip("/")
        for servers in (spec.get("servers"), item.get("servers"), self._root.get("servers")):
            for server in _list(servers)[:1]:
                values = _object(_object(server).get("variables"))
                url = str(_object(server).get("url") or "")
                for name, one in values.items():
                    url = url.replace(f"{{{name}}}", str(_object(one).get("default") or ""))
                if "://" in url:
                    return url.rstrip("/")
        return ""

    def _gives_files(self, spec: JsonObject) -> bool:
        kinds: list[Any] = _list(spec.get("produces") or self._root.get("produces")) if self._is_2 else []
        for status, given in _object(spec.get("responses")).items():
            if status.startswith("2") and not self._is_2:
                kinds += list(_object(_object(self.resolved(given)).get("content")))
        return any(
            isinstance(one, str) and not (_is_json(one) or one.startswith("text/") or "xml" in one or "yaml" in one)
            for one in kinds
        )

    def _written_out(self, schema: Any) -> JsonObject:
        for depth in _SCHEMA_DEPTHS:
            try:
                return _SchemaWriter(self, depth).schema(schema, 0, frozenset())
            except _TooMuch:
                continue
        return {}


class _ArgumentNames:
    """Names of arguments in letters that every provider takes, each once."""

    def __init__(self) -> None:
        self._taken: set[str] = {"save_to"}

    def taken(self, name: str, place: str) -> str:
        short = re.sub(r"[^A-Za-z0-9_.-]+", "_", name).strip("_.-")[:56] or "value"
        found, count = short, 1
        while found in self._taken:
            found, count = (f"{short}_{place}" if count == 1 else f"{short}_{count}"), count + 1
        self._taken.add(found)
        return found


def _is_json(media_type: str) -> bool:
    plain = media_type.partition(";")[0].strip().lower()
    return plain in ("application/json", "text/json", "*/*", "application/*") or plain.endswith("+json")


def _chosen(content: Mapping[str, Any]) -> str | None:
    """The media type that a model fills in best."""
    forms = ("application/x-www-form-urlencoded", "multipart/form-data", "text/plain")
    ranked = [*(one for one in content if _is_json(one)), *(one for one in content if one.startswith(forms)), *content]
    return ranked[0] if ranked else None


def _as_files(properties: JsonObject, name: str) -> None:
    """Have a field name files of the workspace instead of holding their bytes."""
    one = _object(properties.get(name))
    file: JsonObject = {
        "type": "string",
        "description": f"{one.get('description', '')} A file of the workspace.".strip(),
    }
    properties[name] = {"type": "array", "items": file} if one.get("type") == "array" else file


# Schemas


class _TooMuch(Exception):  # noqa: N818 - a finding
    """The schema would grow too large at this depth."""


_TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")


class _SchemaWriter:
    """Writes a schema out: no references, the keywords that a validator knows alone, in the form of Draft 2020-12."""

    def __init__(self, document: OpenApi, depth: int) -> None:
        self._document = document
        self._depth = depth
        self._left = _SCHEMA_NODES

    def schema(self, given: Any, depth: int, within: frozenset[str]) -> JsonObject:
        self._left -= 1
        if self._left < 0:
            raise _TooMuch
        if not isinstance(given, dict):
            return {"not": {}} if given is False else {}
        node = cast("JsonObject", given)
        if isinstance(ref := node.get("$ref"), str):
            if ref in within:
                return {}
            within |= {ref}
            node = _object(self._document.resolved({**node, "$ref": ref}))
        if depth > self._depth:
            return dict(self._head(node))
        return {**dict(self._head(node)), **dict(self._bounds(node)), **dict(self._parts(node, depth + 1, within))}

    def _head(self, node: JsonObject) -> Iterator[tuple[str, Any]]:
        kinds = [one for one in (_list(node.get("type")) or [node.get("type")]) if one in _TYPES]
        if node.get("type") == "file":
            kinds = ["string"]
        if not kinds and ("properties" in node or "items" in node):
            kinds = ["object" if "properties" in node else "array"]
        if kinds and node.get("nullable") is True and "null" not in kinds:
            kinds.append("null")
        if kinds:
            yield "type", kinds[0] if len(kinds) == 1 else list(dict.fromkeys(kinds))
        said = [_text(node.get("description"))]
        if isinstance(default := node.get("default"), (str, int, float)) and len(str(default)) < 60:
            said.append(f"Default: {json.dumps(default, ensure_ascii=False)}.")
        if words := " ".join(one for one in said if one):
            yield "description", words
        choices = _list(node.get("enum"))
        if 0 < len(choices) <= _MOST_CHOICES:
            yield "enum", [*choices, *([None] if "null" in kinds and None not in choices else [])]
        if "const" in node:
            yield "const", node["const"]

    def _bounds(self, node: JsonObject) -> Iterator[tuple[str, Any]]:
        from ferrule.extension import is_quick

        for key in _COUNTS:
            if isinstance(value := node.get(key), (int, float)) and not isinstance(value, bool) and value >= 0:
                yield key, int(value)
        for edge, strict in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
            value, beyond = node.get(edge), node.get(strict)
            if _is_number(value):
                yield (strict if beyond is True else edge), value
            if _is_number(beyond):
                yield strict, beyond
        step: Any = node.get("multipleOf")
        if _is_number(step) and step > 0:
            yield "multipleOf", step
        if node.get("uniqueItems") is True:
            yield "uniqueItems", True
        if isinstance(pattern := node.get("pattern"), str) and is_quick(pattern):
            yield "pattern", pattern
        if isinstance(form := node.get("format"), str) and re.fullmatch(r"[a-z0-9-]{1,30}", form):
            yield "format", form

    def _parts(self, node: JsonObject, depth: int, within: frozenset[str]) -> Iterator[tuple[str, Any]]:
        every = _object(node.get("properties"))
        given = {name: one for name, one in every.items() if _object(one).get("readOnly") is not True}
        if given:
            yield "properties", {name: self.schema(one, depth, within) for name, one in given.items()}
        required = [one for one in _list(node.get("required")) if isinstance(one, str)]
        if required := [one for one in dict.fromkeys(required) if one in given or one not in every]:
            yield "required", required
        if isinstance(items := node.get("items"), (dict, bool)):
            yield "items", self.schema(items, depth, within)
        more = node.get("additionalProperties")
        if isinstance(more, dict):
            yield "additionalProperties", self.schema(more, depth, within)
        elif more is False and "allOf" not in node:
            yield "additionalProperties", False
        if parts := [self.schema(one, depth, within) for one in _list(node.get("allOf"))]:
            for one in parts:
                one.pop("additionalProperties", None)  # each would refuse what the others describe
            yield "allOf", parts
        choices = [one for key in ("anyOf", "oneOf") for one in _list(node.get(key))]
        if choices and len(choices) <= 30:  # several of `oneOf` may fit once their discriminator is gone
            yield "anyOf", [self.schema(one, depth, within) for one in choices]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value and abs(value) < 1e300
