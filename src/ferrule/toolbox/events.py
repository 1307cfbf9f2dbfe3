"""Events as iCalendar has them: which happen when, and one of them changed. Runs in a child: anyone may invite anyone.

A change is made line by line: what it does not concern stays to the letter, known to anyone or not.
"""

from __future__ import annotations

import re
import signal
from contextlib import contextmanager
from datetime import UTC, date, datetime, time, timedelta
from importlib import import_module
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple
from zoneinfo import ZoneInfo

from ferrule.core.errors import ErrorKind, ToolError
from ferrule.core.phrases import phrase
from ferrule.toolbox.caldav import events_in
from ferrule.toolbox.child import ChildAnswer

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

MOST_OCCURRENCES = 5_000
_SECONDS_FOR_ONE = 1.0
_LONGEST_TEXT = 2_000
_DEEPEST = 10
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069]")
_WHERE = phrase("Look at it again with FindEvents.")


class _TooLong(BaseException):
    """One event took all the time that one may have; nothing in a library may take it for an error of its own."""


@contextmanager
def _limited(seconds: float) -> Generator[None]:
    # Its own time counts, and not what a busy machine makes it wait.
    def late(_number: int, _frame: object) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


# What happens when


def expand(order: Mapping[str, Any], *, data: bytes) -> dict[str, Any]:
    """All that happens from one moment to another, in the answers of several calendars."""
    start, end = datetime.fromisoformat(order["from"]), datetime.fromisoformat(order["to"])
    zone = ZoneInfo(order["zone"])
    found: list[dict[str, Any]] = []
    notes: list[str] = []
    at = 0
    for answer in order["answers"]:
        for event in events_in(data[at : at + answer["size"]]):
            try:
                with _limited(_SECONDS_FOR_ONE):
                    happens = list(_happens(event.data, start, end, zone))
            except (_TooLong, MemoryError):
                notes.append(f"`{event.name}` repeats so often that it was left out")
                continue
            except Exception as error:  # noqa: BLE001 - a library fails in any way on what others wrote
                notes.append(f"`{event.name}` cannot be read ({type(error).__name__}) and was left out")
                continue
            if len(happens) > MOST_OCCURRENCES:
                notes.append(f"`{event.name}` happens more than {MOST_OCCURRENCES:,} times; the first are listed")
            for one in happens[:MOST_OCCURRENCES]:
                one["id"] = f"{answer['calendar']}/{event.name}#{event.version}#{one.pop('occurrence')}"
                one["calendar"] = answer["calendar"]
                found.append(one)
        at += answer["size"]
    seen: dict[tuple[Any, ...], dict[str, Any]] = {}
    for one in sorted(found, key=lambda one: (one["begins"], one["ends"], one["id"])):
        seen.setdefault((one.pop("uid"), one["begins"], one["title"]), one)
    if len(seen) < len(found):
        notes.append("events that stand in several calendars are listed once")
    return {"events": list(seen.values()), "notes": notes[:20]}


def _happens(text: str, start: datetime, end: datetime, zone: ZoneInfo) -> Generator[dict[str, Any]]:
    whole = _understood(text)
    masters = {str(one.get("UID")): one for one in whole.walk("VEVENT") if "RECURRENCE-ID" not in one}
    # All-day and floating events are in nobody's zone: they are asked for a day more, and sorted out below.
    for event in _between(whole, start - timedelta(days=1), end + timedelta(days=1)):
        began, ended = event.start, event.end
        first, last = _instant(began, zone), _instant(ended, zone)
        if not (first < end and (last > start or first == last >= start)):
            continue
        master = masters.get(str(event.get("UID")))
        repeats = master is not None and ("RRULE" in master or "RDATE" in master)
        which = event["RECURRENCE-ID"].dt if "RECURRENCE-ID" in event and repeats else None
        like = master.start if master is not None else None
        all_day = not isinstance(began, datetime)
        yield {
            "uid": str(event.get("UID", "")), "title": _plain(event.get("SUMMARY"), 300),
            "start": _shown(began), "end": _shown(ended - timedelta(days=1) if all_day and ended > began else ended),
            "weekday": began.strftime("%A"), "all_day": all_day, "zone": "" if all_day else _zone_name(began),
            "location": _plain(event.get("LOCATION"), 300), "description": _plain(event.get("DESCRIPTION")),
            "attendees": [_plain(one, 200).removeprefix("mailto:") for one in _listed(event.get("ATTENDEE"))[:50]],
            "status": _plain(event.get("STATUS"), 20).lower(), "repeats": repeats,
            "busy": str(event.get("TRANSP", "OPAQUE")).upper() != "TRANSPARENT"
            and str(event.get("STATUS", "")).upper() != "CANCELLED",
            "begins": first.timestamp(), "ends": last.timestamp(),
            "occurrence": _occurrence(which, like) if which is not None else "",
        }  # fmt: skip


