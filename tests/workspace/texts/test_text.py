"""Text files stay as they are but for what an edit names (issue "Files": encodings, line endings, bytes outside)."""

from __future__ import annotations

import codecs
import re
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot

from ferrule.workspace.problems import PathError
from ferrule.workspace.texts.text import Edit, Text, UnencodableError, apply_edits, decode, encode_new, lines_of, splice

ENCODINGS = {
    "utf-8": (b"", "aé中🙂 #\t"),
    "utf-8-sig": (codecs.BOM_UTF8, "aé中🙂 #\t"),
    "utf-16-le": (codecs.BOM_UTF16_LE, "aé中🙂 #\t"),
    "utf-16-be": (codecs.BOM_UTF16_BE, "aé中🙂 #\t"),
    "utf-32-le": (codecs.BOM_UTF32_LE, "aé中🙂 #\t"),
    "utf-32-be": (codecs.BOM_UTF32_BE, "aé中🙂 #\t"),
    "gb18030": (b"", "a中文的数据，é🙂 #|"),
    "latin-1": (b"", "aéèüñß #"),
    "cp1252": (b"", "aéü“”–€ #"),
    "shift_jis": (b"", "aあいの表ソ能、 #|"),
    "big5": (b"", "a中文的功許蓋 #|"),
    "cp1251": (b"", "aпривет #"),
}


@st.composite
def files(draw: st.DrawFn) -> tuple[bytes, Text]:
    """A file as it lies on the disk, and how it reads in the encoding it was written in."""
    name = draw(st.sampled_from(sorted(ENCODINGS)))
    bom, alphabet = ENCODINGS[name]
    pieces = st.text(st.sampled_from(alphabet), max_size=12) | st.sampled_from(["\n", "\r\n", "\r", "\n\n"])
    text = "".join(draw(st.lists(pieces, max_size=12)))
    encoding = "utf-8" if name == "utf-8-sig" else name
    return bom + text.encode(encoding), Text(text, encoding, bom, "mixed", False)


@st.composite
def edits_of(draw: st.DrawFn, text: str, alphabet: str) -> list[Edit]:
    places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=6)))
    new = st.text(st.sampled_from(alphabet + "\n\r"), max_size=5)
    return [Edit(start, end, draw(new)) for start, end in zip(places[::2], places[1::2], strict=False)]


@settings(deadline=None)
@given(st.data())
def test_bytes_outside_the_edited_spans_never_change(data: st.DataObject):
    before, text = data.draw(files())
    alphabet = next(letters for name, (_, letters) in ENCODINGS.items() if name.startswith(text.encoding[:6]))
    edits = data.draw(edits_of(text.text, alphabet))
    after = splice(before, text, edits)
    old_at = new_at = len(text.bom)
    assert after[:old_at] == text.bom
    done = 0
    for edit in edits:
        kept = len(text.text[done : edit.start].encode(text.encoding))
        assert after[new_at : new_at + kept] == before[old_at : old_at + kept]
        new_at += kept + len(edit.new.encode(text.encoding))
        old_at += kept + len(text.text[edit.start : edit.end].encode(text.encoding))
        done = edit.end
    assert after[new_at:] == before[old_at:]
    assert after[len(text.bom) :].decode(text.encoding) == apply_edits(text.text, edits)


@settings(deadline=None)
@given(files())
def test_what_decodes_encodes_to_the_same_bytes(file: tuple[bytes, Text]):
    data, _ = file
    found = decode(data)
    if found is not None:
        assert found.bom + found.text.encode(found.encoding) == data
        assert "".join(lines_of(found.text)) == found.text


@settings(deadline=None)
@given(st.binary(max_size=200) | st.binary(max_size=60).map(lambda data: data.replace(b"\0", b"\xe9")))
@example(b"\xff\xfe\0\0")
@example(b"\xff\xfea")
@example(b"\xef\xbb\xbf\xff")
@example(b"\x80")
def test_any_bytes_at_all_decode_exactly_or_are_binary(data: bytes):
    found = decode(data)
    assert found is None or found.bom + found.text.encode(found.encoding) == data


