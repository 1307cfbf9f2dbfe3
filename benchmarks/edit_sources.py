"""Real changes to real files: from git histories, and from releases of published packages."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
import urllib.request
import zipfile
from typing import TYPE_CHECKING
from urllib.parse import urljoin

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Change = tuple[str, bytes, bytes]
_LARGEST = 120_000
_SKIPPED = (".min.js", ".min.css", ".map", ".lock", "-lock.json", ".svg", ".po", "PKG-INFO", "SOURCES.txt")


def git_changes(repository: Path, most: int = 400) -> Iterator[Change]:
    """Modified files of the newest commits, as they were before and after."""
    log = _git(repository, "log", "--no-merges", f"--max-count={most}", "--format=%H").decode().split()
    for commit in log:
        listed = _git(
            repository, "diff-tree", "-r", "--no-commit-id", "--diff-filter=M", "--raw", "--no-abbrev", commit
        )
        for row in listed.decode(errors="replace").splitlines():
            meta, _, path = row.partition("\t")
            _, _, before, after, _ = meta.split()
            if not path.endswith(_SKIPPED):
                yield path, _git(repository, "cat-file", "blob", before), _git(repository, "cat-file", "blob", after)


def pypi_changes(name: str, cache: Path, apart: int = 1) -> Iterator[Change]:
    """Files that differ between two source releases of a Python package."""
    with urllib.request.urlopen(f"https://pypi.org/pypi/{name}/json", timeout=60) as answer:
        releases = json.load(answer)["releases"]
    dated: list[tuple[str, str]] = []
    for files in releases.values():
        for file in files:
            if file["packagetype"] == "sdist" and not file["yanked"]:
                # A mirror may give addresses relative to its index.
                dated.append((file["upload_time"], urljoin(f"https://pypi.org/simple/{name}/", file["url"])))
    yield from _between_releases(name, [url for _, url in sorted(dated)], cache, apart)


def npm_changes(name: str, cache: Path, apart: int = 1) -> Iterator[Change]:
    """Files that differ between two releases of an npm package."""
    with urllib.request.urlopen(f"https://registry.npmjs.org/{name}", timeout=60) as answer:
        about = json.load(answer)
    stable = sorted((about["time"][version], version) for version in about["versions"] if "-" not in version)
    urls = [about["versions"][version]["dist"]["tarball"] for _, version in stable]
    yield from _between_releases(name, urls, cache, apart)


def _between_releases(name: str, urls: list[str], cache: Path, apart: int) -> Iterator[Change]:
    """Files that differ between the newest release and an earlier one; addresses are in order of time."""
    if len(urls) < 2:
        print(f"{name} has no two releases with sources to compare.", file=sys.stderr)
        return
    yield from _between(_archive(urls[max(len(urls) - 1 - apart, 0)], cache), _archive(urls[-1], cache))


def _archive(url: str, cache: Path) -> dict[str, bytes]:
    kept = cache / url.rpartition("/")[2]
    if not kept.exists():
        with urllib.request.urlopen(url, timeout=180) as answer:
            kept.write_bytes(answer.read())
    data = kept.read_bytes()
    if url.endswith(".zip"):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return {_inner(name): archive.read(name) for name in archive.namelist() if not name.endswith("/")}
    files: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for member in archive:
            opened = archive.extractfile(member) if member.isfile() else None
            if opened is not None:
                files[_inner(member.name)] = opened.read()
    return files


def _inner(name: str) -> str:
    return name.partition("/")[2]


def _between(before: dict[str, bytes], after: dict[str, bytes]) -> Iterator[Change]:
    for path in sorted(before.keys() & after.keys()):
        sizes = len(before[path]), len(after[path])
        if before[path] != after[path] and max(sizes) <= _LARGEST and not path.endswith(_SKIPPED):
            yield path, before[path], after[path]


def _git(repository: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", "-C", str(repository), *arguments], check=True, capture_output=True).stdout
