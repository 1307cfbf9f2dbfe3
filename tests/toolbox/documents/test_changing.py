"""WriteDocument, EditDocument and ConvertDocument: other programs can open what they make, and all else stays."""

from __future__ import annotations

import asyncio
import io
import shutil
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot
from tests.needs import needs

from ferrule import RawCall
from ferrule.toolbox.documents.editing import edit

from .office import Office, docx_of, members_of, package, saved

TEXT = """\
# Offer

Dear **Ann**, see [the site](https://example.org).

- one
  - deep
1. first

| Region | Sum |
|---|---|
| North | =2+2 |
| South | 007 |

## Terms

> quoted

```
code x
```
"""


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path / "papers")


def by_libreoffice(path: Path, to: str) -> Path:
    """Converted by another program, which opens it without a repair."""
    needs(shutil.which("soffice"), "LibreOffice")
    profile = f"-env:UserInstallation={(path.parent / 'profile').as_uri()}"
    out = path.parent / "converted"
    command = ["soffice", profile, "--headless", "--convert-to", to, "--outdir", str(out), str(path)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return out / f"{path.stem}.{to.split(':')[0]}"


def test_markdown_becomes_a_word_document(office: Office) -> None:
    import docx

    assert office.told("WriteDocument", "a.docx", content=TEXT).startswith("Created `a.docx` (docx, ")
    made: Any = docx.Document(str(office.workspace / "a.docx"))
    assert [(one.style.name, one.text) for one in made.paragraphs] == snapshot([
        ("Heading 1", "Offer"),
        ("Normal", "Dear Ann, see the site."),
        ("List Bullet", "one"),
        ("List Bullet 2", "deep"),
        ("List Number", "first"),
        ("Heading 2", "Terms"),
        ("Quote", "quoted"),
        ("Normal", "code x"),
    ])  # fmt: skip
    assert [[cell.text for cell in row.cells] for row in made.tables[0].rows][1] == ["North", "=2+2"]
    assert [run.text for run in made.paragraphs[1].runs if run.bold] == ["Ann"]


@pytest.mark.slow
def test_markdown_becomes_slides_and_sheets_and_pages(office: Office) -> None:
    import openpyxl
    import pptx
    import pypdf

    for name in ("a.pptx", "a.xlsx", "a.pdf"):
        assert office.call("WriteDocument", name, content=TEXT).success
    show: Any = pptx.Presentation(str(office.workspace / "a.pptx"))
    assert [one.shapes.title.text for one in show.slides] == ["Offer", "Offer", "Terms"]
    sheet: Any = openpyxl.load_workbook(office.workspace / "a.xlsx")["Offer"]
    assert [[cell.value for cell in row] for row in sheet.rows][1:] == [["North", "=2+2"], ["South", "007"]]
    assert sheet["B2"].data_type == "s", "what begins with = is text"
    words = pypdf.PdfReader(office.workspace / "a.pdf").pages[0].extract_text().split()
    assert {"Offer", "Ann,", "deep", "=2+2", "quoted", "code"} <= set(words)


@pytest.mark.slow
def test_a_template_gives_its_styles_and_footer_but_not_its_text(office: Office) -> None:
    import docx

    template: Any = docx.Document()
    template.add_paragraph("old text")
    template.sections[0].footer.paragraphs[0].text = "ACME Ltd"
    office.put("letterhead.docx", saved(template))
    assert office.call("WriteDocument", "a.docx", content="# New", template="letterhead.docx").success
    assert office.read("a.docx") == "# New\n\nFooter: ACME Ltd\n[docx]"
    assert "is not a docx file, and a template must be one" in office.refused(
        "WriteDocument", "a.pptx", content="# x", template="letterhead.docx"
    )


@pytest.mark.slow
def test_what_cannot_be_written_is_said(office: Office) -> None:
    assert office.refused("WriteDocument", "a.odt", content="x") == snapshot("""\
Error (validation_error): `a.odt` does not end with a format that can be written.

Suggestion: Formats: docx, pdf, xlsx, pptx.\
""")
    assert "has no table" in office.refused("WriteDocument", "a.xlsx", content="only words")
    assert "No installed font has all characters" in office.refused("WriteDocument", "a.pdf", content="\U000130b8")
    office.put("there.docx", docx_of("<w:r><w:t>x</w:t></w:r>"))
    assert "has not been read yet" in office.refused("WriteDocument", "there.docx", content="x")


# Edits


def cut_in_runs() -> bytes:
    runs = "".join(f"<w:r><w:rPr><w:b/></w:rPr><w:t>{one}</w:t></w:r>" for one in ("Ac", "me L", "td"))
    return docx_of(f"{runs}<w:r><w:t xml:space='preserve'> pays.</w:t></w:r>", "<w:r><w:t>Acme Ltd again</w:t></w:r>")


def test_text_that_is_cut_in_runs_is_replaced_in_the_form_in_which_it_began(office: Office) -> None:
    import docx

    office.put("a.docx", cut_in_runs())
    result = office.edit("a.docx", {"find": "Acme Ltd", "replace": "Foo GmbH", "all": True})
    assert result.llm_content == snapshot("""\
Edited `a.docx`: 2 changes.
- document: `Acme Ltd pays.` -> `Foo GmbH pays.`
- document: `Acme Ltd again` -> `Foo GmbH again`\
""")
    made: Any = docx.Document(str(office.workspace / "a.docx"))
    assert [one.text for one in made.paragraphs] == ["Foo GmbH pays.", "Foo GmbH again"]
    assert made.paragraphs[0].runs[0].text == "Foo GmbH"
    assert made.paragraphs[0].runs[0].bold


def test_all_edits_or_none_and_each_is_explained(office: Office) -> None:
    data = cut_in_runs()
    office.put("a.docx", data)
    good = {"find": " pays.", "replace": " owes."}
    for bad, said in (
        ({"find": "Acme Ltd", "replace": "x"}, "Edit 2 of 2: `Acme Ltd` is in the document 2 times."),
        ({"find": "acme ltd  again", "replace": "x"}, "There is `Acme Ltd again`, which differs in spaces or case."),
        ({"cell": "A1", "value": 1}, "A docx file has no cells."),
        ({"find": "again", "replace": "a\0b"}, "The new text holds U+0000, which no document can."),
    ):
        result = office.edit("a.docx", good, bad)
        assert not result.success
        assert said in result.llm_content
        assert (office.workspace / "a.docx").read_bytes() == data
    assert "an edit has `find` and `replace`, or `cell`" in office.edit("a.docx", {"find": "x"}).llm_content
    office.put("b.docx", data)
    assert "has not been read yet" in office.refused("EditDocument", "b.docx", edits=[good])


def test_every_other_member_stays_byte_for_byte_as_it_lies_in_the_file(office: Office) -> None:
    import docx

    before = package({"custom/odd.bin": bytes(range(256)) * 9}, like=saved(docx.Document()))
    before = package({"word/document.xml": members_of(cut_in_runs())["word/document.xml"]}, like=before)
    office.put("a.docx", before)
    assert office.edit("a.docx", {"find": " pays.", "replace": " owes."}).success
    after = (office.workspace / "a.docx").read_bytes()
    old, new = zipfile.ZipFile(io.BytesIO(before)), zipfile.ZipFile(io.BytesIO(after))
    assert old.namelist() == new.namelist()
    for one, two in zip(old.infolist(), new.infolist(), strict=True):
        if one.filename != "word/document.xml":
            raw = [data[at : at + 30 + len(one.filename) + one.compress_size]
                   for data, at in ((before, one.header_offset), (after, two.header_offset))]  # fmt: skip
            assert raw[0] == raw[1], one.filename


def test_an_edit_can_be_undone_and_is_shown_before_it_is_approved(office: Office) -> None:
    data = cut_in_runs()
    office.put("a.docx", data)
    office.read("a.docx")
    arguments: dict[str, Any] = {"file_path": "a.docx", "edits": [{"find": " pays.", "replace": " owes."}]}
    invocation = office.runtime.build(RawCall("EditDocument", arguments))
    assert asyncio.run(invocation.tool.preview(invocation.params, office.session)) == snapshot("""\
--- a.docx
+++ a.docx
@@ document @@
-Acme Ltd pays.
+Acme Ltd owes.
""")
    assert (office.workspace / "a.docx").read_bytes() == data
    assert office.call("EditDocument", **arguments).success
    assert office.files.history.undo().groups
    assert (office.workspace / "a.docx").read_bytes() == data


def test_new_lines_and_tabs_become_breaks(office: Office) -> None:
    import docx
    import pptx

    office.put("a.docx", cut_in_runs())
    assert office.edit("a.docx", {"find": " pays.", "replace": ":\n1\t2"}).success
    made: Any = docx.Document(str(office.workspace / "a.docx"))
    assert made.paragraphs[0].text == "Acme Ltd:\n1\t2"
    show: Any = pptx.Presentation()
    show.slides.add_slide(show.slide_layouts[0]).shapes.title.text = "One title"
    office.put("a.pptx", saved(show))
    assert office.edit("a.pptx", {"find": "One title", "replace": "Two\nlines"}).success
    again: Any = pptx.Presentation(str(office.workspace / "a.pptx"))
    assert again.slides[0].shapes.title.text == "Two\vlines"


def ledger() -> bytes:
    import openpyxl
    from openpyxl.chart import BarChart, Reference
    from openpyxl.styles import Font

    book: Any = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "My Sales"
    for line in (["Region", "Sum", "Day"], ["North", 12.5], ["South", 3], ["North", 1]):
        sheet.append(line)
    sheet["B2"].font = Font(bold=True)
    sheet["C2"].number_format = "yyyy-mm-dd"
    sheet["B5"] = "=SUM(B2:B4)"
    sheet.merge_cells("A7:C8")
    chart = BarChart()
    chart.add_data(Reference(sheet, min_col=2, min_row=1, max_row=4))
    sheet.add_chart(chart, "E2")
    return saved(book)


def test_cells_get_values_formulas_dates_and_keep_their_format(office: Office) -> None:
    import openpyxl

    before = ledger()
    office.put("a.xlsx", before)
    result = office.edit(
        "a.xlsx",
        {"cell": "'My Sales'!B2", "value": 20},
        {"cell": "C2", "value": "2026-01-31"},
        {"cell": "D9", "formula": "=B2*2"},
        {"cell": "A6", "value": "=not a formula"},
        {"find": "South", "replace": "West & <East>"},
        {"cell": "B4", "value": None},
        {"cell": "C3", "value": True},
    )
    assert result.llm_content == snapshot("""\
Edited `a.xlsx`: 7 changes.
- My Sales!B2: `12.5` -> `20`
- My Sales!C2: (empty) -> `46053`
- My Sales!D9: (empty) -> `=B2*2`
- My Sales!A6: (empty) -> `=not a formula`
- My Sales!A3: `South` -> `West & <East>`
- My Sales!B4: `1` -> (empty)
- My Sales!C3: (empty) -> `1`
[Values of formulas are recalculated when a spreadsheet program opens the file.]\
""")
    sheet: Any = openpyxl.load_workbook(office.workspace / "a.xlsx").active
    assert (sheet["B2"].value, sheet["B2"].font.bold) == (20, True)
    assert sheet["C2"].value.isoformat() == "2026-01-31T00:00:00"
    assert (sheet["D9"].value, sheet["A6"].data_type, sheet["A3"].value) == ("=B2*2", "s", "West & <East>")
    assert (sheet["B4"].value, sheet["C3"].value, sheet["B5"].value) == (None, True, "=SUM(B2:B4)")
    old, new = members_of(before), members_of((office.workspace / "a.xlsx").read_bytes())
    assert {name for name in old if old[name] != new.get(name)} == {"xl/worksheets/sheet1.xml"}, "the chart stays too"
    for bad, said in (
        ({"cell": "B8", "value": 1}, "lies in the merged cells A7:C8"),
        ({"cell": "Nope!A1", "value": 1}, "There is no sheet `Nope`."),
        ({"cell": "A0", "value": 1}, "`A0` is not a cell."),
        ({"find": "North", "replace": "x"}, "is in the document 2 times"),
    ):
        assert said in office.edit("a.xlsx", bad).llm_content


def test_cells_that_shared_a_formula_keep_it(office: Office) -> None:
    """Excel writes a formula once for a filled column; whoever overwrites the first cell must not take it from all."""
    import openpyxl

    sheet = members_of(ledger())["xl/worksheets/sheet1.xml"].decode()
    shared = (
        '<row r="10"><c r="A10"><f t="shared" ref="A10:A11" si="0">B2*2</f><v>1</v></c></row>'
        '<row r="11"><c r="A11"><f t="shared" si="0"/><v>2</v></c></row></sheetData>'
    )
    office.put("a.xlsx", package({"xl/worksheets/sheet1.xml": sheet.replace("</sheetData>", shared)}, like=ledger()))
    assert office.edit("a.xlsx", {"cell": "A10", "value": 5}).success
    made: Any = openpyxl.load_workbook(office.workspace / "a.xlsx").active
    assert (made["A10"].value, made["A11"].value) == (5, "=B3*2")


def test_what_cannot_be_edited_says_what_to_do_instead(office: Office) -> None:
    office.put("a.csv", "a,b\n1,2\n")
    assert "change it with Edit" in office.edit("a.csv", {"find": "a", "replace": "b"}).llm_content
    office.call("WriteDocument", "a.pdf", content="# x")
    assert "A PDF cannot be edited" in office.edit("a.pdf", {"find": "a", "replace": "b"}).llm_content


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.text("ab c", min_size=1, max_size=4), min_size=1, max_size=6),
    st.text("ab c", min_size=1, max_size=3),
    st.text("xy\n&<", max_size=4),
)
def test_replacing_across_runs_is_replacing_in_the_text(runs: list[str], find: str, new: str) -> None:
    text = "".join(runs)
    body = "".join(f'<w:r><w:t xml:space="preserve">{one}</w:t></w:r>' for one in runs)
    data = docx_of(body, "<w:r><w:t>untouched</w:t></w:r>")
    order = {"name": "a.docx", "edits": [{"find": find, "replace": new, "all": True}]}
    if find not in text and find not in "untouched":
        return
    import docx

    made: Any = docx.Document(io.BytesIO(edit(order, data).data))
    assert [one.text for one in made.paragraphs] == [text.replace(find, new), "untouched".replace(find, new)]


