"""ReadDocument gives the text of every kind of document, part by part, and a clear error for what it cannot read."""
# ruff: noqa: E501 - a text that is pinned stands on one line

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from .office import Office, docx_of, members_of, package, saved


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path / "papers")


def pdf_of(*pages: str, password: str = "") -> bytes:
    from fpdf import FPDF

    made = FPDF()
    if password:
        made.set_encryption(owner_password="owner", user_password=password)
    for text in pages:
        made.add_page()
        made.set_font("helvetica", size=12)
        made.multi_cell(0, 6, text)
    return bytes(made.output())


def workbook(**sheets: list[list[Any]]) -> bytes:
    import openpyxl

    book: Any = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for line in rows:
            sheet.append(line)
    return saved(book)


def test_a_word_document_with_all_that_other_readers_miss(office: Office) -> None:
    run = "<w:r><w:t>{}</w:t></w:r>"
    office.put(
        "a.docx",
        docx_of(
            '<w:pPr><w:outlineLvl w:val="0"/></w:pPr>' + run.format("Terms"),
            run.format("kept ") + "<w:ins>" + run.format("inserted") + "</w:ins>"
            "<w:del><w:r><w:delText>deleted</w:delText></w:r></w:del><w:moveFrom>" + run.format("moved") + "</w:moveFrom>",
            '<w:r><mc:AlternateContent><mc:Choice Requires="wps"><w:txbxContent><w:p>' + run.format("in a box")
            + "</w:p></w:txbxContent></mc:Choice><mc:Fallback>" + run.format("twice") + "</mc:Fallback></mc:AlternateContent></w:r>",
            "<w:tbl><w:tr><w:tc><w:p>" + run.format("a|b") + "</w:p></w:tc><w:tc><w:p>" + run.format("c")
            + "</w:p></w:tc></w:tr><w:tr><w:sdt><w:sdtContent><w:tc><w:p>" + run.format("control")
            + "</w:p></w:tc></w:sdtContent></w:sdt></w:tr></w:tbl>",
            "<w:r><w:t>x</w:t><w:tab/><w:t>y</w:t><w:br/><w:t>z</w:t></w:r>",
        ),
    )  # fmt: skip
    assert office.read("a.docx") == snapshot("""\
# Terms

kept inserted

in a box

| a\\|b | c |
| --- | --- |
| control |  |

x y
z
[docx]\
""")
    assert office.read("a.docx", view="tables") == snapshot("""\
| a\\|b | c |
| --- | --- |
| control |  |
[docx]\
""")


def test_a_part_is_a_heading_with_all_below_it(office: Office) -> None:
    import docx

    made: Any = docx.Document()
    for level, title in ((1, "One"), (2, "Deep"), (1, "Two")):
        made.add_heading(title, level)
        made.add_paragraph(f"text of {title}")
    made.sections[0].footer.paragraphs[0].text = "page foot"
    office.put("a.docx", saved(made))
    assert office.read("a.docx", part="one") == snapshot("""\
# One

text of One

## Deep

text of Deep
[docx]\
""")
    assert office.read("a.docx", view="outline") == snapshot("""\
- One
  - Deep
- Two
[docx]\
""")
    assert "Footer: page foot" in office.read("a.docx")
    assert office.read("a.docx", find="TEXT  of deep") == "under `Deep`: text of Deep\n[docx]"
    assert office.refused("ReadDocument", "a.docx", part="Dep") == snapshot("""\
Error (not_found_error): There is no heading `Dep`.

Suggestion: Did you mean `Deep`? Headings: `One`, `Deep`, `Two`.\
""")


def test_long_documents_come_in_pages_that_say_how_to_read_on(office: Office) -> None:
    import docx

    made: Any = docx.Document()
    for number in range(5):
        made.add_paragraph(f"line {number}")
    office.put("a.docx", saved(made))
    first = office.call("ReadDocument", "a.docx", limit=3)
    assert first.llm_content == "line 0\n\nline 1\n[docx; 9 lines; read on with offset=3]"
    assert office.read("a.docx", offset=first.metadata["next_offset"]) == "line 2\n\nline 3\n\nline 4\n[docx]"


def pdf_with(*parts: str) -> bytes:
    """A PDF of these objects, numbered from 1."""
    file, places = "%PDF-1.4\n", ""
    for number, part in enumerate(parts, 1):
        places += f"{len(file):010} 00000 n \n"
        file += f"{number} 0 obj\n{part}\nendobj\n"
    size = len(parts) + 1
    table = f"xref\n0 {size}\n0000000000 65535 f \n{places}trailer\n<</Size {size}/Root 1 0 R>>\n"
    return f"{file}{table}startxref\n{len(file)}\n%%EOF\n".encode()


