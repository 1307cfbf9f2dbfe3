"""Changes text and cells in a Word, PowerPoint or Excel file, in the child process; all that was not named stays.

Only the parts that hold a change are written anew. Every other member of the package is copied as it lies in the file,
compressed bytes included.
"""

from __future__ import annotations

import datetime as dt
import io
import re
import zipfile
from collections.abc import Iterator
from copy import deepcopy
from functools import cached_property
from typing import Any

from ferrule import ToolError
from ferrule.extension import advice, cut, phrase
from ferrule.toolbox.child import ChildAnswer
from ferrule.toolbox.documents.formats import NOT_IN_XML, Package, library, local_name, no_such_part, recognise
from ferrule.toolbox.documents.sheets import (
    CellArea,
    area_of,
    column_number,
    letters,
    moved_formula,
    sheet_member,
    shown,
)
from ferrule.toolbox.failures import invalid

_SPACE = "{http://www.w3.org/XML/1998/namespace}space"
_WORD_PARTS = ("header", "footer", "footnotes", "endnotes", "comments")
_CELL = re.compile(r"(?:(?:'((?:[^']|'')+)'|([^'!]+))!)?\$?([A-Za-z]{1,3})\$?([0-9]{1,7})")
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?")
_DELETED = frozenset({"del", "moveFrom", "Fallback"})
_LONGEST_CELL = 32_767


def edit(order: dict[str, Any], data: bytes) -> ChildAnswer:
    """Runs in the child. `order`: name and edits; gives what changed, and the bytes of the new file."""
    name = order["name"]
    file = io.BytesIO(data)
    kind = recognise(file, name)
    if kind not in ("docx", "pptx", "xlsx"):
        instead = phrase("Convert it with ConvertDocument (to docx, pptx or xlsx), and edit that.")
        if kind in ("csv", "html"):
            instead = phrase("It is a text file: change it with Edit.")
        elif kind == "pdf":
            instead = phrase("A PDF cannot be edited: change the document that it was made from, or write a new one.")
        message = phrase("`{name}` is a {kind} file, which cannot be edited here.", name=name, kind=kind)
        raise ToolError(message, suggestion=instead, details={"code": "unsupported"})
    package = Package(file, name)
    changes: list[dict[str, str]] = []
    editor = SheetEditor(package) if kind == "xlsx" else TextEditor(package, kind)
    for number, one in enumerate(order["edits"], 1):
        try:
            if bad := NOT_IN_XML.search(
                f"{one.get('replace') or ''}{one.get('value') or ''}{one.get('formula') or ''}"
            ):
                raise invalid(phrase("The new text holds U+{code}, which no document can.", code=f"{ord(bad[0]):04X}"))
            changes += editor.apply(one)
        except ToolError as error:
            total = len(order["edits"])
            before = phrase("Edit {number} of {total}: ", number=number, total=total) if total > 1 else ""
            untouched = phrase("The file is untouched.")
            raise ToolError(f"{before}{error.message} {untouched}", kind=error.kind,
                            suggestion=error.suggestion, details=error.details) from None  # fmt: skip
    written, dropped = editor.parts()
    return ChildAnswer({"format": kind, "changes": changes}, rewritten(package, written, dropped))


# The package with some parts changed


def rewritten(package: Package, parts: dict[str, bytes], dropped: set[str]) -> bytes:
    """The zip with new bytes for some members and without others; the rest is copied as it lies there."""
    source: Any = package.zip
    out = io.BytesIO()
    result: Any = zipfile.ZipFile(out, "w")
    members = source.infolist()
    starts = sorted([*(one.header_offset for one in members), source.start_dir])
    for one in members:
        if one.filename in dropped:
            continue
        copy = deepcopy(one)
        if one.filename in parts:
            fresh = zipfile.ZipInfo(one.filename, one.date_time)
            fresh.compress_type, fresh.external_attr = zipfile.ZIP_DEFLATED, one.external_attr
            fresh.create_system = one.create_system
            result.writestr(fresh, parts[one.filename])
            continue
        end = starts[starts.index(one.header_offset) + 1]
        source.fp.seek(one.header_offset)
        copy.header_offset = out.seek(0, io.SEEK_END)
        out.write(source.fp.read(end - one.header_offset))
        result.filelist.append(copy)
        result.NameToInfo[copy.filename] = copy
        result.start_dir = out.tell()
        result._didModify = True  # noqa: SLF001 - zipfile has no way of its own to copy a member
    result.comment = source.comment
    result.close()
    made = out.getvalue()
    with zipfile.ZipFile(io.BytesIO(made)) as check:
        if (broken := check.testzip()) is not None:
            raise ToolError(phrase("The new file would be damaged at `{member}`.", member=broken))
    return made


