"""Which encoding bytes that are not UTF-8 were most likely written in.

Short files are the hard ones: five Chinese characters in a comment are valid in a dozen encodings. So the dozen that
people use are compared first by how likely each makes the text, in natural logarithms; only what none of them explains
is handed to charset-normalizer. The answer is a guess: callers check that it gives back the same bytes.
"""

from __future__ import annotations

import codecs
import unicodedata
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import log
from typing import TYPE_CHECKING

from ferrule.core.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_SAMPLE = 3_000
_LONGEST_LINE = 2_000
_BEYOND_ASCII = lazy_pattern(rb"[\x80-\xff]")
_NO_TEXT = (b"%PDF-", b"%!PS-Adobe", b"GIF8", b"OggS", b"\xff\xd8\xff")
"""What some binary formats begin with that may go on for a while without a byte that no text has."""
_NOT_IN_TEXT = bytes((*range(0x08), *range(0x0E, 0x1A), *range(0x1C, 0x20), 0x7F))

# How unlikely an ASCII character, a rare one and a break of a writing habit are, as logarithms.
_ASCII, _RARE_LETTER, _RARE_IDEOGRAPH, _NOT_ASSIGNED = -3.5, -9.0, -15.0, -22.0
_HABIT, _FOUR_BYTES, _FLOOR_IF_ALONE = 3.5, -10.0, -14.0
_CHINESE = "gb18030"
_NO_CHARACTER = frozenset({"Cn", "Co", "Cs"})

# Above this many well-formed sequences for each broken one, it is UTF-8 that was damaged, and nothing else.
_DAMAGED = 9
# When another encoding is this much likelier, this one is out of the question.
_BEYOND_DOUBT = 25.0
_LONG = 40  # characters beyond ASCII
# What charset-normalizer must be sure of: little disorder, and a language that it knows.
_MOST_CHAOS, _LEAST_COHERENCE = 0.1, 0.4


@dataclass(frozen=True)
class _Family:
    """Encodings of one language, the usual one first; `floor` is the least its characters may average."""

    names: tuple[str, ...]
    likelihood: Callable[[str], float]
    floor: float
    handicap: float = 0.0


def likely(data: bytes) -> Iterator[str]:
    """Encodings that may explain bytes which are not UTF-8, the best first; none when they look like no text."""
    if data.startswith(_NO_TEXT) or len(data.translate(None, _NOT_IN_TEXT)) != len(data):
        return
    sample = _sample(data)
    read = sample.decode("utf-8", "replace")
    broken = read.count("\ufffd")
    if _beyond_ascii(read) - broken >= max(_DAMAGED, broken * _DAMAGED):
        return
    ranked: list[tuple[float, tuple[str, ...]]] = []
    for family in _FAMILIES:
        for position, name in enumerate(family.names):
            text = _decode_start(sample, name)
            if text is None:
                continue
            beyond = _beyond_ascii(text)
            score = family.likelihood(text)
            floor = family.floor if beyond < _LONG else family.floor + 1.5  # a few characters may be odd, many may not
            if beyond and score - _ASCII * (len(text) - beyond) >= floor * beyond:
                ranked.append((score - family.handicap, family.names[position:]))
            break
    ranked.sort(key=lambda one: -one[0])
    for score, names in ranked:
        if score > ranked[0][0] - _BEYOND_DOUBT:
            yield from names
    # Whoever asks on has seen that none of these can read the whole of it.
    if _CHINESE in (name for _, names in ranked for name in names) or _may_be_chinese(sample):
        yield _CHINESE
    if not ranked:
        yield from _others(sample)


def _may_be_chinese(sample: bytes) -> bool:
    """Whether what nothing else explains is in the encoding that has all of Unicode: foreign letters, signs, frames.

    Chance brings about rare ideographs, and hardly ever anything else.
    """
    text = _decode_start(sample, _CHINESE)
    beyond = _beyond_ascii(text) if text else 0
    if text is None or not beyond:
        return False
    return _FAMILIES[0].likelihood(text) - _ASCII * (len(text) - beyond) >= _FLOOR_IF_ALONE * beyond


