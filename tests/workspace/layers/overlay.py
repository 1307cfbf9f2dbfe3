"""Real layers: a command in a mount namespace of its own, with an overlay over its workspace."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from ferrule.workspace.layers.reading import Layer, LayerChange, LayerChanges, read_layers
from ferrule.workspace.paths import Paths

_START = """
import ctypes, os, sys
root, upper, work, below, command = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
uid, gid = os.getuid(), os.getgid()
def check(result):
    if result:
        sys.exit(os.strerror(ctypes.get_errno()))
check(libc.unshare(0x00020000 | (0x10000000 if uid else 0)))
if uid:
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
check(libc.mount(b"none", b"/", None, 0x44000, None))
lower = ":".join([*filter(None, below.split(":")), root])
options = f"lowerdir={lower},upperdir={upper},workdir={work}" + (",userxattr" if uid else "")
check(libc.mount(b"overlay", os.fsencode(root), b"overlay", 0, os.fsencode(options)))
os.chdir(root)
os.execvp("bash", ["bash", "-c", command])
"""


# An ordinary user may not reach root's own Python; any other will do.
_PYTHON = sys.executable if os.access(sys.executable, os.X_OK) else shutil.which("python3", path=os.defpath)


def python(code: str, *arguments: str | Path) -> subprocess.Popen[str]:
    """Another process of this very product, for tests that kill it."""
    command = [_PYTHON or "python3", "-c", code, *arguments]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def run_above(layer: Layer, command: str) -> None:
    """Run a bash command with the layer above its root; nothing of it reaches the root itself."""
    layer.work.mkdir(exist_ok=True)
    below = ":".join(map(str, layer.below))
    ran = subprocess.run(
        [_PYTHON or "python3", "-I", "-S", "-c", _START, layer.root, layer.upper, layer.work, below, command],
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], "HOME": "/nowhere", "LC_ALL": "C.UTF-8"},
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


def new_layer(root: Path, *, below: tuple[Path, ...] = ()) -> Layer:
    """A layer with nothing in it."""
    number = len(list(root.parent.glob("layer*")))
    upper = root.parent / f"layer{number}" / "upper"
    upper.mkdir(parents=True)
    upper.chmod(stat.S_IMODE(root.stat().st_mode))
    return Layer(root, upper, below, upper.stat().st_ctime_ns)


def tried(root: Path, command: str, paths: Paths | None = None) -> LayerChanges:
    """What a command would do to a workspace."""
    layer = new_layer(root)
    run_above(layer, command)
    return read_layers(paths or Paths([root]), [layer])


def put(root: Path, files: Mapping[str, str]) -> None:
    """Make files, the folders on the way included."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def told(changes: list[LayerChange]) -> list[str]:
    """Changes in short: `+` made, `-` removed, `~` changed."""
    sign = {(False, True): "+", (True, False): "-", (True, True): "~"}
    return [f"{sign[one.before is not None, one.after is not None]}{one.inner or '.'}" for one in changes]


Tree = dict[str, tuple[int, bytes | str | None]]


def tree(root: Path) -> Tree:
    """Everything below a folder: modes, contents, and where links lead. What nobody may read is opened meanwhile."""
    found: Tree = {".": (stat.S_IMODE(root.stat().st_mode), None)}
    waiting = [root]
    closed: list[tuple[Path, int]] = []
    while waiting:
        for path in waiting.pop().iterdir():
            kind, mode = path.lstat().st_mode, stat.S_IMODE(path.lstat().st_mode)
            needed = 0o500 if stat.S_ISDIR(kind) else 0o400
            if not stat.S_ISLNK(kind) and mode & needed != needed:
                closed.append((path, mode))
                path.chmod(0o700)
            content = str(path.readlink()) if stat.S_ISLNK(kind) else path.read_bytes() if stat.S_ISREG(kind) else None
            found[str(path.relative_to(root))] = mode, content
            if stat.S_ISDIR(kind):
                waiting.append(path)
    for path, mode in reversed(closed):
        path.chmod(mode)
    return found
