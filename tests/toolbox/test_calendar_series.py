"""A series that is moved, split or cut has every occurrence that it had, where it has to be, and no other.

What happens when is worked out here by `dateutil` on the clock of the wall alone, and not by the library that the tools
use.
"""
# ruff: noqa: DTZ001, DTZ901, E501, PT017 - clocks on walls, pinned texts, and refusals that a law allows

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest
from dateutil.rrule import rrulestr
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st
from icalendar import Calendar
from inline_snapshot import snapshot

from ferrule.core.errors import ToolError
from ferrule.toolbox.event_change import change
from ferrule.toolbox.events import recurring, understood

BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"
FAR = datetime(2034, 1, 1)


# What happens, by other means


class Happening(NamedTuple):
    start: Any
    length: timedelta
    title: str


def listed(value: Any) -> list[Any]:
    return [] if value is None else value if isinstance(value, list) else [value]


def expanded(*texts: str, until: datetime = FAR) -> Counter[Happening]:
    """All that happens, on the clock of the series' own zone."""
    return Counter(one for text in texts for _, one in happenings(text, until))


def happenings(text: str, until: datetime = FAR) -> list[tuple[datetime, Happening]]:
    """What happens, each with its place in the series."""
    events: list[Any] = Calendar.from_ical(text).walk("VEVENT")
    (master,) = [one for one in events if "RECURRENCE-ID" not in one]
    start = master["DTSTART"].dt
    zone = getattr(start, "tzinfo", None)

    def wall(moment: Any) -> datetime:
        if not isinstance(moment, datetime):
            return datetime.combine(moment, time())
        if moment.tzinfo and zone:
            moment = moment.astimezone(zone)
        naive = moment.replace(tzinfo=None)
        return naive if isinstance(start, datetime) else datetime.combine(naive, time())

    def length(component: Any) -> timedelta:
        if "DURATION" in component:
            return component["DURATION"].dt
        if "DTEND" in component:
            return component["DTEND"].dt - component["DTSTART"].dt
        return timedelta() if isinstance(start, datetime) else timedelta(days=1)

    def made(at: datetime) -> Any:
        return at if isinstance(start, datetime) else at.date()

    places: dict[datetime, timedelta] = {wall(start): length(master)}
    periods = set[datetime]()
    for rule in listed(master.get("RRULE")):
        parts = dict(one.split("=") for one in rule.to_ical().decode().split(";"))
        last = parts.pop("UNTIL", None)
        end = rule["UNTIL"][0] if last else None
        in_utc = zone is not None and isinstance(end, datetime) and end.tzinfo is not None
        text_of_rule = ";".join(f"{key}={value}" for key, value in parts.items())
        for at in rrulestr(text_of_rule, dtstart=wall(start)):
            if at > until or (end and (at.replace(tzinfo=zone) > end if in_utc else at > wall(end))):
                break
            places[at] = length(master)
    for one in (value for line in listed(master.get("RDATE")) for value in line.dts):
        moment = one.dt
        if isinstance(moment, tuple):
            periods.add(wall(moment[0]))
            places[wall(moment[0])] = moment[1] if isinstance(moment[1], timedelta) else moment[1] - moment[0]
        else:
            places.setdefault(wall(moment), length(master))
    for one in (value for line in listed(master.get("EXDATE")) for value in line.dts):
        places.pop(wall(one.dt), None)
    found: dict[datetime, Happening] = {
        at: Happening(made(at), lasts, str(master.get("SUMMARY"))) for at, lasts in places.items()
    }
    others = sorted((one for one in events if one is not master), key=lambda one: wall(one["RECURRENCE-ID"].dt))
    for one in others:
        at = wall(one["RECURRENCE-ID"].dt)
        if one["RECURRENCE-ID"].params.get("RANGE") == "THISANDFUTURE":
            for place in places:
                if place > at:
                    moved = place + (wall(one["DTSTART"].dt) - at)
                    lasts = places[place] if place in periods else length(one)
                    found[place] = Happening(made(moved), lasts, str(one.get("SUMMARY")))
    for one in others:  # one that has no place is a ghost, and counts
        moment = one["DTSTART"].dt
        moment = wall(moment) if isinstance(moment, datetime) and isinstance(start, datetime) else moment
        found[wall(one["RECURRENCE-ID"].dt)] = Happening(moment, length(one), str(one.get("SUMMARY")))
    return list(found.items())