def _understood(text: str) -> Any:
    """A calendar as the library has it."""
    from icalendar import Calendar

    return Calendar.from_ical(text)


def _between(whole: Any, start: datetime, end: datetime) -> list[Any]:
    """The events of a calendar that happen then."""
    return import_module("recurring_ical_events").of(whole, components=["VEVENT"]).between(start, end)


def _instant(moment: date, zone: ZoneInfo) -> datetime:
    if not isinstance(moment, datetime):
        moment = datetime.combine(moment, time())
    return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).astimezone(UTC)


def _shown(moment: date) -> str:
    return moment.isoformat(timespec="minutes") if isinstance(moment, datetime) else moment.isoformat()


def _zone_name(moment: datetime) -> str:
    if moment.tzinfo is None:
        return "floating"
    return str(getattr(moment.tzinfo, "key", "") or moment.tzname() or "")


def _plain(value: object, most: int = _LONGEST_TEXT) -> str:
    text = _UNSEEN.sub("", "" if value is None else str(value)).encode("utf-8", "replace").decode()
    return text if len(text) <= most else f"{text[:most]}…"


def _listed(value: Any) -> list[Any]:
    return [] if value is None else value if isinstance(value, list) else [value]  # type: ignore[reportUnknownVariableType]


def _occurrence(which: date, like: date | None) -> str:
    """The name of an occurrence: the moment at which the series has it, written as the series begins."""
    if isinstance(which, datetime) and isinstance(like, datetime) and like.tzinfo is not None and which.tzinfo:
        which = which.astimezone(like.tzinfo)
    return _written(which)


def _written(moment: date) -> str:
    if not isinstance(moment, datetime):
        return moment.strftime("%Y%m%d")
    utc = moment.tzinfo is not None and _zone_name(moment) in ("UTC", "Etc/UTC", "Z")
    return moment.strftime("%Y%m%dT%H%M%S") + ("Z" if utc else "")


# The lines of a calendar


