"""Tells what a document is by its content, whatever its name says, and takes parts out of its package safely.

A Word, Excel, PowerPoint, OpenDocument or EPUB file is a zip of XML parts. What it declares is checked before anything
is unpacked, and `zipfile` never gives more bytes than declared. This runs in a child process.
"""

from __future__ import annotations

import posixpath
import re
import zipfile
import zlib
from collections.abc import Iterator
from importlib import import_module
from pathlib import PurePosixPath
from typing import IO, Any, BinaryIO

from ferrule import ErrorKind, ToolError
from ferrule.extension import advice, flattened, phrase

SIGNS = FORMULA, ERROR = b"f>", b't="e"'
"""What a sheet with formulas holds at their end, and one with errors in their cells."""
MOST_UNPACKED = 4 << 30
_MOST_RATIO, _RATIO_MATTERS = 200, 64 << 20
_MOST_MEMBERS = 50_000
_HEAD = 4096
NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_RELATIONS = "{http://schemas.openxmlformats.org/package/2006/relationships}Relationship"

SPREADSHEETS = frozenset({"xlsx", "xlsb", "xls", "ods"})
READABLE = "Word (docx), PDF, Excel (xlsx, xlsb, xls), OpenDocument sheets (ods), PowerPoint (pptx), HTML, EPUB and CSV"
_OLD = {
    "WordDocument": ("an old Word document (doc)", "docx"),
    "PowerPoint Document": ("an old PowerPoint presentation (ppt)", "pptx"),
}
_OTHER_PACKAGES = {
    "application/vnd.oasis.opendocument.text": ("an OpenDocument text (odt)", "docx"),
    "application/vnd.oasis.opendocument.presentation": ("an OpenDocument presentation (odp)", "pptx"),
}


def library(name: str) -> Any:
    """A parser: imported where it is used, and without types of its own."""
    return import_module(name)


# Errors of their own


def damaged(name: str, why: object = "") -> ToolError:
    """The file breaks off, or says of itself what is not so."""
    words = flattened(str(why), 200).rstrip(".")
    return ToolError(
        phrase("`{name}` is damaged: {why}.", name=name, why=words)
        if words
        else phrase("`{name}` is damaged.", name=name),
        suggestion=advice("Ask the user for another copy of the file.", "Get another copy of the file."),
        details={"code": "damaged"},
    )


def encrypted(name: str) -> ToolError:
    """It cannot be opened without its password."""
    return ToolError(
        phrase("`{name}` is encrypted and opens only with a password.", name=name),
        suggestion=advice("Ask the user for a copy without a password.", "Use a copy without a password."),
        details={"code": "encrypted"},
    )


def unsupported(name: str, what: str, suggestion: str) -> ToolError:
    """What it is is known, and not read here."""
    return ToolError(
        phrase("`{name}` is {what}, which cannot be read here.", name=name, what=what),
        suggestion=suggestion,
        details={"code": "unsupported"},
    )


def harmful(name: str, why: str) -> ToolError:
    """It was made to fill the memory or the disk of whoever opens it."""
    return ToolError(
        phrase("`{name}` is not opened: {why}.", name=name, why=why),
        suggestion=advice(
            "Ask the user where the file comes from, and go on without it.",
            "Find out where the file comes from before you open it.",
        ),
        details={"code": "harmful"},
    )


def no_such_part(message: str, suggestion: str) -> ToolError:
    """A page, a sheet or a heading that the document does not have."""
    return ToolError(message, kind=ErrorKind.NOT_FOUND, suggestion=suggestion, details={"code": "part"})


# What it is


