"""Reads spreadsheets and CSV files: rows with their numbers, columns with their letters."""

from __future__ import annotations

import csv
import datetime as dt
import re
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import StringIO
from typing import Any, BinaryIO, Protocol

from ferrule import ToolError
from ferrule.extension import advice, decode, nearest, phrase
from ferrule.toolbox.documents import formats
from ferrule.toolbox.documents.blocks import Counted, DocumentBlock, OutlineEntry, cell, heading, row
from ferrule.toolbox.documents.formats import Package, library

LAST_ROW, LAST_COLUMN = 1_048_576, 16_384
_MOST_CSV = 256 << 20
_MOST_SCANNED = 64 << 20
_MOST_FORMULAS = 200
_REFERENCE = re.compile(r"\$?([A-Za-z]{1,3})?\$?([0-9]{1,7})?(?::\$?([A-Za-z]{1,3})?\$?([0-9]{1,7})?)?")
_ERROR = re.compile(rb'<(?:\w+:)?c ([^>]*\bt="e"[^>]*)>(.*?)</(?:\w+:)?c>', re.DOTALL)
_PLACE, _VALUE = re.compile(rb'\br="([A-Z]{1,3})(\d{1,7})"'), re.compile(rb"<(?:\w+:)?v>([^<]*)<")
_PASSWORD = re.compile(
    rb"\x09\x08(?:\x10\x00\x00\x06\x05\x00.{12}|\x08\x00\x00\x05\x05\x00.{4})(?:\x86\x00\x00\x00)?\x2f\x00", re.DOTALL
)
"""How the stream of an old workbook begins that is encrypted: its first record, then one about the password."""
_QUOTED = re.compile(r"'((?:[^']|'')*)'(?:!(.*))?", re.DOTALL)


@dataclass(slots=True, frozen=True)
class CellArea:
    """A rectangle of cells, both ends included, from 1."""

    top: int
    left: int
    bottom: int
    right: int

    def __str__(self) -> str:
        first, last = f"{letters(self.left)}{self.top}", f"{letters(self.right)}{self.bottom}"
        return first if first == last else f"{first}:{last}"

    def within(self, other: CellArea) -> CellArea | None:
        found = CellArea(max(self.top, other.top), max(self.left, other.left),
                     min(self.bottom, other.bottom), min(self.right, other.right))  # fmt: skip
        return found if found.top <= found.bottom and found.left <= found.right else None


class Grid(Protocol):
    def names(self) -> list[str]: ...

    def used(self, name: str) -> CellArea | None: ...

    def rows(self, name: str, area: CellArea) -> Iterator[tuple[int, int, list[Any]]]: ...


