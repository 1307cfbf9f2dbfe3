"""What a request says, in English or Chinese: the concepts in its words, and the things it names.

Nothing here asks a model: words are brought to one form, and files, quoted texts, commands and numbers are found by
how they are written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

# Words that mean the same to a tool, in English and Chinese: `concept: English | Chinese`, going on where indented.


CONCEPTS = """
read: read show display view open see look print cat content contents say says | 看 查看
  写了什么 说了什么 讲了什么 写着什么 读 读取 打开
  显示 内容 看看 看一下 展示
write: write save create make new put store | 写 写入 新建 创建 保存 建立 存到
edit: edit change replace modify rename substitute fix update correct instead | 改 修改 替换 换成 改成 改为 编辑
  更正 更新
several: several many multiple every | 多个 批量 多处 许多
find: find locate named called name where exist there glob any | 找 查找 寻找 名为 名叫 找出 找到 叫做 在哪
  在哪里 在哪儿 吗
search: search grep mention contain occurrence occur match matching use define defined definition appear regular
  expression word line text function | 搜索 搜 检索 包含 提到 出现 定义 用到 匹配 这个词 行 函数
list: list ls everything hold entries | 列出 有哪些 有什么 都有什么 列表 所有东西
folder: folder directory dir folders subfolder path | 目录 文件夹 路径
file: file document | 文件
run: run execute start launch build test install | 运行 执行 启动 跑 编译 测试 安装
shell: command shell terminal bash program | 命令 终端 程序
git: git branch commit repository repo uncommitted remote staged version changed status | 分支 提交 仓库 未提交
  改动 暂存 版本库
time: time date today day clock now hour month year weekday tomorrow yesterday o'clock | 时间 日期 今天 几点
  几号 星期 星期几 现在 今年 日子