# Asking for a change


def calendar(*events: str) -> str:
    inner = "".join(f"BEGIN:VEVENT\nUID:a\n{one.strip()}\nEND:VEVENT\n" for one in events)
    return f"BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:-//Other//EN\n{inner}END:VCALENDAR\n".replace("\n", "\r\n")


class Outcome(NamedTuple):
    first: str
    second: str
    gone: bool
    occurrence: str
    notes: list[str]


def changed(text: str, scope: str, occurrence: str, *, delete: bool = False, **event: Any) -> Outcome:
    order = {
        "event": event, "scope": scope, "occurrence": occurrence, "delete": delete, "zone": BERLIN,
        "now": "20260101T000000Z", "new_uid": "b", "organizer": "",
    }  # fmt: skip
    answer = change(order, data=text.encode())
    size = answer.value["size"]
    return Outcome(
        answer.data[size:].decode(), answer.data[:size].decode(), answer.value["delete"], answer.value["occurrence"],
        answer.value["notes"],
    )  # fmt: skip


def refusal(text: str, scope: str, occurrence: str, **event: Any) -> str:
    with pytest.raises(ToolError) as caught:
        changed(text, scope, occurrence, **event)
    return f"{caught.value.message} {caught.value.suggestion}"


def starts(*texts: str) -> list[str]:
    found = [one.start for one in expanded(*texts).elements()]
    return sorted(f"{at:%m-%d %H:%M}" if isinstance(at, datetime) else f"{at:%m-%d}" for at in found)


DAILY = "DTSTART;TZID=Europe/Berlin:20260326T090000\nDTEND;TZID=Europe/Berlin:20260326T100000\nSUMMARY:Daily"
FIVE = calendar(f"{DAILY}\nRRULE:FREQ=DAILY;UNTIL=20260330T070000Z")


# The cases that were reported


def test_five_days_that_move_stay_five_over_a_change_of_time() -> None:
    done = changed(FIVE, "all", "20260327T090000", start="2026-03-27T11:00")
    assert starts(done.first) == [f"03-{day} 11:00" for day in (26, 27, 28, 29, 30)]
    assert "UNTIL=20260330T090000Z" in done.first
    assert done.occurrence == "20260327T110000"


def test_a_split_leaves_no_ghosts() -> None:
    text = calendar(
        f"{DAILY}\nRRULE:FREQ=DAILY;COUNT=8\nRDATE;TZID=Europe/Berlin:20260328T150000,20260401T150000\n"
        "EXDATE:20260327T080000Z\nEXDATE;TZID=Europe/Berlin:20260331T090000",
        "RECURRENCE-ID:20260328T080000Z\nDTSTART:20260328T120000Z\nDURATION:PT30M\nSUMMARY:Early",
        "RECURRENCE-ID;TZID=Europe/Berlin:20260401T090000\nDTSTART;TZID=Europe/Berlin:20260401T070000\n"
        "DURATION:PT2H\nSUMMARY:Late",
    )
    done = changed(text, "following", "20260330T090000", start="2026-03-30T10:00")
    assert starts(done.first) == ["03-26 09:00", "03-28 13:00", "03-28 15:00", "03-29 09:00"]
    assert starts(done.second) == ["03-30 10:00", "04-01 08:00", "04-01 16:00", "04-02 10:00"]
    assert "20260331" not in done.first
    assert "20260327" not in done.second
    assert done.occurrence == "20260330T100000"