class Block:
    """BEGIN to END, with its lines as they stand, folded or not, and the blocks in it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.items: list[str | Block] = []

    def lines(self, name: str) -> list[str]:
        """The lines of a property, each unfolded."""
        return [_unfolded(one) for one in self.items if isinstance(one, str) and _name_of(one) == name]

    def value(self, name: str) -> str:
        found = self.lines(name)
        return found[0].partition(":")[2] if found else ""

    def drop(self, *names: str) -> None:
        self.items = [one for one in self.items if isinstance(one, Block) or _name_of(one) not in names]

    def put(self, name: str, *lines: str) -> None:
        """Set a property, in the place where it stood."""
        at = next((at for at, one in enumerate(self.items) if isinstance(one, str) and _name_of(one) == name), None)
        before = len(self.items) if at is None else at
        if at is None:  # among the properties, before alarms
            before = next((n for n, one in enumerate(self.items) if isinstance(one, Block)), before)
        self.drop(name)
        self.items[before:before] = [_folded(line) for line in lines]

    def blocks(self, name: str) -> list[Block]:
        return [one for one in self.items if isinstance(one, Block) and one.name == name]

    def copy(self) -> Block:
        made = Block(self.name)
        made.items = [one.copy() if isinstance(one, Block) else one for one in self.items]
        return made

    def text(self) -> str:
        inner = "".join(one.text() if isinstance(one, Block) else f"{one}\r\n" for one in self.items)
        return f"BEGIN:{self.name}\r\n{inner}END:{self.name}\r\n"


def parsed(text: str) -> Block:
    """A calendar as blocks of lines; a `ToolError` where it is none."""
    root = Block("")
    open_blocks = [root]
    for line in re.split(r"\r?\n(?![ \t])", text.strip("\r\n")):
        name, _, value = line.partition(":")
        if name.upper() == "BEGIN" and len(open_blocks) <= _DEEPEST:
            inner = Block(value.strip().upper())
            open_blocks[-1].items.append(inner)
            open_blocks.append(inner)
        elif name.upper() == "END" and len(open_blocks) > 1 and open_blocks[-1].name == value.strip().upper():
            open_blocks.pop()
        elif line:
            open_blocks[-1].items.append(line)
    found = root.blocks("VCALENDAR")
    if len(open_blocks) != 1 or len(found) != 1:
        raise ToolError(
            phrase("The event is not written as a calendar should be, so it is not changed."),
            suggestion=phrase("Ask the user to change it in their calendar program."),
        )
    return found[0]


def _name_of(line: str) -> str:
    return re.split(r"[;:]", _unfolded(line), maxsplit=1)[0].upper()


def _unfolded(line: str) -> str:
    return re.sub(r"\r?\n[ \t]", "", line)


def _folded(line: str) -> str:
    """At most 75 bytes in a row, whole characters."""
    rows, row = list[str](), ""
    for letter in line:
        if len((row + letter).encode()) > 74:
            rows.append(row)
            row = ""
        row += letter
    return "\r\n ".join([*rows, row])


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace(";", "\\;").replace(",", "\\,").replace("\r\n", "\n").replace("\n", "\\n")


# Moments


class Moment(NamedTuple):
    """A date, a local time in a zone by its name, a time in UTC, or one that is floating."""

    at: date
    tzid: str = ""
    zone: Any = None

    @property
    def wall(self) -> datetime:
        """The local time, as a clock on the wall shows it."""
        at = self.at if isinstance(self.at, datetime) else datetime.combine(self.at, time())
        return at.replace(tzinfo=None)

    def moved(self, delta: timedelta) -> Moment:
        return self._replace(at=self.at + delta)

    def line(self, name: str) -> str:
        if not isinstance(self.at, datetime):
            return f"{name};VALUE=DATE:{self.at:%Y%m%d}"
        if self.tzid == "UTC":
            return f"{name}:{self.at:%Y%m%dT%H%M%SZ}"
        if not self.tzid:
            return f"{name}:{self.at:%Y%m%dT%H%M%S}"
        tzid = f'"{self.tzid}"' if re.search(r"[:;,]", self.tzid) else self.tzid
        return f"{name};TZID={tzid}:{self.at:%Y%m%dT%H%M%S}"

    def utc(self) -> datetime:
        return self.wall.replace(tzinfo=self.zone or UTC).astimezone(UTC)


def moment(what: str, text: str, zone_name: str, zone: Any) -> Moment:
    """What a call says: a day, or a time; one with an offset is told in the zone."""
    try:
        if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
            return Moment(date.fromisoformat(text))
        at = datetime.fromisoformat(text)
    except ValueError:
        raise _invalid(
            phrase("`{what}` is not a time: `{text}`.", what=what, text=text[:100]),
            phrase("Write `2026-03-01T09:00`, or `2026-03-01` for a whole day."),
        ) from None
    if zone is None:
        if at.tzinfo is not None:
            raise _invalid(
                phrase("`{what}` has an offset, and the event floats.", what=what), phrase("Leave the offset out.")
            )
        return Moment(at)
    local = at.astimezone(zone) if at.tzinfo else at.replace(tzinfo=zone)
    if at.tzinfo is not None and local.fold:  # the second of two: a local time in a calendar means the first
        return Moment(at.astimezone(UTC).replace(tzinfo=None), "UTC", UTC)
    there = local.astimezone(UTC).astimezone(zone)
    if there.replace(tzinfo=None) != local.replace(tzinfo=None):
        raise _invalid(
            phrase("`{what}`: {text} does not exist in {zone}, because the clocks go forward then.",
                   what=what, text=text, zone=zone_name),
            phrase("Take {time} or another time.", time=f"{there:%H:%M}"),
        )  # fmt: skip
    return Moment(local.replace(tzinfo=None), zone_name, zone)


def zone_of(name: str) -> Any:
    """A zone by its name; None for a floating time."""
    if name == "floating":
        return None
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        raise _invalid(
            phrase("There is no time zone `{name}`.", name=name[:100]),
            phrase("Use a name such as `Europe/Berlin`, `UTC`, or `floating`."),
        ) from None


def _invalid(message: str, suggestion: str) -> ToolError:
    return ToolError(message, kind=ErrorKind.VALIDATION, suggestion=suggestion)


# Changing an event


def change(order: Mapping[str, Any], *, data: bytes = b"") -> ChildAnswer:
    """A new event, or an old one changed or deleted, in part or as a whole: what to save, and what to save besides.

    `delete` in the answer says that nothing is left of it.
    """
    if not data:
        calendar = Block("VCALENDAR")
        calendar.items = ["VERSION:2.0", "PRODID:-//Ferrule//Calendar//EN"]
        event = Block("VEVENT")
        event.items = [f"UID:{order['uid']}"]
        calendar.items.append(event)
        _Series(calendar, order).create(event)
        return ChildAnswer({"size": 0, "delete": False}, calendar.text().encode())
    series = _Series(parsed(data.decode("utf-8", "replace")), order)
    try:
        with _limited(_SECONDS_FOR_ONE * 5):
            second = series.apply()
    except _TooLong:
        raise ToolError(
            phrase("The event repeats so often that it cannot be changed here."),
            suggestion=phrase("Ask the user to change it in their calendar program."),
        ) from None
    first = series.calendar.text().encode()
    extra = second.text().encode() if second is not None else b""
    return ChildAnswer({"size": len(extra), "delete": series.nothing_left}, extra + first)


class _Series:
    """One event with its exceptions, and what is to become of it."""

    def __init__(self, calendar: Block, order: Mapping[str, Any]) -> None:
        self.calendar = calendar
        self.order = order
        self.wanted: Mapping[str, Any] = order["event"]
        self.nothing_left = False
        self.events = calendar.blocks("VEVENT")

    def apply(self) -> Block | None:
        masters = [one for one in self.events if not one.lines("RECURRENCE-ID")]
        if len(masters) != 1 or len({one.value("UID") for one in self.events}) != 1:
            raise ToolError(
                phrase("The event has no single beginning, so it is not changed."),
                suggestion=phrase("Ask the user to change it in their calendar program."),
            )
        master = masters[0]
        start = self._moment_in(master, "DTSTART")
        repeats = bool(master.lines("RRULE") or master.lines("RDATE"))
        scope, which = self.order["scope"], self.order["occurrence"]
        if not repeats:
            scope = "all"
        elif scope != "all" and not which:
            raise _invalid(
                phrase("The event repeats, and the id does not say which occurrence is meant."),
                phrase("Take the id of an occurrence from FindEvents, or say `scope` = `all`."),
            )
        occurrence = self._occurrence(start, which) if which and repeats else start
        if scope == "following" and occurrence.wall == start.wall:
            scope = "all"
        if scope != "all":
            self._require_occurrence(occurrence)
        if self.order["delete"]:
            self._delete(master, scope, occurrence)
            return None
        if scope == "this":
            self._change_one(master, start, occurrence)
            return None
        if scope == "following":
            return self._split(master, start, occurrence)
        self._change_all(master, start, occurrence)
        return None

    def create(self, event: Block) -> None:
        if not self.wanted.get("title") or not self.wanted.get("start"):
            raise _invalid(phrase("A new event needs a `title` and a `start`."), phrase("Give both."))
        self._set_fields(event, None, None)
        self._stamp(event)
        event.drop("SEQUENCE")

    # The scopes

    def _delete(self, master: Block, scope: str, occurrence: Moment) -> None:
        if scope == "all":
            self.nothing_left = True
        elif scope == "this":
            self._drop_exceptions(lambda at: at.utc() == occurrence.utc())
            master.items.insert(self._end_of_lines(master), _folded(occurrence.line("EXDATE")))
            self._stamp(master)
        else:
            self._end_before(master, occurrence)
            self._drop_exceptions(lambda at: at.utc() >= occurrence.utc())

    def _change_one(self, master: Block, start: Moment, occurrence: Moment) -> None:
        if self.wanted.get("recurrence") is not None:
            raise _invalid(phrase("One occurrence alone cannot repeat."), phrase("Say `scope` = `following` or `all`."))
        exception = next(
            (one for one in self._exceptions() if self._moment_in(one, "RECURRENCE-ID").utc() == occurrence.utc()), None
        )
        if exception is None:
            exception = self._at(master, start, occurrence)
            exception.drop("RRULE", "RDATE", "EXDATE", "EXRULE")
            exception.put("RECURRENCE-ID", occurrence.line("RECURRENCE-ID"))
            at = self.calendar.items.index(self.events[-1]) + 1
            self.calendar.items.insert(at, exception)
        self._set_fields(exception, self._moment_in(exception, "DTSTART"), None)
        self._stamp(exception)

    def _change_all(self, master: Block, start: Moment, occurrence: Moment) -> None:
        shift = occurrence.wall - start.wall
        moved = self._set_fields(
            master, occurrence, shift if self.wanted.get("start") or self.wanted.get("end") else None
        )
        self._move_exceptions(master, self._exceptions(), start, moved)
        self._stamp(master)

    def _split(self, master: Block, start: Moment, occurrence: Moment) -> Block:
        """End the series before an occurrence, and begin another one there, with the exceptions that follow."""
        if master.lines("RDATE"):
            raise ToolError(
                phrase("The event also happens on single dates, so it cannot be split here."),
                suggestion=phrase("Change `this` occurrence or `all` of them."),
            )
        second = Block("VCALENDAR")
        second.items = [one for one in self.calendar.items if not (isinstance(one, Block) and one.name == "VEVENT")]
        second.items = [one.copy() if isinstance(one, Block) else one for one in second.items]
        follower = self._at(master, start, occurrence)
        rule = _rule(master)
        if "COUNT" in rule:
            rule["COUNT"] = str(max(1, int(rule["COUNT"]) - _count_before(rule, start, occurrence)))
            follower.put("RRULE", "RRULE:" + ";".join(f"{key}={value}" for key, value in rule.items()))
        later = [one for one in self._exceptions() if self._moment_in(one, "RECURRENCE-ID").utc() >= occurrence.utc()]
        self.calendar.items = [one for one in self.calendar.items if one not in later]
        self._end_before(master, occurrence)
        for one in (follower, *later):
            one.put("UID", f"UID:{self.order['new_uid']}")
            second.items.append(one)
        moved = self._set_fields(follower, occurrence, None, home=second)
        self._move_exceptions(follower, later, occurrence, moved)
        self._stamp(follower)
        return second

    # Parts of a change

    def _at(self, master: Block, start: Moment, occurrence: Moment) -> Block:
        """The master as it is at an occurrence."""
        made = master.copy()
        delta = occurrence.wall - start.wall
        if made.lines("DTEND"):
            made.put("DTEND", self._moment_in(master, "DTEND").moved(delta).line("DTEND"))
        made.put("DTSTART", occurrence.line("DTSTART"))
        return made

    def _end_before(self, master: Block, occurrence: Moment) -> None:
        rule = _rule(master)
        rule.pop("COUNT", None)
        rule["UNTIL"] = _until(occurrence)
        master.put("RRULE", "RRULE:" + ";".join(f"{key}={value}" for key, value in rule.items()))
        self._stamp(master)

    def _drop_exceptions(self, which: Callable[[Moment], bool]) -> None:
        gone = [one for one in self._exceptions() if which(self._moment_in(one, "RECURRENCE-ID"))]
        self.calendar.items = [one for one in self.calendar.items if one not in gone]

    def _exceptions(self) -> list[Block]:
        return [one for one in self.calendar.blocks("VEVENT") if one.lines("RECURRENCE-ID")]

    def _move_exceptions(self, master: Block, exceptions: Sequence[Block], old: Moment, new: Moment) -> None:
        """Let dates that are left out, and occurrences that differ, follow a series whose time has changed."""
        exdates = master.lines("EXDATE")
        if (old.wall, old.tzid) == (new.wall, new.tzid) or not (exdates or exceptions):
            return
        if isinstance(old.at, datetime) != isinstance(new.at, datetime) or old.tzid != new.tzid:
            raise ToolError(
                phrase("Some occurrences of the event differ or were deleted, so it cannot change its zone or become "
                       "all-day."),
                suggestion=phrase("Delete it and make a new one, or change the time alone."),
            )  # fmt: skip
        delta = new.wall - old.wall
        dates = [one.moved(delta).line("EXDATE") for line in exdates for one in self._moments(line)]
        if dates:
            master.put("EXDATE", *dates)
        for one in exceptions:
            one.put("RECURRENCE-ID", self._moment_in(one, "RECURRENCE-ID").moved(delta).line("RECURRENCE-ID"))

    def _set_fields(
        self, event: Block, occurrence: Moment | None, shift: timedelta | None, home: Block | None = None
    ) -> Moment:
        """Write what is wanted into an event; gives when it begins now.

        Times in the call are those of `occurrence`, which lies `shift` after the beginning of the series.
        """
        wanted, home = self.wanted, home or self.calendar
        for key, name in (("title", "SUMMARY"), ("location", "LOCATION"), ("description", "DESCRIPTION")):
            if (text := wanted.get(key)) is not None:
                event.put(name, f"{name}:{_escaped(_checked(key, text))}") if text else event.drop(name)
        if wanted.get("attendees") is not None:
            event.put("ATTENDEE", *(f"ATTENDEE;ROLE=REQ-PARTICIPANT;RSVP=TRUE:mailto:{_address(one)}"
                                    for one in wanted["attendees"]))  # fmt: skip
            if not event.lines("ORGANIZER") and wanted["attendees"] and self.order.get("organizer"):
                event.put("ORGANIZER", f"ORGANIZER:mailto:{_address(self.order['organizer'])}")
        now = self._set_times(event, occurrence, shift, home)
        if (rule := wanted.get("recurrence")) is not None:
            event.put("RRULE", f"RRULE:{_checked_rule(rule, now)}") if rule else event.drop("RRULE")
        if (alarms := wanted.get("alarms")) is not None:
            event.items = [one for one in event.items if not (isinstance(one, Block) and one.name == "VALARM")]
            for minutes in alarms:
                alarm = Block("VALARM")
                alarm.items = ["ACTION:DISPLAY", "DESCRIPTION:Reminder", f"TRIGGER:-PT{minutes}M"]
                event.items.append(alarm)
        return now

    def _set_times(self, event: Block, occurrence: Moment | None, shift: timedelta | None, home: Block) -> Moment:
        wanted = self.wanted
        old = self._moment_in(event, "DTSTART") if event.lines("DTSTART") else None
        if old is not None and not any(wanted.get(key) for key in ("start", "end", "zone")):
            return old
        zone_name = wanted.get("zone") or (old.tzid if old is not None and old.tzid else "")
        if zone_name and old is not None and zone_name == old.tzid:
            zone = old.zone
        elif not zone_name and old is not None and isinstance(old.at, datetime):
            zone_name, zone = "floating", None
        else:
            zone_name = zone_name or self.order["zone"]
            zone = zone_of(zone_name)
        length = self._length(event, old) if old is not None else None
        shown = occurrence or old
        if text := wanted.get("start"):
            start = moment("start", text, zone_name, zone)
        else:
            assert shown is not None  # noqa: S101 - a new event has a start
            start = Moment(shown.at, zone_name, zone) if isinstance(shown.at, datetime) else shown
        if text := wanted.get("end"):
            end = moment("end", text, zone_name, zone)
            if not isinstance(end.at, datetime):
                end = end.moved(timedelta(days=1))  # the last day is meant, and a calendar says the one after it
        elif isinstance(start.at, datetime):
            end = start.moved(length if length and old and isinstance(old.at, datetime) else timedelta(hours=1))
        else:
            end = start.moved(length if length and old and not isinstance(old.at, datetime) else timedelta(days=1))
        if isinstance(start.at, datetime) != isinstance(end.at, datetime) or end.utc() <= start.utc():
            raise _invalid(
                phrase("The event would end before it begins."), phrase("Give `start` and `end` that fit each other.")
            )
        if shift is not None:
            if _rule(event, may_lack=True).keys() & {"BYDAY", "BYMONTHDAY"} and old is not None and (
                start.wall.date() != (old.wall + shift).date() and wanted.get("recurrence") is None
            ):  # fmt: skip
                raise _invalid(
                    phrase("The event repeats on certain days, and would begin on another."),
                    phrase("Give the new `recurrence` as well, or change `this` occurrence."),
                )
            start, end = start.moved(-shift), end.moved(-shift)
        event.drop("DURATION")
        event.put("DTSTART", start.line("DTSTART"))
        event.put("DTEND", end.line("DTEND"))
        for one in (start, end):
            self._define_zone(home, one)
        return start

    def _define_zone(self, home: Block, one: Moment) -> None:
        if not one.tzid or one.tzid == "UTC" or one.tzid in [zone.value("TZID") for zone in home.blocks("VTIMEZONE")]:
            return
        from icalendar import Timezone

        made: str = Timezone.from_tzid(one.tzid).to_ical().decode()
        zone = parsed(f"BEGIN:VCALENDAR\r\n{made}END:VCALENDAR").blocks("VTIMEZONE")[0]
        at = next((at for at, item in enumerate(home.items) if isinstance(item, Block)), len(home.items))
        home.items.insert(at, zone)

    def _stamp(self, event: Block) -> None:
        now = self.order["now"]
        event.put("DTSTAMP", f"DTSTAMP:{now}")
        event.put("LAST-MODIFIED", f"LAST-MODIFIED:{now}")
        number = event.value("SEQUENCE")
        event.put("SEQUENCE", f"SEQUENCE:{int(number) + 1 if number.isdigit() else 1}")

    @staticmethod
    def _end_of_lines(event: Block) -> int:
        return next((at for at, one in enumerate(event.items) if isinstance(one, Block)), len(event.items))

    # Reading moments

    def _moment_in(self, event: Block, name: str) -> Moment:
        lines = event.lines(name)
        found = self._moments(lines[0]) if lines else []
        if not found:
            raise ToolError(
                phrase("The event has no `{name}` that can be read, so it is not changed.", name=name),
                suggestion=phrase("Ask the user to change it in their calendar program."),
            )
        return found[0]

    def _moments(self, line: str) -> list[Moment]:
        head, _, values = line.rpartition(":")
        tzid = re.search(r';TZID="?([^";:]+)"?', head, re.IGNORECASE)
        found: list[Moment] = []
        for text in values.split(","):
            try:
                if len(text) == 8:
                    found.append(Moment(datetime.strptime(text, "%Y%m%d").date()))  # noqa: DTZ007 - a day
                elif text.endswith("Z"):
                    found.append(Moment(datetime.strptime(text, "%Y%m%dT%H%M%SZ"), "UTC", UTC))  # noqa: DTZ007 - below
                else:
                    at = datetime.strptime(text, "%Y%m%dT%H%M%S")  # noqa: DTZ007 - its zone is beside it
                    found.append(Moment(at, tzid[1], self._zone(tzid[1])) if tzid else Moment(at))
            except ValueError:
                continue
        return found

    def _zone(self, tzid: str) -> Any:
        """A zone by its name, or as the calendar itself defines it."""
        for one in _understood(self.calendar.text()).walk("VTIMEZONE"):
            if str(one.get("TZID")) == tzid:
                return one.to_tz()
        return zone_of(tzid)

    def _length(self, event: Block, start: Moment) -> timedelta | None:
        if event.lines("DTEND"):
            return self._moment_in(event, "DTEND").wall - start.wall
        found = re.fullmatch(r"P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?", event.value("DURATION"))
        if found is None or not event.lines("DURATION"):
            return None
        weeks, days, hours, minutes, seconds = (int(one or 0) for one in found.groups())
        return timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)

    def _occurrence(self, start: Moment, text: str) -> Moment:
        found = self._moments(f"X:{text}")
        if not found or isinstance(found[0].at, datetime) != isinstance(start.at, datetime):
            raise _invalid(phrase("The id does not name an occurrence of the event."), _WHERE)
        return Moment(found[0].at, start.tzid, start.zone)

    def _require_occurrence(self, occurrence: Moment) -> None:
        """Refuse what the series does not have."""
        if any(self._moment_in(one, "RECURRENCE-ID").utc() == occurrence.utc() for one in self._exceptions()):
            return
        nearby = timedelta(days=2)
        around = _between(_understood(self.calendar.text()), occurrence.wall - nearby, occurrence.wall + nearby)
        there = [_written(one.start).rstrip("Z") for one in around]
        if occurrence.line("X").rpartition(":")[2].rstrip("Z") not in there:
            raise _invalid(phrase("The event does not happen then."), _WHERE)


def _rule(event: Block, *, may_lack: bool = False) -> dict[str, str]:
    lines = event.lines("RRULE")
    if may_lack and not lines:
        return {}
    if len(lines) != 1:
        raise ToolError(
            phrase("The event repeats by several rules or by none, so it cannot be split here."),
            suggestion=phrase("Change `this` occurrence or `all` of them."),
        )
    pairs = (one.partition("=") for one in lines[0].partition(":")[2].split(";"))
    return {key.upper(): value for key, _, value in pairs if key}


def _until(occurrence: Moment) -> str:
    if not isinstance(occurrence.at, datetime):
        return f"{occurrence.at - timedelta(days=1):%Y%m%d}"
    if not occurrence.tzid:
        return f"{occurrence.wall - timedelta(seconds=1):%Y%m%dT%H%M%S}"
    return f"{occurrence.utc() - timedelta(seconds=1):%Y%m%dT%H%M%SZ}"


def _count_before(rule: Mapping[str, str], start: Moment, occurrence: Moment) -> int:
    from dateutil.rrule import rrulestr

    text = ";".join(f"{key}={value}" for key, value in rule.items())
    return sum(1 for _ in takewhile(lambda at: at < occurrence.wall, rrulestr(text, dtstart=start.wall)))


def _checked_rule(text: str, start: Moment) -> str:
    """A rule that calendars understand, and that does not fill a day."""
    from dateutil.rrule import rrulestr

    text = text.strip().upper().removeprefix("RRULE:")
    keys = [one.partition("=")[0] for one in text.split(";")]
    allowed = {"FREQ", "INTERVAL", "COUNT", "UNTIL", "BYDAY", "BYMONTHDAY", "BYMONTH", "BYSETPOS", "BYWEEKNO",
               "BYYEARDAY", "WKST"}  # fmt: skip
    wrong = [key for key in keys if key not in allowed]
    if wrong or len(keys) != len(set(keys)) or not re.search(r"FREQ=(DAILY|WEEKLY|MONTHLY|YEARLY)(;|$)", text):
        raise _invalid(
            phrase("`recurrence` is not a rule for days, weeks, months or years: `{text}`.", text=text[:200]),
            phrase("Write it as `FREQ=WEEKLY;BYDAY=MO,WE;COUNT=10`."),
        )
    if until := re.search(r"UNTIL=(\d{8})(?:T\d{6}Z?)?(?=;|$)", text):
        day = datetime.strptime(until[1], "%Y%m%d")  # noqa: DTZ007 - a day
        last = start._replace(at=datetime.combine(day, time(23, 59, 59)))
        end = f"{day:%Y%m%d}" if not isinstance(start.at, datetime) else _until(last.moved(timedelta(seconds=1)))
        text = text.replace(until[0], f"UNTIL={end}")
    try:
        naive = re.sub(r";?UNTIL=[^;]*", "", text)
        with _limited(_SECONDS_FOR_ONE):
            next(iter(rrulestr(naive, dtstart=start.wall)))
    except (ValueError, TypeError, KeyError, StopIteration, _TooLong):
        raise _invalid(
            phrase("`recurrence` never happens or cannot be understood: `{text}`.", text=text[:200]),
            phrase("Write it as `FREQ=WEEKLY;BYDAY=MO,WE;COUNT=10`."),
        ) from None
    return text


def _checked(what: str, text: str) -> str:
    if found := re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]", text.replace("\r\n", "\n")):
        raise _invalid(
            phrase("`{what}` contains the control character U+{code}.", what=what, code=f"{ord(found[0]):04X}"),
            phrase("Leave it out."),
        )
    return text


def _address(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9.-]+", text):
        raise _invalid(
            phrase("`{text}` is not an address.", text=text[:200]), phrase("Write it bare, like `ann@example.com`.")
        )
    return text