def recognise(file: BinaryIO, name: str) -> str:
    """`docx`, `pptx`, `xlsx`, `xlsb`, `xls`, `ods`, `epub`, `pdf`, `html` or `csv`; leaves the file at its start."""
    file.seek(0)
    head = file.read(_HEAD)
    file.seek(0)
    if not head:
        raise damaged(name, phrase("it is empty"))
    if b"%PDF-" in head[:1024]:
        return "pdf"
    if head[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        return _package_kind(file, name)
    if head.startswith(_OLE):
        # The directory names its streams in UTF-16, so a search finds them wherever the directory lies.
        found = _found(file, ("EncryptedPackage", "WordDocument", "PowerPoint Document", "Workbook", "Book"))
        if "EncryptedPackage" in found:
            raise encrypted(name)
        if old := next((one for one in _OLD if one in found), None):
            raise unsupported(name, _OLD[old][0], _convert_to(_OLD[old][1]))
        if found:
            return "xls"
        raise unsupported(
            name,
            "a file of an old Windows program",
            advice("Ask the user for it in another format.", "Save it in another format."),
        )
    if head.startswith(b"{\\rtf"):
        raise unsupported(name, "a rich text file (rtf)", _convert_to("docx"))
    return _text_kind(file, head, name)


def _convert_to(suffix: str) -> str:
    return phrase(
        "Convert it first, with LibreOffice for example: soffice --headless --convert-to {suffix} FILE", suffix=suffix
    )


def _package_kind(file: BinaryIO, name: str) -> str:
    package = Package(file, name)
    names = package.names
    if "mimetype" in names:
        media = package.read("mimetype", most=200).decode("ascii", "replace").strip()
        if media == "application/epub+zip":
            return "epub"
        if media.startswith("application/vnd.oasis.opendocument.spreadsheet"):
            return "ods"
        if media in _OTHER_PACKAGES:
            raise unsupported(name, _OTHER_PACKAGES[media][0], _convert_to(_OTHER_PACKAGES[media][1]))
    if "META-INF/container.xml" in names:
        return "epub"
    if "[Content_Types].xml" in names:
        main = package.main_part().lower()
        kinds = {"word/": "docx", "ppt/": "pptx", "xl/": "xlsb" if main.endswith(".bin") else "xlsx"}
        for start, kind in kinds.items():
            if main.startswith(start):
                return kind
        types = package.read("[Content_Types].xml", most=1 << 20)
        for mark, kind in ((b"wordprocessingml", "docx"), (b"presentationml", "pptx"), (b"spreadsheetml", "xlsx")):
            if mark in types:
                return kind
    raise unsupported(name, "a zip archive, not a document", phrase("Unpack it with a command."))


def _found(file: BinaryIO, names: tuple[str, ...]) -> set[str]:
    wanted = {name: name.encode("utf-16-le") + b"\0\0" for name in names}
    found: set[str] = set()
    before = b""
    while piece := file.read(1 << 20):
        found |= {name for name, mark in wanted.items() if mark in before + piece}
        before = piece[-64:]
    file.seek(0)
    return found


def _text_kind(file: BinaryIO, head: bytes, name: str) -> str:
    suffix = PurePosixPath(name.lower()).suffix
    plain = head.replace(b"\0", b"").lstrip(b"\xef\xbb\xbf\xff\xfe \t\r\n").lower()
    if plain.startswith((b"<!doctype html", b"<html")) or (b"<html" in plain[:1024] and plain.startswith(b"<")):
        return "html"
    if b"\0" in head and not head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise unsupported(
            name, "not a document of a kind that is known", phrase("These are read: {kinds}.", kinds=READABLE)
        )
    if suffix in (".html", ".htm", ".xhtml"):
        return "html"
    if suffix in (".csv", ".tsv", ".tab"):
        return "csv"
    if suffix in (".xls", ".xlsx") and b"\t" in head and not plain.startswith(b"<"):
        return "csv"  # what many programs export under this name
    raise unsupported(name, "a text file", phrase("Read it with Read."))


# The package


def local_name(element: Any) -> str:
    """What an element is called, whatever its namespace; empty for a comment."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


class Package:
    """The members of a zip, none of which is unpacked before all were checked."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self.name = name
        self._mentioned: dict[str, frozenset[bytes]] = {}
        try:
            self.zip = zipfile.ZipFile(file)
            self._check()
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
            raise damaged(name, _zip_words(error)) from None
        self.names = set(self.zip.namelist())

    def _check(self) -> None:
        members = self.zip.infolist()
        if len(members) > _MOST_MEMBERS:
            raise harmful(self.name, phrase("it holds {count} files", count=f"{len(members):,}"))
        unpacked = sum(one.file_size for one in members)
        packed = sum(one.compress_size for one in members)
        if unpacked > MOST_UNPACKED or (unpacked > _RATIO_MATTERS and unpacked > _MOST_RATIO * max(packed, 1)):
            raise harmful(
                self.name,
                phrase("its {packed} bytes would unpack to {unpacked}", packed=f"{packed:,}", unpacked=f"{unpacked:,}"),
            )
        end = 0
        for one in sorted(members, key=lambda member: member.header_offset):
            if one.header_offset < end:
                raise harmful(self.name, phrase("its members overlap"))
            end = one.header_offset + one.compress_size
            if one.flag_bits & 1:
                raise encrypted(self.name)

    def read(self, member: str, most: int = 256 << 20) -> bytes:
        """A member's bytes; `most` guards against one that is larger than its purpose can be."""
        with self.open(member) as opened:
            data = self._reading(lambda: opened.read(most + 1))
        if len(data) > most:
            raise harmful(self.name, phrase("its part `{member}` is too large", member=member))
        return data

    def mentions(self, member: str) -> frozenset[bytes]:
        """Which of `SIGNS` occur in a sheet, found without holding it."""
        if member not in self._mentioned:
            found: set[bytes] = set()
            with self.open(member) as opened:
                before = b""
                while piece := self._reading(lambda: opened.read(1 << 20)):
                    text = before + piece
                    found.update(sign for sign in SIGNS if sign in text)
                    before = piece[-8:]
            self._mentioned[member] = frozenset(found)
        return self._mentioned[member]

    def open(self, member: str) -> IO[bytes]:
        """A member as a file. Bytes past what it declares never come, and a wrong sum is an error."""
        try:
            return self.zip.open(member)
        except KeyError:
            raise damaged(self.name, phrase("its part `{member}` is missing", member=member)) from None
        except (zipfile.BadZipFile, OSError, NotImplementedError, RuntimeError) as error:
            raise damaged(self.name, _zip_words(error)) from None

    def _reading(self, read: Any) -> bytes:
        try:
            return read()
        except (zipfile.BadZipFile, EOFError, zlib.error, OSError, NotImplementedError) as error:
            raise damaged(self.name, _zip_words(error)) from None

    def root(self, member: str) -> Any:
        """A part as an lxml tree, without entities, documents elsewhere, or the network."""
        etree = library("lxml.etree")
        parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=False)
        data = self.read(member)
        try:
            root = etree.fromstring(data, parser)
        except etree.XMLSyntaxError as error:
            raise damaged(self.name, error) from None
        if root.getroottree().docinfo.internalDTD is not None:
            raise harmful(self.name, phrase("it declares entities of its own"))
        return root

    def children(self, member: str, depth: int) -> Iterator[Any]:
        """The elements of a part that lie this deep, each as it ends: a large part is never held as one tree."""
        etree = library("lxml.etree")
        with self.open(member) as opened:
            try:
                walk = etree.iterparse(opened, events=("start", "end"), resolve_entities=False, no_network=True,
                                       huge_tree=False, remove_comments=True, remove_pis=True)  # fmt: skip
                level = 0
                for event, element in walk:
                    if event == "start":
                        level += 1
                        if level == 1 and element.getroottree().docinfo.internalDTD is not None:
                            raise harmful(self.name, phrase("it declares entities of its own"))
                        continue
                    level -= 1
                    if level == depth:
                        yield element
                        element.clear()
                        while element.getprevious() is not None:
                            del element.getparent()[0]
            except (etree.XMLSyntaxError, zipfile.BadZipFile, EOFError, zlib.error) as error:
                raise damaged(self.name, error) from None

    def main_part(self) -> str:
        """The part that the others hang on: `word/document.xml` in most files."""
        for kind, target in self.relations("").values():
            if kind.endswith("/officeDocument"):
                return target
        return ""

    def relations(self, part: str) -> dict[str, tuple[str, str]]:
        """What a part refers to: id to type and member name (or address, where it lies outside)."""
        folder, _, base = part.rpartition("/")
        member = f"{folder}/_rels/{base}.rels" if folder else f"_rels/{base}.rels"
        if member not in self.names:
            return {}
        found: dict[str, tuple[str, str]] = {}
        for one in self.root(member).iter(_RELATIONS):
            target = one.get("Target", "")
            if one.get("TargetMode") != "External":
                target = joined(folder, target)
            found[one.get("Id", "")] = one.get("Type", ""), target
        return found

    def related(self, part: str, kind: str) -> list[str]:
        """The members of a kind that a part refers to and that are there, in their order of numbers."""
        found = {target for type_, target in self.relations(part).values() if type_.rpartition("/")[2] == kind}
        return sorted(found & self.names, key=lambda one: (len(one), one))

    def properties(self) -> dict[str, str]:
        """Title, author and the like, as the file's own properties tell."""
        if "docProps/core.xml" not in self.names:
            return {}
        found: dict[str, str] = {}
        for one in self.root("docProps/core.xml"):
            if text := (one.text or "").strip():
                found[local_name(one)] = text
        kept = ("title", "creator", "subject", "description", "keywords", "created", "modified", "lastModifiedBy")
        return {key: found[key] for key in kept if key in found}


def joined(folder: str, target: str) -> str:
    """A member's name from where it is referred to."""
    return posixpath.normpath(posixpath.join("/", folder, target)).lstrip("/")


def _zip_words(error: Exception) -> str:
    return str(error) or type(error).__name__