def _serialised(root: Any) -> bytes:
    etree = library("lxml.etree")
    standalone = root.getroottree().docinfo.standalone
    return etree.tostring(root.getroottree(), xml_declaration=True, encoding="UTF-8", standalone=standalone)


# Text in runs


class TextEditor:
    """Finds and replaces in the paragraphs of a Word document or a presentation, however their text is cut in runs."""

    def __init__(self, package: Package, kind: str) -> None:
        self.package, self.kind = package, kind
        main = package.main_part()
        if kind == "docx":
            self.members = [main, *(one for part in _WORD_PARTS for one in package.related(main, part))]
        else:
            slides = package.related(main, "slide")
            self.members = [*slides, *(note for one in slides for note in package.related(one, "notesSlide"))]
        self.roots: dict[str, Any] = {}
        self.changed: set[str] = set()

    def apply(self, order: dict[str, Any]) -> list[dict[str, str]]:
        if order.get("cell"):
            raise invalid(
                phrase("A {kind} file has no cells.", kind=self.kind), phrase("Give `find` and `replace` instead.")
            )
        find, new = order["find"], order["replace"]
        hits = [(member, one, text.count(find)) for member, one, text in self._paragraphs() if find in text]
        # The copy of a text box for old programs changes along with it.
        shown = [one for one in hits if not any(local_name(above) == "Fallback" for above in one[1].iterancestors())]
        count = sum(one[2] for one in shown)
        if not count:
            raise _not_found(find, [text for _, _, text in self._paragraphs()])
        if count > 1 and not order.get("all"):
            raise _ambiguous(find, count)
        changes: list[dict[str, str]] = []
        for hit in hits:
            member, paragraph, _ = hit
            before = "".join(text_of(one) for one in pieces(paragraph))
            replace_in(paragraph, find, new)
            self.changed.add(member)
            if hit not in shown:
                continue
            after = "".join(text_of(one) for one in pieces(paragraph))
            changes.append({"where": member.rpartition("/")[2].removesuffix(".xml"), "before": before, "after": after})
        return changes

    def _paragraphs(self) -> Iterator[tuple[str, Any, str]]:
        for member in self.members:
            if member not in self.roots:
                self.roots[member] = self.package.root(member)
            for one in self.roots[member].iter():
                if local_name(one) == "p" and (text := "".join(text_of(piece) for piece in pieces(one))):
                    yield member, one, text

    def parts(self) -> tuple[dict[str, bytes], set[str]]:
        return {member: _serialised(self.roots[member]) for member in self.changed}, set()


def pieces(paragraph: Any) -> list[Any]:
    """What holds a paragraph's text, in order: texts, tabs and breaks; not what was deleted, nor text boxes in it."""
    found: list[Any] = []
    todo = [iter(paragraph)]
    while todo:
        child = next(todo[-1], None)
        if child is None:
            todo.pop()
        elif local_name(child) in ("t", "tab", "br", "cr", "noBreakHyphen"):
            found.append(child)
        elif local_name(child) not in _DELETED and local_name(child) not in ("p", "txbxContent", "pPr", "rPr", "rPh"):
            todo.append(iter(child))
    return found


def text_of(piece: Any) -> str:
    match local_name(piece):
        case "t":
            return piece.text or ""
        case "tab":
            return "\t"
        case "noBreakHyphen":
            return "-"
        case _:
            return "\n"