def test_letters_far_above_each_other_are_not_one_word(office: Office) -> None:
    blanks = [(y, " ") for y in range(80, 700, 20)]
    lines = (f"BT /F 12 Tf 1 0 0 -1 0 {y} Tm 48 0 Td ({text}) Tj ET" for y, text in [(60, "a"), *blanks, (700, "z")])
    shown = "\n".join(["1 0 0 -1 0 792 cm", *lines])  # as browsers print: from the top, every blank line set
    font = "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"
    office.put(
        "set.pdf",
        pdf_with(
            "<</Type/Catalog/Pages 2 0 R>>",
            "<</Type/Pages/Kids[3 0 R]/Count 1>>",
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 792]/Resources<</Font<</F {font}>>>>/Contents 4 0 R>>",
            f"<</Length {len(shown)}>>stream\n{shown}\nendstream",
        ),
    )
    assert office.read("set.pdf") == "[page 1]\n\na\nz\n[pdf, 1 page]"


def test_pages_of_a_pdf(office: Office) -> None:
    office.put("a.pdf", pdf_of(*(f"This is page {number}\nwith two lines" for number in range(1, 6))))
    assert office.read("a.pdf", part="2-3", limit=5) == snapshot("""\
[page 2]

This is page 2
with two lines
[pdf, 5 pages; read on with part="3-3"]\
""")
    assert office.read("a.pdf", find="page 4 with") == "page 4: This is page 4 with two lines\n[pdf, 5 pages]"
    assert office.refused("ReadDocument", "a.pdf", part="9") == snapshot("""\
Error (not_found_error): `a.pdf` has no page 9.

Suggestion: It has 5, numbered from 1.\
""")
    office.put("empty.pdf", pdf_of(""))
    assert "probably scanned images" in office.read("empty.pdf")


def test_what_fields_and_stamps_show_is_part_of_a_page(office: Office) -> None:
    shown = "BT /F 12 Tf 5 5 Td (filled in by Ann) Tj ET"
    font = "<</Font<</F<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>"
    parts = (
        "<</Type/Catalog/Pages 2 0 R>>",
        "<</Type/Pages/Kids[3 0 R]/Count 1>>",
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 200]/Annots[4 0 R]>>",
        "<</Type/Annot/Subtype/Stamp/Rect[10 10 200 40]/F 4/AP<</N 5 0 R>>>>",
        f"<</Type/XObject/Subtype/Form/BBox[0 0 190 30]/Resources{font}/Length {len(shown)}>>stream\n{shown}\nendstream",
    )
    office.put("form.pdf", pdf_with(*parts))
    assert "filled in by Ann" in office.read("form.pdf")


