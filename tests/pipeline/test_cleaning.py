"""P10: what leaves in an error carries no secrets, no paths of this machine and no tracebacks."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot

from ferrule.pipeline.cleaning import clean_exception, clean_text

WORKSPACE = Path("/home/me/shop")


def cleaned(text: str) -> str:
    return clean_text(text, WORKSPACE)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("No file /home/me/shop/src/a.py.", "No file src/a.py."),
        ("In '/home/me/shop'", "In '.'"),
        ("In /home/me/shop/ itself", "In . itself"),
        ("file:///home/me/shop/a.txt", "a.txt"),
        ("/home/me/shop/with space/a.txt", "with space/a.txt"),
    ],
)
def test_paths_inside_the_workspace_become_relative(text: str, expected: str) -> None:
    assert cleaned(text) == expected


def test_a_workspace_with_spaces_and_signs_is_still_recognised() -> None:
    root = Path("/home/me/my (old) shop+")
    assert clean_text("No /home/me/my (old) shop+/src/a b.py", root) == "No src/a b.py"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("open /etc/ferrule/keys.toml failed", "open …/keys.toml failed"),
        ("'/home/me/shop2/x.py'", "'…/x.py'"),
        ("/data/home/me/shop/x.py", "…/x.py"),
        ("path=/srv/tenants/a/db.sqlite", "path=…/db.sqlite"),
        ("error:/srv/tenants/db.sqlite", "error:…/db.sqlite"),
        ("file:///srv/tenants/db.sqlite", "…/db.sqlite"),
        ("/usr/lib/", "…/lib"),
    ],
)
def test_paths_outside_it_lose_their_folders(text: str, expected: str) -> None:
    assert cleaned(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"C:\Users\me\x.txt is gone", "…/x.txt is gone"),
        (r"C:\Users\my name\x.txt", "…/x.txt"),
        (r"'C:\\Users\\me\\x.txt'", "'…/x.txt'"),
        ("C:/Users/me/x.txt", "…/x.txt"),
        (r"\\server\share\me\x.txt", "…/x.txt"),
    ],
)
def test_windows_paths_lose_their_folders_too(text: str, expected: str) -> None:
    assert cleaned(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "GET https://example.org/a/b/c?x=1 gave 404",
        "http://localhost:8080/api/v1/users",
        "see docs/guide/start.md and ./src/app/main.py",
        "5 km/h, and/or, 1/2",
        "~/notes/today.md",
        "a/b/c",
    ],
)
def test_urls_and_relative_paths_are_left_alone(text: str) -> None:
    assert cleaned(text) == text


def test_a_traceback_is_stripped_to_its_last_line() -> None:
    text = (
        "Worker died.\n"
        "Traceback (most recent call last):\n"
        '  File "/home/me/shop/app.py", line 3, in go\n'
        "    secret = load()\n"
        "KeyError: 'colour'\n"
    )
    assert cleaned(text) == snapshot("Worker died. KeyError: 'colour'")


def test_a_traceback_without_an_end_leaves_what_stood_before_it() -> None:
    assert cleaned('It broke.\nTraceback (most recent call last):\n  File "x.py", line 1') == "It broke."


def test_an_exception_is_its_type_and_its_message() -> None:
    assert clean_exception(ValueError("no such colour")) == "ValueError: no such colour"
    assert clean_exception(ValueError()) == "ValueError"


def test_an_exception_whose_text_fails_still_has_a_type() -> None:
    class Sulky(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

    assert clean_exception(Sulky()) == "Sulky"


def test_a_group_tells_what_went_wrong_inside_it() -> None:
    group = ExceptionGroup("two failed", [ValueError("bad /srv/keys/a.pem"), KeyError("x")])
    assert clean_exception(group) == snapshot(
        "ExceptionGroup: two failed (2 sub-exceptions): ValueError: bad …/a.pem; KeyError: 'x'"
    )


def test_the_length_is_bounded() -> None:
    assert len(cleaned("x" * 1_000_000)) == 2000
    assert cleaned("x" * 5000).endswith("…")


names = st.from_regex(r"[a-z][a-z0-9_.+-]{0,8}", fullmatch=True)


@settings(max_examples=60, deadline=None)
@given(folders=st.lists(names, min_size=2, max_size=5), before=st.sampled_from(["", "in ", "'", '"', "=", ": ", "("]))
def test_no_folder_of_an_outside_path_ever_leaves(folders: list[str], before: str) -> None:
    path = PurePosixPath("/zz-outside", *folders)
    text = cleaned(f"{before}{path} failed")
    assert "zz-outside" not in text
    assert text == f"{before}…/{path.name} failed"


@settings(max_examples=60, deadline=None)
@given(st.text())
def test_any_text_can_be_cleaned(text: str) -> None:
    assert len(cleaned(text)) <= 2000


def test_paths_in_an_added_folder_stay_as_a_tool_takes_them() -> None:
    added = [Path("/srv/my data"), Path("/opt/lib")]
    text = "No /srv/my data/a/b.txt, /opt/lib/x or /opt/lib; not /opt/lib2/x/y, /srv/my datum/q/z, /home/me/shop/c.py"
    assert clean_text(text, WORKSPACE, added) == (
        "No /srv/my data/a/b.txt, /opt/lib/x or /opt/lib; not …/y, …/my datum/q/z, c.py"
    )
    assert clean_text("\ue0009_ /opt/lib/x", WORKSPACE, added) == "\ue0009_ /opt/lib/x"


def test_a_workspace_behind_a_link_is_known_by_both_names(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "alias").symlink_to("real")
    text = f"{tmp_path}/alias/a.txt and {tmp_path}/real/b.txt"
    assert clean_text(text, tmp_path / "alias") == "a.txt and b.txt"