def test_only_a_title_touches_no_time() -> None:
    text = calendar(
        f"{DAILY}\nRRULE:FREQ=DAILY;UNTIL=20260330\nRDATE;VALUE=PERIOD:20260401T080000Z/PT2H\nEXDATE;VALUE=DATE:20260327",
        "RECURRENCE-ID:20260328T080000Z\nDTSTART:20260328T120000Z\nSUMMARY:Daily",
        "RECURRENCE-ID:20260329T070000Z\nDTSTART:20260329T120000Z\nSUMMARY:Own",
    )
    done = changed(text, "all", "20260326T090000", title="New")
    times = ("DT", "R", "EX")
    assert [one for one in text.splitlines() if one.startswith(times)] == [
        one for one in done.first.splitlines() if one.startswith(times) and not one.startswith("DTSTAMP")
    ]
    assert [one for one in done.first.splitlines() if one.startswith("SUMMARY")] == [
        "SUMMARY:New", "SUMMARY:New", "SUMMARY:Own",
    ]  # fmt: skip


# Rules that name days


@pytest.mark.parametrize(
    ("start", "rule", "to", "becomes"),
    [
        ("20260302", "FREQ=WEEKLY;BYDAY=MO;COUNT=4", "2026-03-03", "FREQ=WEEKLY;BYDAY=TU;COUNT=4"),
        ("20260302", "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,SU", "2026-03-03",
         "FREQ=WEEKLY;INTERVAL=2;BYDAY=TU,MO;WKST=TU"),
        ("20260309", "FREQ=MONTHLY;BYDAY=2MO", "2026-03-16", "FREQ=MONTHLY;BYDAY=3MO"),
        ("20260305", "FREQ=MONTHLY;BYMONTHDAY=5,20", "2026-03-04", "FREQ=MONTHLY;BYMONTHDAY=4,19"),
        ("20260331", "FREQ=YEARLY;BYMONTH=3;BYMONTHDAY=31", "2026-04-01", "FREQ=YEARLY;BYMONTH=4;BYMONTHDAY=1"),
        ("20260313", "FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13", "2026-03-14", "FREQ=MONTHLY;BYDAY=SA;BYMONTHDAY=14"),
    ],
)  # fmt: skip
def test_a_rule_that_names_days_moves_with_them(start: str, rule: str, to: str, becomes: str) -> None:
    text = calendar(f"DTSTART;VALUE=DATE:{start}\nRRULE:{rule}")
    assert f"RRULE:{becomes}\r\n" in changed(text, "all", start, start=to).first


@pytest.mark.parametrize(
    ("start", "rule", "to"),
    [
        ("20260131", "FREQ=MONTHLY;BYMONTHDAY=31", "2026-02-01"),
        ("20260130", "FREQ=MONTHLY", "2026-01-29"),
        ("20260302", "FREQ=MONTHLY;BYDAY=1MO", "2026-03-03"),
        ("20260331", "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1", "2026-04-01"),
        ("20260228", "FREQ=YEARLY", "2026-03-01"),
        ("20260302", "FREQ=WEEKLY;BYMONTH=3", "2026-03-03"),
    ],
)
def test_a_rule_that_cannot_be_moved_exactly_is_refused(start: str, rule: str, to: str) -> None:
    text = calendar(f"DTSTART;VALUE=DATE:{start}\nRRULE:{rule}")
    assert "Nothing was saved: the event's rule cannot be changed" in refusal(text, "all", start, start=to)


def test_a_refusal_says_what_would_change_and_what_to_do() -> None:
    text = calendar("DTSTART;VALUE=DATE:20260131\nRRULE:FREQ=MONTHLY;COUNT=3")
    assert refusal(text, "all", "20260131", start="2026-02-01") == snapshot(
        "Nothing was saved: the event's rule cannot be changed this way without losing or adding occurrences. 1 would be lost and 1 added, the first on 2026-03-01. Give the new `recurrence` as well, or change `this` occurrence."
    )


# Other forms