class Workbook(Counted):
    """A workbook or a CSV file, sheet by sheet."""

    counts_lines = False

    def __init__(self, grid: Grid, name: str, package: Package | None = None) -> None:
        super().__init__(name, "sheet")
        self.grid = grid
        self.package = package

    def count(self) -> int:
        return len(self.grid.names())

    def blocks(self, part: str) -> Iterator[DocumentBlock]:
        sheets, asked = self.find(part)
        for name in sheets:
            used = self.grid.used(name)
            yield heading(f"{name} ({used or 'empty'})", 2, name)
            area = used if asked is None or used is None else asked.within(used)
            if area is not None:
                columns = [letters(number) for number in range(area.left, area.right + 1)]
                yield DocumentBlock("table", f"{row(['', *columns])}\n{row(['---'] * (len(columns) + 1))}", where=name)
                for number, left, values in self.grid.rows(name, area):
                    cells = fitted(values, left, area)
                    if not any(one != "" for one in cells):
                        continue
                    rest = CellArea(number + 1, area.left, area.bottom, area.right)
                    resume = f"{quoted(name)}!{rest}" if number < area.bottom else ""
                    line = row([str(number), *(cell(shown(one)) for one in cells)])
                    yield DocumentBlock("table", line, where=f"{name}!{number}", follows=True, resume=resume)
            elif used is not None:
                self.notes.append(f"{name}!{asked} is empty; the used cells are {used}.")
            # A formula that was never worked out has no value, and so may lie beside the used cells.
            formulas = self.formulas(name, asked or CellArea(1, 1, LAST_ROW, LAST_COLUMN))
            if formulas:
                more = " …" if len(formulas) > _MOST_FORMULAS else ""
                said = "; ".join(f"{place} ={text}" for place, text in formulas[:_MOST_FORMULAS])
                yield DocumentBlock("text", f"Formulas: {said}{more}", where=name)

    def outline(self) -> list[OutlineEntry]:
        return [OutlineEntry(1, name, str(self.grid.used(name) or "empty")) for name in self.grid.names()]

    def info(self) -> dict[str, str]:
        names = self.grid.names()
        properties = self.package.properties() if self.package else {}
        return {**properties, "sheets": ", ".join(f"{one} ({self.grid.used(one) or 'empty'})" for one in names)}

    def find(self, part: str) -> tuple[list[str], CellArea | None]:
        """The sheets and the cells that `Sales`, `Sales!A1:D20`, `A1:D20` or `2` means."""
        names, text = self.grid.names(), part.strip()
        if not text:
            return names, None
        if match := _QUOTED.fullmatch(text):
            name, reference = match[1].replace("''", "'"), match[2] or ""
        elif text in names:
            name, reference = text, ""
        else:
            name, _, reference = text.rpartition("!")
            if not name and (found := area_of(text)) is not None and names:
                return names[:1], found
            name, reference = (name, reference) if name else (text, "")
        if name not in names:
            same = [one for one in names if one.casefold() == name.casefold()]
            if not same and name.isdigit() and 1 <= int(name) <= len(names):
                same = [names[int(name) - 1]]
            if not same:
                close = nearest(name, names)
                hint = phrase("Did you mean `{name}`? ", name=close[0]) if close else ""
                raise formats.no_such_part(
                    phrase("`{file}` has no sheet `{name}`.", file=self.name, name=name),
                    hint + phrase("Its sheets: {names}.", names=", ".join(f"`{one}`" for one in names[:50])),
                )
            name = same[0]
        area = area_of(reference) if reference else None
        if reference and area is None:
            raise formats.no_such_part(
                phrase("`{reference}` is not a range of cells.", reference=reference),
                phrase("Write it like A1:D20, B7, A:C or 3:10."),
            )
        return [name], area

    # Formulas, which calamine does not tell

    def formulas(self, name: str, area: CellArea) -> list[tuple[str, str]]:
        """The formulas of these cells, as far as the file is a modern one and not very large."""
        member = sheet_member(self.package, name) if self.package is not None else None
        if self.package is None or member is None:
            return []
        if self.package.zip.getinfo(member).file_size > _MOST_SCANNED:
            self.notes.append("Formulas and errors are not shown for a sheet as large as this.")
            return []
        if formats.FORMULA not in self.package.mentions(member):
            return []
        if b'fullCalcOnLoad="1"' in self.package.read(self.package.main_part()):
            note = "Values of formulas may be out of date until a spreadsheet program has opened and saved the file."
            self.notes += [note] if note not in self.notes else []
        return list(self._formulas(self.package, member, area))

    @staticmethod
    def _formulas(package: Package, member: str, area: CellArea) -> Iterator[tuple[str, str]]:
        shared: dict[str, tuple[str, str]] = {}
        found = 0
        for line in package.children(member, 2):
            if not line.tag.endswith("}row"):
                continue
            for one in line:
                place, inner = one.get("r", ""), next((part for part in one if part.tag.endswith("}f")), None)
                if inner is None:
                    continue
                text = inner.text or ""
                if inner.get("t") == "shared":
                    if text:
                        shared[inner.get("si", "")] = text, place
                    elif inner.get("si", "") in shared:
                        text = moved_formula(*shared[inner.get("si", "")], place)
                at = area_of(place)
                if text and at is not None and at.within(area):
                    yield place, text
                    found += 1
                    if found > _MOST_FORMULAS:
                        return
            if (line.get("r") or "").isdigit() and int(line.get("r")) > area.bottom:
                return


def moved_formula(text: str, origin: str, place: str) -> str:
    """A formula as it reads in another cell."""
    translator = library("openpyxl.formula.translate").Translator
    return translator(f"={text}", origin=origin).translate_formula(place)[1:]


def sheet_member(package: Package, name: str) -> str | None:
    main = package.main_part()
    if main not in package.names or main.endswith(".bin"):
        return None
    targets = package.relations(main)
    for one in package.root(main).iter():
        if isinstance(one.tag, str) and one.tag.endswith("}sheet") and one.get("name") == name:
            key = next((value for key, value in one.attrib.items() if key.endswith("}id")), "")
            member = targets.get(key, ("", ""))[1]
            return member if member in package.names else None
    return None


# Names of cells


def letters(number: int) -> str:
    found = ""
    while number > 0:
        number, rest = divmod(number - 1, 26)
        found = chr(65 + rest) + found
    return found


def column_number(text: str) -> int:
    number = 0
    for one in text.upper():
        number = number * 26 + ord(one) - 64
    return number


