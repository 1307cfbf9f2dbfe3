"""From a file's bytes to its bytes after an edit: found in the text, written in the file's own encoding, or refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from ferrule.workspace.edits.edit_problems import EditProblem, nul
from ferrule.workspace.edits.edit_spans import apply_spans
from ferrule.workspace.edits.notebook_edit import is_notebook, require_notebook, told_as_json
from ferrule.workspace.texts.same_encoding import require_sure_encoding
from ferrule.workspace.texts.text import Edit, splice

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferrule.workspace.edits.edit_spans import Span
    from ferrule.workspace.texts.text import Text


class _Found(Protocol):
    @property
    def spans(self) -> list[Span]: ...


F = TypeVar("F", bound=_Found)


def edited_bytes(name: str, data: bytes, text: Text, find: Callable[[str], F]) -> tuple[F, bytes]:
    """What `find` finds in the text of a file, and the bytes of the file with that replaced, and no other changed."""
    notebook = is_notebook(name, text.text)
    try:
        found = find(text.text)
    except EditProblem as problem:
        raise (told_as_json(problem) if notebook else problem) from None
    if notebook:
        require_notebook(apply_spans(text.text, found.spans))
    new = "".join(span.replacement for span in found.spans)
    if "\0" in new:
        raise nul()  # it would be a binary file
    require_sure_encoding(data, text, new)
    return found, splice(data, text, [Edit(span.start, span.end, span.replacement) for span in found.spans])