TO_DAYS = calendar(
    f"{DAILY}\nRRULE:FREQ=DAILY;UNTIL=20260330T060000Z\nEXDATE:20260328T080000Z",
    "RECURRENCE-ID;TZID=Europe/Berlin:20260327T090000\nDTSTART;TZID=Europe/Berlin:20260327T070000\nDURATION:PT3H",
)
TO_HOURS = calendar(
    "DTSTART;VALUE=DATE:20260326\nDTEND;VALUE=DATE:20260327\nRRULE:FREQ=WEEKLY;BYDAY=TH;UNTIL=20260423\n"
    "EXDATE;VALUE=DATE:20260402",
    "RECURRENCE-ID;VALUE=DATE:20260409\nDTSTART;VALUE=DATE:20260410",
)
OF_OTHERS = [
    ("hours become days", TO_DAYS, "20260326T090000", {"start": "2026-03-27"}, ["03-27", "03-28", "03-30"]),
    ("days become hours", TO_HOURS, "20260326", {"start": "2026-03-26T15:00", "zone": NEW_YORK},
     ["03-26 15:00", "04-10 15:00", "04-16 15:00", "04-23 15:00"]),
    ("a day left out of hours, past midnight",
     calendar("DTSTART:20260326T230000\nDURATION:PT1H\nRRULE:FREQ=DAILY;COUNT=4\nEXDATE;VALUE=DATE:20260327"),
     "20260326T230000", {"start": "2026-03-27T01:00"}, ["03-27 01:00", "03-29 01:00", "03-30 01:00"]),
    ("midnight in UTC left out of days",
     calendar("DTSTART;VALUE=DATE:20260326\nRRULE:FREQ=DAILY;COUNT=3\nEXDATE:20260327T000000Z"),
     "20260326", {"start": "2026-03-27"}, ["03-27", "03-29"]),
    ("a whole day among hours",
     calendar(f"{DAILY}\nRRULE:FREQ=DAILY;COUNT=3",
              "RECURRENCE-ID;TZID=Europe/Berlin:20260327T090000\nDTSTART;VALUE=DATE:20260327"),
     "20260326T090000", {"start": "2026-03-27T01:00"}, ["03-27 01:00", "03-28", "03-29 01:00"]),
    ("an end that is a day", calendar(f"{DAILY}\nRRULE:FREQ=DAILY;UNTIL=20260329"), "20260326T090000",
     {"start": "2026-03-27T11:00"}, ["03-27 11:00", "03-28 11:00", "03-29 11:00"]),
    ("hours in the rule", calendar(f"{DAILY}\nRRULE:FREQ=DAILY;BYHOUR=9;BYMINUTE=0;COUNT=2"), "20260326T090000",
     {"start": "2026-03-26T11:30"}, ["03-26 11:30", "03-27 11:30"]),
    ("an exception for all that follow, with a length of its own",
     calendar(f"{DAILY}\nRRULE:FREQ=DAILY;COUNT=3",
              "RECURRENCE-ID;RANGE=THISANDFUTURE;TZID=Europe/Berlin:20260327T090000\n"
              "DTSTART;TZID=Europe/Berlin:20260327T110000\nDURATION:PT3H"),
     "20260328T090000", {"start": "2026-03-28T12:00"}, ["03-26 10:00", "03-27 12:00", "03-28 12:00"]),
    ("a zone of Windows",
     calendar("DTSTART;TZID=W. Europe Standard Time:20260326T090000\nDURATION:PT1H\n"
              "RRULE:FREQ=DAILY;UNTIL=20260330T070000Z"),
     "20260326T090000", {"start": "2026-03-26T10:00"}, [f"03-{day} 10:00" for day in (26, 27, 28, 29, 30)]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "name", "wanted", "found"), [one[1:] for one in OF_OTHERS], ids=[one[0] for one in OF_OTHERS]
)
def test_a_series_in_any_form_moves_as_a_whole(text: str, name: str, wanted: dict[str, Any], found: list[str]) -> None:
    assert starts(changed(text, "all", name, **wanted).first) == found


def test_an_event_that_ends_in_another_zone_stays_as_long_as_it_is() -> None:
    flight = "DTSTART;TZID=Europe/Berlin:20260320T100000\nDTEND;TZID=America/New_York:20260320T130000"
    done = changed(calendar(f"{flight}\nRRULE:FREQ=WEEKLY;COUNT=3"), "all", "20260320T100000", start="2026-03-20T11:00")
    assert "DTEND;TZID=America/New_York:20260320T140000" in done.first