here: current working here am i'm | 当前 现在在 我在 这里
stop: stop kill end terminate cancel abort quit | 停止 结束 终止 取消 停掉 关掉
background: background job task process | 后台 任务 进程
output: output wrote result printed log | 输出 结果 打印
input: type answer input enter reply prompt | 输入 回答 键入
recursive: recursive recursively subfolders below depth deep tree nested | 递归 子目录 所有子 层 深度 树
limit: first top limit head at most only lines | 前 头 最多 只看 只
skip: skip offset after from | 跳过 从第
count: count many number how | 多少 几个 数量 统计
case: case insensitive ignoring uppercase lowercase | 大小写
preview: preview before dry | 预览
explain: explain why difference meaning mean understand | 解释 为什么 区别 意思 含义 什么叫
mail: mail email message inbox | 邮件 信件 收件箱
send: send deliver forward | 发送 发 寄
delete: delete remove erase drop | 删除 移除 删掉
add: add append insert attach | 添加 增加 追加 插入
calendar: calendar event meeting appointment schedule agenda | 日历 日程 会议 安排 约会
note: note notes obsidian | 笔记
database: database sql query table row record | 数据库 查询 表 记录
web: web http url page website fetch request download link | 网页 网址 网站 请求 下载 链接
weather: weather temperature forecast rain | 天气 气温 下雨
calculate: calculate compute sum add multiply plus minus | 计算 算 求和 加 减 乘
translate: translate translation | 翻译
image: image picture photo screenshot | 图片 照片 截图 图像
user: user account customer member | 用户 账户 客户 成员
order: order purchase buy | 订单 购买 买
price: price cost amount money | 价格 费用 金额 钱
"""
PHRASES = ((r"\bwhat(?:'s| is| are|'re)?(?: there| all)? in(?:side)?\b", "list"),)
"""Words that say more together than each alone."""
SAYS_LITTLE = frozenset({"here"})
"""Concepts that go with many requests: they count less."""
NOTHING_SAID = """
a an the of to in on at for with by and or is are was be do does did it its me my you your i we our us please can could
would will shall what which who whose when has have had this that these those as if then into than so not no give tell
get let some one use used using want need since last anything something just also too all
"""


# The terms of a text: its words brought to one form, so that a request in English or Chinese meets an English tool.


_STOPWORDS = frozenset(NOTHING_SAID.split())
_ASCII = re.compile(r"[A-Za-z][A-Za-z']*")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[_\-\s]+")


def _read_table() -> tuple[dict[str, tuple[str, ...]], dict[str, tuple[str, ...]], int]:
    english: dict[str, tuple[str, ...]] = {}
    chinese: dict[str, tuple[str, ...]] = {}
    for line in CONCEPTS.replace("\n  ", " ").strip().splitlines():
        concept, words = line.split(":", 1)
        ours, theirs = words.split("|")
        for word in ours.split():
            english[_stem(word)] = (*english.get(_stem(word), ()), concept)
        for word in theirs.split():
            chinese[word] = (*chinese.get(word, ()), concept)
    return english, chinese, max(map(len, chinese))


def _stem(word: str) -> str:
    for ending, shortest in (("ies", 5), ("ing", 6), ("ed", 5), ("es", 5), ("s", 4)):
        if word.endswith(ending) and len(word) >= shortest and not word.endswith("ss"):
            word = word[: -len(ending)] + ("y" if ending == "ies" else "")
            if ending in ("ing", "ed") and word[-1] == word[-2] and word[-1] not in "lsz":
                word = word[:-1]  # running, stopped
            break
    return word.removesuffix("e") if len(word) > 3 else word


_ENGLISH, _CHINESE, _LONGEST = _read_table()


def name_words(name: str) -> list[str]:
    """The words in a name: `getCurrentDateTime`, `file_path`."""
    return [part.lower() for part in _CAMEL.split(name) if part]


def name_terms(name: str) -> list[str]:
    """The terms in a name."""
    return terms(" ".join(name_words(name)))


def terms(text: str) -> list[str]:
    """The terms of a text: concepts where words are known, stems where not; what says nothing is left out."""
    phrases = [concept for phrase, concept in PHRASES if re.search(phrase, text, re.IGNORECASE)]
    english = [term for word in _ASCII.findall(text) for term in _of_word(word.lower().removesuffix("'s"))]
    return [*english, *_chinese_terms(text), *phrases]


@cache
def _of_word(word: str) -> tuple[str, ...]:
    if word in _STOPWORDS:
        return ()
    stem = _stem(word)
    return _ENGLISH.get(stem, (stem,) if len(word) > 1 else ())


def _chinese_terms(text: str) -> list[str]:
    """There are no spaces to split at: the longest known word at each place is taken."""
    found: list[str] = []
    position = 0
    while position < len(text):
        for length in range(min(_LONGEST, len(text) - position), 0, -1):
            concepts = _CHINESE.get(text[position : position + length])
            if concepts:
                found += concepts
                position += length
                break
        else:
            position += 1
    return found


# What a request names: quoted texts, paths, globs, addresses, names of code, numbers. In English and in Chinese.


class Named(StrEnum):
    """What kind of thing a mention is; an earlier kind wins where two begin at the same place."""

    QUOTED = "quoted"
    COMMAND = "command"
    URL = "url"
    GLOB = "glob"
    FILE = "file"
    FOLDER = "folder"
    CODE = "code"
    NUMBER = "number"


@dataclass(slots=True, frozen=True)
class Mention:
    """One thing that is named, and where it stands; `start` and `end` count its quotes too."""

    kind: Named
    text: str
    start: int
    end: int


_MOST = 4000
_WORD = r"[A-Za-z0-9_~@+.\-]"
_FORMS: tuple[tuple[Named, str], ...] = (
    (
        Named.QUOTED,
        (
            r'`(?P<tick>[^`\n]+)`|"(?P<double>[^"\n]+)"|“(?P<curly>[^”\n]+)”|「(?P<corner>[^」\n]+)」|『(?P<white>[^』\n]+)』'
            r"|(?<![A-Za-z0-9])'(?P<single>[^'\n]+)'(?![A-Za-z0-9])|‘(?P<bent>[^’\n]+)’"
        ),
    ),
    (
        Named.COMMAND,
        (
            r"\b(?:[Rr]un|[Ee]xecute)\s+(?:the\s+|this\s+)?(?:shell\s+)?command:?\s+(?P<typed>[a-z./~][ -~]*)"
            r"|(?:运行|执行)(?:命令)?[:：]?\s*(?P<given>[a-z./~][ -~]*)"
        ),
    ),
    (Named.URL, r"https?://[^\s<>\"'，。；、）)]+"),
    (Named.GLOB, r"[A-Za-z0-9_./\-]*[*][A-Za-z0-9_./*?{},\[\]\-]*"),
    (
        Named.FILE,
        (
            rf"(?<!{_WORD})(?:[A-Za-z]:)?/?(?:{_WORD}+/)*{_WORD}*[A-Za-z0-9_]\.[A-Za-z][A-Za-z0-9]{{0,9}}(?![A-Za-z0-9_/(])"
            r"|(?<![A-Za-z0-9])(?:Makefile|Dockerfile|Gemfile|Procfile|LICENSE|README|CHANGELOG|CONTRIBUTING)(?![A-Za-z0-9])"
            r"|(?<![A-Za-z0-9])\.[a-z][a-z0-9_.\-]+"
        ),
    ),
    (Named.FOLDER, rf"(?:\.{{1,2}}|~)?/(?:{_WORD}+/?)*|(?<!{_WORD}){_WORD}*[A-Za-z0-9_]/(?:{_WORD}+/?)*"),
    (
        Named.CODE,
        (
            r"(?<![A-Za-z0-9])(?:[A-Za-z_][A-Za-z0-9]*_[A-Za-z0-9_]*|[a-z]+[A-Z][A-Za-z0-9]*|[A-Z]{2,}[A-Z0-9_]*"
            r"|[A-Za-z_][A-Za-z0-9_.]*(?=\(\)))(?![A-Za-z0-9])"
        ),
    ),
    (Named.NUMBER, r"(?<![A-Za-z0-9.])\d+(?![A-Za-z0-9]|\.\d)"),
)
_PATTERNS = tuple((kind, re.compile(form)) for kind, form in _FORMS)
_NO_MENTIONS = frozenset({"e.g", "i.e", "a.m", "p.m", "u.s", "json", "yaml", "html", "css", "csv", "sql", "xml", "pdf"})
_FOLDER_BEFORE = re.compile(
    r"(?<![A-Za-z0-9_])(?P<name>[A-Za-z0-9_][A-Za-z0-9_.\-]{0,80})(?:\s+(?:folder|directory|dir)\b|\s*(?:目录|文件夹))",
    re.IGNORECASE,
)
_FOLDER_AFTER = re.compile(
    r"(?:\b(?:folder|directory)\b|目录|文件夹)\s*(?:called |named |叫|名为)?\s*(?P<name>[A-Za-z0-9_][A-Za-z0-9_.\-]*)",
    re.IGNORECASE,
)
_NAMED_WORD = re.compile(
    r"\b(?:word|term|symbol|function|class|variable|method)\s+(?P<after>[A-Za-z_][A-Za-z0-9_.\-]*)"
    r"|(?<![A-Za-z0-9_])(?P<before>[A-Za-z_][A-Za-z0-9_.\-]{0,80})\s*(?:这个词|这个字|一词|函数|变量|方法)"
    r"|(?:函数|变量|方法|单词)\s*(?P<zh>[A-Za-z_][A-Za-z0-9_.\-]*)"
)
_BY_WORDS = ((Named.FOLDER, _FOLDER_BEFORE), (Named.FOLDER, _FOLDER_AFTER), (Named.CODE, _NAMED_WORD))
_LOOSE_FOLDER = re.compile(
    r"\b(?:in|inside|under|within|below|of)\s+(?P<in>[A-Za-z0-9_][A-Za-z0-9_\-]*)(?=[\s.?!,]|$)"
    r"|(?<![A-Za-z0-9_])(?P<zh>[A-Za-z0-9_][A-Za-z0-9_\-]{0,80})\s*(?:里|中|下|内)",
    re.IGNORECASE,
)
_NO_NAMES = frozenset(
    """
    a an the this that these those my our your its it here which what current working same whole every each any all
    file files folder folders directory directories code project repo repository case git python is are in of on and
    one two list parent home root called named background detail full total english chinese there order json
    across from for to with or not was were am i do does did contain contains hold holds have has you we
    """.split()  # noqa: SIM905 - a list of so many words is no easier to read
)


def mentions(text: str) -> list[Mention]:
    """Everything that is named, in the order it stands; no two overlap. Of a long text only the beginning is read."""
    text = text[:_MOST]
    taken: list[Mention] = []
    for kind, pattern in _PATTERNS:
        for found in pattern.finditer(text):
            start, end = found.span()
            named = next((one for one in found.groups() if one), found.group())
            if kind is Named.COMMAND:
                start = end - len(named)
            if kind is not Named.QUOTED:
                cut = named.rstrip(".,;:!?") if named.strip(".") else named
                named, end = cut, end - (len(named) - len(cut))
            if (kind is not Named.FOLDER and not named.strip("./")) or named.lower() in _NO_MENTIONS:
                continue
            if all(end <= other.start or start >= other.end for other in taken):
                taken.append(Mention(kind, named, start, end))
    for kind, pattern in _BY_WORDS:
        for found in pattern.finditer(text):
            group = found.lastgroup or ""
            start, end = found.span(group)
            free = all(end <= other.start or start >= other.end for other in taken)
            if free and found[group].lower() not in _NO_NAMES:
                taken.append(Mention(kind, found[group], start, end))
    return sorted(taken, key=lambda one: one.start)


def loose_folders(text: str) -> list[str]:
    """Bare words that stand where a folder would («in tests», «tests 下»): worth a guess, no more."""
    named = [found["in"] or found["zh"] for found in _LOOSE_FOLDER.finditer(without_mentions(text[:_MOST], blank="."))]
    return [one for one in named if one.lower() not in _NO_NAMES]


def without_mentions(text: str, *, blank: str = " ") -> str:
    """The request's own words: what is named is left out, for a file's name says little about what to do with it."""
    kept: list[str] = []
    position = 0
    for one in mentions(text):
        if one.kind is not Named.NUMBER:
            kept.append(text[position : one.start])
            position = one.end
    return blank.join([*kept, text[position:]])