def _sample(data: bytes) -> bytes:
    """The lines with more than ASCII in them, from the start and from the middle, whole so that no character is cut."""
    if len(data) <= _SAMPLE:
        return data
    lines: list[bytes] = []
    for at in (0, len(data) // 2):
        length = 0
        while length < _SAMPLE // 2 and (found := _BEYOND_ASCII.search(data, at)):
            here = found.start()
            start = data.rfind(b"\n", max(0, here - _LONGEST_LINE), here) + 1
            end = data.find(b"\n", here, here + _LONGEST_LINE)
            at = here + _LONGEST_LINE if end < 0 else end + 1
            if (start or here < _LONGEST_LINE) and end > 0:
                lines.append(data[start:end])
                length += end - start
    if lines:
        return b"\n".join(lines)
    # Lines without end. A character starts where the bytes beyond ASCII do.
    first = _BEYOND_ASCII.search(data)
    here = first.start() if first else 0
    return data[here : here + _SAMPLE]


def _decode_start(sample: bytes, name: str) -> str | None:
    try:
        return codecs.getincrementaldecoder(name)().decode(sample)
    except UnicodeDecodeError:
        return None


def _beyond_ascii(text: str) -> int:
    return len(text) - len(text.encode("ascii", "ignore"))


def _others(sample: bytes) -> Iterator[str]:
    try:
        from charset_normalizer import from_bytes  # 40 ms, and hardly ever needed
    except ImportError:
        return  # the extra `files` is not installed; the familiar encodings need nothing

    for match in from_bytes(sample, threshold=_MOST_CHAOS, enable_fallback=False):
        if match.coherence >= _LEAST_COHERENCE:
            yield match.encoding


# Which characters a language uses most: what tells one old encoding from another when a text is short.

_SIMPLIFIED = (
    "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里用道行所然家种事成方多经么"
    "去法学如都同现当没动面起看定天分还进好小部其些主样理心她本前开但因只从想实日军者意无力它与长把机十民第公此已工使情明性知全三又"
    "关点正业外将两高间由问很最重并物手应战向头文体政美相见被利什二等产或新己制身果加西斯月话合回特代内信表化老给世位次度门任常先海"
    "通教儿原东声提立及比员解水名真论处走义各入几口认条平系气题活尔更别打女变四神总何电数安少报才结反受目太量再感建务做接必场件计管"
    "期市直德资命山金指克许统区保至队形社便空决治展马科司五基眼书非则听白却界达光放强即像难且权思王象完设式色路记南品住告类求据程北"
    "边死张该交规万取拉格望觉术领共确传师观清今切院让识候带导争运注释返回参值错误初始配置删除添输串循环连库缓存码键默认检查验证"
    "类型用户请端测试版签获调试日志警线锁异步响应网络址页列组整字符函数读写"
)
_TRADITIONAL = (
    "的一是不了在人有我他這個們中來上大為和國地到以說時要就出會可也你對生能而子那得於著下自之年過發後作裡用道行所然家種事成方多經麼"
    "去法學如都同現當沒動面起看定天分還進好小部其些主樣理心她本前開但因只從想實日軍者意無力它與長把機十民第公此已工使情明性知全三又"
    "關點正業外將兩高間由問很最重並物手應戰向頭文體政美相見被利什二等產或新己制身果加西斯月話合回特代內信表化老給世位次度門任常先海"
    "通教兒原東聲提立及比員解水名真論處走義各入幾口認條平系氣題活爾更別打女變四神總何電數安少報才結反受目太量再感建務做接必場件計管"
    "期市直德資命山金指克許統區保至隊形社便空決治展馬科司五基眼書非則聽白卻界達光放強即像難且權思王象完設式色路記南品住告類求據程北"
    "邊死張該交規萬取拉格望覺術領共確傳師觀清今切院讓識候帶導爭運註釋返參值錯誤初始配置刪除添輸串迴圈連庫緩存碼鍵預設檢查驗證型"
    "請端測試版簽獲調警線鎖異步響網絡址頁列組整字元函式讀寫檔案料啟停執繁"
)
_KANJI = (
    "日一国人年大十二本中長出三時行見月分後前生五間上東四今金九入学高円子外八六下来気小七山話女北午百書先名川千水半男西電校語土木聞"
    "食車何南万毎白天母火右読友左休父雨使用関数変設定処理初期化文字列値配結果取得確認実開始終了表示力作成更新削除追加場合必要方法情報"
    "対象指以自動部品漢注釈説明全体的性能問題回数合計有無効引返戻呼存在型名前次同期接続通信受送面画像検索"
)
_HANGUL = (
    "이다는을에의가를하고은한로지도기사인어서자시리나대그아일해정라있보수주전과만부상들것으여장제스니면게요마안성선유우연조공신문국경구원"
    "화야적러동비드트할습된않소모무음생와때간각계관단당데될력르미발분세실없었위입재저중진처체치통표합현형회후거내너년두든또린말며받버변"
    "불설식심속순술쓰알오외용운월임작점존좋준증직집차참찾책천청초최출코크타테토특파판프플피필학함항행호확환황값석글바키터파일류로그"
)
_HIRAGANA = "".join(map(chr, range(0x3041, 0x3094)))
_KATAKANA = "".join(map(chr, range(0x30A1, 0x30F7))) + "ー"
_HALF_WIDTH_KATAKANA = "".join(map(chr, range(0xFF61, 0xFFA0)))
_EAST_ASIAN_PUNCTUATION = "，。：、；“”‘’（）！？《》【】「」『』…—・　～"

# Alphabets, the most used letter first.
_WESTERN = "éüäàöèçáóíñåæøãêßúôâõîûùëïìòœý"
_CENTRAL_EUROPEAN = "ąęłóśżćáéíčěžřšńźýůúőűöüťďňäăâșțşţđîß"
_TURKISH = "ışğçöüâîİŞ"
_TYPOGRAPHY = "’“”‘–—…•€£©®°«»·§±×½²³µ\xa0¿¡ªº„™"
_RUSSIAN = "оеаинтсрвлкмдпуяыьгзбчйхжшюцщэфъё"
_GREEK = "αοιετνσηρπκμλυςίωάόέήδγχθφβύξζψώ"
_HEBREW = "יוהלאבמשתרנםדקעחפכגטסזןצךץף"
_ARABIC = "اليمنوترةبعدسفهكقحجأشصطخءإىئضذزثظغآؤ،؟"
_THAI = "านรอกเง่มลวยดท้ส์ีัิตะปบืคหแจุพชขู็ใไำโผธถซณฉภญศๆ"


# Languages


def _ideographs(
    groups: Callable[[], tuple[tuple[str, float], ...]], *, others: float | None = None
) -> Callable[[str], float]:
    """A language with ideographs; `others` is for any other character that is one, where the encoding has them all."""
    table = cache(lambda: _table(groups()))

    def likelihood(text: str) -> float:
        known = table()
        score = 0.0
        for character in text:
            if character < "\x80":
                score += _ASCII
            elif (found := known.get(character)) is not None:
                score += found
            elif others is not None and unicodedata.category(character) not in _NO_CHARACTER:
                score += others
            else:
                score += _RARE_IDEOGRAPH if character.isalpha() else _NOT_ASSIGNED
        return score

    return likelihood


def _letters(letters: str, *, beside_ascii: bool) -> Callable[[str], float]:
    """A language with an alphabet; `beside_ascii` when its words are mostly ASCII, as in most of Europe."""
    capitals = "".join(letter.upper() for letter in letters if letter.upper() != letter and letter != "ß")
    table = cache(
        lambda: {
            **_table(((_TYPOGRAPHY, 0.12),)),
            **_table(((letters, 0.8), (capitals, 0.07)), decay=0.94),
        }
    )

    def likelihood(text: str) -> float:
        known = table()
        score = 0.0
        for before, character in pairwise(" " + text):
            if character < "\x80":
                score += _ASCII
                if before > "\x7f" and character.isalpha() and not (before.isalpha() and beside_ascii):
                    score -= 0.0 if before in _TYPOGRAPHY else _HABIT
                continue
            # A word in capitals is one choice, not as many as it has letters.
            shouted = character.isupper() and before.isupper()
            score += known.get(character.lower() if shouted else character, _RARE_LETTER)
            if not character.isalpha():
                if before.isalpha() and character not in _TYPOGRAPHY:
                    score -= _HABIT
                continue
            if character.isupper() and before.islower():
                score -= _HABIT
            if before.isalpha() and (before > "\x7f") == beside_ascii:
                score -= _HABIT
        return score

    return likelihood


def _table(groups: tuple[tuple[str, float], ...], decay: float = 1.0) -> dict[str, float]:
    """How likely each character is. A group's share is divided among its members, each getting `decay` times what the
    one before it got; the first group that has a character counts.
    """
    known: dict[str, float] = {}
    for characters, share in groups:
        members = dict.fromkeys(characters)
        weights = [decay**rank for rank in range(len(members))]
        whole = sum(weights)
        for character, weight in zip(members, weights, strict=True):
            known.setdefault(character, log(share * weight / whole))
    return known


def _rows(encoding: str, first: int, last: int) -> str:
    """The characters of a two-byte character set whose first byte lies between two."""
    return b"".join(bytes((row, cell)) for row in range(first, last + 1) for cell in range(0xA1, 0xFF)).decode(
        encoding, "ignore"
    )


def _rare_in_gbk(*, ideographs: bool) -> str:
    cells = [*range(0x40, 0x7F), *range(0x80, 0xFF)]
    both = b"".join(bytes((row, cell)) for row in range(0x81, 0xFF) for cell in cells).decode("gbk", "ignore")
    return "".join(one for one in both if (unicodedata.category(one) == "Lo") == ideographs)


def _big5_frequent() -> str:
    cells = [*range(0x40, 0x7F), *range(0xA1, 0xFF)]
    return b"".join(bytes((row, cell)) for row in range(0xA4, 0xC7) for cell in cells).decode("big5", "ignore")


def _japanese() -> tuple[tuple[str, float], ...]:
    return (
        (_EAST_ASIAN_PUNCTUATION, 0.08),
        (_HIRAGANA, 0.45),
        (_KATAKANA, 0.17),
        (_KANJI, 0.2),
        (_rows("euc_jp", 0xB0, 0xCF), 0.09),
        (_rows("euc_jp", 0xD0, 0xF4), 0.005),
    )


_FAMILIES = (
    _Family(
        (_CHINESE,),
        _ideographs(
            lambda: (
                (_EAST_ASIAN_PUNCTUATION, 0.13),
                (_SIMPLIFIED, 0.6),
                (_rows("gb2312", 0xB0, 0xD7), 0.25),
                (_rows("gb2312", 0xA1, 0xA3), 0.01),
                (_rows("gb2312", 0xD8, 0xF7), 0.01),
                (_rows("gb2312", 0xA4, 0xA9), 0.002),
                (_TRADITIONAL, 0.01),
                # What is neither here nor in the group above has four bytes, which hardly ever come about by chance.
                (_rare_in_gbk(ideographs=False), 0.001),
                (_rare_in_gbk(ideographs=True), 0.0001),
            ),
            others=_FOUR_BYTES,
        ),
        floor=-12.7,
    ),
    _Family(
        ("big5", "cp950", "big5hkscs"),
        _ideographs(
            lambda: (
                (_EAST_ASIAN_PUNCTUATION, 0.13),
                (_TRADITIONAL, 0.7),
                (_big5_frequent(), 0.16),
            )
        ),
        floor=-12.0,
        handicap=2.0,
    ),
    _Family(
        ("cp932", "shift_jis"),
        _ideographs(lambda: (*_japanese(), (_HALF_WIDTH_KATAKANA, 0.001))),
        floor=-10.5,
    ),
    _Family(("euc_jp",), _ideographs(_japanese), floor=-9.0, handicap=2.0),
    _Family(
        ("cp949",),
        _ideographs(
            lambda: (
                (_EAST_ASIAN_PUNCTUATION, 0.05),
                (_HANGUL, 0.82),
                (_rows("euc_kr", 0xB0, 0xC8), 0.12),
            )
        ),
        floor=-9.5,
        handicap=2.0,
    ),
    _Family(("cp1252",), _letters(_WESTERN, beside_ascii=True), floor=-7.5),
    _Family(("cp1250",), _letters(_CENTRAL_EUROPEAN, beside_ascii=True), floor=-6.5, handicap=3.0),
    _Family(("cp1254",), _letters(_TURKISH, beside_ascii=True), floor=-6.5, handicap=3.0),
    _Family(("cp1251",), _letters(_RUSSIAN, beside_ascii=False), floor=-6.5, handicap=1.5),
    _Family(("koi8_r",), _letters(_RUSSIAN, beside_ascii=False), floor=-6.0, handicap=2.5),
    _Family(("cp866",), _letters(_RUSSIAN, beside_ascii=False), floor=-6.0, handicap=3.5),
    _Family(("cp1253",), _letters(_GREEK, beside_ascii=False), floor=-6.5, handicap=2.0),
    _Family(("cp1255",), _letters(_HEBREW, beside_ascii=False), floor=-6.0, handicap=3.0),
    _Family(("cp1256",), _letters(_ARABIC, beside_ascii=False), floor=-6.0, handicap=3.0),
    _Family(("cp874",), _letters(_THAI, beside_ascii=False), floor=-6.0, handicap=3.0),
)
