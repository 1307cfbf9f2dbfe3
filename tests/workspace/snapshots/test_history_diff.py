from __future__ import annotations

from ferrule.workspace.snapshots.undo_report import bounded, unified


def test_a_small_difference_far_down() -> None:
    lines = [b"%d\n" % n for n in range(100_000)]
    changed = [*lines[:50_000], b"new\n", *lines[50_000:]]
    assert unified("a", b"".join(lines), b"".join(changed)) == (
        "--- a/a\n+++ b/a\n@@ -49998,6 +49998,7 @@\n 49997\n 49998\n 49999\n+new\n 50000\n 50001\n 50002\n"
    )


def test_what_is_too_much_is_counted() -> None:
    one, two = (b"".join(b"%d\n" % n for n in range(first, first + 9_000)) for first in (0, 9_000))
    assert unified("a", one, two).endswith("… 17,801 more lines of the diff are not shown\n")
    assert unified("a", b"", b"x\n" * 500, most=10).endswith("… 491 more lines of the diff are not shown\n")
    assert "more characters" in unified("a", b"", b"x" * 5000)
    assert "Too large to compare: no file, then 3,000,000 bytes." in unified("a", None, b"x" * 3_000_000)


def test_binary_and_endings() -> None:
    assert unified("a", b"\0", b"\0\0") == "--- a/a\n+++ b/a\nBinary: 1 bytes, then 2 bytes.\n"
    assert unified("a", b"1\r\n", b"1\n") == ("line endings: CRLF -> LF\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1␍␊\n+1\n")
    assert unified("a", b"1", b"2\n") == "--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\n\\ No newline at end of file\n+2\n"
    assert unified("a", b"1", b"1") == ""
    assert unified("a", None, b"") == "--- /dev/null\n+++ b/a\n"


def test_several_in_one_text() -> None:
    assert bounded(["one\n", "two\n"], 100) == "one\ntwo\n"
    assert bounded(["one\n", "x" * 200, "y"], 100) == "one\n… 2 more files that did not fit here.\n"
