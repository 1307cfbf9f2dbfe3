"""Modes, limits, statuses, scopes, tenants and keys are declared once; everything else derives from there."""

from __future__ import annotations

import ast
from dataclasses import fields
from typing import TYPE_CHECKING

from tests.structure.test_structure import MODULES, name, parsed, text_of

from ferrule.app.service_settings import LIMITS
from ferrule.client import AsyncClient, Client
from ferrule.core.access import LOOSEST_FIRST, Mode
from ferrule.core.call import Limits
from ferrule.panel.words import MARKS, STATES
from ferrule.service.vocabulary import APPROVAL_STATUSES, SCOPES, STATUSES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

MIGRATIONS = "service/migrations/"
"""A migration is what was true once, and copies on purpose."""


def _lists(tree: ast.Module) -> Iterator[set[str]]:
    """Each thing that lists words: a tuple, list or set, a `Literal[…]`, the body of a class."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
            yield {one.value for one in node.elts if isinstance(one, ast.Constant) and isinstance(one.value, str)}
        elif isinstance(node, ast.ClassDef):
            values = [one.value for one in node.body if isinstance(one, ast.Assign)]
            targets = [one.target for one in node.body if isinstance(one, ast.AnnAssign)]
            named = {one.id for one in targets if isinstance(one, ast.Name)}
            yield named | {str(one.value) for one in values if isinstance(one, ast.Constant)}


def _declared(words: Collection[str], most: int) -> list[str]:
    """The modules that list more than so many of these words in one place; without them in its text, none does."""
    return [
        name(module)
        for module in MODULES
        if not name(module).startswith(MIGRATIONS)
        and sum(word in text_of(module) for word in words) > most
        and any(len(found & set(words)) > most for found in _lists(parsed(module)))
    ]


def test_modes_are_declared_once() -> None:
    own = set(Mode) - {"default", "plan"}  # ordinary words, which other lists have too
    assert _declared(own, 1) == ["core/access.py"]
    assert _declared(set(Mode), 1) == ["cli/tools.py", "core/access.py"], "`tools --mode` takes two of them alone"
    assert sorted(LOOSEST_FIRST) == sorted(Mode)


def test_limits_of_tenants_are_declared_once() -> None:
    assert _declared(LIMITS, 3) == ["app/service_settings.py"]


def test_limits_of_calls_have_their_numbers_once() -> None:
    numbers = {one.name: one.default for one in fields(Limits)}
    again = [
        (name(module), target.id)
        for module in MODULES
        if any(number in text_of(module) for number in numbers)
        for node in ast.walk(parsed(module))
        if isinstance(node, ast.AnnAssign) and isinstance(target := node.target, ast.Name)
        if isinstance(node.value, ast.Constant) and target.id in numbers and node.value.value == numbers[target.id]
    ]
    assert {module for module, limit in again if limit != "timeout"} == {"core/call.py"}


def test_statuses_and_scopes_are_declared_once() -> None:
    assert _declared(STATUSES, 3) == ["service/vocabulary.py"]
    assert _declared(APPROVAL_STATUSES, 3) == ["service/vocabulary.py"]
    assert _declared(SCOPES, 3) == ["service/vocabulary.py"]
    for words in (STATES, MARKS):
        assert {*STATUSES, *APPROVAL_STATUSES} <= set(words), "the panel shows each of them"


def test_tenants_and_keys_are_changed_in_one_place() -> None:
    """The endpoints and the commands do it through `service/directory.py`; a token's user is made in `oidc`."""
    tables = {"tenants", "api_keys", "key_hashes", "roles", "grants", "users"}
    changing = {
        name(module)
        for module in MODULES
        if any(table in text_of(module) for table in tables)
        for node in ast.walk(parsed(module))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("insert", "update", "delete")
        and isinstance(node.args[0] if node.args else None, ast.Name)
        and node.args[0].id in tables  # pyright: ignore[reportAttributeAccessIssue]
    }
    assert changing == {"service/directory.py", "service/oidc.py"}


def test_the_blocking_client_has_no_code_of_its_own() -> None:
    module = next(module for module in MODULES if name(module) == "client.py")
    [blocking] = [one for one in parsed(module).body if isinstance(one, ast.ClassDef) and one.name == "Client"]
    own = {one.name for one in blocking.body if isinstance(one, ast.FunctionDef)}
    assert own == {"__init__", "__enter__", "__exit__"}
    assert {one for one in vars(Client) if one[0] != "_"} == {one for one in vars(AsyncClient) if one[0] != "_"}
