"""How well ReadDocument reads real files: `python benchmarks/documents.py FOLDER`.

Words are compared, as counts, with another reader: Word and PowerPoint with the raw text of their XML, PDF with
`pdftotext`, workbooks cell by cell with openpyxl. A file counts when the word F1 is at least 0.95 (a sheet: when all
cells are equal). A file that neither can read must have an error of its own, never a crash, a hang, or more than 1 GB.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import subprocess
import sys
import unicodedata
import zipfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from _measure import Row, report
from ferrule.core.errors import ToolError
from ferrule.toolbox.child import ChildBounds, in_child

BARS = {"docx": 0.95, "pptx": 0.95, "pdf": 0.90, "xlsx": 0.98}
GOOD = 0.95
_SECONDS = 60.0
_DELETED = re.compile(
    rb"<(w:del|w:moveFrom|mc:Fallback)( [^>]*[^/])?>.*?</\1>|<w:(instrText|delText)[ >].*?</w:\3>"
    rb'|<a:fld [^>]*type="slidenum".*?</a:fld>',  # the number of a slide is no text of it
    re.DOTALL,
)
_TEXT = re.compile(rb"<(?:w|a|m):t(?: [^>]*)?>([^<]*)</(?:w|a|m):t>|<(?:w|a):(?:p|tab|br|cr)[ />]")
_PARTS = {
    "docx": re.compile(r"word/(document\d*|footnotes|endnotes|comments|header\d*|footer\d*)\.xml"),
    "pptx": re.compile(r"ppt/(slides/slide|notesSlides/notesSlide|diagrams/data|charts/chart)\d*\.xml"),
}


def words(text: str) -> Counter[str]:
    return Counter(re.findall(r"\w+", unicodedata.normalize("NFKC", text).casefold()))


def f1(one: Counter[str], other: Counter[str]) -> float:
    if not one and not other:
        return 1.0
    return 2 * (one & other).total() / max(one.total() + other.total(), 1)


def read(path: Path) -> dict[str, Any]:
    """All of a file, through the same child as the tool."""
    order = {"name": path.name, "part": "", "view": "text", "find": "", "offset": 0, "limit": 1 << 40, "most": 1 << 40}
    opened = os.open(path, os.O_RDONLY)
    bounds = ChildBounds(seconds=_SECONDS)
    function = "ferrule.toolbox.documents.reading:read"
    try:
        try:
            return in_child(function, order, what=path.name, files={"file": opened}, bounds=bounds).value
        except ToolError as error:
            if (error.details or {}).get("ended") != "crash" or path.read_bytes()[:2] != b"PK":
                raise
            os.lseek(opened, 0, os.SEEK_SET)
            order["engine"] = "openpyxl"
            return in_child(function, order, what=path.name, files={"file": opened}, bounds=bounds).value
    finally:
        os.close(opened)


def reference(path: Path, kind: str) -> Counter[str] | None:
    """What another reader finds; None where it cannot read the file."""
    if kind == "pdf":
        done = subprocess.run(["pdftotext", path, "-"], capture_output=True, check=False, timeout=_SECONDS)
        text = done.stdout.decode("utf-8", "replace")
        return words(text) if done.returncode == 0 else None
    raw: list[str] = []
    with zipfile.ZipFile(path) as package:
        for name in package.namelist():
            if _PARTS[kind].fullmatch(name):
                data = _DELETED.sub(b"", package.read(name))
                pieces = (hit[1] if hit[1] is not None else b" " for hit in _TEXT.finditer(data))
                raw.append(_unescaped(b"".join(pieces).decode("utf-8", "replace")))
    return words(" ".join(raw))


def _unescaped(text: str) -> str:
    from html import unescape

    return unescape(text)


def of_document(path: Path, kind: str, content: str) -> float | None:
    if kind == "xlsx":
        return _cells(path, content)
    expected = reference(path, kind)
    if expected is None:
        return None
    marks = {"pdf": r"^\[page \d+\]$", "pptx": r"^## Slide \d+( \(hidden\))?:?|^Notes: |^Chart, .*$|^Comment: .*$"}
    found = re.sub(marks.get(kind, r"\[\^-?\d+\]:?|^(Header|Footer): |^## (Footnotes|Endnotes|Comments)$"), "",
                   content, flags=re.MULTILINE)  # fmt: skip
    found = re.sub(r"^\|( --- \|)+$", "", found, flags=re.MULTILINE).replace("<br>", " ").replace("\\|", "|")
    return f1(words(found), expected)


def _cells(path: Path, content: str) -> float | None:
    """The share of openpyxl's cells that stand in the rows of the result."""
    import openpyxl

    from ferrule.toolbox.documents.blocks import cell
    from ferrule.toolbox.documents.sheets import shown

    try:
        book = openpyxl.load_workbook(path, data_only=True)
        wanted: dict[tuple[str, Any, Any], str] = {
            (sheet.title, one.row, one.column): cell(shown(one.value))
            for sheet in book.worksheets
            for line in sheet.iter_rows()
            for one in line
            if one.value not in (None, "")
        }
    except Exception as error:  # noqa: BLE001 - whatever it may be, it cannot read this file
        print(f"  openpyxl: {path.name}: {type(error).__name__}", file=sys.stderr)
        return None
    found: dict[tuple[str, Any, Any], str] = {}
    sheet, left = "", 1
    for line in content.split("\n"):
        if match := re.fullmatch(r"## (.*) \((?:([A-Z]+)\d+(?::[A-Z]+\d+)?|empty)\)", line):
            sheet, left = match[1], _number(match[2] or "A")
        elif line.startswith("| ") and (cells := re.split(r"(?<!\\) \| ", line[2:-2]))[0].isdigit():
            for position, text in enumerate(cells[1:]):
                found[sheet, int(cells[0]), left + position] = text
    wanted = {key: text for key, text in wanted.items() if text}
    if not wanted:
        return 1.0
    return sum(_same(found.get((" ".join(key[0].split()), *key[1:]), ""), text) for key, text in wanted.items()) / len(
        wanted
    )


