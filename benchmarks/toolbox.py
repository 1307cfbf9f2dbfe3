"""What the toolbox costs against the bare libraries: `python benchmarks/toolbox.py`.

Each contender runs in a process of its own, and its CPU time and memory are those that the kernel counts. The start of
the child is measured by one that does nothing, and taken off. Mail is read from a dovecot of its own, where there is
one, through the whole pipeline. Prints a table and exits with 1 when a bar is missed; `--quick` takes small files.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from _measure import Row, report

MOST = 1.3
_CHILD = """
import json, os, resource, sys
from ferrule.toolbox.child import ChildBounds, in_child
path, order = sys.argv[1], json.loads(sys.argv[2])
opened = os.open(path, os.O_RDONLY)
function = "ferrule.toolbox.documents.reading:read" if order else "builtins:dict"
bounds = ChildBounds(seconds=300.0, memory=(1 << 30) + 16 * os.fstat(opened).st_size)  # as the tool has it
value = in_child(function, order, what=path, files={"file": opened} if order else {}, bounds=bounds).value
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, value.get("content", "")]))
"""
_BARE_PDF = """
page = pypdfium2.PdfDocument(path)[int(sys.argv[2]) - 1]
text = page.get_textpage().get_text_range()
"""
_BARE_SHEET = """
sheet = python_calamine.CalamineWorkbook.from_path(path).get_sheet_by_index(0)
last = int(sys.argv[2])
text = str([line for number, line in zip(range(last), sheet.iter_rows()) if number >= last - 20])
"""
_BARE = """
import json, sys, time
began = time.process_time()
import {library}
path = sys.argv[1]
{work}
from pathlib import Path
most = int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])  # the kernel's other count is older
print(json.dumps([time.process_time() - began, most / 1024, text]))
"""
_MAIL = """
import asyncio, json, sys, time
from pathlib import Path
port, password, times = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
{setup}
def memory(count):
    return int(Path("/proc/self/status").read_text().partition(count + ":")[2].split()[0]) / 1024
for number in range(times + 1):
    if number == 1:  # the first has imported what it needs
        before, began = memory("VmRSS"), time.process_time()
    text = {work}
print(json.dumps([(time.process_time() - began) / times, memory("VmHWM") - before, text]))
"""
_BARE_MAIL = """
import imap_tools, ssl
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # as ours has it for a server on this machine
def subjects():
    with imap_tools.MailBoxStartTls("127.0.0.1", port, ssl_context=context).login("bench", password) as box:
        found = box.fetch(limit=20, reverse=True, headers_only=True, mark_seen=False, bulk=True)
        return [[one.date_str, one.from_, one.to, one.flags, one.subject] for one in found]
"""
_OUR_MAIL = """
from ferrule import Runtime
from ferrule.toolbox.accounts import Accounts, MailAccount
from ferrule.toolbox.mail import tools
account = MailAccount("me@example.org", imap=f"imap://127.0.0.1:{port}", user="bench", password=password)
runtime = Runtime(tools(Accounts(mail={"work": account})))
loop = asyncio.Runner()
"""


def run(script: str, *arguments: str) -> tuple[float, float, str]:
    """CPU seconds, MB of memory, and what was read."""
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True)
    if done.returncode:
        raise SystemExit(done.stderr.decode(errors="replace"))
    seconds, memory, text = json.loads(done.stdout)
    return seconds, memory, text


def compare(name: str, path: Path, order: dict[str, Any], bare: tuple[str, str, str], *, rounds: int) -> list[Row]:
    """Reading a part of a document, as multiples of the bare library's time and memory."""
    library, work, argument = bare
    ours, theirs, starts = [], [], []
    for _ in range(rounds):
        starts.append(run(_CHILD, str(path), "{}"))
        theirs.append(run(_BARE.format(library=library, work=work), str(path), argument))
        ours.append(run(_CHILD, str(path), json.dumps(order)))
        if not ours[-1][2]:
            raise RuntimeError(f"nothing was read of {path}")
    # The least of each: whatever else the machine does adds to a time, and takes nothing off.
    start, mine, other = (min(one[0] for one in times) for times in (starts, ours, theirs))
    memory = [min(one[1] for one in times) for times in (ours, theirs)]
    note = f"{mine * 1000:.0f} ms, {start * 1000:.0f} of them to start the child, against {other * 1000:.0f} ms"
    return [
        Row(f"{name}: CPU time", max(mine - start, 0) / other, "×", MOST, note),
        Row(f"{name}: memory", memory[0] / memory[1], "×", MOST, f"{memory[0]:.0f} MB against {memory[1]:.0f} MB"),
    ]


