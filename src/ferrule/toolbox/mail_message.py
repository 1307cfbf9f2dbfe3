"""What a message says: its text, its headers, and what is attached. Runs in a child, for anyone may send anything."""

from __future__ import annotations

import re
from email import message_from_bytes
from email.header import decode_header
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any, TypedDict

from ferrule import ToolError
from ferrule.extension import advice, controls_in, flattened, phrase, without_hidden
from ferrule.toolbox.child import ChildAnswer
from ferrule.toolbox.failures import invalid, not_found

if TYPE_CHECKING:
    from collections.abc import Mapping
    from email.message import Message

    Mail = Message[str, str]

MOST_PARTS = 500
_MOST_TEXT = 5_000_000
_SHOWN = ("From", "To", "Cc", "Reply-To", "Date", "Subject", "Message-ID", "In-Reply-To", "List-Id")
_LONGEST_FIELD = 1_000


class MailHeader(TypedDict):
    """A message in a list."""

    id: str
    date: str
    sender: str
    to: str
    subject: str
    unread: bool
    flagged: bool
    answered: bool
    size: int


def read(order: Mapping[str, Any], *, data: bytes) -> dict[str, Any]:
    """The text of a message from an offset on, its headers, and its parts. With `part`, the text of that part."""
    parts = _parts(data)
    if order["part"]:
        chosen = _chosen(parts, order["part"])
        text, notes = _text_of(chosen)
    else:
        text, notes = _body(parts)
    text = without_hidden(text)
    start, most = order["offset"], order["most"]
    top = parts[0]
    attached = [_told(at, one) for at, one in enumerate(parts) if at and _is_attached(one)]
    if len(parts) > MOST_PARTS:
        notes.append(f"only the first {MOST_PARTS} parts are listed")
    return {
        "headers": {name: readable(top[name]) for name in _SHOWN if name in top},
        "text": text[start : start + most],
        "length": len(text),
        "attachments": attached[:MOST_PARTS],
        "notes": notes,
    }


def attachment(order: Mapping[str, Any], *, data: bytes) -> ChildAnswer:
    parts = _parts(data)
    at = next(at for at, one in enumerate(parts) if one is _chosen(parts, order["attachment"]))
    return ChildAnswer(_told(at, parts[at]), _bytes_of(parts[at]))


def _parts(data: bytes) -> list[Mail]:
    """All that a message is made of, itself first. Attached messages are parts; what is in them is not."""
    try:
        found = [message_from_bytes(data)]
        for one in found:  # it grows while it is gone through
            if len(found) > MOST_PARTS:
                break
            inner: Any = one.get_payload()
            if one.get_content_maintype() == "multipart" and isinstance(inner, list):
                at = found.index(one) + 1
                found[at:at] = inner
    except RecursionError:
        raise ToolError(
            phrase("The message holds parts in parts in parts, deeper than any mail program makes them."),
            suggestion=advice("Ask the user to look at it in their mail program.", "Look at it in your mail program."),
        ) from None
    return found


def _chosen(parts: list[Mail], wanted: str) -> Mail:
    """A part by its number or by the name of its file."""
    listed = [(at, one) for at, one in enumerate(parts) if at and one.get_content_maintype() != "multipart"]
    fitting = [one for at, one in listed if wanted in (str(at), _name(one))]
    if len(fitting) == 1:
        return fitting[0]
    if len(parts) == 1 and wanted in ("0", _name(parts[0])):
        return parts[0]
    known = ", ".join(f"`{at}` {_name(one)}".rstrip() for at, one in listed[:50]) or "none"
    what = phrase("Several parts are called `{name}`.", name=wanted) if fitting else None
    raise not_found(
        what or phrase("The message has no part `{name}`.", name=wanted), phrase("Its parts are: {known}.", known=known)
    )


def _told(at: int, part: Mail) -> dict[str, Any]:
    return {"part": at, "name": _name(part), "type": part.get_content_type(), "size": len(_bytes_of(part))}


def _name(part: Mail) -> str:
    try:
        return plain_line(readable(part.get_filename("")))
    except (ValueError, LookupError, TypeError):
        return ""


def _is_attached(part: Mail) -> bool:
    kind = part.get_content_maintype()
    if kind == "multipart":
        return False
    return kind != "text" or part.get_content_disposition() == "attachment" or bool(_name(part))


def _bytes_of(part: Mail) -> bytes:
    payload: Any = part.get_payload(decode=True)
    if isinstance(payload, bytes):
        return payload
    inner: Any = part.get_payload()
    if isinstance(inner, list):
        return b"".join(one.as_bytes() for one in inner)  # type: ignore[reportUnknownMemberType]
    return str(inner or "").encode("utf-8", "replace")


