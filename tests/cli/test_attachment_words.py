"""What is attached to a result is one line each, and cannot steer the terminal."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from ferrule.cli.output import attachment_words
from ferrule.core.result import Attachment

from .conftest import Command
from .mcp_peer import add

RESOURCES = ("call", "mcp__peer__resources", "{}", "--allow", "mcp__peer")
LINES = [
    "Attached: link, text/plain, 3 bytes, a.txt, <file:///a.txt>",
    "Attached: text, text/plain, 6 bytes, <note:1>",
    "Attached: audio, audio/wav, 70 bytes",
]


def test_each_kind_is_told_with_what_is_known_of_it() -> None:
    told = attachment_words(
        [
            Attachment("image/png", b"x", name="dot.png"),
            Attachment("video/mp4", b"12"),
            Attachment("application/pdf", b"x" * 12_345, uri="file:///r.pdf"),
            Attachment("text/html", uri="https://example.org/" + "a" * 1000),
        ]
    )
    assert told[:3] == [
        "Attached: image, image/png, 1 byte, dot.png",
        "Attached: video, video/mp4, 2 bytes",
        "Attached: file, application/pdf, 12,345 bytes, <file:///r.pdf>",
    ]
    assert told[3].startswith("Attached: link, text/html, <https://example.org/aaa")
    assert told[3].endswith("a…>")


def test_of_many_the_first_are_told_and_the_others_counted() -> None:
    told = attachment_words([Attachment("image/png", b"")] * 1020)
    assert (len(told), told[-1]) == (21, "Attached: 1,000 more")


@settings(max_examples=50)
@given(st.text(), st.text(), st.text())
def test_a_line_is_one_line_and_printable_whatever_a_server_wrote(media: str, name: str, uri: str) -> None:
    (line,) = attachment_words([Attachment(media, None, uri, name)])
    assert line.isprintable()


def test_a_call_tells_them_after_its_result_and_stdout_has_the_result_alone(ferrule: Command) -> None:
    add(ferrule)
    done = ferrule(*RESOURCES)
    assert done.out == "[note:1]\na note\n"
    assert done.err.splitlines() == LINES


def test_with_json_all_of_it_is_in_the_document_and_nothing_beside_it(ferrule: Command) -> None:
    add(ferrule)
    done = ferrule(*RESOURCES, "--json")
    assert done.err == ""
    link, text, audio = done.json["attachments"]
    assert (link["uri"], link["name"], link["details"]) == ("file:///a.txt", "a.txt", {"title": "Letter A", "size": 3})
    assert (text["uri"], text["data"]) == ("note:1", "YSBub3Rl")
    assert audio["media_type"] == "audio/wav"


def test_a_call_with_a_hostile_name_cannot_steer_even_in_a_pipe(ferrule: Command) -> None:
    add(ferrule, "peer", "steers")
    first, *rest = [line for line in ferrule(*RESOURCES).err.splitlines() if line.startswith("Attached")]
    assert first == "Attached: link, \\x1b[31m, a b\\x9b2J\\u{202e}c, <x:\\x1b[2J>"
    assert rest == LINES


def test_a_run_tells_them_below_the_call(ferrule: Command) -> None:
    add(ferrule)
    script = ferrule.folder / "script.json"
    asked = {"text": "", "calls": [{"name": "mcp__peer__resources", "arguments": {}}]}
    script.write_text(json.dumps([asked, "Seen."]))
    done = ferrule("run", "go", "--model", f"scripted:{script}", "--allow", "mcp__peer")
    assert done.out == "Seen.\n"
    assert [line for line in done.err.splitlines() if "Attached" in line] == [f"  {line}" for line in LINES]