def test_a_new_rule_leaves_no_exceptions_behind() -> None:
    text = calendar(
        f"{DAILY}\nRRULE:FREQ=DAILY;COUNT=9",
        "RECURRENCE-ID;TZID=Europe/Berlin:20260327T090000\nDTSTART;TZID=Europe/Berlin:20260327T070000",
        "RECURRENCE-ID;TZID=Europe/Berlin:20260402T090000\nDTSTART;TZID=Europe/Berlin:20260402T070000",
    )
    weekly = changed(text, "all", "20260326T090000", recurrence="FREQ=WEEKLY;COUNT=3", start="2026-03-26T10:00")
    assert starts(weekly.first) == ["03-26 10:00", "04-02 08:00", "04-09 10:00"]
    once = changed(text, "all", "20260326T090000", recurrence="")
    assert starts(once.first) == ["03-26 09:00"]
    assert (weekly.notes, once.notes) == snapshot(
        (
            ["removed 1 changed occurrence no longer in the series"],
            ["removed 2 changed occurrences no longer in the series"],
        )
    )


def test_what_would_be_a_guess_is_refused() -> None:
    text = calendar(
        f"{DAILY}\nRRULE:FREQ=WEEKLY;COUNT=4\nRDATE;TZID=Europe/Berlin:20260401T090000",
        "RECURRENCE-ID;TZID=Europe/Berlin:20260402T090000\nDTSTART;TZID=Europe/Berlin:20260402T070000",
    )
    assert [
        refusal(text, "following", "20260401T090000", start="2026-04-01T10:00"),
        refusal(text, "all", "20260402T090000", start="2026-04-02T10:00"),
        refusal(text, "all", "20260326T090000", recurrence="FREQ=WEEKLY;BYDAY=FR"),
        refusal(text, "this", "20260327T090000", title="x"),
    ] == snapshot(
        [
            "This occurrence is an extra date outside the event's rule, so the series cannot be split here. Split it at an occurrence of the rule, or change only `this` occurrence.",
            "This occurrence was changed on its own, so how far to move the others is unclear. Use the id of an occurrence that was not changed on its own, or change only `this` one.",
            "The rule `FREQ=WEEKLY;BYDAY=FR` does not include the start, 2026-03-26. Start on a day that the rule includes, such as 2026-03-27.",
            "The event does not happen then. Look at it again with FindEvents.",
        ]
    )


def test_the_last_occurrence_that_is_deleted_takes_the_event_with_it() -> None:
    text = calendar(f"{DAILY}\nRRULE:FREQ=DAILY;COUNT=2\nEXDATE:20260326T080000Z")
    assert changed(text, "this", "20260327T090000", delete=True).gone


# One identity per occurrence


MIDNIGHT = "DTSTART;TZID=Europe/Berlin:20260601T000000\nSUMMARY:Night\nRRULE:FREQ=DAILY;COUNT=5"
AT_22 = "RDATE;TZID=Europe/Berlin:20260603T220000"
"""Midnight in Berlin on the next day is 22:00 in UTC."""
NIGHTS = ["06-01 00:00", "06-02 00:00", "06-03 00:00", "06-03 22:00", "06-04 00:00", "06-05 00:00"]


def test_an_occurrence_is_not_taken_for_another_whose_time_in_utc_reads_the_same() -> None:
    text = calendar(f"{MIDNIGHT}\n{AT_22}")
    done = changed(text, "this", "20260603T220000", title="New")
    assert starts(done.first) == NIGHTS
    gone = changed(text, "this", "20260603T220000", delete=True)
    assert starts(gone.first) == [one for one in NIGHTS if one != "06-03 22:00"]


@pytest.mark.parametrize("form", ["own", "utc", "tokyo"])
@pytest.mark.parametrize("kind", ["exception", "left out", "period"])
def test_events_are_found_although_another_ones_time_in_utc_reads_the_same(kind: str, form: str) -> None:
    at = datetime(2026, 6, 3, 22)
    if kind == "exception":
        text = calendar(
            f"{MIDNIGHT}\n{AT_22}", f"{line('RECURRENCE-ID', at, BERLIN, form)}\n{line('DTSTART', at, BERLIN)}"
        )
    elif kind == "left out":
        text = calendar(f"{MIDNIGHT}\n{AT_22}\n{line('EXDATE', at, BERLIN, form)}")
    else:
        text = calendar(f"{MIDNIGHT}\n{line('RDATE;VALUE=PERIOD', at, BERLIN, form)}/PT3H")
    assert found(text) == [
        (one, timedelta(hours=3) if kind == "period" and one == "06-03 22:00" else timedelta())
        for one in NIGHTS
        if kind != "left out" or one != "06-03 22:00"
    ]


