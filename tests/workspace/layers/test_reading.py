"""What a command did, read from the layer that it left; each layer is a real one."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.workspace.layers.overlay import new_layer, put, run_above, told, tried

from ferrule.workspace.layers import reading
from ferrule.workspace.layers.reading import is_open_elsewhere, read_layers
from ferrule.workspace.paths import Paths
from ferrule.workspace.problems import PathError


def test_files_are_made_changed_and_removed(root: Path) -> None:
    put(root, {"a": "1\n", "b": "2\n", "d/c": "3\n", "d/e": "4\n"})
    found = tried(root, "echo more >> a; rm b; rm -r d; mkdir d n; echo x > d/new; ln -s a link; echo y > n/f")
    assert told(found.changes) == ["~a", "-b", "-d/c", "-d/e", "+d/new", "+link", "+n", "+n/f"]
    assert (found.ignored, found.noise) == ([], 0)


def test_what_makes_no_difference_is_noise(root: Path) -> None:
    put(root, {"a": "same", "d/b": "other"})
    (root / "link").symlink_to("a")
    found = tried(
        root, "cat a > t; mv t a; touch d/b; touch d; ln -sfn a link; chmod 600 a; chmod 644 a; mkdir x; rmdir x"
    )
    assert told(found.changes) == []
    assert found.noise == 3


def test_modes_are_changes_of_files_folders_and_the_root(root: Path) -> None:
    put(root, {"a": "1", "d/b": "2"})
    found = tried(root, "chmod 755 a; chmod 700 d; chmod 711 .")
    assert told(found.changes) == ["~.", "~a", "~d"]
    assert all(one.mode_alone for one in found.changes)


def test_one_kind_of_thing_takes_the_place_of_another(root: Path) -> None:
    put(root, {"file": "1", "folder/a": "2", "folder/b": "3", "other": "4"})
    found = tried(root, "rm file; mkdir file; rm -r folder; echo > folder; rm other; ln -s folder other")
    assert told(found.changes) == ["~file", "~folder", "-folder/a", "-folder/b", "~other"]


def test_a_folder_that_is_made_again_holds_only_what_was_put_there(root: Path) -> None:
    """The kernel marks the topmost folder alone: those in it hide what the workspace has in them as well."""
    put(root, {"d/in/old": "old", "d/in/deep/old": "old", "d/in/deep/kept": "same"})
    found = tried(root, "rm -r d; mkdir -p d/in/deep; echo new >d/in/new; printf same >d/in/deep/kept")
    assert told(found.changes) == ["-d/in/deep/old", "+d/in/new", "-d/in/old"]


def test_links_are_never_followed(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    put(outside, {"secret": "s"})
    put(root, {"d/a": "1"})
    found = tried(root, f"ln -s {outside} out; rm -r d; ln -s {outside} d; ln -s nowhere lost")
    assert told(found.changes) == ["~d", "-d/a", "+lost", "+out"]
    assert [one.after.target for one in found.changes if one.after] == [str(outside), "nowhere", str(outside)]


def test_a_second_name_of_a_file_is_known(root: Path) -> None:
    put(root, {"a": "1"})
    found = tried(root, "echo 2 > b; ln b c; ln a d")
    assert told(found.changes) == ["+b", "+c", "+d"]
    assert sorted(one.twin for one in found.changes) == ["", "", found.changes[0].twin or "b"]


def test_pipes_and_sockets_are_named(root: Path) -> None:
    put(root, {"a": "1"})
    os.mkfifo(root / "old")
    script = "mkfifo p; rm old; python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"s\")'"
    found = tried(root, script)
    assert [(one.inner, str(one.special)) for one in found.changes] == [
        ("old", "a pipe"),
        ("p", "a pipe"),
        ("s", "a socket"),
    ]


def test_names_may_hold_anything_but_a_slash(root: Path) -> None:
    found = tried(root, r"""touch $'new\nline' $'\xff\xfe' -- -rf ' ' $'\u202e' '*'""")
    assert {os.fsencode(one.inner) for one in found.changes} == {
        b"new\nline", b"\xff\xfe", b"-rf", b" ", "\u202e".encode(), b"*",
    }  # fmt: skip


def test_a_deep_tree_is_read_and_one_too_deep_refused(root: Path) -> None:
    found = tried(root, "for i in {1..300}; do mkdir d; cd d; done; echo > f")
    assert len(found.changes) == 301
    with pytest.raises(PathError, match="too deep"):
        tried(root, "n=$(printf 'x%.0s' {1..200}); for i in {1..40}; do mkdir $n; cd $n; done")


@pytest.mark.parametrize("mark", ["metacopy", "redirect"])
def test_a_layer_in_a_form_that_keeps_content_elsewhere_is_refused(root: Path, mark: str) -> None:
    layer = new_layer(root)
    (layer.upper / "d").mkdir()
    os.close(os.open(layer.upper / "f", os.O_CREAT | os.O_RDWR))
    os.truncate(layer.upper / "f", 5000)
    os.setxattr(layer.upper / ("f" if mark == "metacopy" else "d"), layer.marks + mark, b"")
    with pytest.raises(PathError, match="cannot be read: the kernel keeps it in another form"):
        read_layers(Paths([root]), [layer])


def test_an_empty_file_may_stand_for_something_removed(root: Path) -> None:
    put(root, {"a": "1", "b": "2"})
    layer = new_layer(root)
    put(layer.upper, {"a": "", "b": ""})
    os.setxattr(layer.upper / "a", f"{layer.marks}whiteout", b"")
    assert told(read_layers(Paths([root]), [layer]).changes) == ["-a", "~b"]


def test_a_command_cannot_forge_the_marks_of_the_kernel(root: Path) -> None:
    put(root, {"d/a": "1"})
    forge = "import os; [os.setxattr('d', f'user.overlay.{name}', b'y') for name in ('opaque', 'redirect')]"
    assert told(tried(root, f'touch d; python3 -c "{forge}"; touch d/b').changes) == ["+d/b"]


def test_too_many_files_are_refused_and_counted_across_layers(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_ENTRIES", 10)
    with pytest.raises(PathError, match="more than 10 files"):
        tried(root, "touch {1..11}")
    put(root, {f"d/{number}": "x" for number in range(12)})
    with pytest.raises(PathError, match="more than 10 files"):
        tried(root, "rm -r d")


def test_what_nobody_may_read_is_read_all_the_same(root: Path) -> None:
    put(root, {"a": "1", "k": "2"})
    (root / "k").chmod(0)
    layer = new_layer(root)
    run_above(layer, "mkdir q; echo s > q/s; chmod 0 q; echo t > t; chmod 0 t; chmod 600 k")
    found = read_layers(Paths([root]), [layer])
    assert told(found.changes) == ["~k", "+q", "+q/s", "+t"]
    assert [one.after.mode for one in found.changes if one.after][1] == 0


def test_a_file_that_is_open_elsewhere_is_known_also_when_it_was_closed_to_all(root: Path) -> None:
    """What a command wrote in place is looked at in the layer, whatever mode it gave the file there."""
    put(root, {"f": "old", "g": "old"})
    command = "for one in f g; do exec 3>>$one; chmod 000 $one; echo x >&3; done"
    with (root / "f").open():
        assert [is_open_elsewhere(one) for one in tried(root, command).changes] == [True, False]
