"""What a layer changed inside git directories, as git would say it, and which of those files that explains.

Such a file is not listed one by one if it cannot do anything by itself, and what is in it has been checked: an object
with the content that its name says, a ref that holds an object id. Everything else is listed like any other file.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from ferrule.core.phrases import phrase
from ferrule.workspace.git import UnreadableIndex, parse_index
from ferrule.workspace.git_changes import git_changes
from ferrule.workspace.git_folders import loose_kind, packed_objects
from ferrule.workspace.git_state import INVALID, names_in, ref_value, state_files, state_of, tells_state
from ferrule.workspace.layers.reading import opened_after, opened_before, pieces
from ferrule.workspace.names import one_line
from ferrule.workspace.snapshots.changes import Node
from ferrule.workspace.snapshots.git_record import is_passing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from ferrule.core.phrases import Phrase
    from ferrule.workspace.layers.reading import Layer, LayerChange
    from ferrule.workspace.snapshots.tree_store import Seen

_MOST_CHECKED, _MOST_PACKED, _LARGEST, _LARGEST_TREE = 256 << 20, 16 << 20, 64 << 20, 16 << 20
_MOST_LISTED = _LARGEST // 28  # objects, of which the list of a pack has 28 bytes each
_LARGEST_MESSAGE = 1 << 20
_UNUSUAL = 0o7113
"""Permission bits that git gives to none of these files."""
_ID = r"[0-9a-f]{40}(?:[0-9a-f]{24})?"
_LOOSE = re.compile(r"objects/([0-9a-f]{2}/[0-9a-f]{38}(?:[0-9a-f]{24})?)")
_PACK = re.compile(rf"objects/pack/pack-{_ID}\.(?:pack|idx)")
_OWN = re.compile(r"worktrees/[^/]+/")
_FOLDERS = re.compile(r"(?:objects|refs|logs)(?:/.*)?", re.DOTALL)
_MESSAGES = frozenset({"COMMIT_EDITMSG", "MERGE_MSG", "MERGE_MODE", "SQUASH_MSG"})
_CONTENTS = {
    "packed-refs": re.compile(rf"(?:(?:#[^\n]*|\^{_ID}|{_ID} refs/[^\n]+)\n)*"),
    "objects/info/packs": re.compile(rf"(?:(?:P pack-{_ID}\.pack)?\n)*"),
    "FETCH_HEAD": re.compile(rf"(?:{_ID}\t(?:not-for-merge)?\t[^\n]*\n)*"),
    **dict.fromkeys(
        ("ORIG_HEAD", "MERGE_HEAD", "AUTO_MERGE", "CHERRY_PICK_HEAD", "REVERT_HEAD"), re.compile(rf"(?:{_ID}\n)+")
    ),
}
_LOG = re.compile(rf"(?:{_ID} {_ID} [^\n]*> \d+ [+-]\d{{4}}(?:\t[^\n]*)?\n)*")


def git_effects(changes: Sequence[LayerChange]) -> tuple[list[str], set[Path], set[Path]]:
    """What changed in the repositories of a workspace, a line each; the files that these lines explain; and those that
    git removed as the operation they were about is over.
    """
    lines: list[str] = []
    explained: set[Path] = set()
    over: set[Path] = set()
    for (layer, folder), found in _by_repository(changes).items():
        repository = _ChangedRepository(layer, folder, found)
        said = repository.tell()
        top = folder.removesuffix(".git").rstrip("/")
        lines += [phrase("in {folder}: {what}", folder=one_line(top), what=line) if top else line for line in said]
        explained |= repository.explained
        over |= repository.over
    return lines, explained, over


def _by_repository(changes: Sequence[LayerChange]) -> Mapping[tuple[Layer, str], dict[str, LayerChange]]:
    """Changes inside git directories, by the directory's path below its root and then their own below that."""
    known: dict[tuple[Layer, str], str | None] = {}
    found: dict[tuple[Layer, str], dict[str, LayerChange]] = {}

    def repository(layer: Layer, folder: str) -> str | None:
        """The innermost git directory that a folder is or lies in."""
        key = (layer, folder)
        if key not in known:
            above = folder.rpartition("/")[0]
            # Whether git takes it for a repository, before or after.
            is_one = bool(folder) and all(
                any(os.path.lexists(f"{place}/{folder}/{name}") for place in (layer.root, layer.upper))
                for name in ("HEAD", "objects", "refs")
            )
            known[key] = folder if is_one else repository(layer, above) if folder else None
        return known[key]

    for one in changes:
        folder = repository(one.layer, one.inner.rpartition("/")[0])
        if folder is not None:
            found.setdefault((one.layer, folder), {})[one.inner[len(folder) + 1 :]] = one
    return found