def test_an_extra_date_in_the_hour_that_happens_twice_stays_in_the_second() -> None:
    text = calendar(f"{MIDNIGHT}\nRDATE:20261025T013000Z")
    day = datetime(2026, 10, 25, 1, tzinfo=UTC)
    (only,) = recurring(understood(text)).between(day, day + timedelta(days=1))
    assert only.start.astimezone(UTC) == datetime(2026, 10, 25, 1, 30, tzinfo=UTC)


def found(text: str) -> list[tuple[str, timedelta]]:
    """What FindEvents has, on the clock of Berlin."""
    events = recurring(understood(text)).between(datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC))
    return sorted((f"{one.start.astimezone(ZONES[BERLIN]):%m-%d %H:%M}", one.end - one.start) for one in events)


# The law


ZONES = {BERLIN: ZoneInfo(BERLIN), NEW_YORK: ZoneInfo(NEW_YORK), "UTC": UTC, "floating": None, "day": None}
WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")


class Written(NamedTuple):
    """A series as another program may have written it."""

    text: str
    zone: str
    length: timedelta
    plain: bool
    """Whether its rules can be moved by days, and begun anew anywhere."""


def line(name: str, at: datetime, zone: str, form: str = "own") -> str:
    """A place in a zone, in one of the forms that it may have."""
    if zone == "day":
        return f"{name};VALUE=DATE:{at:%Y%m%d}"
    if zone == "UTC":
        return f"{name}:{at:%Y%m%dT%H%M%SZ}"
    if zone == "floating":
        return f"{name}:{at:%Y%m%dT%H%M%S}"
    if form == "own":
        return f"{name};TZID={zone}:{at:%Y%m%dT%H%M%S}"
    moment = at.replace(tzinfo=ZONES[zone])
    if form == "utc":
        return f"{name}:{moment.astimezone(UTC):%Y%m%dT%H%M%SZ}"
    return f"{name};TZID=Asia/Tokyo:{moment.astimezone(ZoneInfo('Asia/Tokyo')):%Y%m%dT%H%M%S}"


FORMS = st.sampled_from(["own", "own", "utc", "tokyo"])


@st.composite
def rules(draw: st.DrawFn, start: datetime, zone: str) -> tuple[str, bool]:
    own = WEEKDAYS[start.weekday()]
    days = sorted({own, *draw(st.lists(st.sampled_from(WEEKDAYS), max_size=3))}, key=WEEKDAYS.index)
    shape, plain = draw(
        st.sampled_from(
            [
                ("FREQ=DAILY", True), ("FREQ=DAILY;INTERVAL=3", True), ("FREQ=WEEKLY", True),
                (f"FREQ=WEEKLY;BYDAY={','.join(days)}", True), (f"FREQ=WEEKLY;INTERVAL=2;BYDAY={','.join(days)}", True),
                (f"FREQ=DAILY;BYDAY={','.join(days)}", True), ("FREQ=MONTHLY", False), ("FREQ=YEARLY", False),
                (f"FREQ=MONTHLY;BYMONTHDAY={start.day}", False), (f"FREQ=YEARLY;BYMONTH={start.month}", False),
                (f"FREQ=MONTHLY;BYDAY={(start.day - 1) // 7 + 1}{own}", False),
                ("FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1", False),
            ]
        )
    )  # fmt: skip
    end = draw(st.sampled_from(["COUNT", "COUNT", "UNTIL", "UNTIL", "UNTIL", ""]))
    number = draw(st.integers(1, 9))
    if end == "COUNT":
        return f"{shape};COUNT={number}", plain
    if end == "UNTIL":
        last = list(rrulestr(f"{shape};COUNT={number}", dtstart=start))[-1] + draw(
            st.sampled_from([timedelta(), timedelta(), timedelta(minutes=30), timedelta(days=1)])
        )
        return f"{shape};UNTIL={line('X', last, zone, 'utc').partition(':')[2]}", plain
    return shape, plain