# Converting


@pytest.mark.slow
def test_a_conversion_tells_size_and_outline_and_never_the_content(office: Office) -> None:
    office.call("WriteDocument", "a.docx", content=TEXT)
    office.put("a.xlsx", ledger())
    said = office.told("ConvertDocument", "a.docx", to_path="a.md")
    assert said.startswith("Created `a.md` (md, ")
    assert "Terms" in said
    assert "Ann" not in said
    assert "| North | =2+2 |" in (office.workspace / "a.md").read_text()
    assert office.call("ConvertDocument", "a.xlsx", to_path="a.csv").success
    assert (office.workspace / "a.csv").read_text() == "Region,Sum,Day\nNorth,12.5,\nSouth,3,\nNorth,1,\n"
    assert office.call("ConvertDocument", "a.csv", to_path="back.xlsx").success
    assert "| 2 | North | 12.5 |" in office.read("back.xlsx")
    for target in ("b.pdf", "b.html", "b.pptx", "b.txt"):
        assert office.call("ConvertDocument", "a.docx", to_path=target).success
        assert "Ann" in (office.read(target) if target != "b.txt" else (office.workspace / target).read_text())
    office.put("theirs.md", "not read")
    assert "has not been read yet" in office.refused("ConvertDocument", "a.docx", to_path="theirs.md")


@pytest.mark.slow
def test_libreoffice_opens_what_was_written_and_edited_and_finds_the_same_text(office: Office) -> None:
    office.call("WriteDocument", "a.docx", content=TEXT)
    office.edit("a.docx", {"find": "Dear Ann", "replace": "Dear Bob"})
    office.call("WriteDocument", "a.pptx", content=TEXT)
    office.edit("a.pptx", {"find": "Terms", "replace": "Rules"})
    words = by_libreoffice(office.workspace / "a.docx", "txt").read_text(encoding="utf-8-sig").split()
    assert {"Offer", "Bob,", "deep", "North", "=2+2", "quoted"} <= set(words)
    assert "Ann," not in words
    shown = Office(office.workspace / "converted")
    by_libreoffice(office.workspace / "a.pptx", "pdf")
    assert "Rules" in shown.read("a.pdf")
    office.put("s.xlsx", ledger())
    office.edit("s.xlsx", {"cell": "B2", "value": 20}, {"cell": "D9", "formula": "B2*2"})
    rows = by_libreoffice(office.workspace / "s.xlsx", "csv").read_text().splitlines()
    assert (rows[1], rows[4], rows[8]) == ("North,20,,", ",24,,", ",,,40")