class _ChangedRepository:
    """One git directory, the files of which a layer changes."""

    def __init__(self, layer: Layer, folder: str, changes: dict[str, LayerChange]) -> None:
        self._changes = changes
        self._named = ".git" in folder.split("/")
        self._root, self._upper = f"{layer.root}/{folder}", f"{layer.upper}/{folder}"
        self._outside = layer.root
        self._room = _MOST_CHECKED
        new = [one.after.size for name, one in changes.items() if one.after is not None and _PACK.fullmatch(name)]
        self._believed = sum(new) <= _MOST_PACKED  # verifying packs takes as long as making them did
        self._is_safe = True  # whether git may be asked about it
        self._refs_after: Mapping[str, str] = {}
        self.explained: set[Path] = set()
        self.over: set[Path] = set()

    def tell(self) -> list[str]:
        before = state_files(self._root)
        found = dict(before)  # the files that say the state, as they are with the layer
        for name, one in self._changes.items():
            if not tells_state(name):
                continue
            if one.after is None:
                found.pop(name, None)
            elif one.after.node is Node.FILE and not one.special:
                found[name] = _bytes(one, one.after) or b""
            elif not name.startswith("refs/") and "/refs/" not in name:
                found[name] = b""
        old, new = state_of(before), state_of(found)
        self._refs_after = new.refs
        # Giving an operation up moves no branch.
        if any(new.refs.get(name, one) != one for name, one in old.refs.items() if name.startswith("refs/heads/")):
            self.over = {one.path for name, one in self._changes.items() if one.after is None and is_passing(name)}
        lost = self._lost_objects()
        inert = [name for name, one in self._changes.items() if self._is_inert(name, one, lost)]
        packs = [f"{self._upper}/{name}" for name in inert if name.endswith(".pack") and self._changes[name].after]
        index = f"{self._root}/index"
        change = self._changes.get("index")
        index_after = index if change is None else f"{self._upper}/index" if change.after is not None else ""
        said = git_changes(
            self._root,
            old,
            new,
            objects=[f"{self._upper}/objects"],
            index_before=index,
            index_after=index_after,
            outside=[self._outside],
            packs=packs,
            ask=self._is_safe,
        )
        lines = [*said.lines, *self._about_objects(lost, alone=not said.lines)]
        if lines and said.explained:
            self.explained = {self._changes[name].path for name in inert}
        return lines

    # Objects

    def _lost_objects(self) -> set[str]:
        """The ids of objects that the repository had and has no more; a pack's name where its list cannot be read."""
        gone = {_id(name) for name, one in self._changes.items() if one.after is None and _LOOSE.fullmatch(name)}
        for name, one in self._changes.items():
            if one.after is None and _PACK.fullmatch(name) and name.endswith(".idx"):
                listed = packed_objects(f"{self._root}/{name}", _MOST_LISTED)
                gone |= {name} if listed is None else {one.hex() for one in listed}
        if not gone:
            return gone
        for place in (self._upper, self._root):
            for name in names_in(f"{place}/objects/pack"):
                one = self._changes.get(f"objects/pack/{name}")
                if name.endswith(".idx") and (place == self._root if one is None else one.after is not None):
                    there = packed_objects(f"{place}/objects/pack/{name}", _MOST_LISTED) or ()
                    gone.difference_update(one.hex() for one in there)

        def has_loose(name: str) -> bool:
            one = self._changes.get(name)
            return os.path.lexists(f"{self._root}/{name}") if one is None else one.after is not None

        return {one for one in gone if not has_loose(f"objects/{one[:2]}/{one[2:]}")}

    def _about_objects(self, lost: set[str], *, alone: bool) -> Iterator[Phrase]:
        of_objects = [one for name, one in self._changes.items() if _LOOSE.fullmatch(name) or _PACK.fullmatch(name)]
        if lost:
            count = f"{len(lost):,}"
            yield phrase("{count} objects removed", count=count) if len(lost) > 1 else phrase("1 object removed")
        elif alone and any(one.after is None for one in of_objects):
            yield phrase("git repacked its objects; no ref changed")
        elif alone and of_objects:
            yield phrase("git stored objects; no ref changed")

    def _is_verified(self, name: str, one: LayerChange, after: Seen) -> bool:
        """Whether a new object is what its name says, and small enough for git to be asked about it."""
        if self._room < after.size:
            return False
        digest = bytes.fromhex(_id(name))
        kind = loose_kind(f"{self._upper}/{name}", digest, self._room)
        self._room -= after.size
        if kind in (b"commit", b"tree", b"tag") and not loose_kind(f"{self._upper}/{name}", digest, _LARGEST_TREE):
            kind = b""
        self._is_safe = self._is_safe and bool(kind)
        return one.before is None and bool(kind)

    # Files

    def _is_inert(self, name: str, one: LayerChange, lost: set[str]) -> bool:
        """Whether a changed file can do nothing by itself, and holds what git would have written there."""
        before, after = one.before, one.after
        if name == "objects/info/alternates":
            self._is_safe = False
        if one.of_folders:
            return (before is None or after is None) and _FOLDERS.fullmatch(_OWN.sub("", name, count=1)) is not None
        if one.special or any(side is not None and side.node is not Node.FILE for side in (before, after)):
            self._is_safe = self._is_safe and not name.startswith("objects")
            return False
        if after is not None and (after.mode & _UNUSUAL or (before is not None and before.mode != after.mode)):
            return False
        if _LOOSE.fullmatch(name):
            return (
                self._is_verified(name, one, after) if after is not None else self._believed and _id(name) not in lost
            )
        if _PACK.fullmatch(name):
            return self._believed and (before is None if after is not None else not lost)
        own = _OWN.match(name)
        inner = name[own.end() :] if own else name
        if (inner in _MESSAGES and not self._named) or (name == "index" and after is None):
            return False
        return all(self._holds(name, inner, _bytes(one, side)) for side in (before, after) if side is not None) and (
            not inner.startswith("logs/") or self._only_grew(name, one)
        )

    def _holds(self, name: str, inner: str, content: bytes | None) -> bool:
        """Whether a file has the form that git gives to one of its name."""
        if content is None:
            return False
        text = content.decode(errors="surrogateescape")
        if inner == "HEAD" or inner.startswith("refs/"):
            return not inner.endswith(".lock") and ref_value(content) != INVALID
        if inner.startswith("logs/"):
            return _LOG.fullmatch(text) is not None
        if name == "index":
            try:
                parse_index(content)
            except UnreadableIndex:
                return False
            return True
        if inner in _MESSAGES:
            return len(content) <= _LARGEST_MESSAGE and b"\0" not in content
        form = _CONTENTS.get(inner)
        return form is not None and form.fullmatch(text) is not None

    def _only_grew(self, name: str, one: LayerChange) -> bool:
        """Whether nothing was taken out of a log that is still needed; the stashes are compared one by one."""
        if name == "logs/refs/stash":
            return True
        if one.after is None:
            return name.replace("logs/", "", 1) not in self._refs_after
        old = _bytes(one, one.before) if one.before is not None else b""
        return old is not None and (_bytes(one, one.after) or b"").startswith(old)


def _bytes(change: LayerChange, side: Seen) -> bytes | None:
    """The content of a file; None where it is too large or cannot be read."""
    if side.size > _LARGEST:
        return None
    try:
        with (opened_after if side is change.after else opened_before)(change) as opened:
            return b"".join(pieces(opened))
    except OSError:
        return None


def _id(loose: str) -> str:
    return loose.removeprefix("objects/").replace("/", "")