@st.composite
def series(draw: st.DrawFn) -> Written:
    zone = draw(st.sampled_from(list(ZONES)))
    whole = zone == "day"
    start = datetime(2026, 1, 1) + timedelta(days=draw(st.integers(0, 400)))
    if not whole:
        start += timedelta(minutes=30 * draw(st.integers(0, 47)))
    length = timedelta(days=draw(st.integers(1, 2))) if whole else timedelta(minutes=15 * draw(st.integers(0, 8)))
    ends = draw(st.sampled_from(["end", "duration"]))
    master = [line("DTSTART", start, zone), "SUMMARY:Series"]
    if ends == "end" and length:
        master.append(line("DTEND", start + length, zone))
    else:
        master.append(f"DURATION:P{length.days}D" if whole else f"DURATION:PT{length.seconds // 60}M")
    made = draw(st.lists(rules(start, zone), min_size=1, max_size=draw(st.sampled_from([1, 1, 1, 2]))))
    master += [f"RRULE:{rule}" for rule, _ in made]
    plain = all(one for _, one in made) and len(made) == 1
    for days, minutes in draw(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 47)), max_size=3)):
        at = start + timedelta(days=days) + (timedelta() if whole else timedelta(minutes=30 * minutes))
        kind = "date" if whole else draw(st.sampled_from(["date", "duration", "period"]))
        form = draw(FORMS)
        if kind == "date":
            master.append(line("RDATE", at, zone, form))
        else:
            ended = line("X", at + timedelta(hours=3), zone, form).partition(":")[2]
            tail = "PT3H" if kind == "duration" else ended
            master.append(line("RDATE;VALUE=PERIOD", at, zone, form) + f"/{tail}")
    places = sorted(place for place, _ in happenings(calendar("\n".join(master)), start + timedelta(days=60)))
    left_out = draw(st.lists(st.sampled_from(places), unique=True, max_size=3))
    gone: dict[str, list[str]] = {}
    for at in left_out:
        head, _, value = line("EXDATE", at, zone, draw(FORMS)).rpartition(":")
        gone.setdefault(head if draw(st.booleans()) else f"{head}{' ' * len(gone)}", []).append(value)
    master += [f"{head.strip()}:{','.join(values)}" for head, values in gone.items()]
    others: list[str] = []
    rest = [one for one in places if one not in left_out]
    for at in draw(st.lists(st.sampled_from(rest), unique=True, max_size=3)) if rest else []:
        by = draw(st.sampled_from([timedelta(), timedelta(days=1), timedelta(days=-2)]))
        by += timedelta() if whole else timedelta(minutes=draw(st.sampled_from([0, 0, 45, -300])))
        lasts = draw(st.sampled_from([length, length * 2 or timedelta(hours=1)]))
        ranged = draw(st.integers(0, 7)) == 0 and abs(by) < timedelta(days=1)
        others.append("\n".join([
            line("RECURRENCE-ID;RANGE=THISANDFUTURE" if ranged else "RECURRENCE-ID", at, zone, draw(FORMS)),
            line("DTSTART", at + by, zone, draw(FORMS)),
            f"DURATION:P{lasts.days}D" if whole else f"DURATION:PT{lasts.seconds // 60}M",
            f"SUMMARY:Own {len(others)}", *(["STATUS:CANCELLED"] if draw(st.booleans()) else []),
        ]))  # fmt: skip
    return Written(calendar("\n".join(master), *others), zone, length, plain)


def named(data: st.DataObject, given: Written) -> tuple[datetime, Happening, str]:
    """One of the occurrences, and its name."""
    found = sorted(happenings(given.text, datetime(2027, 6, 1)))[:30]
    assume(found)
    place, one = data.draw(st.sampled_from(found))
    return place, one, line("X", place, given.zone).partition(":")[2]


