"""What a tool needs beyond `ferrule` itself: files of the workspace, changes that can be undone, secrets, messages.

Ferrule's own toolbox is written with this and the public modules alone, so a plugin can do all that it does. Everything
here is imported when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferrule._lazy import lazy_names

if TYPE_CHECKING:
    from ferrule.core.context import Cancellation
    from ferrule.core.errors import MissingExtraError
    from ferrule.core.files import lock, locked, take_place, write_atomically, write_new
    from ferrule.core.http_fetch import PACKED, Fetched, FetchError, fetch, is_local, read_body
    from ferrule.core.json_lines import LineReader, TooLong
    from ferrule.core.nearest import nearest
    from ferrule.core.phrases import advice, joined, phrase, said_by
    from ferrule.core.result import note_lines, noted
    from ferrule.core.schema_params import SchemaParams, is_quick
    from ferrule.core.schemas import NOWHERE, pointed
    from ferrule.core.secrets import is_secret_name
    from ferrule.core.shown_text import controls_in, cut, cut_counted, flattened, hidden_in, visible, without_hidden
    from ferrule.core.standard_streams import give_back_stdout, take_stdout
    from ferrule.dialects.inline import inline
    from ferrule.process.landlock import confine_process
    from ferrule.process.owned_folders import OwnedFolder
    from ferrule.process.references import MissingValueError, Template, Variables
    from ferrule.workspace.changing import SECONDS_TO_CHANGE, change_file, origin_of, plan_change, require_text
    from ferrule.workspace.confined import read_given
    from ferrule.workspace.data_folder import data_folder, read_json, write_json
    from ferrule.workspace.files import MOST_EDITABLE, files_of, opens_file, touching
    from ferrule.workspace.names import amount, one_line
    from ferrule.workspace.paths import Paths, Place
    from ferrule.workspace.problems import PathError
    from ferrule.workspace.session_history import SessionHistory
    from ferrule.workspace.snapshots.changes import NO_FILE, Delete, Move, Write
    from ferrule.workspace.texts.diff import diff_file
    from ferrule.workspace.texts.text import Edit, Text, apply_edits, decode, encode_new, lines_of, splice
    from ferrule.workspace.tracker import digest

__all__ = [
    "MOST_EDITABLE", "NOWHERE", "NO_FILE", "PACKED", "SECONDS_TO_CHANGE", "Cancellation", "Delete", "Edit",
    "FetchError", "Fetched", "LineReader", "MissingExtraError", "MissingValueError", "Move", "OwnedFolder",
    "PathError", "Paths", "Place", "SchemaParams", "SessionHistory", "Template", "Text", "TooLong", "Variables",
    "Write", "advice", "amount", "apply_edits", "change_file", "confine_process", "controls_in", "cut",
    "cut_counted", "data_folder", "decode", "diff_file", "digest", "encode_new", "fetch", "files_of", "flattened",
    "give_back_stdout", "hidden_in", "inline", "is_local", "is_quick", "is_secret_name", "joined", "lines_of",
    "lock", "locked", "nearest", "note_lines", "noted", "one_line", "opens_file", "origin_of", "phrase",
    "plan_change", "pointed", "read_body", "read_given", "read_json", "require_text", "said_by", "splice",
    "take_place", "take_stdout", "touching", "visible", "without_hidden", "write_atomically", "write_json",
    "write_new",
]  # fmt: skip

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "core.context": ("Cancellation",),
        "core.errors": ("MissingExtraError",),
        "core.files": ("lock", "locked", "take_place", "write_atomically", "write_new"),
        "core.http_fetch": ("PACKED", "FetchError", "Fetched", "fetch", "is_local", "read_body"),
        "core.json_lines": ("LineReader", "TooLong"),
        "core.nearest": ("nearest",),
        "core.phrases": ("advice", "joined", "phrase", "said_by"),
        "core.result": ("note_lines", "noted"),
        "core.schema_params": ("SchemaParams", "is_quick"),
        "core.schemas": ("NOWHERE", "pointed"),
        "core.secrets": ("is_secret_name",),
        "core.shown_text": ("controls_in", "cut", "cut_counted", "flattened", "hidden_in", "visible", "without_hidden"),
        "core.standard_streams": ("give_back_stdout", "take_stdout"),
        "dialects.inline": ("inline",),
        "process.landlock": ("confine_process",),
        "process.owned_folders": ("OwnedFolder",),
        "process.references": ("MissingValueError", "Template", "Variables"),
        "workspace.changing": ("SECONDS_TO_CHANGE", "change_file", "origin_of", "plan_change", "require_text"),
        "workspace.confined": ("read_given",),
        "workspace.data_folder": ("data_folder", "read_json", "write_json"),
        "workspace.files": ("MOST_EDITABLE", "files_of", "opens_file", "touching"),
        "workspace.names": ("amount", "one_line"),
        "workspace.paths": ("Paths", "Place"),
        "workspace.problems": ("PathError",),
        "workspace.session_history": ("SessionHistory",),
        "workspace.snapshots.changes": ("NO_FILE", "Delete", "Move", "Write"),
        "workspace.texts.diff": ("diff_file",),
        "workspace.texts.text": ("Edit", "Text", "apply_edits", "decode", "encode_new", "lines_of", "splice"),
        "workspace.tracker": ("digest",),
    },
)
