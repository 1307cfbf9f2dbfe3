"""provisional"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

from ferrule.process.profile import LayerMount
from ferrule.workspace.layers.reading import Layer, read_layers


class SessionLayer:
    def __init__(self, folder, roots, ignored):
        self._folder, self._roots, self._ignored = folder, roots, ignored
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._own = Path(tempfile.mkdtemp(prefix="session-", dir=folder))

    def begin(self):
        made = []
        for root in self._roots:
            here = Path(tempfile.mkdtemp(prefix="box-", dir=self._own))
            for name in ("upper", "work"):
                (here / name).mkdir()
            (here / "upper").chmod(root.stat().st_mode & 0o7777)
            made.append(LayerMount(root, here / "upper", here / "work"))
        self._began = time.time_ns()
        return tuple(made)

    def layers(self, mounts):
        return tuple(Layer(one.root, one.upper, one.below, self._began) for one in mounts)

    def read(self, paths, layers):
        return read_layers(paths, layers, ignore=self._ignored != "ask")

    def keep(self, found):
        pass

    def drop(self, mounts):
        for one in mounts:
            shutil.rmtree(one.upper.parent, ignore_errors=True)

    def close(self):
        shutil.rmtree(self._own, ignore_errors=True)