def test_slides_with_tables_groups_and_notes(office: Office) -> None:
    import pptx
    from pptx.util import Inches

    show: Any = pptx.Presentation()
    for title in ("First", "Second"):
        slide = show.slides.add_slide(show.slide_layouts[1])
        slide.shapes.title.text = title
        slide.placeholders[1].text = f"about {title}"
    group = slide.shapes.add_group_shape()
    group.shapes.add_textbox(0, 0, Inches(1), Inches(1)).text_frame.text = "in a group"
    grid = slide.shapes.add_table(2, 2, 0, 0, Inches(4), Inches(1)).table
    for position, text in enumerate(("a", "b", "1", "2")):
        grid.cell(position // 2, position % 2).text = text
    slide.notes_slide.notes_text_frame.text = "say it slowly"
    office.put("a.pptx", saved(show))
    assert office.read("a.pptx", part="2") == snapshot("""\
## Slide 2: Second

about Second

in a group

| a | b |
| --- | --- |
| 1 | 2 |

Notes: say it slowly
[pptx, 2 slides]\
""")
    assert office.read("a.pptx", view="outline") == "- First (slide 1)\n- Second (slide 2)\n[pptx, 2 slides]"


def test_cells_of_a_workbook(office: Office) -> None:
    import datetime as dt

    rows: list[list[Any]] = [["Region", "Sum", "Day"], ["North", 12.5, dt.date(2026, 1, 31)], ["=text", 3, None]]
    office.put("a.xlsx", workbook(Sales=[*rows, ["All", "=SUM(B2:B3)", True]], Empty=[]))
    assert office.read("a.xlsx") == snapshot("""\
## Sales (A1:C4)

|  | A | B | C |
| --- | --- | --- | --- |
| 1 | Region | Sum | Day |
| 2 | North | 12.5 | 2026-01-31 |
| 3 |  | 3 |  |
| 4 | All |  | TRUE |

Formulas: A3 =text; B4 =SUM(B2:B3)

## Empty (empty)
[xlsx, 2 sheets]
[Values of formulas may be out of date until a spreadsheet program has opened and saved the file.]\
""")
    assert office.read("a.xlsx", part="Sales!B1:C2") == snapshot("""\
## Sales (A1:C4)

|  | B | C |
| --- | --- | --- |
| 1 | Sum | Day |
| 2 | 12.5 | 2026-01-31 |
[xlsx, 2 sheets]
[Values of formulas may be out of date until a spreadsheet program has opened and saved the file.]\
""")
    assert 'read on with part="Sales!A2:C4"' in office.read("a.xlsx", part="sales", limit=5)
    assert office.read("a.xlsx", find="north").startswith("Sales!2: | 2 | North")
    assert office.refused("ReadDocument", "a.xlsx", part="Sale!A1") == snapshot("""\
Error (not_found_error): `a.xlsx` has no sheet `Sale`.

Suggestion: Did you mean `Sales`? Its sheets: `Sales`, `Empty`.\
""")


def test_errors_and_dates_that_count_from_1904_are_read_as_excel_shows_them(office: Office) -> None:
    import datetime as dt

    import openpyxl
    from openpyxl.utils.datetime import MAC_EPOCH

    book: Any = openpyxl.Workbook()
    book.epoch = MAC_EPOCH
    book.active["B3"] = dt.date(2026, 1, 31)
    book.active["C3"] = "#DIV/0!"
    office.put("mac.xlsx", saved(book))
    assert "| 3 | 2026-01-31 | #DIV/0! |" in office.read("mac.xlsx")


def test_a_workbook_with_a_sheet_of_old_macros_is_read(office: Office) -> None:
    plain = workbook(Data=[["x", 5]], Macro=[["=HALT()"]])
    relations = members_of(plain)["xl/_rels/workbook.xml.rels"]
    moved = relations.replace(b"/xl/worksheets/sheet2.xml", b"/xl/macrosheets/sheet2.xml").replace(
        b'http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet" Target="/xl/macro',
        b'http://schemas.microsoft.com/office/2006/relationships/xlMacrosheet" Target="/xl/macro',
    )
    assert moved != relations
    office.put("a.xlsm", package({"xl/_rels/workbook.xml.rels": moved,
                                  "xl/macrosheets/sheet2.xml": members_of(plain)["xl/worksheets/sheet2.xml"]},
                                 like=plain))  # fmt: skip
    assert "| 1 | x | 5 |" in office.read("a.xlsm", part="Data")


def test_old_workbooks_and_text_tables(office: Office) -> None:
    import xlwt  # pyright: ignore[reportMissingTypeStubs]

    book: Any = xlwt.Workbook()
    sheet = book.add_sheet("Old")
    sheet.write(0, 0, "x")
    sheet.write(1, 1, 5)
    office.put("a.xls", saved(book))
    assert "| 2 |  | 5 |" in office.read("a.xls", part="Old")
    first = saved(book).index(b"\x09\x08\x10\x00\x00\x06\x05\x00") + 20  # where the record about a password would be
    office.put("locked.xls", saved(book)[:first] + b"\x2f\x00" + saved(book)[first + 2 :])
    assert "is encrypted and opens only with a password" in office.refused("ReadDocument", "locked.xls")
    office.put("low.xlsx", workbook(Low=[[], [], [None, "third row"]]))
    assert office.read("low.xlsx").startswith("## Low (B3)\n\n|  | B |\n| --- | --- |\n| 3 | third row |")
    office.put("a.csv", 'name;note\r\nAnn;"says ""hi"";\r\ntwice"\r\nZoë;ok\r\n'.encode("cp1252"))
    assert office.read("a.csv") == snapshot("""\
## Sheet1 (A1:B3)

|  | A | B |
| --- | --- | --- |
| 1 | name | note |
| 2 | Ann | says "hi";<br>twice |
| 3 | Zoë | ok |
[csv, 1 sheet]\
""")


def test_web_pages_and_books(office: Office) -> None:
    page = """<html><head><title>T</title><script>no()</script></head><body><h1>Big <em>news</em></h1>
    <p>See <a href="https://example.org/x">this</a> &amp; that.<br>Next</p><ul><li>one<li>two</ul>
    <table><tr><th>a<th>b<tr><td>1<td>2</table><pre>x  =  1</pre></body></html>"""
    office.put("a.html", page)
    assert office.read("a.html") == snapshot("""\
# Big news

See [this](https://example.org/x) & that.
Next
- one
- two

| a | b |
| --- | --- |
| 1 | 2 |

```
x  =  1
```
[html]\
""")
    chapter = "<html xmlns='http://www.w3.org/1999/xhtml'><body><h1>Chapter {0}</h1><p>text {0}</p></body></html>"
    office.put("a.epub", package({
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": "<container><rootfiles><rootfile full-path='o/b.opf'/></rootfiles></container>",
        "o/b.opf": "<package xmlns:dc='http://purl.org/dc/elements/1.1/'><metadata><dc:title>Book</dc:title></metadata>"
        "<manifest><item id='1' href='one.xhtml'/><item id='2' href='two.xhtml'/></manifest>"
        "<spine><itemref idref='2'/><itemref idref='1'/></spine></package>",
        "o/one.xhtml": chapter.format("one"), "o/two.xhtml": chapter.format("two"),
    }))  # fmt: skip
    assert office.read("a.epub", part="1") == "[chapter 1]\n\n# Chapter two\n\ntext two\n[epub, 2 chapters]"
    assert office.read("a.epub", part="Chapter one") == "# Chapter one\n\ntext one\n[epub, 2 chapters]"
    assert "title: Book" in office.read("a.epub", view="info")


def test_the_content_says_what_a_file_is_not_its_name(office: Office) -> None:
    office.put("a.pdf", workbook(Real=[["cell"]]))
    office.put("b.xls", "<html><body><table><tr><td>exported</td></tr></table></body></html>")
    assert "| 1 | cell |" in office.read("a.pdf")
    assert "exported" in office.read("b.xls")


NAMES = ("empty.docx", "cut.docx", "cut.pdf", "wrong-sum.docx", "bomb.docx", "entities.docx", "locked.pdf", "locked.xlsx",
         "old.doc", "a.zip", "notes.txt", "picture.docx")  # fmt: skip
BOMB = '<!DOCTYPE d [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>'


@cache
def hostile() -> dict[str, tuple[bytes, str]]:
    """Name, bytes, and what is said of it."""
    import docx

    word = saved(docx.Document())
    plain = docx_of("<w:r><w:t>x</w:t></w:r>")
    inner = plain.index(b"word/document.xml")
    return {
        "empty.docx": (b"", "is damaged: it is empty"),
        "cut.docx": (word[: len(word) // 2], "is damaged"),
        "cut.pdf": (b"%PDF-1.7\n1 0 obj\n", "is damaged"),
        "wrong-sum.docx": (plain[: inner + 40] + b"\xff\xff" + plain[inner + 42 :], "is damaged"),
        "bomb.docx": (package({"word/media/a.bin": bytes(80_000_000)}, like=plain), "would unpack to"),
        "entities.docx": (
            package({"word/document.xml": f"{BOMB}<d>&b;</d>"}, like=plain),
            "declares entities of its own",
        ),
        "locked.pdf": (pdf_of("secret", password="pw"), "is encrypted and opens only with a password"),
        "locked.xlsx": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504) + "EncryptedPackage".encode("utf-16-le") + bytes(600),
                        "is encrypted and opens only with a password"),
        "old.doc": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504) + "WordDocument".encode("utf-16-le") + bytes(600),
                    "soffice --headless --convert-to docx"),
        "a.zip": (package({"x.txt": "x"}), "a zip archive, not a document"),
        "notes.txt": (b"plain words", "Read it with Read"),
        "picture.docx": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(64), "These are read: Word"),
    }  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_what_cannot_be_read_has_an_error_of_its_own(office: Office, name: str) -> None:
    data, said = hostile()[name]
    office.put(name, data)
    assert said in office.refused("ReadDocument", name)


