"""Answers that may be used again. Only the same question is answered from here at once.

A similar question is no more than a candidate: "paid" and "not paid" are more alike than two ways to ask the same. So a
candidate is served after the model in use has said that both ask the same, and is a labelled suggestion otherwise.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from time import time
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakKeyDictionary

from sqlalchemy import delete, insert, select

from ferrule.core.model import ModelError, ModelRequest, ModelSettings, UserMessage
from ferrule.service.database import DatabaseProblem
from ferrule.service.documents import shown_time, storable
from ferrule.service.tables import cached_answers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import Connection, Row

    from ferrule.core.model import Model
    from ferrule.core.tool import Tool
    from ferrule.service.access import Allowed
    from ferrule.service.database import Database
    from ferrule.service.directory import Principal
    from ferrule.service.entity_catalog import EntityCatalog
    from ferrule.service.writer import GroupWriter

logger = logging.getLogger("ferrule.service")

Match = Literal["exact", "confirmed", "similar"]

MOST_QUESTION = 2_000
MOST_ANSWER = 100_000
_MOST_ROWS = 2_000
_MOST_COMPARED = 200
_SIMILAR = 0.3
_CONFIRM_SECONDS = 8.0
_CONFIRM_TOKENS = 200


_INVISIBLE: dict[int, None] = dict.fromkeys((0x00AD, 0x200B, 0x2060, 0xFEFF))
_QUOTES = str.maketrans("\u2018\u2019\u201c\u201d", "''\"\"")
_RAISED = ("<super>", "<sub>", "<fraction>", "<circle>", "<square>")
_HAN = r"[\u3400-\u9fff\uf900-\ufaff]"
_WIDE_COMMA = re.compile(r"(?<=[0-9])\uff0c(?=[0-9])")
_EXACT = re.compile(r"[\"`「『《]")
_AROUND_HAN = re.compile(
    rf"(?<={_HAN}) (?=[A-Za-z0-9][A-Za-z0-9.-]*(?:$|[^\w\s]| ?[的吗]))|(?<=[A-Za-z0-9]) (?=[的吗])"
)
_ASKS = "what|which|who|whom|whose|when|where|why|how"
_TELLS = "show|list|tell|give|find|get|count|check|explain|calculate|compare|summari[sz]e|describe|look|display"
_HELPS = "is|are|was|were|do|does|did|has|have|had|can|could|should|would"
_CHINESE_ASKS = "哪|谁|什么|多少|怎么|如何|为什么|今天|本月"
_CHINESE_TELLS = "(?:帮|给|告诉)我(?![的们])|列出|(?:查|问|列|查看|查询|显示|统计|计算|介绍|说明)一下"
_POLITE = re.compile(
    rf"(?:(?:could|can|would|will) you (?:please|kindly) |(?:please|kindly),? (?:could|can|would|will) you,? )"
    rf"(?=(?:{_TELLS})\b)|(?:please|kindly),? (?=(?:{_TELLS}|{_ASKS})\b)"
    rf"|请问(?:一下)?[,、:]? ?(?![候答卷])|(?:请|麻烦(?:你|您)?|劳烦(?:你|您)?)(?={_CHINESE_TELLS})",
    re.IGNORECASE,
)
_GREETING = re.compile(
    rf"(?:(?:hello|hi|hey|good (?:morning|afternoon|evening))(?: there)?|excuse me|你好|您好|嗨|打扰一下|劳驾)"
    r"\s*[,!、]\s*"
    rf"(?=(?:{_ASKS}|{_TELLS}|{_HELPS})\b|{_CHINESE_ASKS}|{_CHINESE_TELLS}|{_POLITE.pattern})",
    re.IGNORECASE,
)
"""It counts as one only before what a question begins with: `你好，李焕英` is a film, `请查理` invites Charlie."""
_FIRST_WORD = re.compile(rf"(?:{_ASKS}|{_TELLS}|{_HELPS}|a|an|the)\b", re.IGNORECASE)
_CLOSING = re.compile(r"(?<=[^\W\d_]{2})(?:[.?!。]+| [?]+)$|(?<=[\w)\]\"'%])[.?。]+$")


def normalised(question: str) -> str:
    """What two questions share that are the same but for how they are typed.

    Width, spacing, closing punctuation, a polite opening and the first word's capital do not count. What may change
    the meaning does: `5²` is not `52`, `5!` is not `5`, `MBps` is not `Mbps`, and `Polish` is not `polish`.
    """
    apart = _WIDE_COMMA.sub(" <wide>, ", question.translate(_INVISIBLE))
    apart = "".join(_set_apart(letter) for letter in apart)
    text = unicodedata.normalize("NFKC", apart).translate(_QUOTES).strip()
    if _EXACT.search(text) is None:  # within quotes every space counts
        text = " ".join(text.split())
    text = _AROUND_HAN.sub("", text)
    before = ""
    while before != text:
        before = text
        text = _CLOSING.sub("", text).rstrip()
    for opening in (_GREETING, _POLITE):
        found = opening.match(text)
        if found is not None and found.end() < len(text):
            text = text[found.end() :]
    return _FIRST_WORD.sub(lambda first: first[0].lower(), text, count=1) if _FIRST_WORD.match(text) else text


def _set_apart(letter: str) -> str:
    """A letter that NFKC would take for a plain one, marked as what it is."""
    if letter.isascii():
        return letter
    form = unicodedata.decomposition(letter).partition(" ")[0]
    return f" {form}{letter} " if form in _RAISED else letter


def similarity(one: str, other: str) -> float:
    """How alike two normalised questions are by their letters and words, from 0 to 1. It picks candidates alone."""
    return (_dice(_pieces(one), _pieces(other)) + _dice(_words(one), _words(other))) / 2


_WORD = re.compile(rf"{_HAN}|[^\W_]+")
_YES = re.compile(r"yes[.!]?", re.IGNORECASE)
_NUMBER = re.compile(r"\d+")


def _words(text: str) -> Counter[str]:
    return Counter(_WORD.findall(text.casefold()))


def _pieces(text: str) -> Counter[str]:
    bare = "".join(_WORD.findall(text.casefold()))
    size = 2 if re.search(_HAN, bare) else 3
    return Counter(bare[at : at + size] for at in range(max(1, len(bare) - size + 1)))


def _dice(one: Counter[str], other: Counter[str]) -> float:
    total = one.total() + other.total()
    return 2 * (one & other).total() / total if total else 0.0


SAME_QUESTION = """\
You compare two questions that one user asked a business system on the same day. Answer with one word.

