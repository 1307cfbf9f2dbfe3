"""The folders a command may write in."""

from __future__ import annotations

from pathlib import Path

import pytest

from ferrule.process.sandbox.bubblewrap import below, writable_roots
from ferrule.process.sandbox.denials import SandboxRefused


def test_real_and_outer_ones_first(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "link").symlink_to("a")
    roots = writable_roots([tmp_path / "a/b", tmp_path / "link", tmp_path / "a"], "/usr/bin/bwrap")
    assert roots == [str((tmp_path / "a").resolve()), str((tmp_path / "a/b").resolve())]


@pytest.mark.parametrize("folder", ["/", "/usr", "/etc", "/proc", "/dev"])
def test_the_system_is_not_to_be_made_writable(folder: str) -> None:
    with pytest.raises(SandboxRefused, match="contains the system itself"):
        writable_roots([Path(folder)], "/x/bwrap")


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SandboxRefused, match="There is no folder"):
        writable_roots([tmp_path / "none"], "/usr/bin/bwrap")


def test_names_below_a_root_keep_their_last_link(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    (root / "real").mkdir()
    (root / "way").symlink_to("real")
    (root / "real/.env").symlink_to("/etc/passwd")
    assert below(str(root), [root / "way/.env", root / "absent/x", Path("/elsewhere")]) == {"real/.env", "absent/x"}