def area_of(reference: str) -> CellArea | None:
    """`A1:D20`, `B7`, `A:C`, `3:10`, `A5:`; None where it is none of these."""
    text = reference.strip()
    found = _REFERENCE.fullmatch(text)
    if found is None or not any(found.groups()) or (":" not in text and not (found[1] and found[2])):
        return None
    left = column_number(found[1]) if found[1] else 1
    top = int(found[2]) if found[2] else 1
    if ":" in text:
        right = column_number(found[3]) if found[3] else LAST_COLUMN
        bottom = int(found[4]) if found[4] else LAST_ROW
    else:
        right, bottom = left, top
    area = CellArea(min(top, bottom), min(left, right), max(top, bottom), max(left, right))
    return area if area.top >= 1 and area.right <= LAST_COLUMN else None


def quoted(name: str) -> str:
    plain = re.fullmatch(r"[^\W\d]\w*", name) and area_of(name) is None
    return name if plain else "'" + name.replace("'", "''") + "'"


def fitted(values: list[Any], left: int, area: CellArea) -> list[Any]:
    """The values of a row that lie in an area, with nothing for those that are not there."""
    start = area.left - left
    found = values[start : start + area.right - area.left + 1] if start >= 0 else [""] * -start + values
    found = found[: area.right - area.left + 1]
    return ["" if one is None else one for one in found] + [""] * (area.right - area.left + 1 - len(found))


def shown(value: Any) -> str:
    """A value as a person would write it."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, dt.datetime):
        return value.isoformat(sep=" ").removesuffix(" 00:00:00")
    return "" if value is None else str(value)


# Where rows come from


def open_workbook(file: BinaryIO, name: str, kind: str, engine: str) -> Workbook:
    """With calamine; where that gave up on a modern file, with openpyxl, which is slower and holds less."""
    if kind == "csv":
        return Workbook(CsvGrid(file, name), name)
    package = Package(file, name) if kind != "xls" else None
    manifest = "META-INF/manifest.xml"
    in_manifest = package.read(manifest) if package is not None and kind == "ods" and manifest in package.names else b""
    if b"encryption-data" in in_manifest:
        raise formats.encrypted(name)
    # Workbooks of old Macs count dates from 1904, which calamine notices in some of them only.
    if kind == "xlsx" and package is not None:
        if engine == "openpyxl" or re.search(rb'date1904="(1|true)"', package.read(package.main_part())):
            return Workbook(OpenpyxlGrid(file, name), name, package)
        try:
            return Workbook(CalamineGrid(file, name, package), name, package)
        except ToolError as error:
            if (error.details or {}).get("code") != "damaged":
                raise
            try:
                return Workbook(OpenpyxlGrid(file, name), name, package)  # it takes sheets of macros, for one
            except ToolError:
                raise error from None
    book = Workbook(CalamineGrid(file, name, None), name)
    book.notes.append(f"In {kind} files, cells whose formula gave an error are shown empty.")
    return book


class CalamineGrid:
    """Excel's formats, old and new, and OpenDocument's.

    Of a modern workbook, its parts tell what calamine leaves out: errors.
    """

    def __init__(self, file: BinaryIO, name: str, package: Package | None) -> None:
        self.package = package
        calamine = library("python_calamine")
        self.name = name
        try:
            # By a name: from an open file, calamine first takes all of it into memory.
            self.book = calamine.CalamineWorkbook.from_path(f"/dev/fd/{file.fileno()}")
            self._kinds = {one.name: one.typ for one in self.book.sheets_metadata}
        except calamine.PasswordError:
            raise formats.encrypted(name) from None
        except (calamine.CalamineError, OSError, ValueError) as error:
            if "BIFF" in str(error) or "Biff" in str(error):
                raise formats.unsupported(
                    name,
                    "a workbook of Excel 4 or older",
                    advice("Ask the user to save it as xlsx.", "Save it as xlsx."),
                ) from None
            file.seek(0)
            if _PASSWORD.search(file.read(_MOST_SCANNED)):
                raise formats.encrypted(name) from None
            raise formats.damaged(name, phrase("its sheets are not written as the format says")) from None
        self.sheets: dict[str, Any] = {}

    def names(self) -> list[str]:
        return [name for name, kind in self._kinds.items() if "WorkSheet" in str(kind) or "Macro" in str(kind)]

    def _sheet(self, name: str) -> Any:
        calamine = library("python_calamine")
        if name not in self.sheets:
            try:
                self.sheets[name] = self.book.get_sheet_by_name(name)
            except (calamine.CalamineError, OSError, ValueError) as error:
                raise formats.damaged(self.name, error) from None
        return self.sheets[name]

    def used(self, name: str) -> CellArea | None:
        sheet = self._sheet(name)
        if sheet.start is None or sheet.end is None:
            return None
        return CellArea(sheet.start[0] + 1, sheet.start[1] + 1, sheet.end[0] + 1, sheet.end[1] + 1)

    def rows(self, name: str, area: CellArea) -> Iterator[tuple[int, int, list[Any]]]:
        sheet, used = self._sheet(name), self.used(name)
        if used is None:
            return
        errors = self._errors(name, used)
        for number, values in enumerate(sheet.iter_rows(), 1):  # empty rows before the first come too, columns do not
            if number > area.bottom:
                return
            if number >= area.top:
                for column in errors.get(number, ()):
                    values[column - used.left] = errors[number][column]
                yield number, used.left, values

    def _errors(self, name: str, used: CellArea) -> dict[int, dict[int, str]]:
        """`#DIV/0!` and the like, by row and column."""
        member = sheet_member(self.package, name) if self.package is not None else None
        if self.package is None or member is None or self.package.zip.getinfo(member).file_size > _MOST_SCANNED:
            return {}
        if formats.ERROR not in self.package.mentions(member):
            return {}
        found: dict[int, dict[int, str]] = {}
        for hit in _ERROR.finditer(self.package.read(member)):
            place, value = _PLACE.search(hit[1]), _VALUE.search(hit[2])
            if place is not None and value is not None:
                row, column = int(place[2]), column_number(place[1].decode())
                if used.top <= row <= used.bottom and used.left <= column <= used.right:
                    found.setdefault(row, {})[column] = value[1].decode()
        return found


class OpenpyxlGrid:
    """Row by row as the file is parsed, so that cells far apart take no room."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        openpyxl = library("openpyxl")
        try:
            self.book = openpyxl.load_workbook(file, read_only=True, data_only=True)
        except (zipfile.BadZipFile, KeyError, ValueError, TypeError, AttributeError) as error:
            raise formats.damaged(name, error) from None
        self.sizes: dict[str, CellArea | None] = {}

    def names(self) -> list[str]:
        return self.book.sheetnames

    def _rows(self, name: str) -> Iterable[tuple[Any, ...]]:
        sheet: Any = self.book[name]
        sheet.reset_dimensions()
        return sheet.iter_rows()

    def used(self, name: str) -> CellArea | None:
        if name not in self.sizes:
            found = [(number, cells[0].column, cells[-1].column) for number, line in enumerate(self._rows(name), 1)
                     if (cells := [one for one in line if one.value is not None])]  # fmt: skip
            left, right = min((one[1] for one in found), default=0), max((one[2] for one in found), default=0)
            self.sizes[name] = CellArea(found[0][0], left, found[-1][0], right) if found else None
        return self.sizes[name]

    def rows(self, name: str, area: CellArea) -> Iterator[tuple[int, int, list[Any]]]:
        for number, line in enumerate(self._rows(name), 1):
            if number > area.bottom:
                return
            if number >= area.top and line:
                yield number, 1, [one.value for one in line]