@settings(deadline=None)
@given(files().filter(lambda file: file[1].encoding == "utf-8" or file[1].bom != b""))
def test_unicode_files_read_as_they_were_written(file: tuple[bytes, Text]):
    data, written = file
    found = decode(data)
    assert found is not None
    assert (found.text, found.encoding, found.bom) == (written.text, written.encoding, written.bom)


@settings(deadline=None)
@given(st.text(st.sampled_from("ab\n\r\x0b\x0c\x1c\x85\u2028"), max_size=30))
def test_lines_are_split_as_bytes_are(text: str):
    """Only at `\\n`, `\\r\\n` and `\\r`, never at the Unicode separators of `str.splitlines`."""
    assert lines_of(text) == [line.decode() for line in text.encode().splitlines(keepends=True)]


@pytest.mark.parametrize(
    ("data", "newline", "final"),
    [
        (b"", "", False),
        (b"a", "", False),
        (b"a\nb\n", "\n", True),
        (b"a\r\nb", "\r\n", False),
        (b"a\rb\r", "\r", True),
        (b"a\r\nb\n", "mixed", True),
        (b"a\rb\n", "mixed", True),
    ],
)
def test_line_endings_are_seen_and_kept(data: bytes, newline: str, final: bool):
    found = decode(data)
    assert found is not None
    assert (found.newline, found.final_newline, found.text.encode()) == (newline, final, data)


def test_bytes_that_are_no_text_are_binary():
    for data in (
        b"\x7fELF\x02\x01\x01\0\0\0",
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
        b"a\0b",
        b"\xff\xd8\xff\xe0\x10JFIF\x01",
    ):
        assert decode(data) is None


def test_a_file_that_would_not_be_written_back_the_same_is_binary():
    """Two codes of Windows' Japanese encoding mean `㈱`; the encoder knows one of them."""
    usual = "日本語のコメント、株式会社㈱\n".encode("cp932")
    other = usual.replace(b"\x87\x8a", b"\xfa\x58")
    assert other.decode("cp932") == usual.decode("cp932")
    assert decode(usual) is not None
    assert decode(other) is None


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("text", ["int main(void);\r\n", "# 初始化数据库的连接，然后读取所有用户的配置\n名字 = 1\n"])
def test_wide_text_without_a_mark_is_text(encoding: str, text: str):
    found = decode(text.encode(encoding))
    assert found is not None
    assert (found.text, found.encoding, found.bom) == (text, encoding, b"")


@pytest.mark.parametrize("number", [b"\1\0\2\0\3\0", b"\0\0\0\1", b"A\0\0\0\0\0\0\0", b"\xe8\3\0\0\xd0\7\0\0"])
def test_numbers_are_not_wide_text(number: bytes):
    assert decode(number * 20) is None


def test_text_that_the_encoding_cannot_hold_is_refused():
    data = "prix : 5 €, déjà payé\n".encode("cp1252")
    text = decode(data)
    assert text is not None
    with pytest.raises(UnencodableError) as refused:
        splice(data, text, [Edit(0, 4, "价格 prix")])
    assert str(refused.value) == snapshot(
        "The file is in cp1252, which cannot hold U+4EF7 (`价` CJK UNIFIED IDEOGRAPH-4EF7), character 1 of the new "
        "text. The file is untouched."
    )
    assert refused.value.suggestion == snapshot(
        "Write it with characters that the encoding has, or as an escape of the file's language; or ask the user "
        "whether the file should become UTF-8."
    )
    with pytest.raises(UnencodableError, match=re.escape("U+D83D (half of a surrogate pair), character 3")):
        encode_new("ok\ud83d", None)