def replace_in(holder: Any, find: str, new: str) -> None:
    """Replace every occurrence: what is new takes the form of the run in which the old text began."""
    text = "".join(text_of(one) for one in pieces(holder))
    for hit in reversed(list(re.finditer(re.escape(find), text))):
        _replace_once(pieces(holder), *hit.span(), new)


def _replace_once(found: list[Any], start: int, end: int, new: str) -> None:
    at = 0
    is_first = True
    for piece in found:
        length = len(text_of(piece))
        low, high = max(start - at, 0), min(end - at, length)
        at += length
        if low >= high:
            continue
        old = text_of(piece)
        if local_name(piece) != "t":
            if is_first:
                piece = _text_beside(piece)
                piece.text, is_first = new, False
                _spread_lines(piece)
            else:
                piece.getparent().remove(piece)
            continue
        piece.text = old[:low] + (new if is_first else "") + old[high:]
        # Word and Excel drop spaces at the ends without being told to keep them; PowerPoint never does.
        if "drawingml" not in piece.tag and piece.text != piece.text.strip():
            piece.set(_SPACE, "preserve")
        if is_first:
            _spread_lines(piece)
        is_first = False


def _text_beside(piece: Any) -> Any:
    """A text in place of a tab or a break."""
    etree = library("lxml.etree")
    space = piece.tag.rpartition("}")[0] + "}"
    if "drawingml" in space:  # a break stands beside the runs, not in one
        run = etree.Element(f"{space}r")
        run.extend([deepcopy(one) for one in piece if local_name(one) == "rPr"])
        text = etree.SubElement(run, f"{space}t")
        piece.getparent().replace(piece, run)
        return text
    text = etree.Element(f"{space}t")
    piece.getparent().replace(piece, text)
    return text


def _spread_lines(piece: Any) -> None:
    """Line ends and tabs of a new text as the elements that stand for them."""
    etree = library("lxml.etree")
    space = piece.tag.rpartition("}")[0] + "}"
    if "spreadsheetml" in space or not re.search(r"[\n\t]" if "wordprocessingml" in space else r"\n", piece.text or ""):
        return
    run = piece.getparent()
    if "drawingml" in space:
        first, *others = (piece.text or "").split("\n")
        piece.text = first
        for line in reversed(others):
            later = deepcopy(run)
            next(one for one in later if local_name(one) == "t").text = line
            run.addnext(later)
            broken = etree.Element(f"{space}br")
            broken.extend([deepcopy(one) for one in run if local_name(one) == "rPr"])
            run.addnext(broken)
        return
    parts = re.split(r"([\n\t])", piece.text or "")
    piece.text = parts[0]
    here = piece
    for part in parts[1:]:
        if not part:
            continue
        made = etree.Element(f"{space}{'br' if part == chr(10) else 'tab' if part == chr(9) else 't'}")
        if part not in "\n\t":
            made.text = part
            made.set(_SPACE, "preserve")
        here.addnext(made)
        here = made


def _not_found(find: str, texts: list[str]) -> ToolError:
    flat = " ".join(find.split()).casefold()
    close = next((one for one in texts if flat and flat in " ".join(one.split()).casefold()), None)
    if close is not None:
        hint = phrase("There is `{text}`, which differs in spaces or case.", text=cut(close, 200))
    elif "\n" in find:
        hint = phrase("An edit works inside one paragraph: make one for each.")
    else:
        hint = phrase("Read the document again, and give the text as it stands in one paragraph or cell.")
    return invalid(phrase("`{find}` is not in the document.", find=cut(find, 80)), hint)


def _ambiguous(find: str, count: int) -> ToolError:
    return invalid(
        phrase("`{find}` is in the document {count} times.", find=cut(find, 80), count=count),
        phrase("Give more of the text around it, or set `all` to replace every one."),
    )


# Cells


