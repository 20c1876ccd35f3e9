# SPDX-License-Identifier: BSD-2-Clause
"""Faults that a test sets, and their end: what a fault has changed is then as it was before, and nothing else changes."""

import collections
import contextlib
import re

from verbena_pytest.options import is_given, options_words
from verbena_pytest.program import VerbenaError

# {keyword: name in `verbena status --json`, unit}
VALUES = {"loss": ("loss_ppm", "ppm"), "duplicate": ("duplicate_ppm", "ppm"), "reorder": ("reorder_ppm", "ppm"),
          "corrupt": ("corrupt_ppm", "ppm"), "delay": ("delay_ns", "ns"), "jitter": ("jitter_ns", "ns"),
          "rate": ("rate_bytes_per_second", "B")}
RULES = ("inject", "scenario")
# The keywords of fault() that are options of `verbena run` too, where they need a private emulator.
OF_RUN = (*VALUES, *RULES, "seed", "data", "cm", "require_fired")


class Fault:
    """What Device.fault() has set. It ends with end(), or as a context manager at the end of the block."""

    def __init__(self, device, values):
        self._device = device
        self._values = {name: value for name, value in values.items() if is_given(value)}
        before = device.status
        self._before = faults_in(before)
        words = options_words(values)
        device.kills_emulator |= any(map(kills_emulator, words))
        self._rules = []
        with self._unless_killed():
            said = device.ask("fault", *words)
            if said.startswith("seed "):
                words += ["--seed", said.split()[1].rstrip(";")]
        device.faults.append(" ".join(words))
        if any(name in self._values for name in RULES):
            with self._unless_killed():
                self._rules = rules_in(device.status)[len(before["rules"]):]
                device.kills_emulator |= any(map(kills_emulator, self._rules))

    def __enter__(self):
        if not any(name in self._values for name in (*VALUES, *RULES)):
            raise VerbenaError("a `with` block takes a fault or a rule, which ends with it, as fault(loss=\"1%\"); what "
                               f"fault({', '.join(self._values)}) does has no end")
        return self

    def __exit__(self, _, error, __):
        try:
            self.end()
        except VerbenaError:
            if error is None:  # otherwise the error of the block says more
                raise

    def end(self):
        """Removes the rules, and gives the faults the values that they had before. Other rules keep their counts. If a rule
        has killed the emulator, its faults have ended with it."""
        with self._unless_killed():
            self._end()

    @contextlib.contextmanager
    def _unless_killed(self):
        """Drops an error of the block if a rule has killed the emulator."""
        try:
            yield
        except VerbenaError:
            if not self._device.kills_emulator or self._device.lives():
                raise

    def _end(self):
        status = self._device.status
        left = collections.Counter(rules_in(status))
        rules = [rule for rule, count in collections.Counter(self._rules).items() for _ in range(min(count, left[rule]))]
        self._rules = []
        if rules:
            self._set(["--clear", *options_words({"inject": rules})])
        if any(name in self._values for name in VALUES):
            for words in self._words_of_qp(status) if "qp" in self._values else self._words(status):
                self._set(words)

    def _set(self, words):
        self._device.ask("fault", *words)
        self._device.faults.append(" ".join(words))

    def _words(self, status):
        """Returns command lines that give the faults of all queue pairs the values that they had."""
        traffics = [name for name in ("data", "cm") if name in self._values] or ["data", "cm"]
        devices = [device["name"] for device in status["devices"] if self._values.get("device", device["name"]) == device["name"]]
        words = {(device, traffic): self._old(self._before.get((device, "all" if traffic == "data" else "0x000001")))
                 for device in devices for traffic in traffics}
        first = next(iter(words.values()), [])
        if all(one == first for one in words.values()):
            aim = {name: self._values[name] for name in ("device", "data", "cm") if name in self._values}
            return [[*options_words(aim), *first]]
        return [["--device", device, f"--{traffic}", *old] for (device, traffic), old in words.items()]

    def _words_of_qp(self, status):
        """The same for one queue pair. Its number is that of no other device."""
        text = str(self._values["qp"])
        number = f"0x{int(text, 16 if text[:2] in ('0x', '0X') else 10):06x}"
        old = next((fault for (_, qpn), fault in self._before.items() if qpn == number), None)
        if old is None:
            return [["--clear", "--qp", number]]
        lives = any(qpn == number and not fault["ended"] for (_, qpn), fault in faults_in(status).items())
        return [["--qp", number, *self._old(old)]] if lives else []

    def _old(self, fault):
        """Returns the options for the values that this fault has set, as `fault` had them (None: there was none)."""
        words = []
        for name, (field, unit) in VALUES.items():
            if name in self._values:
                value = fault[field] if fault else 0
                words += [f"--{name}", f"{value}{unit}" if value else "0"]
        return [*words, "--seed", str(fault["seed"])] if fault else words


def faults_in(status):
    """Returns {(device, queue pair): fault}."""
    return {(device["name"], fault["qpn"]): fault for device in status["devices"] for fault in device["faults"]}


def kills_emulator(rule):
    return re.match(r"\s*kill\s.*\bprogram=verbenad(\s|$)", rule) is not None


def rules_in(status):
    return [rule["rule"] for rule in status["rules"]]