class CsvGrid:
    """A CSV file: one sheet, named after nothing."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        data = file.read(_MOST_CSV + 1)
        text = decode(data) if len(data) <= _MOST_CSV else None
        if text is None:
            why = "a table of more than 256 MB" if len(data) > _MOST_CSV else "not a text file, as a CSV file must be"
            raise formats.unsupported(
                name, why, phrase("Read its lines with Read, or use a command made for its type.")
            )
        self.encoding = text.encoding
        csv.field_size_limit(1 << 24)
        try:
            self.lines = list(csv.reader(StringIO(text.text, newline=""), self._dialect(text.text, name)))
        except csv.Error as error:
            raise formats.damaged(name, error) from None

    @staticmethod
    def _dialect(text: str, name: str) -> Any:
        """By its first lines; commas (tabs for a tsv) where these do not tell."""
        fallback = csv.excel_tab if name.lower().endswith((".tsv", ".tab")) else csv.excel
        first = text[:65536]
        try:
            found = csv.Sniffer().sniff(first if len(text) <= 65536 else first.rpartition("\n")[0], ",;\t|")
        except csv.Error:
            return fallback
        found.doublequote = True  # the sniffer denies it where it saw none
        found.skipinitialspace = False
        return found

    def names(self) -> list[str]:
        return ["Sheet1"]

    def used(self, name: str) -> CellArea | None:
        del name
        width = max((len(one) for one in self.lines), default=0)
        return CellArea(1, 1, len(self.lines), width) if width else None

    def rows(self, name: str, area: CellArea) -> Iterator[tuple[int, int, list[Any]]]:
        del name
        for number in range(area.top, min(area.bottom, len(self.lines)) + 1):
            yield number, 1, list(self.lines[number - 1])
