import codecs

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ferrule.workspace.edits.matching import find_edit
from ferrule.workspace.edits.multi_edit import edited_bytes
from ferrule.workspace.problems import PathError
from ferrule.workspace.texts.text import decode, require_same_encoding

WORDS = {
    "utf-8": "été → 中文 ",
    "utf-16-le": "été → 中文 ",
    "utf-16-be": "été → 中文 ",
    "gb18030": "这个函数返回用户的名称é→",
    "big5": "這個函數傳回使用者的名稱",
    "cp932": "これは日本語のテキストです",
    "euc_jp": "これは日本語のテキストです",
    "cp949": "이것은한국어문장입니다",
    "cp1252": "éàüñ–’“”",
    "cp1251": "этофункциявозвращает",
}
MARKS = {"utf-16-le": codecs.BOM_UTF16_LE, "utf-16-be": codecs.BOM_UTF16_BE}


@given(st.sampled_from(sorted(WORDS)), st.sampled_from(["\n", "\r\n"]), st.data())
def test_reading_after_an_edit_shows_what_was_asked_for_or_nothing_was_changed(
    encoding: str, newline: str, data: st.DataObject
):
    """Files with a character or two that tell their encoding, and edits that take them away or bring others."""
    words = st.text(WORDS[encoding] + "ab ", max_size=6)
    lines = [f"{number}: {line}" for number, line in enumerate(data.draw(st.lists(words, min_size=1, max_size=5)))]
    mark = MARKS.get(encoding, b"")
    before = mark + newline.join([*lines, ""]).encode(encoding)
    text = decode(before)
    # What such a file is at first is a guess, which may be wrong: what was read is what must stay.
    assume(text is not None)
    assert text is not None
    shown = text.text.split(newline)
    at = data.draw(st.integers(0, len(shown) - 2))
    old, new = shown[at] + newline, f"{at}! {data.draw(words)}{newline}"
    assume(text.text.count(old) == 1)
    try:
        _, after = edited_bytes("f.txt", before, text, lambda whole: find_edit(whole, old, new))
        require_same_encoding(text, after)
    except PathError as problem:
        if problem.code not in ("encoding", "unencodable", "unverified"):
            raise
        return
    now = decode(after)
    assert now is not None
    assert now.text == text.text.replace(old, new)
    assert after.startswith(mark)


def test_a_notebook_that_would_be_broken_is_left_alone():
    notebook = b'{"cells": [{"cell_type": "code", "source": ["x = 1"]}]}'
    text = decode(notebook)
    assert text is not None
    _, after = edited_bytes("n.ipynb", notebook, text, lambda whole: find_edit(whole, "x = 1", "x = 2"))
    assert after == notebook.replace(b"1", b"2")
    with pytest.raises(PathError, match="no longer be a notebook"):
        edited_bytes("n.ipynb", notebook, text, lambda whole: find_edit(whole, "x = 1", 'x = "a"'))
    with pytest.raises(PathError, match="the file is JSON"):
        edited_bytes("n.ipynb", notebook, text, lambda whole: find_edit(whole, "x = 3", "y"))