def test_a_similar_character_is_not_written_instead():
    """The encoder would write the yen sign as a backslash."""
    before = "表示する、値段は\n".encode("shift_jis")
    with pytest.raises(UnencodableError, match=re.escape("U+00A5 (`¥` YEN SIGN), character 3")):
        encode_new("値段¥5", decode(before))


def test_an_edit_that_cannot_be_kept_apart_is_refused():
    """ISO-2022-JP switches between alphabets: a piece of it means something else without what stands before."""
    text = "日本語"
    data = text.encode("iso2022_jp")
    with pytest.raises(PathError, match="would alter bytes beside it") as refused:
        splice(data, Text(text, "iso2022_jp", b"", "", False), [Edit(1, 2, "a")])
    assert refused.value.code == "unverified"


@pytest.mark.parametrize(
    "edits", [[Edit(0, 9, "")], [Edit(2, 1, "")], [Edit(-1, 1, "")], [Edit(0, 2, ""), Edit(1, 3, "")]]
)
def test_spans_that_make_no_sense_are_a_mistake_of_the_caller(edits: list[Edit]):
    with pytest.raises(ValueError, match="edit"):
        splice(b"abc", Text("abc", "utf-8", b"", "", False), edits)


def written(text: str, before: bytes | None) -> bytes:
    return encode_new(text, decode(before) if before is not None else None)


def test_new_files_are_utf8_as_given():
    assert written("a\r\né\n", None) == "a\r\né\n".encode()


def test_a_new_content_keeps_how_the_file_was_written():
    assert written("x\ny\n", b"a\r\nb\r\n") == b"x\r\ny\r\n"
    assert written("x\ny\n", b"a\rb\r") == b"x\ry\r"
    assert written("x\ny", b"a\nb\n") == b"x\ny"
    assert written("x\n", b"no line ending") == b"x\n"
    assert written("中\n", codecs.BOM_UTF8 + b"a\n") == codecs.BOM_UTF8 + "中\n".encode()
    assert written("\ufeffa\n", codecs.BOM_UTF8 + b"a\n") == codecs.BOM_UTF8 + b"a\n"
    assert written("é", codecs.BOM_UTF16_BE + b"\0a") == codecs.BOM_UTF16_BE + b"\0\xe9"
    assert written("新的", "旧的内容".encode("gb18030")) == "新的".encode("gb18030")


def test_content_with_its_own_endings_is_written_as_given():
    assert written("x\r\ny\n", b"a\r\nb\r\n") == b"x\r\ny\n"
    assert written("x\ny\n", b"a\r\nb\n") == b"x\ny\n"
    assert written("x\r\n", b"a\n") == b"x\r\n"


def test_a_megabyte_is_read_and_edited_at_once():
    data = "    return x  # 中文 é\n".encode() * 40_000
    started = time.process_time()
    text = decode(data)
    assert text is not None
    splice(data, text, [Edit(500_000, 500_010, "y")])
    assert time.process_time() - started < 0.1


@pytest.mark.parametrize("ending", ["\n", "\r\n", ""])
def test_a_large_text_is_decoded_when_it_is_looked_at_and_changed_all_the_same(ending: str) -> None:
    """Its bytes are held once, and the change is the one of a small text (P5, P11)."""
    text = f"é and 中 and 😀 in a line{ending or ' '}" * 200_000
    data = text.encode()
    found = decode(data)
    assert found is not None
    assert (found.source is data, found.text, found.newline, found.final_newline) == (
        True, text, ending, bool(ending),
    )  # fmt: skip
    at = len(text) // 2
    assert splice(data, found, [Edit(at, at + 3, "…"), Edit(0, 1, "")]) == (text[1:at] + "…" + text[at + 3 :]).encode()
    assert decode(data[:-2] + b"\xff\xff") != found


def test_large_files_that_are_no_utf_8_are_decoded_as_small_ones_are() -> None:
    data = "Grüße aus Köln, schöne Straße\n".encode("latin-1") * 200_000
    found = decode(data)
    assert found is not None
    assert found.text.encode(found.encoding) == data
