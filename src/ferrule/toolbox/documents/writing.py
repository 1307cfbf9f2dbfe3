"""Makes Word, PDF, Excel and PowerPoint files of Markdown or of rows, and text files of documents, in the child."""

from __future__ import annotations

import csv
import io
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, NamedTuple

from ferrule import ToolError
from ferrule.extension import advice, phrase
from ferrule.toolbox.child import ChildAnswer
from ferrule.toolbox.documents.formats import NOT_IN_XML, library, recognise
from ferrule.toolbox.failures import invalid

_CODE_FONT = "Courier New"
_LINES_ON_SLIDE = 14
_SHEET_NAME = re.compile(r"[\[\]:*?/\\]")
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,15})?")


def write(order: dict[str, Any], template: BinaryIO | None = None) -> ChildAnswer:
    """Runs in the child. `order`: name and content; gives an outline, and the bytes of the file."""
    suffix = PurePosixPath(order["name"]).suffix.lower().lstrip(".")
    if template is not None and (kind := recognise(template, order["template"])) != suffix:
        raise invalid(
            phrase("`{name}` is not a {kind} file, and a template must be one.", kind=kind, name=order["name"]),
            phrase("Use a template of the same kind; docx and pptx can have one."),
        )
    return made(suffix, order["content"], template)


def made(suffix: str, content: str | list[list[Any]], template: BinaryIO | None = None) -> ChildAnswer:
    if isinstance(content, str):
        content = NOT_IN_XML.sub("", content)
    makers = {"docx": _docx, "pdf": _pdf, "xlsx": _xlsx, "pptx": _pptx}
    outline, data = makers[suffix](content, template)
    return ChildAnswer({"outline": outline[:200]}, data)


def convert(order: dict[str, Any], file: BinaryIO) -> ChildAnswer:
    """Runs in the child: the whole of one document as another."""
    from ferrule.toolbox.documents.reading import ShownPart, open_document
    from ferrule.toolbox.documents.sheets import Workbook, fitted, shown

    kind, document = open_document(file, order["name"], order.get("engine", ""))
    suffix = PurePosixPath(order["to"]).suffix.lower().lstrip(".")
    outline = [f"{one.text} ({one.where})" if one.where else one.text for one in document.outline()][:200]
    lost = phrase("Only text and tables were carried over, without formats and images.")
    if isinstance(document, Workbook) and suffix in ("xlsx", "csv"):
        grid = document.grid
        names = grid.names() if suffix == "xlsx" else grid.names()[:1]
        sheets = {
            name: [fitted(values, left, area) for _, left, values in grid.rows(name, area)]
            if (area := grid.used(name))
            else []
            for name in names
        }
        if suffix == "xlsx":
            lost = phrase("Only values were carried over, without formulas and formats.")
            return ChildAnswer({"from": kind, "outline": outline, "note": lost}, _workbook(sheets))
        lost = phrase("Only the first sheet was carried over.") if len(grid.names()) > 1 else ""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([[shown(one) for one in line] for line in sheets[names[0]]])
        return ChildAnswer({"from": kind, "outline": outline, "note": lost}, text.getvalue().encode())
    page = ShownPart(0, 1 << 40, to_the_end=True, most=1 << 40)
    page.fill(document.blocks(""))
    markdown = page.told()["content"]
    if suffix == "csv":
        raise invalid(phrase("A {kind} file is not a table.", kind=kind), phrase("Convert it to md or docx."))
    if suffix in ("md", "txt"):
        data = f"{markdown}\n".encode()
    elif suffix == "html":
        page_of = '<!DOCTYPE html>\n<html><head><meta charset="utf-8"></head><body>\n{}</body></html>\n'
        data = page_of.format(_markdown().render(markdown)).encode()
    else:
        data = made(suffix, markdown).data
    return ChildAnswer({"from": kind, "outline": outline, "note": lost}, data)


# Markdown as what it is made of


def _markdown() -> Any:
    return library("markdown_it").MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


@dataclass(slots=True)
class WrittenPiece:
    """A heading, a paragraph, a list item, a code block, a table or a rule."""

    kind: str
    runs: list[Run] = field(default_factory=list["Run"])
    level: int = 0
    ordered: bool = False
    rows: list[list[list[Run]]] = field(default_factory=list[list[list["Run"]]])

    @property
    def text(self) -> str:
        return "".join(one.text for one in self.runs)