MINUTES = st.sampled_from([0, 30, 120, -120, 690, 24 * 60, -24 * 60, 7 * 24 * 60, 2000])


@settings(deadline=None, max_examples=100)
@given(series(), st.data())
def test_a_series_that_moves_has_all_its_occurrences(written: Written, data: st.DataObject) -> None:
    place, one, name = named(data, written)
    whole = written.zone == "day"
    by = timedelta(minutes=data.draw(MINUTES))
    by = timedelta(days=by.days) if whole else by
    length = data.draw(st.sampled_from([one.length, one.length, one.length * 3 or timedelta(hours=1)]))
    zone = data.draw(st.sampled_from([written.zone, written.zone, written.zone, NEW_YORK, "UTC", "floating"]))
    zone = written.zone if whole else zone
    scope = data.draw(st.sampled_from(["all", "following"]))
    start = one.start + by
    wanted: dict[str, Any] = {"start": start.isoformat()}
    if length != one.length:
        wanted["end"] = (start + (length - timedelta(days=1) if whole else length)).isoformat()
    if zone != written.zone:
        wanted["zone"] = zone
    until = datetime(2028, 6, 1)
    before = happenings(written.text, until + abs(by))
    try:
        done = changed(written.text, scope, name, **wanted)
    except ToolError as refused:
        event(f"refused: {refused.message[:60]}")
        assert not written.plain or "Nothing was saved" not in refused.message
        return
    event(scope)
    first = place if scope == "following" else datetime.min

    def moved(happening: Happening) -> Happening:
        lasts = length if happening.length == one.length else happening.length
        return happening._replace(start=happening.start + by, length=lasts)

    due = Counter(moved(one) for at, one in before if at >= first)
    kept = Counter(one for at, one in before if at < first)
    if done.second:
        assert expanded(done.first, until=until + abs(by)) == kept
    else:
        assert not kept
    made = expanded(done.second or done.first, until=until + abs(by))
    soon = until - abs(by)

    def near(these: Counter[Happening]) -> Counter[Happening]:
        day = date if whole else datetime
        return Counter({one: n for one, n in these.items() if one.start < day(soon.year, soon.month, soon.day)})

    assert near(made) == near(due)


@settings(deadline=None, max_examples=60)
@given(series(), st.data())
def test_one_occurrence_that_changes_leaves_the_others_alone(written: Written, data: st.DataObject) -> None:
    place, one, name = named(data, written)
    whole = written.zone == "day"
    by = timedelta(minutes=data.draw(MINUTES))
    by = timedelta(days=by.days) if whole else by
    start = one.start + by
    if ZONES[written.zone]:  # an exception may be in another zone, and times without an offset are in that
        start = start.replace(tzinfo=ZONES[written.zone])
        assume(start.astimezone(UTC) == start.replace(fold=1).astimezone(UTC))
    wanted: dict[str, Any] = {"title": "New", **({"start": start.isoformat()} if by else {})}
    until = datetime(2028, 6, 1)
    others = Counter(other for at, other in happenings(written.text, until) if at != place)
    try:
        done = changed(written.text, "this", name, **wanted)
    except ToolError as refused:
        event(f"refused: {refused.message[:60]}")
        assert "All later occurrences depend on this one" in refused.message or "does not exist" in refused.message
        return
    assert expanded(done.first, until=until) == others + Counter([one._replace(start=one.start + by, title="New")])
    assert done.occurrence == name


@settings(deadline=None, max_examples=60)
@given(series(), st.data(), st.sampled_from(["this", "following"]))
def test_what_is_deleted_is_gone_and_nothing_else(written: Written, data: st.DataObject, scope: str) -> None:
    place, _, name = named(data, written)
    until = datetime(2028, 6, 1)
    before = happenings(written.text, until)
    kept = Counter(one for at, one in before if (at != place if scope == "this" else at < place))
    try:
        done = changed(written.text, scope, name, delete=True)
    except ToolError as refused:
        assert scope == "this"
        assert "All later occurrences depend on this one" in refused.message
        return
    assert done.gone == (not kept)
    if kept:
        assert expanded(done.first, until=until) == kept
