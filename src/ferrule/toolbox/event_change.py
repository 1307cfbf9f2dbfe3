"""An event changed, split or deleted: all its occurrences stay, moved by the same change, or nothing is saved.

A change is made line by line: what it does not concern stays to the letter. The result is then worked out and compared
with what it has to be. Runs in a child: anyone may invite anyone.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, time, timedelta
from typing import Any

from ferrule import ToolError
from ferrule.extension import amount, controls_in, phrase
from ferrule.toolbox.child import ChildAnswer
from ferrule.toolbox.events import (
    ASK_USER,
    SECONDS_FOR_ONE,
    Block,
    Moment,
    TooManyOccurrences,
    escaped,
    folded,
    invalid,
    limited,
    malformed,
    moment,
    parsed,
    zone_of,
)  # fmt: skip
from ferrule.toolbox.series import MARGIN, NO_TIME, EventOccurrence, Series, Shift, between, is_range, until_before

_WHERE = phrase("Look at it again with FindEvents.")


def change(order: Mapping[str, Any], *, data: bytes = b"") -> ChildAnswer:
    """A new event, or an old one changed or deleted, in part or as a whole: what to save, and what to save besides.

    `delete` in the answer says that nothing is left of it, and `occurrence` where the one that was named is now.
    """
    calendar = parsed(data.decode("utf-8", "replace")) if data else Block("VCALENDAR")
    edit = _Edit(calendar, order)
    if not data:
        edit.create()
        return ChildAnswer({"size": 0, "delete": False}, calendar.text().encode())
    try:
        with limited(SECONDS_FOR_ONE * 10):
            second = edit.apply()
    except TooManyOccurrences:
        raise ToolError(
            phrase("The event repeats so often that it cannot be changed here."), suggestion=ASK_USER
        ) from None
    except OverflowError:
        raise malformed() from None
    extra = second.text().encode() if second is not None else b""
    answer = {"size": len(extra), "delete": edit.nothing_left, "occurrence": edit.occurrence, "notes": edit.notes}
    return ChildAnswer(answer, extra + calendar.text().encode())


class _Edit:
    """What is to become of an event."""

    def __init__(self, calendar: Block, order: Mapping[str, Any]) -> None:
        self.calendar = calendar
        self.order = order
        self.wanted: Mapping[str, Any] = order["event"]
        self.nothing_left = False
        self.occurrence = ""
        self.notes: list[str] = []

    def create(self) -> None:
        event = Block("VEVENT")
        self.calendar.items = ["VERSION:2.0", "PRODID:-//Ferrule//Calendar//EN", event]
        if not self.wanted.get("title") or not self.wanted.get("start"):
            raise invalid(phrase("A new event needs a `title` and a `start`."), phrase("Give both."))
        start, end = self._times(None, NO_TIME)
        event.items = [f"UID:{self.order['uid']}", start.line("DTSTART"), end.line("DTEND")]
        for one in (start, end):
            _define_zone(self.calendar, one)
        self._describe(event)
        if rule := self.wanted.get("recurrence"):
            event.put("RRULE", f"RRULE:{_checked_rule(rule, start)}")
        self._stamp(event)
        event.drop("SEQUENCE")

    def apply(self) -> Block | None:
        """Carry out the order; gives the second part of a series that was split."""
        self.series = series = Series(self.calendar)
        scope, which = (self.order["scope"], self.order["occurrence"]) if series.repeats else ("all", "")
        if scope != "all" and not which:
            raise invalid(
                phrase("The event repeats, and the id does not say which occurrence is meant."),
                phrase("Take the id of an occurrence from FindEvents, or say `scope` = `all`."),
            )
        if which and not re.fullmatch(r"\d{8}T\d{6}Z?" if series.start.timed else r"\d{8}", which):
            raise invalid(phrase("The id does not name an occurrence of the event."), _WHERE)
        place = series.read(which).wall if which else series.start.wall
        self.before, self.cut = series.occurrences([place])
        found = next((one for one in self.before if one.place == place), None)
        if which and found is None:
            raise invalid(phrase("The event does not happen then."), _WHERE)
        if scope == "following" and all(one.place >= place for one in self.before):
            scope = "all"
        if self.order["delete"]:
            self._delete(scope, place)
            return None
        if scope == "this" and found is not None:
            self._change_one(found)
            return None
        target = self._split(place) if scope == "following" else series
        self._change_series(target, place, found)
        return target.calendar if target is not series else None

    # The scopes

    def _delete(self, scope: str, place: datetime) -> None:
        series, master = self.series, self.series.master
        if scope == "this":
            self._require_single(place)
            self._drop_overrides(lambda at: at == place)
            master.items.insert(master.first_block(), folded(series.at(place).line("EXDATE")))
            left = [one for one in self.before if one.place != place]
        elif scope == "following":
            self._end_before(place)
            left = [one for one in self.before if one.place < place]
        else:
            left = []
        self.nothing_left = scope == "all" or (not left and self.cut is None)
        if not self.nothing_left:
            self._stamp(master)
            self._check(series.calendar, [(one.start, one.length) for one in left])

    def _change_one(self, named: EventOccurrence) -> None:
        if self.wanted.get("recurrence") is not None:
            raise invalid(phrase("One occurrence alone cannot repeat."), phrase("Say `scope` = `following` or `all`."))
        series = self.series
        self.occurrence = series.at(named.place).text
        self._require_single(named.place)
        override = series.override(named.place)
        if override is None:
            base, later = series.base(named.place)
            override = base.copy()
            override.drop("RRULE", "RDATE", "EXDATE", "EXRULE")
            override.put("RECURRENCE-ID", series.at(named.place).line("RECURRENCE-ID"))
            _retime(series, override, series.at(named.place + later), named.length)
            at = max(n for n, one in enumerate(self.calendar.items) if isinstance(one, Block) and one.name == "VEVENT")
            self.calendar.items.insert(at + 1, override)
        shown, length = series.span(override)
        start, end = self._times(shown, length)
        _retime(series, override, start, between(start, end), end if self.wanted.get("end") else None)
        self._describe(override)
        self._stamp(override)
        others = [(one.start, one.length) for one in self.before if one.place != named.place]
        self._check(series.calendar, [*others, (start, between(start, end))])

    def _split(self, place: datetime) -> Series:
        """End the series before an occurrence, and begin another one there, with all that follows."""
        series, master = self.series, self.series.master
        if master.lines("EXRULE"):
            raise _has_exrule()
        base, _ = series.base(place)
        second = Block("VCALENDAR", [one for one in self.calendar.items if isinstance(one, str)])
        second.items += [one.copy() for one in self.calendar.blocks("VTIMEZONE")]
        follower = base.copy()
        follower.drop("RECURRENCE-ID", "RRULE", "RDATE", "EXDATE")
        parted = [series.parted(rule, place) for rule in series.rules]
        rules = [rest for _, rest, _ in parted if rest]
        if rules and not any(on_rule for _, _, on_rule in parted):
            raise ToolError(
                phrase(
                    "This occurrence is an extra date outside the event's rule, so the series cannot be split here."
                ),
                suggestion=phrase("Split it at an occurrence of the rule, or change only `this` occurrence."),
            )
        follower.put("RRULE", *(f"RRULE:{one}" for one in rules))
        for name in ("RDATE", "EXDATE"):
            follower.put(name, *series.dates_where(name, lambda at: at >= place))
        _retime(series, follower, series.at(place), series.span(base)[1])
        later = [one for one in series.overrides if one is not base and series.place_of(one) >= place]
        self._end_before(place)
        self._stamp(master)
        for one in (follower, *later):
            one.put("UID", f"UID:{self.order['new_uid']}")
            second.items.append(one)
        self._check(series.calendar, [(one.start, one.length) for one in self.before if one.place < place])
        return Series(second)

    def _change_series(self, target: Series, place: datetime, named: EventOccurrence | None) -> None:
        """Change a series, or the part of it that was split off at a place, as one occurrence is to be."""
        old, wanted, master = self.series, self.wanted, target.master
        split = target is not old
        base, later = (master, old.base(place)[1]) if split else old.base(place)
        shown, (_, length) = old.at(place + later), target.span(base)
        if named is not None and (
            ((wanted.get("start") or wanted.get("end")) and old.place(named.start) != old.place(shown))
            or (wanted.get("end") and named.length != length)
        ):
            raise invalid(
                phrase("This occurrence was changed on its own, so how far to move the others is unclear."),
                phrase("Use the id of an occurrence that was not changed on its own, or change only `this` one."),
            )
        start, end = self._times(shown, length)
        if old.repeats and start.timed and shown.timed and not wanted.get("zone") and start.tzid != shown.tzid:
            raise invalid(
                phrase("`start` happens twice because the clocks go back, and a series cannot begin at the second "
                       "of the two."),
                phrase("Choose another `start`."),
            )  # fmt: skip
        times = Shift(shown, start, length, between(start, end))
        places = times._replace(old=target.start, new=start if split else times.place(target.start.wall))
        before, overrides = master.copy(), [(one, one.text()) for one in target.overrides]
        if places.old[:2] != places.new[:2] or times.length != times.new_length:
            self._move(target, places, times, end if wanted.get("end") and not old.repeats else None)
        self._describe(master)
        for one, was in overrides:
            _follow(one, before, master)
            if one.text() != was:
                self._stamp(one)
        rule = wanted.get("recurrence")
        if rule is not None:
            self._set_rule(target, rule)
        self._stamp(master)
        if target.repeats and self.order["occurrence"] and (split or rule is None):
            self.occurrence = places.place(place if not split else target.start.wall).text
        if rule is None:
            moved = [one for one in self.before if not split or one.place >= place]
            self._check(
                target.calendar,
                [(times.begin(one.start), times.lasts(one.start, one.length)) for one in moved],
                times.new.wall - times.old.wall,
            )

    # Parts of a change

    def _move(self, target: Series, places: Shift, times: Shift, end: Moment | None) -> None:
        """Shift all that an event says of times: its places by one change, and when occurrences begin by another."""
        master = target.master
        overrides = [(one, target.place_of(one), *target.span(one)) for one in target.overrides]
        if places.old[:2] != places.new[:2]:
            if master.lines("EXRULE"):
                raise _has_exrule()
            if target.rules:
                master.put("RRULE", *(f"RRULE:{places.rule(rule, target)}" for rule in target.rules))
            for one, place, _, _ in overrides:
                name = "RECURRENCE-ID;RANGE=THISANDFUTURE" if is_range(one) else "RECURRENCE-ID"
                one.put("RECURRENCE-ID", places.place(place).line(name))
        for name in ("RDATE", "EXDATE"):
            lines: list[str] = []
            for at, tail in (one for line in master.lines(name) for one in target.dates(line)):
                place = places.place(target.place_in(name, at))
                if tail and place.timed:
                    length = times.lasts(at, target.period(at, tail))
                    lines.append(f"{place.line(f'{name};VALUE=PERIOD')}/{place.moved(length).text}")
                else:
                    lines.append(place.line(name))
            if lines and (places.old[:2] != places.new[:2] or any("PERIOD" in line for line in lines)):
                master.put(name, *lines)
        for one, _, start, length in overrides:
            _retime(target, one, times.begin(start), times.lasts(start, length))
        _retime(target, master, places.new, times.lasts(target.start, target.length), end)

    def _set_rule(self, target: Series, rule: str) -> None:
        """Let a series repeat in another way. Exceptions that are no longer part of it would be ghosts."""
        master, gone = target.master, target.overrides
        if rule:
            master.put("RRULE", f"RRULE:{_checked_rule(rule, target.span(master)[0])}")
            now = Series(Block("VCALENDAR", [one for one in target.calendar.items if one not in gone]))
            places = {one.place for one in now.occurrences([now.place_of(one) for one in gone])[0]}
            gone = [one for one in gone if now.place_of(one) not in places]
        else:
            if target is self.series and all(one.place != target.start.wall for one in self.before):
                raise invalid(
                    phrase("The first occurrence was deleted, so it cannot become the only one."),
                    phrase("Delete the event and add a new one."),
                )
            master.drop("RRULE", "RDATE", "EXDATE", "EXRULE")
        if gone:
            target.calendar.items = [one for one in target.calendar.items if one not in gone]
            self.notes.append(f"removed {amount(len(gone), 'changed occurrence')} no longer in the series")

    def _end_before(self, place: datetime) -> None:
        series = self.series
        for name in ("RDATE", "EXDATE"):
            series.master.put(name, *series.dates_where(name, lambda at: at < place))
        rules = (series.parted(rule, place)[0] for rule in series.rules)
        series.master.put("RRULE", *(f"RRULE:{one}" for one in rules if one))
        self._drop_overrides(lambda at: at >= place)

    def _drop_overrides(self, which: Callable[[datetime], bool]) -> None:
        gone = [one for one in self.series.overrides if which(self.series.place_of(one))]
        self.calendar.items = [one for one in self.calendar.items if one not in gone]

    def _require_single(self, place: datetime) -> None:
        override = self.series.override(place)
        if override is not None and is_range(override):
            raise ToolError(
                phrase("All later occurrences depend on this one, so it cannot be changed or deleted alone."),
                suggestion=phrase("Say `scope` = `following` or `all`."),
            )

    def _check(self, calendar: Block, expected: Iterable[tuple[Moment, timedelta]], by: timedelta = NO_TIME) -> None:
        """Refuse a result that does not happen exactly when it has to."""
        limit = self.cut + by if self.cut else None
        found, _ = Series(calendar).occurrences(until=limit)

        def counted(all_of_them: Iterable[tuple[Moment, timedelta]]) -> Counter[tuple[datetime, bool, bool, timedelta]]:
            keys = ((at.utc(), at.timed, at.zone is None, length) for at, length in all_of_them)
            return Counter(key for key in keys if limit is None or key[0].replace(tzinfo=None) < limit - MARGIN)

        due, made = counted(expected), counted((one.start, one.length) for one in found)
        if due != made:
            lost, added = sorted(due - made), sorted(made - due)
            raise ToolError(
                phrase(
                    "Nothing was saved: the event's rule cannot be changed this way without losing or adding "
                    "occurrences. {lost} would be lost and {added} added, the first on {day}.",
                    lost=len(lost), added=len(added), day=f"{min(lost + added)[0]:%Y-%m-%d}",
                ),
                suggestion=phrase("Give the new `recurrence` as well, or change `this` occurrence."),
            )  # fmt: skip

    def _times(self, shown: Moment | None, length: timedelta) -> tuple[Moment, Moment]:
        """When an occurrence is to begin and to end that begins at `shown`; None for a new event."""
        wanted = self.wanted
        if shown is not None and not any(wanted.get(key) for key in ("start", "end", "zone")):
            return shown, shown.moved(length)
        zone_name: str = wanted.get("zone") or (shown.tzid if shown is not None else "")
        if shown is not None and shown.timed and zone_name == shown.tzid:
            zone = shown.zone
        else:
            zone_name = zone_name or self.order["zone"]
            zone = zone_of(zone_name)
        if text := wanted.get("start"):
            start = moment("start", text, zone_name, zone)
        else:
            assert shown is not None  # noqa: S101 - a new event has a start
            start = Moment(shown.at, zone_name if zone else "", zone) if shown.timed else shown
        if text := wanted.get("end"):
            end = moment("end", text, zone_name, zone)
            if not end.timed:
                end = end.moved(timedelta(days=1))  # the last day is meant, and a calendar says the one after it
            if start.timed != end.timed or end.utc() <= start.utc():
                raise invalid(
                    phrase("The event would end before it begins."),
                    phrase("Give `start` and `end` that fit each other."),
                )
        elif shown is not None and shown.timed == start.timed:
            end = start.moved(length)
        else:
            end = start.moved(timedelta(hours=1) if start.timed else timedelta(days=1))
        return start, end

    def _describe(self, event: Block) -> None:
        """Write everything into an event that is not a time."""
        wanted = self.wanted
        for key, name in (("title", "SUMMARY"), ("location", "LOCATION"), ("description", "DESCRIPTION")):
            if (text := wanted.get(key)) is not None:
                event.put(name, f"{name}:{escaped(_checked(key, text))}") if text else event.drop(name)
        if wanted.get("attendees") is not None:
            event.put("ATTENDEE", *(f"ATTENDEE;ROLE=REQ-PARTICIPANT;RSVP=TRUE:mailto:{_address(one)}"
                                    for one in wanted["attendees"]))  # fmt: skip
            if not event.lines("ORGANIZER") and wanted["attendees"] and self.order.get("organizer"):
                event.put("ORGANIZER", f"ORGANIZER:mailto:{_address(self.order['organizer'])}")
        if (alarms := wanted.get("alarms")) is not None:
            said = ["ACTION:DISPLAY", "DESCRIPTION:Reminder"]
            event.put_blocks("VALARM", [Block("VALARM", [*said, f"TRIGGER:-PT{minutes}M"]) for minutes in alarms])

    def _stamp(self, event: Block) -> None:
        now = self.order["now"]
        event.put("DTSTAMP", f"DTSTAMP:{now}")
        event.put("LAST-MODIFIED", f"LAST-MODIFIED:{now}")
        number = event.value("SEQUENCE")
        event.put("SEQUENCE", f"SEQUENCE:{int(number) + 1 if number.isdigit() else 1}")


def _retime(series: Series, event: Block, start: Moment, length: timedelta, end: Moment | None = None) -> None:
    """Let an event begin and last otherwise, told in the way that it was."""
    old, lasted = series.span(event)
    same = length == lasted and start.timed == old.timed
    if start[:2] != old[:2]:
        event.put("DTSTART", start.line("DTSTART"))
    elif same and end is None:
        return
    if end is not None or not same or event.lines("DTEND"):
        last = series.moment_in(event, "DTEND") if event.lines("DTEND") else old
        if end is None:
            end = start.moved(length)
            if last.zone and start.zone and last.tzid != old.tzid:
                at = (start.utc() + length).astimezone(last.zone)
                end = last._replace(at=at.replace(tzinfo=None))
        event.drop("DURATION")
        event.put("DTEND", *([end.line("DTEND")] if end.at != start.at else []))
    for one in (start, end):
        if one is not None:
            _define_zone(series.calendar, one)


def _define_zone(home: Block, one: Moment) -> None:
    if not one.tzid or one.tzid == "UTC" or one.tzid in [zone.value("TZID") for zone in home.blocks("VTIMEZONE")]:
        return
    from icalendar import Timezone

    made: str = Timezone.from_tzid(one.tzid).to_ical().decode()
    zone = parsed(f"BEGIN:VCALENDAR\r\n{made}END:VCALENDAR").blocks("VTIMEZONE")[0]
    home.items.insert(home.first_block(), zone)


def _follow(override: Block, before: Block, now: Block) -> None:
    """Let an exception change with its series, except where it differed."""
    for name in ("SUMMARY", "LOCATION", "DESCRIPTION", "ATTENDEE", "ORGANIZER"):
        if now.lines(name) != before.lines(name) == override.lines(name):
            override.put(name, *now.lines(name))
    own, was, new = ([one.text() for one in block.blocks("VALARM")] for block in (override, before, now))
    if new != was == own:
        override.put_blocks("VALARM", [one.copy() for one in now.blocks("VALARM")])


def _has_exrule() -> ToolError:
    return ToolError(
        phrase("The event uses EXRULE, which calendar programs read differently, so it was not moved."),
        suggestion=phrase("Change only `this` occurrence."),
    )


def _checked_rule(text: str, start: Moment) -> str:
    """A rule that calendars understand, and that does not fill a day."""
    from dateutil.rrule import rrulestr

    text = text.strip().upper().removeprefix("RRULE:")
    keys = [one.partition("=")[0] for one in text.split(";")]
    allowed = {"FREQ", "INTERVAL", "COUNT", "UNTIL", "BYDAY", "BYMONTHDAY", "BYMONTH", "BYSETPOS", "BYWEEKNO",
               "BYYEARDAY", "WKST"}  # fmt: skip
    wrong = [key for key in keys if key not in allowed]
    if wrong or len(keys) != len(set(keys)) or not re.search(r"FREQ=(DAILY|WEEKLY|MONTHLY|YEARLY)(;|$)", text):
        raise invalid(
            phrase("`recurrence` is not a rule for days, weeks, months or years: `{text}`.", text=text[:200]),
            phrase("Write it as `FREQ=WEEKLY;BYDAY=MO,WE;COUNT=10`."),
        )
    if until := re.search(r"UNTIL=(\d{8})(?:T\d{6}Z?)?(?=;|$)", text):
        day = datetime.strptime(until[1], "%Y%m%d")  # noqa: DTZ007 - a day
        last = start._replace(at=datetime.combine(day, time(23, 59, 59)))
        end = f"{day:%Y%m%d}" if not isinstance(start.at, datetime) else until_before(last.moved(timedelta(seconds=1)))
        text = text.replace(until[0], f"UNTIL={end}")
    try:
        naive = re.sub(r";?UNTIL=[^;]*", "", text)
        with limited(SECONDS_FOR_ONE):
            first = next(iter(rrulestr(naive, dtstart=start.wall)))
    except (ValueError, TypeError, KeyError, StopIteration, TooManyOccurrences):
        raise invalid(
            phrase("`recurrence` never happens or cannot be understood: `{text}`.", text=text[:200]),
            phrase("Write it as `FREQ=WEEKLY;BYDAY=MO,WE;COUNT=10`."),
        ) from None
    if first != start.wall:
        raise invalid(
            phrase("The rule `{text}` does not include the start, {day}.", day=f"{start.wall:%Y-%m-%d}", text=text),
            phrase("Start on a day that the rule includes, such as {day}.", day=f"{first:%Y-%m-%d}"),
        )
    return text


def _checked(what: str, text: str) -> str:
    if found := controls_in(text.replace("\r\n", "\n")):
        raise invalid(
            phrase("`{what}` contains the control character U+{code}.", what=what, code=f"{ord(found[0]):04X}"),
            phrase("Leave it out."),
        )
    return text


def _address(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9.-]+", text):
        raise invalid(
            phrase("`{text}` is not an address.", text=text[:200]), phrase("Write it bare, like `ann@example.com`.")
        )
    return text