class Run(NamedTuple):
    """Text in one form."""

    text: str
    bold: bool = False
    italic: bool = False
    strike: bool = False
    code: bool = False
    link: str = ""


def parsed(content: str | list[list[Any]]) -> Iterator[WrittenPiece]:
    """The pieces of Markdown, or of rows as one table."""
    from ferrule.toolbox.documents.sheets import shown

    if not isinstance(content, str):
        yield WrittenPiece("table", rows=[[[Run(shown(value))] for value in line] for line in content])
        return
    lists: list[bool] = []
    quotes = 0
    table: WrittenPiece | None = None
    for token in (tokens := iter(_markdown().parse(content))):
        match token.type:
            case "heading_open":
                yield WrittenPiece("heading", _runs(next(tokens)), int(token.tag[1]))
            case "bullet_list_open" | "ordered_list_open":
                lists.append(token.type.startswith("ordered"))
            case "bullet_list_close" | "ordered_list_close":
                lists.pop()
            case "blockquote_open":
                quotes += 1
            case "blockquote_close":
                quotes -= 1
            case "fence" | "code_block":
                yield WrittenPiece("code", [Run(token.content.rstrip("\n"))])
            case "hr":
                yield WrittenPiece("rule")
            case "table_open":
                table = WrittenPiece("table")
            case "tr_open" if table is not None:
                table.rows.append([])
            case "table_close" if table is not None:
                yield table
                table = None
            case "inline" if table is not None:
                table.rows[-1].append(_runs(token))
            case "inline":
                kind = "item" if lists else "quote" if quotes else "text"
                yield WrittenPiece(kind, _runs(token), max(len(lists) - 1, 0), bool(lists) and lists[-1])
            case _:
                pass


def _runs(inline: Any) -> list[Run]:
    found: list[Run] = []
    bold = italic = strike = False
    link = ""
    for token in inline.children or ():
        match token.type:
            case "strong_open" | "strong_close":
                bold = token.nesting == 1
            case "em_open" | "em_close":
                italic = token.nesting == 1
            case "s_open" | "s_close":
                strike = token.nesting == 1
            case "link_open":
                link = str(token.attrGet("href") or "")
            case "link_close":
                link = ""
            case "softbreak":
                found.append(Run(" "))
            case "hardbreak":
                found.append(Run("\n"))
            case "image":
                found.append(Run(f"[image: {token.content}]"))
            case "text" | "code_inline":
                text = token.content.replace("<br>", "\n")
                found.append(Run(text, bold, italic, strike, token.type == "code_inline", link))
            case _:
                pass
    return found


# Word


def _docx(content: Any, template: BinaryIO | None) -> tuple[list[str], bytes]:
    docx = library("docx")
    document: Any = docx.Document(template)
    if template is not None:
        body = document.element.body
        for one in list(body):
            if not one.tag.endswith("}sectPr"):
                body.remove(one)
    styles = {one.name for one in document.styles}
    outline: list[str] = []
    for piece in parsed(content):
        if piece.kind == "table":
            width = max((len(line) for line in piece.rows), default=0)
            if width:
                table = document.add_table(rows=len(piece.rows), cols=width)
                table.style = "Table Grid" if "Table Grid" in styles else None
                for position, (line, cells) in enumerate(zip(piece.rows, table.rows, strict=True)):
                    for runs, cell in zip(line, cells.cells, strict=False):
                        _docx_runs(cell.paragraphs[0], runs)
                        for cell_run in cell.paragraphs[0].runs if position == 0 else ():
                            cell_run.bold = True
        elif piece.kind == "heading":
            outline.append(f"{'  ' * (piece.level - 1)}{piece.text}")
            level = f"Heading {piece.level}"
            paragraph = document.add_paragraph(style=level if level in styles else None)
            _docx_runs(paragraph, piece.runs)
        elif piece.kind == "rule":
            document.add_paragraph("―" * 20)
        else:
            name = {"item": "List Number" if piece.ordered else "List Bullet", "quote": "Quote"}.get(piece.kind)
            if name and piece.kind == "item" and piece.level:
                deeper = f"{name} {min(piece.level + 1, 3)}"
                name = deeper if deeper in styles else name
            paragraph = document.add_paragraph(style=name if name in styles else None)
            if piece.kind == "code":
                run = paragraph.add_run(piece.text)
                run.font.name = _CODE_FONT
            else:
                _docx_runs(paragraph, piece.runs)
    out = io.BytesIO()
    document.save(out)
    return outline, out.getvalue()


