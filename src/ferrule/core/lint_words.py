"""The words of a tool's name, and whether it begins with a verb."""

from __future__ import annotations

import re

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
COMMANDS = frozenset(
    (
        "aws",
        "az",
        "brew",
        "cargo",
        "conda",
        "docker",
        "gcloud",
        "gh",
        "git",
        "helm",
        "kubectl",
        "npm",
        "pip",
        "uv",
    )
)
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