def _number(letters: str) -> int:
    from ferrule.toolbox.documents.sheets import column_number

    return column_number(letters)


def _same(one: str, other: str) -> bool:
    if one == other:
        return True
    try:
        return abs(float(one) - float(other)) <= 1e-9 * max(abs(float(other)), 1)
    except ValueError:
        return one[:16] == other[:16] and re.match(r"\d{4}-\d\d-\d\d", one) is not None  # a date, or the same with 0:00


def judge(path: Path) -> tuple[Path, str, float | None, str]:
    suffix = path.suffix.lower().lstrip(".")
    try:
        found = read(path)
    except ToolError as error:
        ended = (error.details or {}).get("ended", "")
        return path, suffix, None, f"{ended or 'refused'}: {error.message}"
    except Exception as error:  # noqa: BLE001 - to be told, not to end the run
        return path, suffix, None, f"CRASH: {error!r}"
    kind = found["format"]
    try:
        value = of_document(path, kind, found["content"]) if kind in BARS else 1.0
    except (zipfile.BadZipFile, subprocess.TimeoutExpired, KeyError) as error:
        return path, kind, None, f"no reference: {error!r}"
    return path, kind, value, "" if value is not None else "no reference"


def main() -> int:
    arguments = argparse.ArgumentParser(description="How well ReadDocument reads the files of a folder.")
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments.add_argument("--kind", action="append", help="only files with this ending")
    chosen = arguments.parse_args()
    paths = sorted(one for one in chosen.folder.rglob("*") if one.is_file())
    if chosen.kind:
        paths = [one for one in paths if one.suffix.lower().lstrip(".") in chosen.kind]
    with ThreadPoolExecutor(2) as pool:
        judged = list(pool.map(judge, paths))
    for path, kind, value, why in judged:
        if why or (value is not None and value < (1.0 if kind == "xlsx" else GOOD)):
            print(f"  {kind:5} {'' if value is None else f'{value:.3f}'} {path.name} {why}", file=sys.stderr)
    rows: list[Row] = []
    for kind in sorted({one[1] for one in judged}):
        values = [one[2] for one in judged if one[1] == kind and one[2] is not None]
        if not values:
            continue
        share = sum(one >= (1.0 if kind == "xlsx" else GOOD) for one in values) / len(values)
        bar = 1 - BARS[kind] if kind in BARS else None
        rows.append(Row(f"{kind}: not read alike", 1 - share, "of 1", bar, f"{len(values)} files"))
    broken = [one for one in judged if one[3].startswith(("CRASH", "crash", "time", "memory"))]
    rows.append(Row("given up or crashed", len(broken), "", None, f"of {len(judged)} files"))
    most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / (1 << 20)
    rows.append(Row("most memory of a child", most, "GB", 1.0))
    return report(rows, as_json=chosen.json)


if __name__ == "__main__":
    raise SystemExit(main())