def _docx_runs(paragraph: Any, runs: Sequence[Run]) -> None:
    for one in runs:
        run = paragraph.add_run(one.text)
        run.bold, run.italic, run.font.strike = one.bold or None, one.italic or None, one.strike or None
        if one.code:
            run.font.name = _CODE_FONT
        if one.link:
            from docx.opc.constants import RELATIONSHIP_TYPE
            from docx.oxml.ns import qn
            from docx.shared import RGBColor

            link = library("docx.oxml").OxmlElement("w:hyperlink")
            link.set(qn("r:id"), paragraph.part.relate_to(one.link, RELATIONSHIP_TYPE.HYPERLINK, is_external=True))
            run.font.underline, run.font.color.rgb = True, RGBColor(0x05, 0x63, 0xC1)
            paragraph._p.append(link)  # noqa: SLF001 - python-docx reads links and does not make them
            link.append(run._r)  # noqa: SLF001


# PDF


def _pdf(content: Any, template: BinaryIO | None) -> tuple[list[str], bytes]:
    fpdf = library("fpdf")
    if template is not None:
        raise invalid(phrase("A PDF has no template."), phrase("Leave out `template`."))
    pieces = list(parsed(content))
    text = "".join(one.text for one in pieces) + "".join(
        run.text for one in pieces for line in one.rows for cell in line for run in cell
    )
    pdf = fpdf.FPDF()
    pdf.set_auto_page_break(True, 18)
    family = _with_font(pdf, text)
    pdf.add_page()
    html = _pdf_html(content, pieces)
    sizes = {1: 22, 2: 17, 3: 14, 4: 12, 5: 11, 6: 11}
    styles = {
        f"h{level}": fpdf.TextStyle(family, font_style="B", font_size_pt=size, color=(0, 0, 0), t_margin=4, b_margin=2)
        for level, size in sizes.items()
    }
    code = fpdf.FontFace(family=family if family == "text" else "courier")
    pre = fpdf.TextStyle(font_family=code.family, font_size_pt=9, t_margin=2, b_margin=2)
    pdf.write_html(html, font_family=family, tag_styles={**styles, "code": code, "pre": pre})
    return [f"{'  ' * (one.level - 1)}{one.text}" for one in pieces if one.kind == "heading"], bytes(pdf.output())


def _pdf_html(content: Any, pieces: list[WrittenPiece]) -> str:
    from html import escape

    if isinstance(content, str):
        tokens = _markdown().parse(content)
        for token in tokens:  # an image would be fetched
            for child in token.children or ():
                if child.type == "image":
                    child.type, child.tag, child.content = "text", "", f"[image: {child.content}]"
        renderer = _markdown()
        html: str = renderer.renderer.render(tokens, renderer.options, {})
        return re.sub(r"<t([hd])>\s*</t[hd]>", r"<t\1>&nbsp;</t\1>", html).replace("<table>", '<table border="1">')
    rows = "".join(
        "<tr>" + "".join(f"<td>{escape(run[0].text) or '&nbsp;'}</td>" for run in line) + "</tr>"
        for line in pieces[0].rows
    )
    return f'<table border="1">{rows}</table>'