Answer yes only if the right answer to the first is, word for word, the right answer to the second.
Answer no if they differ in a number, date, unit, name, person, place, negation, tense or order, in what is asked for, \
or if you are unsure."""


@dataclass(slots=True, frozen=True)
class KeptAnswer:
    """An answer from before."""

    question: str
    answer: dict[str, Any]
    created: float

    def document(self, match: Match) -> dict[str, Any]:
        """How it is shown to whoever gets it, or is offered it."""
        said = {"question": self.question, "answer": self.answer["answer"], "asked_at": shown_time(self.created)}
        return {**said, "match": match}


@dataclass(eq=False)
class AnswerCache:
    """The answers of all tenants, in the store. Each belongs to one user, and to the versions of its moment."""

    database: Database
    writer: GroupWriter
    entities: EntityCatalog
    seconds: float
    similar: bool

    def __post_init__(self) -> None:
        self._versions: WeakKeyDictionary[Allowed, tuple[int, str]] = WeakKeyDictionary()

    async def scope(self, principal: Principal, allowed: Allowed, locale: str, day: str) -> str:
        """All that an answer depends on besides its question. Take it before anything is read for the answer."""
        parts = [
            principal.tenant, principal.user, [repr(role) for role in principal.roles], list(principal.always),
            locale.casefold(), day, self._versions_of(allowed),
            await self.entities.versions(principal.tenant, allowed.roles),
        ]  # fmt: skip
        return _hashed(parts)

    def _versions_of(self, allowed: Allowed) -> str:
        """Of all tools and intents that the caller may use."""
        revision = allowed.tools.revision
        known = self._versions.get(allowed)
        if known is None or known[0] != revision:
            said = [
                (tool.name, tool.version, tool.input_schema if tool.fault is None else None)
                for tool in allowed.tools.tools()
            ]
            known = self._versions[allowed] = revision, _hashed(said)
        return known[1]

    async def exact(self, tenant: str, scope: str, question: str) -> KeptAnswer | None:
        """The answer to this very question."""
        if not self.seconds:
            return None
        row_id = _hashed([scope, normalised(question)])
        query = select(cached_answers).where(
            cached_answers.c.tenant == tenant, cached_answers.c.id == row_id, cached_answers.c.expires > time()
        )
        found = await self.database.read(tenant, lambda connection: connection.execute(query).first())
        return _kept(found) if found is not None else None

    async def candidate(self, tenant: str, scope: str, question: str) -> KeptAnswer | None:
        """The most similar question of the same scope, if any is similar at all."""
        if not self.seconds or len(question) > MOST_QUESTION:
            return None
        query = (
            select(cached_answers)
            .where(
                cached_answers.c.tenant == tenant, cached_answers.c.scope == scope, cached_answers.c.expires > time()
            )
            .order_by(cached_answers.c.created.desc())
            .limit(_MOST_COMPARED)
        )
        found = await self.database.read(tenant, lambda connection: connection.execute(query).all())
        best = await asyncio.to_thread(_most_similar, normalised(question), found)  # long ones take a while
        return _kept(best) if best is not None else None

    async def confirmed(self, model: Model, question: str, candidate: KeptAnswer) -> bool:
        """Whether the model says that both ask the same: one short question, and anything but a plain yes is a no."""
        if not self.similar or _NUMBER.findall(question) != _NUMBER.findall(candidate.question):
            return False  # no model needs to be asked, or believed, about other numbers
        from ferrule.agent.conversation import Hearing

        asked = json.dumps({"first": candidate.question, "second": question}, ensure_ascii=False)
        request = ModelRequest(
            [UserMessage(asked)], SAME_QUESTION, settings=ModelSettings(max_output_tokens=_CONFIRM_TOKENS)
        )
        try:
            async with asyncio.timeout(_CONFIRM_SECONDS):
                finished = await Hearing(lambda event: None).listen(model, request)
        except (ModelError, TimeoutError) as error:
            logger.info("A similar question was not compared: %s", type(error).__name__)
            return False
        except Exception:
            logger.exception("A similar question was not compared")
            return False
        return not finished.message.calls and _YES.fullmatch(finished.message.text.strip()) is not None

    async def put(self, principal: Principal, scope: str, question: str, answer: dict[str, Any]) -> None:
        """Keep an answer, in place of an older one; what has expired goes."""
        text, tenant, now = json.dumps(answer), principal.tenant, time()
        if not self.seconds or len(question) > MOST_QUESTION or len(text) > MOST_ANSWER:
            return
        row: dict[str, Any] = {
            "tenant": tenant, "id": _hashed([scope, normalised(question)]), "scope": scope, "user": principal.user,
            "question": storable(question), "answer": text, "created": now, "expires": now + self.seconds,
        }  # fmt: skip

        def change(connection: Connection) -> None:
            mine = cached_answers.c.tenant == tenant
            gone = (cached_answers.c.expires <= now) | (cached_answers.c.id == row["id"])
            connection.execute(delete(cached_answers).where(mine, gone))
            newest = select(cached_answers.c.created).where(mine).order_by(cached_answers.c.created.desc())
            oldest_kept = connection.execute(newest.offset(_MOST_ROWS - 1).limit(1)).scalar()
            if oldest_kept is not None:
                connection.execute(delete(cached_answers).where(mine, cached_answers.c.created <= oldest_kept))
            connection.execute(insert(cached_answers).values(**row))

        try:
            await self.writer.change(tenant, change)
        except DatabaseProblem as problem:  # two instances at once: either answer will do
            logger.info("An answer was not kept: %s", problem)

    async def clear(self, tenant: str, user: str | None) -> int:
        """Forget the answers of a user, or of all users of the tenant."""
        mine = cached_answers.c.tenant == tenant
        if user is not None:
            mine = mine & (cached_answers.c.user == user)
        return await self.writer.execute(tenant, delete(cached_answers).where(mine))


def may_keep(tool: Tool[Any] | None) -> bool:
    """Whether an answer that a call of this tool went into may be used again: it only reads, and its author says so."""
    if tool is None or not tool.read_only:
        return False
    return tool.cache > 0 or bool(getattr(tool, "answers_may_be_kept", False))


def _most_similar(asked: str, rows: Sequence[Row[Any]]) -> Row[Any] | None:
    scored = [(similarity(asked, normalised(row.question)), row.created, row) for row in rows]
    best = max(scored, key=lambda one: one[:2], default=None)
    return best[2] if best is not None and best[0] >= _SIMILAR else None


def _kept(row: Row[Any]) -> KeptAnswer:
    return KeptAnswer(row.question, json.loads(row.answer), row.created)


def _hashed(parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()
