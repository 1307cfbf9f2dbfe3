"""Short texts in old encodings are read in the encoding they were written in."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest

from ferrule.workspace.texts.encodings import likely
from ferrule.workspace.texts.text import decode

SHORT = {
    "gb18030": [
        "// 这是注释\nint main(void) { return 0; }\n",
        "# 初始化数据库连接\nx = 1\n",
        "a = 1  # 计数\n",
        "print('你好')\n",
        "// 遍历链表\n",
        "# 密码\n",
        "联通\n",
        "# 配置项：超时（秒）\n",
    ],
    "big5": ["// 這是註解\n", "# 初始化資料庫連線\n", "繁體中文\n", "使用者名稱\n"],
    "cp932": ["日本語のコメント\n", "// 初期化処理\n", "# テスト\n"],
    "euc_jp": ["日本語のコメント\n", "# テストです\n"],
    "cp949": ["# 한국어 주석\n", "// 초기화\n", "안녕하세요\n"],
    "cp1252": [
        "café\n",
        "déjà vu\n",
        "x “quoted” y\n",
        "// Größe ändern\n",
        "It’s 25 °C\n",
        "© 2020 José\n",
        "São Paulo\n",
        "ÉCOLE SUPÉRIEURE\n",
        "smørrebrød, blåbær\n",
        "price: 5 €\n",
    ],
    "cp1251": ["Привет, мир\n", "// Инициализация\n", "ОШИБКА\n"],
    "koi8_r": ["Привет, мир\n", "# проверка связи\n"],
    "cp1250": ["Zażółć gęślą jaźń\n", "Příliš žluťoučký kůň\n"],
    "cp1254": ["değişken adı\n"],
    "cp1253": ["Καλημέρα κόσμε\n"],
    "cp1255": ["שלום עולם, זה קובץ טקסט\n"],
    "cp1256": ["مرحبا بالعالم\n"],
    "cp874": ["สวัสดีชาวโลก\n"],
}


@pytest.mark.parametrize(("encoding", "text"), [(name, text) for name, texts in SHORT.items() for text in texts])
def test_a_line_is_enough(encoding: str, text: str):
    found = decode(text.encode(encoding))
    assert found is not None
    assert (found.encoding, found.text) == (encoding, text)


@pytest.mark.parametrize("encoding", ["gb18030", "big5", "cp932", "cp949", "cp1252", "cp1251"])
def test_one_comment_far_down_in_a_large_file_is_enough(encoding: str):
    text = "x = compute(1, 2, 3)\n" * 40_000 + SHORT[encoding][0] + "y = 2\n" * 20_000
    found = decode(text.encode(encoding))
    assert found is not None
    assert (found.encoding, found.text) == (encoding, text)


@pytest.mark.parametrize("newline", ["\r", ""])
def test_a_large_file_without_line_feeds_is_read_too(newline: str):
    text = f"x = compute(1, 2, 3);{newline}" * 4_000 + f"// 这是注释{newline}" + f"y = 2;{newline}" * 4_000
    found = decode(text.encode("gb18030"))
    assert found is not None
    assert (found.encoding, found.text) == ("gb18030", text)


def test_a_large_file_that_does_not_keep_to_its_encoding_is_binary():
    data = "// 这是注释\n".encode("gb18030") * 50_000 + b"\xff\xff\n"
    assert next(likely(data)) == "gb18030"
    assert decode(data) is None


def test_traditional_characters_are_written_in_gb18030_too():
    text = 'videojs.addLanguage("zh-TW", {\n  "Close": "關閉對話視窗",\n  "Captions": "字幕設定，開啟對話視窗"\n});\n'
    found = decode(text.encode("gb18030"))
    assert found is not None
    assert (found.encoding, found.text) == ("gb18030", text)


def test_damaged_utf8_is_not_taken_for_something_else():
    """Read as GBK it would be readable nonsense, and edits would be made to nonsense."""
    french = "café, déjà, naïve, Zoë, crème, brûlée, garçon, élève, forêt\n".encode() + b"caf\xe9a\n"
    assert french.decode("gb18030").startswith("caf茅")
    assert decode(french) is None
    assert decode("这是一个用来测试的注释，有一个坏字节".encode() + b"\xe4\n") is None
    assert decode("é è à ü ö ä ß ñ ç ø å æ\n".encode() + b"\xff\n") is None


def test_noise_is_binary():
    noise = random.Random(7)
    taken = sum(decode(noise.randbytes(300)) is not None for _ in range(200))
    high = sum(decode(bytes(noise.randrange(128, 256) for _ in range(300))) is not None for _ in range(200))
    assert (taken, high) == (0, 0)


def test_a_language_that_we_have_no_table_for_is_left_to_charset_normalizer():
    text = "Все счастливые семьи похожи друг на друга, каждая несчастливая семья несчастлива по-своему.\n" * 4
    found = decode(text.encode("cp855"))
    assert found is not None
    assert (found.encoding, found.text) == ("cp855", text)


def test_charset_normalizer_is_not_even_imported_for_what_is_familiar():
    code = (
        "import sys; from ferrule.workspace.texts.text import decode;"
        "decode('中文注释'.encode('gb18030')); decode(b'abc');"
        "sys.exit('charset_normalizer' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("text", ["# by Łukasz\nx = 1\n", "# 🎉 done\n", "name = 'Ø'\n", "–’…≤≥ü\n"])
def test_characters_of_four_bytes_tell_gb18030(text: str):
    found = decode(text.encode("gb18030"))
    assert found is not None
    assert (found.encoding, found.text) == ("gb18030", text)


@pytest.mark.parametrize(
    "text",
    [
        "src\n├── app.py 🎉\n│   ├── __init__.py\n└── tests\n" * 9,
        "progress = '▁▂▃▄▅▆▇█'\n",
        'msgstr "¿Está seguro de que quiere borrar esta redirección? La página está aquí, señor."\n' * 4,
        "# Šī lapa ir paredzēta administratoriem, ģimenēm un ļaudīm\n" * 6,
    ],
)
def test_what_only_the_encoding_that_has_all_of_unicode_explains_is_in_it(text: str):
    """Frames, signs and foreign letters: no other encoding makes a text of their bytes."""
    found = decode(text.encode("gb18030"))
    assert found is not None
    assert (found.encoding, found.text) == ("gb18030", text)


def test_a_likelier_encoding_that_cannot_read_the_end_does_not_hide_the_right_one():
    data = ('msgstr "Вы действительно хотите удалить это перенаправление?"\n' * 80 + "«ПРОСТО»\n").encode("gb18030")
    assert next(likely(data)) != "gb18030"
    found = decode(data)
    assert found is not None
    assert found.encoding == "gb18030"


def test_a_small_pdf_is_not_read_as_a_text_in_some_old_encoding():
    assert list(likely(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n1 0 obj\n<< /Type /Catalog >>\nendobj\n")) == []
    assert list(likely("% das PDF-Format für später\n".encode("cp1252")))