def _with_font(pdf: Any, text: str) -> str:
    """A font that has every character of a text: one that comes with PDF where Latin letters are enough."""
    if all(ord(one) < 256 for one in text):
        pdf.set_font("helvetica", size=11)
        return "helvetica"
    needed = sorted({one for one in text if ord(one) > 126 and one.isprintable()})
    lacking = needed
    for regular in _fonts(needed):
        missing = _missing(regular, needed)
        if missing is None or missing:
            lacking = min(lacking, missing or lacking, key=len)
            continue
        endings = (("-Regular", "-Bold"), ("Sans.ttf", "Sans-Bold.ttf"), ("-regular", "-bold"))
        bolds = [regular.replace(old, new) for old, new in endings if old in regular]
        bold = next((one for one in bolds if Path(one).exists()), regular)
        pdf.add_font("text", "", regular)
        for style, file in (("B", bold), ("I", regular), ("BI", bold)):
            pdf.add_font("text", style, file)
        pdf.set_font("text", size=11)
        return "text"
    raise ToolError(
        phrase("No installed font has all characters of the text, such as `{some}`.", some="".join(lacking[:10])),
        suggestion=advice(
            "Write a docx instead, or ask the user to install fonts such as Noto Sans CJK or DejaVu.",
            "Write a docx instead, or install fonts such as Noto Sans CJK or DejaVu.",
        ),
    )


def _fonts(needed: Sequence[str]) -> Iterator[str]:
    """Files of fonts: those that fontconfig knows for these characters, then those that lie in the usual folders."""
    if program := shutil.which("fc-list"):
        codes = " ".join(f"{ord(one):x}" for one in needed[:200])
        said = subprocess.run([program, f":charset={codes}:fontformat=TrueType", "file"],  # noqa: S603 - fontconfig
                              capture_output=True, check=False, text=True)  # fmt: skip
        known = [line.split(":")[0] for line in said.stdout.splitlines() if line.strip()]
        yield from sorted(known, key=lambda one: ("Sans-Regular" not in one and "Sans.ttf" not in one, "Bold" in one,
                                                  "Mono" in one, one))  # fmt: skip
    for folder in ("/usr/share/fonts", "/usr/local/share/fonts", "/Library/Fonts", "/System/Library/Fonts"):
        yield from map(str, sorted(Path(folder).glob("**/*.tt[fc]")))


def _missing(file: str, needed: Sequence[str]) -> list[str] | None:
    """Which characters a font lacks; None for a file that is no font."""
    fonts = library("fontTools.ttLib")
    try:
        known: dict[int, str] = fonts.TTFont(file, fontNumber=0, lazy=True).getBestCmap() or {}
    except (fonts.TTLibError, OSError):
        return None
    return [one for one in needed if ord(one) not in known]


# Excel


def _xlsx(content: Any, template: BinaryIO | None) -> tuple[list[str], bytes]:
    if template is not None:
        raise invalid(
            phrase("A new workbook has no template."), phrase("Copy the workbook, and set its cells with EditDocument.")
        )
    sheets: dict[str, list[list[Any]]] = {}
    if not isinstance(content, str):
        sheets["Sheet1"] = content
    else:
        title = ""
        for piece in parsed(content):
            if piece.kind == "heading":
                title = piece.text
            elif piece.kind == "table":
                rows = [[_typed("".join(run.text for run in cell)) for cell in line] for line in piece.rows]
                found = sheets.setdefault(title or f"Sheet{len(sheets) + 1}", [])
                found.extend([[], *rows] if found else rows)
        if not sheets:
            raise invalid(
                phrase("The content has no table, and a workbook is made of tables."),
                phrase("Give rows, or Markdown tables with a heading for each sheet."),
            )
    return list(sheets), _workbook(sheets)


def _typed(text: str) -> Any:
    """Numbers as numbers; what could lose a digit or a leading zero stays text."""
    plain = text.strip()
    return (float(plain) if "." in plain else int(plain)) if _NUMBER.fullmatch(plain) else text


def _workbook(sheets: dict[str, list[list[Any]]]) -> bytes:
    openpyxl = library("openpyxl")
    write_only_cell = library("openpyxl.cell").WriteOnlyCell
    book: Any = openpyxl.Workbook(write_only=True)
    for name, rows in sheets.items():
        sheet = book.create_sheet(_SHEET_NAME.sub(" ", name)[:31].strip("' ") or "Sheet")
        for line in rows:
            cells: list[Any] = []
            for value in line:
                made = write_only_cell(sheet, NOT_IN_XML.sub("", value)[:32_767] if isinstance(value, str) else value)
                if isinstance(value, str):
                    made.data_type = "s"  # never a formula: who wants one sets it with EditDocument
                cells.append(None if value is None or value == "" else made)
            sheet.append(cells)
    if not sheets:
        book.create_sheet("Sheet1")
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