def _body(parts: list[Mail]) -> tuple[str, list[str]]:
    """The plain text, or else what the HTML says."""
    texts = [
        one for one in parts if one.get_content_maintype() == "text" and (len(parts) == 1 or not _is_attached(one))
    ]
    plain = [one for one in texts if one.get_content_type() == "text/plain"]
    chosen = [one for one in plain if _bytes_of(one).strip()] or [
        one for one in texts if one.get_content_type() == "text/html"
    ]
    if not chosen:
        return "", [] if texts else ["it has no text"]
    read_parts = [_text_of(one) for one in chosen]
    return "\n\n".join(text for text, _ in read_parts), [note for _, notes in read_parts for note in notes]


def _text_of(part: Mail) -> tuple[str, list[str]]:
    if part.get_content_maintype() not in ("text", "message"):
        raise invalid(
            phrase("Part `{name}` is not text but {type}.", name=_name(part), type=part.get_content_type()),
            phrase("Save it with SaveAttachment."),
        )
    raw, notes = _bytes_of(part), list[str]()
    if len(raw) > _MOST_TEXT:
        raw, notes = raw[:_MOST_TEXT], [f"only the first {_MOST_TEXT:,} bytes of the text are shown"]
    text, note = _decoded(raw, str(part.get_content_charset("") or ""))
    notes += note
    if part.get_content_type() == "text/html":
        reader = _HtmlWords()
        reader.feed(text)
        reader.close()
        lines = [line.strip() for line in "".join(reader.pieces).split("\n")]
        text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
        notes.append("the text was made from HTML")
    return text.replace("\r\n", "\n").replace("\r", "\n").strip("\n"), notes


def _decoded(raw: bytes, charset: str) -> tuple[str, list[str]]:
    for one in (charset, "utf-8"):
        try:
            return raw.decode(one or "us-ascii"), []
        except (LookupError, ValueError):
            continue
    try:
        return raw.decode(charset or "utf-8", "replace"), [f"parts of it are not {charset or 'utf-8'}"]
    except (LookupError, ValueError):
        return raw.decode("latin-1"), ["its encoding is unknown"]


class _HtmlWords(HTMLParser):
    """Takes down what a person would see."""

    _SKIPPED = frozenset({"script", "style", "head", "title", "template", "noscript"})
    _BLOCKS = frozenset({"p", "div", "tr", "table", "ul", "ol", "blockquote", "h1", "h2", "h3", "h4", "h5", "h6", "pre",
                         "hr", "section", "article", "header", "footer", "dl", "dt", "dd"})  # fmt: skip

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self._skipping = 0
        self._links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in self._SKIPPED:
            self._skipping += 1
        elif tag == "br":
            self.pieces.append("\n")
        elif tag == "li":
            self.pieces.append("\n- ")
        elif tag in ("td", "th"):
            self.pieces.append(" ")
        elif tag in self._BLOCKS:
            self.pieces.append("\n\n")
        elif tag == "a":
            self._links.append(dict(attrs).get("href") or "")
        elif tag == "img" and (words := dict(attrs).get("alt")):
            self.pieces.append(f"[{words}]")

    def handle_endtag(self, tag: str) -> None:
        if tag in self._SKIPPED:
            self._skipping = max(0, self._skipping - 1)
        elif tag in self._BLOCKS:
            self.pieces.append("\n\n")
        elif tag == "a" and self._links:
            link = self._links.pop()
            said = self.pieces[-1].strip() if self.pieces else ""
            if link.startswith(("http:", "https:", "mailto:")) and said not in (link, link.partition(":")[2]):
                self.pieces.append(f" <{link[:500]}>")

    def handle_data(self, data: str) -> None:
        if not self._skipping:
            self.pieces.append(re.sub(r"\s+", " ", data))


# Lines of text: what goes into a header or a command, and what comes out of one


def require_plain(what: str, text: str) -> str:
    """The text, unless a line break or another control character is in it."""
    if found := controls_in(text) or re.findall(r"[\n\t]", text):
        raise invalid(
            phrase("`{what}` contains the control character U+{code}.", what=what, code=f"{ord(found[0]):04X}"),
            phrase("Leave it out: this field is one line of plain text."),
        )
    return text


def readable(value: object) -> str:
    """A header as a person reads it: decoded, on one line, and not longer than a line should be."""
    text = str(value or "")[: 4 * _LONGEST_FIELD]
    try:
        pieces = decode_header(text)
    except (ValueError, LookupError):
        pieces = [(text, None)]
    return plain_line("".join(_word(piece, charset) for piece, charset in pieces))


def plain_line(text: str) -> str:
    """The text on one line, without what nobody would see."""
    return flattened(without_hidden(" ".join(text.split())), _LONGEST_FIELD)


def _word(piece: bytes | str, charset: str | None) -> str:
    if isinstance(piece, str):
        return piece
    try:
        return piece.decode(charset or "utf-8", "replace")
    except (LookupError, ValueError):
        return piece.decode("utf-8", "replace")
