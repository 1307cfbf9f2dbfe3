"""`ferrule api`: HTTP APIs in the user's settings."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

from .conftest import Command

DOCUMENT = """\
openapi: 3.0.0
info: {title: Pet Store API}
servers: [{url: https://pets.example.org/v1}]
paths:
  /pets: {get: {operationId: listPets, summary: List the pets}, post: {operationId: addPet}}
  /far: {get: {operationId: far, parameters: [{$ref: other.yaml}]}}
"""


def test_an_api_is_added_listed_and_removed(ferrule: Command, tmp_path: Path) -> None:
    spec = tmp_path / "pets.yaml"
    spec.write_text(DOCUMENT)
    done = ferrule("api", "add", str(spec))
    assert done.code == 0, done.err
    assert done.out == f"pet-store is now in {ferrule.settings}: 2 operations, each a tool.\n"
    assert "`far` cannot be called: it refers to `other.yaml`" in done.err
    table = tomllib.loads(ferrule.settings.read_text())["apis"]["pet-store"]
    assert json.loads(Path(table["spec"]).read_text())["info"] == {"title": "Pet Store API"}
    listed = json.loads(ferrule("api", "list", "--json").out)
    assert listed == [{"name": "pet-store", "operations": 3, "server": "https://pets.example.org/v1", "problem": ""}]
    assert "api__pet-store__listPets" in ferrule("tools", "--json").out
    assert ferrule("api", "remove", "pet-stor").err == (
        f"Error: There is no API `pet-stor` in {ferrule.settings}. Did you mean `pet-store`?\n"
    )
    assert ferrule("api", "remove", "pet-store").code == 0
    assert not Path(table["spec"]).exists()
    assert "apis" not in tomllib.loads(ferrule.settings.read_text())


def test_some_operations_are_chosen(ferrule: Command, tmp_path: Path) -> None:
    spec = tmp_path / "pets.yaml"
    spec.write_text(DOCUMENT)
    done = ferrule(
        "api", "add", str(spec), "--name", "pets", "-o", "GET /pets", "--base-url", "https://test.example.org"
    )
    assert done.out == f"pets is now in {ferrule.settings}: 1 operation, as a tool.\n"
    done = ferrule("api", "add", str(spec), "-o", "listPet")
    assert (done.code, done.out) == (2, "")
    assert "has no operation `listPet`. Did you mean `listPets`?" in done.err


def test_what_cannot_be_added_changes_nothing(ferrule: Command, tmp_path: Path) -> None:
    spec = tmp_path / "pets.yaml"
    spec.write_text(DOCUMENT)
    before = ferrule.settings.read_text() if ferrule.settings.exists() else None
    (tmp_path / "other.json").write_text("{}")
    for arguments, said in (
        ([str(tmp_path / "none.yaml")], "cannot be read"),
        ([str(tmp_path / "other.json")], "neither `openapi` nor `swagger`"),
        ([str(spec), "--name", "A b"], "cannot name an API"),
        ([str(spec), "--credential", "none"], "no credential `none`"),
        (["http://127.0.0.1:9/x.json"], "not on the public internet"),
    ):
        done = ferrule("api", "add", *arguments)
        assert (done.code, done.out) == (2, ""), arguments
        assert said in done.err
    assert (ferrule.settings.read_text() if ferrule.settings.exists() else None) == before