# PowerPoint


def _pptx(content: Any, template: BinaryIO | None) -> tuple[list[str], bytes]:
    pptx = library("pptx")
    show: Any = pptx.Presentation(template)
    if template is not None:
        listed = show.slides._sldIdLst  # noqa: SLF001 - python-pptx has no way to remove a slide
        for one in list(listed):
            show.part.drop_rel(one.rId)
            listed.remove(one)
    deck = _Deck(show)
    for piece in parsed(content):
        if piece.kind == "heading" and (piece.level <= 2 or deck.slide is None):
            deck.begin(piece.text, cover=piece.level == 1 and not deck.titles)
        elif piece.kind == "rule":
            deck.body = None
            deck.slide = None
        elif piece.kind == "table":
            deck.table(piece)
        else:
            deck.text(piece)
    out = io.BytesIO()
    show.save(out)
    return deck.titles, out.getvalue()


class _Deck:
    """Slides as they are filled."""

    def __init__(self, show: Any) -> None:
        self.show = show
        self.slide: Any = None
        self.body: Any = None
        self.titles: list[str] = []
        self._lines = 0

    def begin(self, title: str, *, cover: bool = False) -> None:
        layouts = self.show.slide_layouts
        self.slide = self.show.slides.add_slide(layouts[0 if cover or len(layouts) < 2 else 1])
        self.titles.append(title)
        if self.slide.shapes.title is not None:
            self.slide.shapes.title.text_frame.text = title
        self.body = next((one.text_frame for one in self.slide.placeholders if one.placeholder_format.idx == 1), None)
        self._lines = 0

    def text(self, piece: WrittenPiece) -> None:
        lines = piece.text.split("\n") if piece.kind == "code" else [piece.text]
        for line in lines:
            if self.slide is None:
                self.begin(self.titles[-1] if self.titles else "")
            elif self._lines >= _LINES_ON_SLIDE:
                self.begin(f"{self.titles[-1].removesuffix(' (continued)')} (continued)")
            if self.body is None:
                from pptx.util import Inches

                slide: Any = self.slide
                width = self.show.slide_width - Inches(1.4)
                self.body = slide.shapes.add_textbox(Inches(0.7), Inches(1.8), width, Inches(4)).text_frame
                self.body.word_wrap = True
            paragraph = self.body.paragraphs[0] if not self._lines else self.body.add_paragraph()
            paragraph.level = min(piece.level, 8)
            for one in piece.runs if piece.kind != "code" else [Run(line)]:
                run = paragraph.add_run()
                run.text = one.text
                run.font.bold, run.font.italic = one.bold or None, one.italic or None
                if one.code or piece.kind == "code":
                    run.font.name = _CODE_FONT
                if one.link:
                    run.hyperlink.address = one.link
            self._lines += 1 + len(piece.text) // 90

    def table(self, piece: WrittenPiece) -> None:
        from pptx.util import Inches, Pt

        width = max((len(line) for line in piece.rows), default=0)
        head, rest = piece.rows[:1], piece.rows[1:]
        for start in range(0, max(len(rest), 1), _LINES_ON_SLIDE):
            if self.slide is None or self._lines or start:
                self.begin(self.titles[-1] if self.titles else "")
            rows = [*head, *rest[start : start + _LINES_ON_SLIDE]]
            slide: Any = self.slide
            if self.body is not None:
                for one in list[Any](slide.placeholders):
                    if one.placeholder_format.idx == 1:
                        one.element.getparent().remove(one.element)
                self.body = None
            room = self.show.slide_width - Inches(1)
            grid = slide.shapes.add_table(len(rows), max(width, 1), Inches(0.5), Inches(1.6), room, Inches(0.3))
            for line, cells in zip(rows, grid.table.rows, strict=True):
                for runs, one in zip(line, cells.cells, strict=False):
                    one.text_frame.text = "".join(run.text for run in runs)
                    for paragraph in one.text_frame.paragraphs:
                        paragraph.font.size = Pt(14)
            self._lines = _LINES_ON_SLIDE