class SheetEditor:
    """Sets cells of a workbook, and replaces text in them; formats, charts and all else stay."""

    def __init__(self, package: Package) -> None:
        self.package = package
        self.main = package.main_part()
        self.book = package.root(self.main)
        self.names = [one.get("name", "") for one in self.book.iter() if local_name(one) == "sheet"]
        self.roots: dict[str, Any] = {}
        self.rows: dict[str, dict[int, Any]] = {}
        self.changed: set[str] = set()
        self.formula_gone = False

    def apply(self, order: dict[str, Any]) -> list[dict[str, str]]:
        if order.get("cell"):
            return [self._set(order)]
        return self._replace(order["find"], order["replace"], every=bool(order.get("all")))

    def _set(self, order: dict[str, Any]) -> dict[str, str]:
        sheet, at = self._place(order["cell"])
        root = self._root(sheet)
        for one in root.iter(f"{_space(root)}mergeCell"):
            merged = area_of(one.get("ref", ""))
            if merged is not None and at.within(merged) and (merged.top, merged.left) != (at.top, at.left):
                first = f"{letters(merged.left)}{merged.top}"
                raise invalid(
                    phrase("`{cell}` lies in the merged cells {area}.", cell=order["cell"], area=merged),
                    phrase("Set `{first}`, the first of them.", first=first),
                )
        found = self._cell(sheet, at)
        before = self._shown(found)
        self._free_formula(sheet, found, order["cell"])
        if order.get("formula") is not None:
            formula = order["formula"].removeprefix("=")
            if not formula.strip():
                raise invalid(phrase("The formula is empty."), phrase("To clear a cell, set its value to null."))
            _clear(found)
            library("lxml.etree").SubElement(found, f"{_space(found)}f").text = formula
        else:
            self._set_value(found, order.get("value"))
        self.changed.add(sheet)
        return {"where": f"{sheet}!{at}", "before": before, "after": self._shown(found)}

    def _place(self, given: str) -> tuple[str, CellArea]:
        found = _CELL.fullmatch(given.strip())
        if found is None or not 1 <= int(found[4]) <= 1_048_576 or column_number(found[3]) > 16_384:
            raise invalid(phrase("`{cell}` is not a cell.", cell=given), phrase("Write it like Sales!B2."))
        sheet = (found[1] or found[2] or "").replace("''", "'")
        if not sheet and len(self.names) > 1:
            raise invalid(
                phrase("`{cell}` does not say which sheet.", cell=given),
                phrase("Sheets: {names}.", names=", ".join(f"`{one}`" for one in self.names)),
            )
        same = [one for one in self.names if one.casefold() == (sheet or self.names[0]).casefold()]
        if not same:
            raise no_such_part(
                phrase("There is no sheet `{name}`.", name=sheet),
                phrase("Sheets: {names}.", names=", ".join(f"`{one}`" for one in self.names)),
            )
        row, column = int(found[4]), column_number(found[3])
        return same[0], CellArea(row, column, row, column)

    def _root(self, sheet: str) -> Any:
        if sheet not in self.roots:
            member = sheet_member(self.package, sheet)
            root = self.package.root(member) if member is not None else None
            if root is None or local_name(root) != "worksheet":
                raise invalid(phrase("`{name}` is not a sheet of cells.", name=sheet))
            self.roots[sheet] = root
            data = root.find(f"{_space(root)}sheetData")
            rows: dict[int, Any] = {}
            for position, line in enumerate([] if data is None else list(data), 1):
                number = int(line.get("r") or max(rows, default=position - 1) + 1)
                line.set("r", str(number))
                rows[number] = line
                column = 0
                for one in line:
                    column = column_number(re.sub(r"\d", "", one.get("r") or "")) or column + 1
                    one.set("r", f"{letters(column)}{number}")
            self.rows[sheet] = rows
        return self.roots[sheet]

    def _cell(self, sheet: str, at: CellArea) -> Any:
        """The cell's element, made in its place where there is none."""
        etree = library("lxml.etree")
        root, rows = self._root(sheet), self.rows[sheet]
        space = _space(root)
        if at.top not in rows:
            line = etree.Element(f"{space}row", r=str(at.top))
            data = root.find(f"{space}sheetData")
            if data is None:
                raise invalid(phrase("The sheet `{name}` has no place for cells.", name=sheet))
            later = min((number for number in rows if number > at.top), default=None)
            data.append(line) if later is None else rows[later].addprevious(line)
            rows[at.top] = line
        line, name = rows[at.top], f"{letters(at.left)}{at.top}"
        for one in line:
            if one.get("r") == name:
                return one
            if local_name(one) == "c" and column_number(re.sub(r"\d", "", one.get("r", ""))) > at.left:
                made = etree.Element(f"{space}c", r=name)
                one.addprevious(made)
                return made
        line.attrib.pop("spans", None)
        return etree.SubElement(line, f"{space}c", r=name)

    def _free_formula(self, sheet: str, found: Any, given: str) -> None:
        """Take a cell's formula away without harm to the cells that share it."""
        root = self._root(sheet)
        at = area_of(found.get("r"))
        for one in root.iter(f"{_space(root)}f"):
            area = area_of(one.get("ref") or "")
            if (
                one.get("t") in ("array", "dataTable")
                and area is not None
                and at is not None
                and at.within(area)
                and (area.top != area.bottom or area.left != area.right)
            ):
                raise invalid(phrase("`{cell}` belongs to an array formula over {area}.", cell=given, area=area),
                             advice("Ask the user to change the array formula.",
                                    "Change the array formula in a spreadsheet program."))  # fmt: skip
        formula = found.find(f"{_space(root)}f")
        if formula is None:
            return
        self.formula_gone = True
        if formula.get("t") == "shared" and formula.text:
            for one in root.iter(f"{_space(root)}f"):
                if one is not formula and one.get("t") == "shared" and one.get("si") == formula.get("si"):
                    one.text = moved_formula(formula.text, found.get("r"), one.getparent().get("r"))
                    for key in ("t", "si", "ref"):
                        one.attrib.pop(key, None)

    def _set_value(self, found: Any, value: Any) -> None:
        etree = library("lxml.etree")
        space = _space(found)
        if isinstance(value, str) and _DATE.fullmatch(value) and self._is_date(found):
            # A date is stored as a number of days since the workbook's first year, which is 1904 on old Macs.
            dates = library("openpyxl.utils.datetime")
            mac = any(one.get("date1904") in ("1", "true") for one in self.book if local_name(one) == "workbookPr")
            epoch = dates.MAC_EPOCH if mac else dates.WINDOWS_EPOCH
            value = float(dates.to_excel(dt.datetime.fromisoformat(value), epoch))
        _clear(found)
        if value is None or value == "":
            return
        if isinstance(value, str):
            if len(value) > _LONGEST_CELL:
                raise invalid(phrase("A cell holds at most {most} characters.", most=f"{_LONGEST_CELL:,}"))
            found.set("t", "inlineStr")
            inner = etree.SubElement(etree.SubElement(found, f"{space}is"), f"{space}t")
            inner.text = value
            if value != value.strip():
                inner.set(_SPACE, "preserve")
            return
        if isinstance(value, bool):
            found.set("t", "b")
        etree.SubElement(found, f"{space}v").text = str(int(value)) if isinstance(value, bool) else shown(value)

    def _is_date(self, found: Any) -> bool:
        """Whether the cell's format shows a number as a date."""
        numbers = library("openpyxl.styles.numbers")
        members = self.package.related(self.main, "styles")
        if not members or not (found.get("s") or "").isdigit():
            return False
        root = self.package.root(members[0])
        own = {one.get("numFmtId"): one.get("formatCode") for one in root.iter() if local_name(one) == "numFmt"}
        formats = next((list[Any](one) for one in root if local_name(one) == "cellXfs"), list[Any]())
        index = int(found.get("s"))
        number = formats[index].get("numFmtId", "0") if index < len(formats) else "0"
        return numbers.is_date_format(own.get(number) or numbers.BUILTIN_FORMATS.get(int(number)) or "")

    # Text in cells

    def _replace(self, find: str, new: str, *, every: bool) -> list[dict[str, str]]:
        hits: list[tuple[str, Any, int]] = []
        texts: list[str] = []
        for sheet in self.names:
            if sheet_member(self.package, sheet) is None or local_name(self._root(sheet)) != "worksheet":
                continue
            for line in self.rows[sheet].values():
                for one in line:
                    text = self._text(one)
                    if text:
                        texts.append(text)
                    if find in text:
                        hits.append((sheet, one, text.count(find)))
        count = sum(one[2] for one in hits)
        if not count:
            raise _not_found(find, texts)
        if count > 1 and not every:
            raise _ambiguous(find, count)
        changes: list[dict[str, str]] = []
        for sheet, one, _ in hits:
            before = self._text(one)
            if one.get("t") == "s":
                # Give the cell a text of its own, with the same runs: other cells keep the shared one.
                shared = self.strings[int(_value(one))]
                _clear(one)
                one.set("t", "inlineStr")
                library("lxml.etree").SubElement(one, f"{_space(one)}is").extend([deepcopy(run) for run in shared])
            replace_in(one, find, new)
            self.changed.add(sheet)
            changes.append({"where": f"{sheet}!{one.get('r')}", "before": before, "after": self._text(one)})
        return changes

    def _text(self, found: Any) -> str:
        """A cell's text; nothing for a number or the outcome of a formula."""
        if found.get("t") == "inlineStr":
            return "".join(text_of(one) for one in pieces(found))
        if found.get("t") == "s" and (index := _value(found)).isdigit() and int(index) < len(self.strings):
            return "".join(text_of(one) for one in pieces(self.strings[int(index)]))
        return ""

    @cached_property
    def strings(self) -> list[Any]:
        """The texts that cells share."""
        members = self.package.related(self.main, "sharedStrings")
        return [one for one in self.package.root(members[0]) if local_name(one) == "si"] if members else []

    def _shown(self, found: Any) -> str:
        formula = found.find(f"{_space(found)}f")
        if formula is not None:
            return f"={formula.text or '…'}"
        return self._text(found) or _value(found)

    def parts(self) -> tuple[dict[str, bytes], set[str]]:
        """The sheets; and a note in the workbook, since values of formulas hold only until a cell changes."""
        etree = library("lxml.etree")
        parts = {str(sheet_member(self.package, sheet)): _serialised(self.roots[sheet]) for sheet in self.changed}
        space = _space(self.book)
        calculation = self.book.find(f"{space}calcPr")
        if calculation is None:
            calculation = etree.Element(f"{space}calcPr")
            before = ("definedNames", "externalReferences", "functionGroups", "sheets")
            next(one for name in before if (one := self.book.find(f"{space}{name}")) is not None).addnext(calculation)
        if calculation.get("fullCalcOnLoad") != "1":
            calculation.set("fullCalcOnLoad", "1")
            parts[self.main] = _serialised(self.book)
        chain = self.package.related(self.main, "calcChain")
        if not (self.formula_gone and chain):
            return parts, set()
        # A chain that names a cell without formula is an error to Excel; without one, it makes a new one.
        folder, _, base = self.main.rpartition("/")
        for member, key, value in (
            (f"{folder}/_rels/{base}.rels", "Target", chain[0].rpartition("/")[2]),
            ("[Content_Types].xml", "PartName", f"/{chain[0]}"),
        ):
            root = self.package.root(member)
            for one in list(root):
                if (one.get(key) or "").endswith(value):
                    root.remove(one)
            parts[member] = _serialised(root)
        return parts, set(chain)


def _space(element: Any) -> str:
    return element.tag.rpartition("}")[0] + "}"


def _value(found: Any) -> str:
    return next((one.text or "" for one in found if local_name(one) == "v"), "")


def _clear(found: Any) -> None:
    for key in ("t", "cm", "vm"):
        found.attrib.pop(key, None)
    for one in list(found):
        found.remove(one)
