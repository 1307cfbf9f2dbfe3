# ruff: noqa: E501 - words for a model stand as they are
import pytest
from inline_snapshot import snapshot

from ferrule.workspace.problems import PathError
from ferrule.workspace.texts.text import decode, require_same_encoding, require_sure_encoding

CHINESE = "# 这个函数返回用户的名称\nx = 1\n"


def _refusal(problem: pytest.ExceptionInfo[PathError]) -> str:
    return f"{problem.value.message}\nSuggestion: {problem.value.suggestion}"


def test_what_is_left_must_tell_the_encoding_still():
    text = decode(CHINESE.encode("gb18030"))
    require_same_encoding(text, "# 这个函数\nx = 1\n".encode("gb18030"))
    require_same_encoding(text, b"x = 1\n")
    with pytest.raises(PathError) as problem:
        require_same_encoding(text, "# é\nx = 1\n".encode("gb18030"))
    assert _refusal(problem) == snapshot("""\
The file is in gb18030. After this change it would be taken for one in cp866, since too little would be left to tell. The file is untouched.
Suggestion: Keep more of its text beyond ASCII, or ask the user whether the file should become UTF-8.\
""")


def test_unicode_is_told_by_itself():
    require_same_encoding(decode("é\n".encode()), "\ue000\n".encode())
    require_same_encoding(None, b"\xff\xff")


def test_a_new_character_needs_an_encoding_that_is_sure():
    data = CHINESE.encode("gb18030")
    text = decode(data)
    assert text is not None
    require_sure_encoding(data, text, "# 密码错误")
    few = "# → here\nx = 1\n".encode("gb18030")
    guessed = decode(few)
    assert guessed is not None
    require_sure_encoding(few, guessed, "y = 2")
    with pytest.raises(PathError) as problem:
        require_sure_encoding(few, guessed, "# café")
    assert _refusal(problem) == snapshot("""\
The file is in cp1252 or in gb18030; too little of it is beyond ASCII to tell, and `é` of the new text is not the same in both. The file is untouched.
Suggestion: Write it in ASCII, as an escape of the file's language, or ask the user whether the file should become UTF-8.\
""")
