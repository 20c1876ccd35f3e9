# SPDX-License-Identifier: BSD-2-Clause
"""Reads a manifest: which programs run, on which persona of the device, as which user, and what must come out.

Owner: conformance/run. Promise: each case is complete and checked. An unknown key is an error, so a mistyped
expectation cannot pass unnoticed.
"""

import dataclasses
import pathlib
import re
import tomllib

PERSONAS = ("ib", "roce")
USERS = ("root", "nobody")


class ManifestError(Exception):
    """The manifest itself is wrong; the text says where and why."""


@dataclasses.dataclass(frozen=True)
class Case:
    """One case: its commands and their expected outcome. The runner fills in `{...}` in commands."""

    name: str
    client: str  # the command that is judged
    server: str = ""  # the command that starts first, if there is a server
    personas: tuple = PERSONAS
    users: tuple = USERS
    tags: tuple = ()  # features that the case needs; `run --without` leaves out cases by them
    long: bool = False  # whether the case runs only with --long
    timeout: float = 30.0  # seconds for server and client together

    outcome: str = "pass"  # "pass", or "refused": the client must refuse with `text`
    text: str = ""  # for "refused": the output must contain exactly this
    success: str = ""  # for "pass": a pattern that the client's output must match
    value: str = ""  # for "pass": a pattern whose groups are numbers; each match must be above 0
    forbid: str = ""  # a pattern that neither output may match
    server_success: str = ""  # a pattern for the server's output
    server_ends: bool = True  # false: the server never ends by itself, so it is ended and its exit code is not judged
    packets: int = 1  # how many packets the device must have sent at least; 0 for programs that send none

    ready: str = "tcp"  # how the server says that it listens: "tcp", "cm", or "output:PATTERN"
    retry: str = ""  # for "cm": what the client prints while no server listens yet
    before: tuple = ()  # commands that run first, in the case's own empty folder
    # for a program that watches: commands that run once `ready` matched, before `success` is awaited
    during: tuple = ()
    after: tuple = ()  # commands that must succeed at the end, for example a cmp

    def __post_init__(self):
        self._check_words()
        self._check_patterns()

    def _check_words(self):
        if not self.name or not self.client:
            raise ManifestError("a case needs a name and a client")
        for given, known in ((self.personas, PERSONAS), (self.users, USERS)):
            for word in given:
                if word not in known:
                    raise ManifestError(f"{self.name}: '{word}' is none of {', '.join(known)}")
        if self.outcome not in ("pass", "refused"):
            raise ManifestError(f"{self.name}: outcome is 'pass' or 'refused', not '{self.outcome}'")
        if self.outcome == "refused" and not self.text:
            raise ManifestError(f"{self.name}: a refusal needs the exact text")
        if self.outcome == "pass" and not (self.success or self.value):
            raise ManifestError(f"{self.name}: a pass needs a success pattern or a value")
        if not (self.ready in ("tcp", "cm") or self.ready.startswith("output:")):
            raise ManifestError(f"{self.name}: ready is 'tcp', 'cm' or 'output:PATTERN'")
        if self.during and not self.ready.startswith("output:"):
            raise ManifestError(f"{self.name}: 'during' needs ready = 'output:PATTERN'")

    def _check_patterns(self):
        for field in ("success", "value", "forbid", "server_success", "retry"):
            try:
                pattern = re.compile(getattr(self, field), re.MULTILINE)
            except re.error as error:
                raise ManifestError(f"{self.name}: {field}: {error}") from error
            if field == "value" and self.value and not pattern.groups:
                raise ManifestError(f"{self.name}: value needs a group around the number")


_FIELDS = {field.name: field for field in dataclasses.fields(Case)}


def _case(table, defaults):
    merged = {**defaults, **table}
    unknown = set(merged) - set(_FIELDS)
    if unknown:
        raise ManifestError(f"{merged.get('name', '?')}: unknown key {', '.join(sorted(unknown))}")
    return Case(**{key: tuple(value) if isinstance(value, list) else value for key, value in merged.items()})


def _expand(table):
    """Yields a case with `each = [...]` once per word, with the word for {each} in its strings, and in its name."""
    words = table.pop("each", None)
    if words is None:
        yield table
        return
    for word in words:
        suffix = re.sub(r"[^A-Za-z0-9]+", "_", word).strip("_") or "plain"
        filled = {key: value.replace("{each}", word) if isinstance(value, str) else value
                  for key, value in table.items()}
        filled["name"] = f"{table['name']}.{suffix}"
        yield filled


def parse(text):
    """Returns the cases of a manifest's text."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ManifestError(str(error)) from error
    unknown = set(document) - {"title", "defaults", "case"}
    if unknown:
        raise ManifestError(f"unknown table {', '.join(sorted(unknown))}")
    cases = [_case(one, document.get("defaults", {})) for table in document.get("case", [])
             for one in _expand(dict(table))]
    names = [case.name for case in cases]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ManifestError(f"twice in the manifest: {', '.join(twice)}")
    if not cases:
        raise ManifestError("no case in the manifest")
    return cases


def load(path):
    """Returns the cases of a manifest file."""
    try:
        return parse(pathlib.Path(path).read_text(encoding="utf-8"))
    except ManifestError as error:
        raise ManifestError(f"{path}: {error}") from error
