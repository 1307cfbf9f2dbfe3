"""The changes between two looks, in an order that works forward and backward."""

from __future__ import annotations

from ferrule.workspace.snapshots.changes import Node, Operation
from ferrule.workspace.snapshots.tree_store import Known, Seen, difference


def file(digest: str = "d", mode: int = 0o644, size: int = 1, modified: int = 1) -> Known:
    return Known(Seen(Node.FILE, mode, size, modified, 1, 1), digest)


def folder(mode: int = 0o755) -> Known:
    return Known(Seen(Node.FOLDER, mode, 0, 0, 0, 1), "")


def told(before: dict[str, Known], after: dict[str, Known]) -> list[tuple[str, str]]:
    paths = {**before, **after}
    changes = difference({path: before.get(path) for path in paths}, {path: after.get(path) for path in paths})
    return [(str(one.operation), str(one.path)) for one in changes]


def test_nothing_changed_is_no_change():
    assert told({"/a": file(), "/d": folder()}, {"/a": file(), "/d": folder()}) == []


def test_what_is_in_a_folder_goes_before_it_and_comes_after_it():
    tree = {"/d": folder(), "/d/e": folder(), "/d/e/a": file()}
    assert told(tree, {}) == [("delete", "/d/e/a"), ("delete", "/d/e"), ("delete", "/d")]
    assert told({}, tree) == [("create", "/d"), ("create", "/d/e"), ("create", "/d/e/a")]


def test_a_file_in_place_of_a_folder_waits_until_the_folder_is_empty():
    one, two = {"/d": folder(), "/d/a": file()}, {"/d": file()}
    assert told(one, two) == [("delete", "/d/a"), ("delete", "/d"), ("create", "/d")]
    assert told(two, one) == [("delete", "/d"), ("create", "/d"), ("create", "/d/a")]


def test_a_folder_nobody_may_write_to_is_closed_last_and_opened_first():
    assert told({}, {"/d": folder(0o555), "/d/a": file()}) == [("create", "/d"), ("create", "/d/a"), ("mode", "/d")]
    gone = [("mode", "/d"), ("delete", "/d/a"), ("delete", "/d")]
    assert told({"/d": folder(0o555), "/d/a": file()}, {}) == gone


def test_a_mode_alone_needs_no_content():
    (change,) = difference({"/a": file("", 0o644)}, {"/a": file("", 0o600)})
    assert (change.operation, change.covered) == (Operation.MODE, True)


def test_a_file_too_large_to_keep_is_noted_and_not_covered():
    (change,) = difference({"/a": file("", size=1)}, {"/a": file("", size=2)})
    assert (change.operation, change.covered) == (Operation.CHANGE, False)
    (change,) = difference({"/a": file("")}, {"/a": None})
    assert (change.operation, change.covered) == (Operation.DELETE, False)


def test_folders_that_are_not_looked_into_are_named():
    changes = difference({}, {}, appeared={"/node_modules"}, vanished={"/.git"})
    assert [(one.operation, str(one.path), one.covered) for one in changes] == [
        (Operation.DELETE, "/.git", False),
        (Operation.CREATE, "/node_modules", False),
    ]