def documents(folder: Path, *, quick: bool) -> list[Row]:
    pages, rows, rounds = (1_000, 100_000, 3) if quick else (10_000, 1_000_000, 9)
    pdf, book = folder / "long.pdf", folder / "large.xlsx"
    make_pdf(pdf, pages)
    make_workbook(book, rows)
    order = {"name": "x", "view": "text", "find": "", "offset": 0, "limit": 1000}
    last = pages - 1
    size = f"{book.stat().st_size / 1e6:.0f} MB"
    return [
        *compare(f"page {last:,} of a PDF of {pages:,}", pdf, {**order, "part": str(last)},
                 ("pypdfium2", _BARE_PDF, str(last)), rounds=rounds),
        *compare(f"20 rows of a workbook of {size}", book, {**order, "part": f"Data!A{rows // 2 - 19}:J{rows // 2}"},
                 ("python_calamine", _BARE_SHEET, str(rows // 2)), rounds=3),
    ]  # fmt: skip


def mail(folder: Path, *, quick: bool) -> list[Row]:
    """The newest twenty headers of a large mailbox, as multiples of the bare library's CPU time and memory."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from tests.toolbox.mail_servers import PASSWORD, dovecot

    count, rounds = (300, 2) if quick else (3_000, 3)
    made = (f"From: Ann <ann@example.com>\r\nTo: me@example.org\r\nSubject: Mail {number}\r\n"
            f"Date: Mon, {number % 28 + 1:02} Mar 2026 10:00:00 +0100\r\n\r\n{'some text ' * 200}\r\n"
            for number in range(count))  # fmt: skip
    with dovecot(folder) as server:
        server.fill("bench", {"INBOX": [one.encode() for one in made]})
        ways = [
            _MAIL.replace("{setup}", _OUR_MAIL).replace(
                "{work}", 'loop.run(runtime.run("SearchMail", {})).llm_content'
            ),
            _MAIL.replace("{setup}", _BARE_MAIL).replace("{work}", "str(subjects())"),
        ]
        taken = [[run(one, str(server.port), PASSWORD, "10") for one in ways] for _ in range(rounds)]
    if any(f"Mail {count - 20}" not in text for one in taken for *_, text in one):
        raise RuntimeError("the mails were not listed")
    ours, theirs = (min(one[way][0] for one in taken) for way in (0, 1))
    memory = [min(one[way][1] for one in taken) for way in (0, 1)]
    name = f"20 headers of {count:,} mails"
    return [
        Row(f"{name}: CPU time", ours / theirs, "×", MOST, f"{ours * 1000:.1f} ms against {theirs * 1000:.1f} ms"),
        Row(f"{name}: memory", memory[0], "MB", None, f"above what it was before, against {memory[1]:.1f} MB"),
    ]


def make_pdf(path: Path, pages: int) -> None:
    """Pages of forty lines each, with the table of its objects."""
    objects = ["<</Type/Catalog/Pages 2 0 R>>", "", "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"]
    kids: list[str] = []
    for number in range(1, pages + 1):
        lines = "".join(f"(page {number} line {line} of some text) Tj 0 -14 Td " for line in range(40))
        shown = f"BT /F 11 Tf 50 780 Td {lines}ET"
        kids.append(f"{len(objects) + 1} 0 R")
        objects.append(f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Resources<</Font<</F 3 0 R>>>>/Contents "
                       f"{len(objects) + 2} 0 R>>")  # fmt: skip
        objects.append(f"<</Length {len(shown)}>>stream\n{shown}\nendstream")
    objects[1] = f"<</Type/Pages/Count {pages}/Kids[{' '.join(kids)}]>>"
    with path.open("wb") as file:
        file.write(b"%PDF-1.4\n")
        places: list[int] = []
        for number, one in enumerate(objects, 1):
            places.append(file.tell())
            file.write(f"{number} 0 obj\n{one}\nendobj\n".encode())
        table = file.tell()
        listed = "".join(f"{place:010} 00000 n \n" for place in places)
        size = len(objects) + 1
        file.write(f"xref\n0 {size}\n0000000000 65535 f \n{listed}trailer\n<</Size {size}/Root 1 0 R>>\n".encode())
        file.write(f"startxref\n{table}\n%%EOF\n".encode())


def make_workbook(path: Path, rows: int) -> None:
    """Ten columns of numbers that do not compress well: a million rows are 100 MB."""
    from openpyxl import Workbook

    book: Any = Workbook()
    book.active.title = "Data"
    empty = path.with_suffix(".empty")
    book.save(empty)
    draw = random.Random(1).random
    with zipfile.ZipFile(empty) as source, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as made:
        for member in source.namelist():
            if member != "xl/worksheets/sheet1.xml":
                made.writestr(member, source.read(member))
        with made.open("xl/worksheets/sheet1.xml", "w", force_zip64=True) as sheet:
            space = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
            sheet.write(f'<worksheet xmlns="{space}"><sheetData>'.encode())
            for row in range(1, rows + 1):
                cells = "".join(f'<c r="{letter}{row}"><v>{draw():.13f}</v></c>' for letter in "ABCDEFGHIJ")
                sheet.write(f'<row r="{row}">{cells}</row>'.encode())
            sheet.write(b"</sheetData></worksheet>")


def main() -> int:
    arguments = argparse.ArgumentParser(description="What the toolbox costs against the bare libraries.")
    arguments.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments.add_argument("--quick", action="store_true", help="small files")
    chosen = arguments.parse_args()
    with TemporaryDirectory(prefix="ferrule-toolbox-") as folder:
        rows = documents(Path(folder), quick=chosen.quick)
        if shutil.which("dovecot", path="/usr/bin:/usr/sbin:/usr/local/sbin"):
            Path(folder).chmod(0o755)  # the server reads its mail as another user
            (Path(folder) / "mail").mkdir()
            rows += mail(Path(folder) / "mail", quick=chosen.quick)
    return report(rows, as_json=chosen.json)


if __name__ == "__main__":
    raise SystemExit(main())
