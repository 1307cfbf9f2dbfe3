import json
from pathlib import Path
from typing import Annotated

import pytest
from inline_snapshot import snapshot
from pydantic import Field

from ferrule import Registry, tool
from ferrule.testing import assert_definitions, definitions_snapshot


@tool(kind="readonly")
def search_notes(words: str, most: Annotated[int, Field(ge=1, description="How many at most")] = 10) -> list[str]:
    """Search the notes.

    Use it before asking the person.
    """
    return [words] * most


@tool(kind="write", dangerous=True)
def delete_notes() -> None:
    """Delete every note."""


def test_the_neutral_form_holds_everything_that_is_declared():
    assert definitions_snapshot([search_notes, delete_notes], "neutral") == snapshot("""\
[
  {
    "name": "delete_notes",
    "version": "1.0.0",
    "kind": "write",
    "flags": [
      "dangerous",
      "requires_permission"
    ],
    "description": "Delete every note.",
    "input_schema": {
      "additionalProperties": false,
      "properties": {},
      "type": "object"
    },
    "output_schema": null
  },
  {
    "name": "search_notes",
    "version": "1.0.0",
    "kind": "readonly",
    "flags": [
      "read_only",
      "concurrency_safe"
    ],
    "description": "Search the notes.\\n\\nUse it before asking the person.",
    "input_schema": {
      "additionalProperties": false,
      "properties": {
        "words": {
          "type": "string"
        },
        "most": {
          "default": 10,
          "description": "How many at most",
          "minimum": 1,
          "type": "integer"
        }
      },
      "required": [
        "words"
      ],
      "type": "object"
    },
    "output_schema": {
      "items": {
        "type": "string"
      },
      "type": "array"
    }
  }
]
""")


def test_order_and_source_do_not_matter():
    one = definitions_snapshot([search_notes, delete_notes], "neutral")
    assert definitions_snapshot(Registry([delete_notes, search_notes]), "neutral") == one


@pytest.mark.parametrize("dialect", ["openai", "openai-responses", "anthropic", "gemini", "mcp"])
def test_every_dialect_has_a_snapshot(dialect: str):
    shown = json.loads(definitions_snapshot([search_notes, delete_notes], dialect))
    assert len(shown) == 2
    assert "How many at most" in json.dumps(shown)


def test_openai_is_what_is_shown_unless_said():
    assert definitions_snapshot([delete_notes]) == snapshot("""\
[
  {
    "type": "function",
    "function": {
      "name": "delete_notes",
      "description": "Delete every note.",
      "parameters": {
        "type": "object",
        "additionalProperties": false,
        "properties": {}
      },
      "strict": false
    }
  }
]
""")


def test_a_changed_definition_fails_with_a_diff(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FERRULE_UPDATE_SNAPSHOTS", raising=False)
    path = Path("tools.json")
    assert_definitions([search_notes], path, "neutral", update=True)
    assert_definitions([search_notes], path, "neutral")

    @tool(kind="readonly", name="search_notes")
    def changed(words: str, most: int = 10) -> list[str]:
        """Search the notes.

        Use it before asking the person.
        """
        return [words] * most

    with pytest.raises(AssertionError) as failure:
        assert_definitions([changed], path, "neutral")
    assert str(failure.value) == snapshot("""\
What models are shown of the tools is not what tools.json says.
--- tools.json
+++ now
@@ -16,8 +16,6 @@
         },
         "most": {
           "default": 10,
-          "description": "How many at most",
-          "minimum": 1,
           "type": "integer"
         }
       },
If that is meant, run the test with FERRULE_UPDATE_SNAPSHOTS=1 and commit the file.\
""")


def test_a_missing_file_says_how_to_write_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "new" / "tools.json"
    monkeypatch.setenv("FERRULE_UPDATE_SNAPSHOTS", "0")
    with pytest.raises(AssertionError, match=r"There is no snapshot .* FERRULE_UPDATE_SNAPSHOTS=1"):
        assert_definitions([search_notes], path, "neutral")
    monkeypatch.setenv("FERRULE_UPDATE_SNAPSHOTS", "1")
    assert_definitions([search_notes], path, "neutral")
    monkeypatch.delenv("FERRULE_UPDATE_SNAPSHOTS")
    assert_definitions([search_notes], path, "neutral")


def test_update_said_outright_comes_before_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FERRULE_UPDATE_SNAPSHOTS", "1")
    with pytest.raises(AssertionError, match="There is no snapshot"):
        assert_definitions([search_notes], tmp_path / "tools.json", "neutral", update=False)


def test_a_long_diff_is_cut(tmp_path: Path):
    path = tmp_path / "tools.json"
    assert_definitions([], path, "neutral", update=True)
    many = [tool(search_notes.function, name=f"search_{number}") for number in range(50)]
    with pytest.raises(AssertionError, match=r"… and \d+ lines more"):
        assert_definitions(many, path, "neutral", update=False)