def test_every_hostile_file_is_tried() -> None:
    assert set(NAMES) == set(hostile())


@pytest.mark.slow
def test_a_cell_at_the_far_end_of_a_sheet_is_read_by_the_other_reader(office: Office) -> None:
    """calamine aborts on it: it makes room for every cell before."""
    import openpyxl

    book: Any = openpyxl.Workbook()
    book.active["A1"] = "near"
    book.active["XFD1048576"] = "far"
    office.put("sparse.xlsx", saved(book))
    assert "| 1 | near |" in office.read("sparse.xlsx", part="Sheet!A1:B2")
    assert "| 1048576 | far |" in office.read("sparse.xlsx", part="Sheet!XFD1048576")


def test_a_file_outside_the_workspace_is_not_read(office: Office) -> None:
    assert "outside the workspace" in office.refused("ReadDocument", "../other.docx")


def test_a_package_whose_members_overlap_is_not_opened(office: Office) -> None:
    data = bytearray(docx_of("<w:r><w:t>x</w:t></w:r>"))
    directory = data.rindex(b"PK\x01\x02")
    first = data.index(b"PK\x01\x02")
    data[directory + 42 : directory + 46] = data[first + 42 : first + 46]
    office.put("a.docx", bytes(data))
    assert "its members overlap" in office.refused("ReadDocument", "a.docx")
