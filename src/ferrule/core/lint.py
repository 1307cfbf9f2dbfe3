"""Looks over a tool's definition as a model will read it. The rules are listed in docs/reference/lint.md."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from ferrule.core.errors import DefinitionError
from ferrule.core.function_tool import RawTool
from ferrule.core.problems import InvalidParamsError
from ferrule.core.schemas import Schema, followed, mapping
from ferrule.core.tool import description_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from ferrule.core.tool import Tool


Severity = Literal["error", "warning"]


@dataclass(slots=True, frozen=True)
class LintFinding:
    """One thing in a definition that a model, a provider or a person would stumble over."""

    rule: str
    severity: Severity
    where: str
    message: str
    suggestion: str

    def __str__(self) -> str:
        return f"{self.rule} {self.severity}: {self.where}: {self.message}. {self.suggestion}"


@dataclass(slots=True, frozen=True)
class LintRule:
    """What a rule asks for, and how to meet it."""

    severity: Severity
    asks: str
    advice: str


RULES: dict[str, LintRule] = {
    "F001": LintRule(
        "error",
        "The name is accepted by every provider.",
        "Use letters, digits, _ and -, at most 64 of them, and no digit or - first.",
    ),
    "F002": LintRule("warning", "The name is more than one letter.", "Write a verb and what it acts on."),
    "F003": LintRule("warning", "The name begins with a verb.", "Say what it does: `get_weather`, not `weather`."),
    "F004": LintRule(
        "warning", "The name says what it acts on.", "Add that to the verb: `search_notes`, not `search`."
    ),
    "F010": LintRule("error", "There is a description.", "Say in a sentence what it does and when to use it."),
    "F011": LintRule("warning", "The description says more than the name.", "Say what comes back and when to use it."),
    "F012": LintRule(
        "warning",
        "The description has at least 20 characters, or 7 Chinese ones.",
        "Say what it does, with what, and when to use it.",
    ),
    "F013": LintRule(
        "warning", "The description says when to use the tool.", 'Add a sentence such as "Use it when …".'
    ),
    "F014": LintRule("error", "The description can be read.", "Until this is fixed, no model is shown the tool."),
    "F020": LintRule("error", "The parameters compile.", "Until this is fixed, every call fails."),
    "F021": LintRule(
        "warning", "The schema is of type object, as every provider asks.", 'Write {"type": "object", "properties": …}.'
    ),
    "F022": LintRule(
        "warning", "There are at most 15 parameters.", "Split the tool, or group what belongs together in an object."
    ),
    "F023": LintRule("warning", "Every parameter is described.", "Say what to put there, with its unit or form."),
    "F024": LintRule("warning", "No parameter has a one-letter name.", "Write the word out."),
    "F025": LintRule("warning", "A parameter's name says what it holds.", "Name what it is: `path`, `query`, `city`."),
    "F026": LintRule(
        "warning",
        "Choices are different, not empty, and at most 100.",
        "List each allowed value once; where there are many, take a text and offer a tool to look it up.",
    ),
    "F027": LintRule("error", "Examples fit the schema.", "A model copies examples: make it a call that works."),
    "F028": LintRule(
        "warning",
        "Defaults have a JSON form.",
        'Models are not shown this default: use text, a number or a list, or None for "not given".',
    ),
    "F030": LintRule(
        "error",
        "A tool named for a change does not claim to be read-only.",
        'It would run without approval. Declare kind="write" or kind="execute".',
    ),
    "F031": LintRule(
        "warning",
        "A tool with effects says what it touches.",
        "Give it `touches`, so that other calls can run beside it and the user sees what it will change.",
    ),
}


# The words of a tool's name, and whether it begins with a verb.


_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+|[^\W\d_A-Za-z]+")

VERBS = frozenset(
    """
    abort accept access acknowledge activate adapt add adjust advance aggregate alert align allocate
    allow analyse analyze annotate answer append apply approve archive arrange ask assemble assert
    assess assign attach attempt audit authenticate authorise authorize await back backup balance ban
    bash batch begin bind blame block book bookmark boot branch break browse build bump cache calculate
    call cancel capture cast categorise categorize change chart chat check checkout cherry choose clean
    clear click clone close collapse collect combine comment commit compact compare compile complete
    compose compress compute concat configure confirm connect consolidate consult contact continue
    control convert copy correct count crawl create critique crop cut deactivate debug decide decline
    decode decompress decrease decrypt dedupe define delegate delete deliver deny deploy deprecate
    derive describe deselect destroy detach detect determine diagnose diff disable discard discover
    dismiss dispatch display divide do dock document double download draft drag draw drop dump duplicate
    echo edit elicit email embed emit enable encode encrypt end enhance enqueue enrich enter enumerate
    erase escalate escape estimate evaluate examine exchange exclude execute exit expand explain explore
    export expose extend extract fail fetch fill filter finalise finalize find finish fix flag flatten
    flip flush focus follow forecast fork format forward freeze generate geocode get give glob go grade
    grant graph greet grep group guess guide halt handle hash head help hide highlight hold host hover
    identify ignore import improve include increase increment index infer inform ingest init initialise
    initialize inject insert inspect install instruct integrate interact interpret interrupt invalidate
    invert invite invoke issue join jump keep kill label launch lead learn leave let lift like limit
    link lint list listen load locate lock log login logout look lookup ls mail make manage map mark
    mask match measure memorise memorize mention merge message minify mint mirror mkdir mock modify
    monitor mount mouse move multiply mute name narrow navigate negotiate normalise normalize note
    notify obtain offer open optimise optimize order organise organize outline output overwrite pack
    paint parse partition patch pause pay peek perform pick pin ping plan play plot point poll pop
    populate post postpone predict preload prepare preprocess press preview print prioritise prioritize
    probe process produce profile program prompt propose protect prove provide provision prune publish
    pull purchase purge push put quantise quantize query queue quit quote raise rank rate reach react
    read reason reboot rebuild recall receive recognise recognize recommend reconcile record recover
    redirect redo reduce refactor refer refine refresh refund register reindex reject relate release
    reload remember remind remove rename render renew reopen reorder repair repeat replace replay reply
    report request require rerun reschedule research reserve reset resize resolve respond restart
    restore restrict resume retire retrieve retry return reveal reverse revert review revise revoke
    rewind rewrite roll rollback rotate round route run sample sanitise sanitize save scaffold scale
    scan schedule score scrape screen screenshot scroll seal search secure see seek select send separate
    serialise serialize serve set setup share shift show shrink shuffle shut shutdown sign simulate skip
    sleep slice smooth snapshot snooze solve sort source spawn speak specify split stage star start
    stash stat stop store stream strip structure style submit subscribe subtract suggest sum summarise
    summarize supply support suspend swap switch sync synchronise synchronize synthesise synthesize tag
    tail take talk tap tell terminate test think throw tidy toggle touch trace track train transcribe
    transfer transform translate transpose traverse triage trigger trim truncate try tune turn type
    unarchive unassign unblock undelete undo unfollow unfreeze uninstall unlink unload unlock unmount
    unpack unpin unpublish unregister unset unshare unstage unstar unsubscribe untag unzip update
    upgrade upload upsert use validate verify view visit visualise visualize vote wait wake walk warm
    warn watch weigh whitelist wipe withdraw work wrap write yank yield zip zoom
    """.split()  # noqa: SIM905 - easier to read and to extend
)
CHANGING_VERBS = frozenset(
    """
    cancel commit delete deploy destroy discard drop edit erase install kill mkdir modify move overwrite patch
    publish purge push reboot remove rename reset restart revoke rewrite send shutdown submit terminate
    uninstall unlink update upload upsert wipe write
    """.split()  # noqa: SIM905 - easier to read and to extend
)
"""Verbs that only a tool with effects can mean."""
COMMANDS = frozenset("aws az brew cargo conda docker gcloud gh git helm kubectl npm pip uv".split())  # noqa: SIM905 - as above
"""Programs whose own words come first, as people say them: `git_status`, `docker_ps`."""
_ENDINGS = ("ise", "ize", "ify")
_PREFIXES = ("re", "un", "de", "pre", "auto", "multi")


def words_of(name: str) -> list[str]:
    """The words of a name however it is written: `readFile`, `read_file`, `read-file`, `ReadFile`."""
    return [word.lower() for word in _WORD.findall(name)]


def begins_with_verb(words: list[str]) -> bool:
    """Whether a name says what is done: a verb first, or right after the name of a server or program.

    Names in other scripts are taken as they are.
    """
    return _is_verb(words[0]) or words[0] in COMMANDS or any(map(_is_verb, words[1:3]))


def changing_verb(words: list[str]) -> str | None:
    """The verb of the name, if it is one that changes things."""
    verb = next((word for word in words[:3] if _is_verb(word)), None)
    return verb if verb in CHANGING_VERBS else None


def _is_verb(word: str) -> bool:
    if not word.isascii() or word in VERBS or word.endswith(_ENDINGS):
        return True
    return any(word.startswith(prefix) and word.removeprefix(prefix) in VERBS for prefix in _PREFIXES)


MAX_PARAMETERS = 15
MIN_DESCRIPTION = 20
MAX_CHOICES = 100

_SAFE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_VAGUE_NAMES = frozenset(
    """
    action call check create data delete do execute find function get handle helper info list make manage manager
    object perform process query remove run search send set show start stop stuff task thing tool update use util
    """.split()  # noqa: SIM905 - easier to read and to extend
)
"""Words too general to name a tool by themselves. `Read` or `fetch` are specific enough."""
_FILLERS = ("a", "an", "the", "this", "it", "tool", "function")
_VAGUE = frozenset({"arg", "args", "param", "params", "foo", "bar", "tmp", "temp", "var", "val", "stuff", "thing"})
_WHEN = re.compile(
    r"\b(use[ds]?|useful|when|whenever|if|before|after|instead|prefer|unless|for|to|only|while|until|once|needs?)\b"
    r"|用|当|时",
    re.IGNORECASE,
)
"""Words that say when. A description of some length need not have one: it says it in its own way."""
_LONG = 120


def lint_tool(tool: Tool[Any], *, ignore: Collection[str] = ()) -> list[LintFinding]:
    """Everything a reader of this definition would stumble over; rules in `ignore` stay silent."""
    if unknown := set(ignore) - set(RULES):
        raise ValueError(f"There is no lint rule {sorted(unknown)[0]!r}. Rules are {min(RULES)} to {max(RULES)}.")
    findings = [*_of_name(tool), *_of_description(tool), *_of_kind(tool), *_of_schema(tool)]
    return [finding for finding in findings if finding.rule not in ignore]


def _of_name(tool: Tool[Any]) -> Iterator[LintFinding]:
    name = tool.name
    words = words_of(name)
    if not _SAFE_NAME.fullmatch(name):
        yield _found("F001", "name", f"{name!r} is not accepted by every provider")
    if len(name) == 1:
        yield _found("F002", "name", f"{name!r} is one letter")
    elif words and not begins_with_verb(words):
        yield _found("F003", "name", f"{name!r} does not begin with a verb")
    elif words and _VAGUE_NAMES.issuperset(words):
        yield _found("F004", "name", f"{name!r} fits any tool")


def _of_description(tool: Tool[Any]) -> Iterator[LintFinding]:
    try:
        text = tool.description.prose.strip()
    except Exception as error:  # noqa: BLE001 - a class may write it as a property, which can fail in any way
        yield _found("F014", "description", _told(error))
        return
    said = words_of(text)
    if not text:
        yield _found("F010", "description", "there is none")
    elif set(said) <= {*words_of(tool.name), *_FILLERS}:
        yield _found("F011", "description", "it only repeats the name")
    elif len(text.encode("utf-8", "replace")) < MIN_DESCRIPTION:  # a Chinese character says as much as three others
        yield _found("F012", "description", f"{len(text)} characters are too few to choose the tool by")
    elif len(text) < _LONG and not _WHEN.search(text):
        yield _found("F013", "description", "it does not say when to use the tool")


def _of_kind(tool: Tool[Any]) -> Iterator[LintFinding]:
    verb = changing_verb(words_of(tool.name))
    if tool.read_only and verb:
        yield _found("F030", "kind", f"a tool that is said to {verb} something claims to be read-only")
    if not tool.read_only and not tool.has_touches:
        yield _found("F031", "touches", "it does not say what a call touches")


def _of_schema(tool: Tool[Any]) -> Iterator[LintFinding]:
    try:
        tool.require_ready()
        root = tool.input_schema
        if isinstance(tool, RawTool):
            tool.compile()
    except Exception as error:  # noqa: BLE001 - a type can fail in any way
        yield _found("F020", "parameters", _told(error))
        return
    if root.get("type") != "object":
        yield _found("F021", "parameters", "the schema is not of type object")
    properties = mapping(root.get("properties"))
    if len(properties) > MAX_PARAMETERS:
        yield _found("F022", "parameters", f"{len(properties)} are many for a model to fill in")
    for name, prop in properties.items():
        yield from _of_parameter(f"parameters.{name}", name, followed(mapping(prop), root), root)
    yield from _of_defaults(tool, properties)
    yield from _of_examples(tool)


def _of_parameter(where: str, name: str, prop: Schema, root: Schema) -> Iterator[LintFinding]:
    if not str(prop.get("description", "")).strip():
        yield _found("F023", where, "not described")
    if len(name) == 1:
        yield _found("F024", where, "a one-letter name")
    elif name.lower() in _VAGUE:
        yield _found("F025", where, f"{name!r} says nothing of what it holds")
    yield from _of_choices(where, prop)
    yield from _of_choices(f"{where}[]", followed(mapping(prop.get("items")), root))


def _of_choices(where: str, prop: Schema) -> Iterator[LintFinding]:
    choices: Any = prop.get("enum")
    if not isinstance(choices, list):
        return
    listed = cast("list[Any]", choices)
    if not listed:
        yield _found("F026", where, "there is nothing to choose from, so no value fits")
    elif len({repr(choice) for choice in listed}) < len(listed):
        yield _found("F026", where, "a choice is listed twice")
    elif len(listed) > MAX_CHOICES:
        yield _found("F026", where, f"{len(listed)} choices take much of a model's attention")
    elif any(isinstance(choice, str) and not choice.strip() for choice in listed):
        yield _found("F026", where, "a choice is an empty text")


def _of_defaults(tool: Tool[Any], properties: Schema) -> Iterator[LintFinding]:
    fields: dict[str, Any] = getattr(getattr(tool.params, "model", None), "model_fields", {})
    for name, field in fields.items():
        shown = properties.get(field.alias or name)
        said = shown is None or "default" in mapping(shown)
        if not said and not field.is_required() and field.default_factory is None:
            yield _found("F028", f"parameters.{name}", f"the default {type(field.default).__name__} has none")


def _of_examples(tool: Tool[Any]) -> Iterator[LintFinding]:
    for position, example in enumerate(description_of(tool).examples):
        try:
            tool.build(example.params)
        except InvalidParamsError as invalid:
            yield _found("F027", f"examples[{position}]", str(invalid))
        except Exception as error:  # noqa: BLE001 - its own check can fail in any way
            yield _found("F027", f"examples[{position}]", _told(error))


def _told(error: Exception) -> str:
    words = str(error).partition("\n")[0].rstrip(".")
    return words if isinstance(error, DefinitionError) else f"{type(error).__name__}: {words}"


def _found(rule: str, where: str, message: str) -> LintFinding:
    return LintFinding(rule, RULES[rule].severity, where, message, RULES[rule].advice)
