"""Names as they are shown."""

from __future__ import annotations

from ferrule.workspace.names import about_names, decoded, one_line


def test_ordinary_names_stay_as_they_are() -> None:
    for name in ("a.txt", "a b", "名", "-dash", "é", "«x»", "a\u00a0b"):
        assert one_line(name) == name


def test_a_name_never_breaks_its_line() -> None:
    assert one_line("a\nb") == '"a\\nb"'
    assert one_line("a\x1b[31mb") == '"a\\u001b[31mb"'
    assert "\u2028" not in one_line("\u2028").strip('"') or len(one_line("\u2028").splitlines()) >= 1


def test_bytes_that_are_no_text_are_said() -> None:
    name = decoded(b"caf\xe9.txt")
    assert name == "caf\ufffd.txt"
    assert about_names([name, "x"]) == ["1 name is not UTF-8: � stands for the bytes that cannot be shown."]
    assert about_names(["x"]) == []
