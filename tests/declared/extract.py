# SPDX-License-Identifier: BSD-2-Clause
"""Asks the built programs what they declare: options, variables, settings, fields, files and counters."""

import json
import os
import pathlib
import re
import subprocess
import time

LIMIT = 60
ROOT = pathlib.Path(__file__).resolve().parents[2]
PRODUCT = ("kernel-free-transport", "provider", "emulator")
NUMBERED = ("gids", "types", "ndevs", "pkeys")  # folders whose files have numbers for names
SHORT = re.compile(r"\s*(?:-\w,)?(--[a-z][a-z-]*)")


def said(*words, **more):
    """Returns what a command prints, whatever its exit code is."""
    done = subprocess.run(words, text=True, capture_output=True, timeout=LIMIT, check=False, **more)
    return done.stdout + done.stderr


def options_of(help_text):
    """Returns the long options that a help text lists, and the words that it offers as values."""
    found = set()
    for line in help_text.splitlines():
        option = SHORT.match(line)
        if not option or option[1] == "--help":
            continue
        found.add(option[1])
        choice = re.search(r"\{([\w,-]+)\}", line)
        found |= {f"{option[1]} {word}" for word in choice[1].split(",")} if choice else set()
    return found


def commands(verbena):
    """Returns what the completion script has: each command, "COMMAND --option" and "COMMAND word"."""
    script = said(verbena, "completion", "bash")
    found = {"--version"}
    for name, words in re.findall(r"^    (\w+)\)\n(?:.*\n)*?.*compgen -W '([^']*)'", script, re.MULTILINE):
        found |= {name, *(f"{name} {word}" for word in words.split() if word != "--help")}
    return found


def commands_by_help(verbena):
    """Returns what the help texts have, which do not list the values of positional words."""
    names = re.findall(r"^  (\w+)  ", said(verbena, "--help").split("Subcommands:")[1], re.MULTILINE)
    return {"--version"} | {f"{name}{option}" for name in names
                            for option in {"", *(f" {o}" for o in options_of(said(verbena, "help", name)))}}


def daemon_options(verbenad):
    return options_of(said(verbenad, "--help"))


def variables(*binaries):
    """Returns the names of variables that the binaries contain. Compilers store parts of names, and parts side by side:
    a part of a longer name does not count, nor a name that is in no source."""
    found = set()
    for binary in binaries:
        found |= {name.decode() for name in re.findall(rb"(?<![A-Z_])VERBENA_[A-Z_]+(?=[\0=:, ])",
                                                       pathlib.Path(binary).read_bytes())}
    sources = "".join(path.read_text(encoding="utf-8") for folder in PRODUCT for path in (ROOT / folder).rglob("*.[ch]pp"))
    found = {name for name in found if name in sources}
    return {name for name in found if not any(other != name and other.startswith(name) for other in found)}


def settings(verbena, folder):
    """Returns the settings, which the parser lists when it meets an unknown key."""
    path = pathlib.Path(folder, "unknown.toml")
    path.write_text("there_is_no_such_key = 1\n", encoding="ascii")
    known = re.search(r"known are ([\w, ]+)", said(verbena, "doctor", "--config", str(path)))
    return set(known[1].split(", "))


def rules(verbena):
    """Returns the actions of rules and their conditions, which the parser lists when it meets an unknown one."""
    known = set()
    for line, words in (("none", r"it begins with (.+)"), ("drop none=1", r"there are the conditions (.+)")):
        listed = re.search(words, said(verbena, "fault", "--inject", line))
        known |= set(re.split(r", | or ", listed[1]))
    return known


def fields(value, path=""):
    """Returns the path of every leaf of a JSON text, such as "devices[].ports[].lid"."""
    if isinstance(value, dict) and value:
        return set().union(*(fields(v, f"{path}.{k}" if path else k) for k, v in value.items()))
    if isinstance(value, list) and value and isinstance(value[0], (dict, list)):
        return set().union(*(fields(v, path + "[]") for v in value))
    return {path}


def status_fields(status):
    """Returns the fields of a status, without counters of ports and reasons of drops, which have tables of their own."""
    return {path for path in fields(status) if ".ports[].counters." not in path and ".drops" not in path}


def tree(shadow, device):
    """Returns the files below the shadow of sysfs, with * for the name of the device and for numbers."""
    found = set()
    for folder, _, files in os.walk(shadow):
        for name in files:
            parts = [*pathlib.Path(folder).relative_to(shadow).parts, name]
            parts = ["*" if part == device or place != 0 and parts[place - 1] in NUMBERED else part
                     for place, part in enumerate(parts)]
            found.add(re.sub(r"uverbs\d+", "uverbs*", "/".join(parts)))
    return {name for name in found if "/hw_counters/" not in name}


def hardware_counters(shadow, device):
    folder = pathlib.Path(shadow, "sys/class/infiniband", device, "ports/1/hw_counters")
    return {file.name for file in folder.iterdir()}


class Traffic:
    """Runs two connected queue pairs and a program that listens, so that status has something of each kind to show."""

    def __init__(self, device, steps):
        self.device, self.steps = device, steps

    def __enter__(self):
        self.sides = [subprocess.Popen(self.device.wrap([self.steps, "-s", "connected", role]), text=True,
                                       env=self.device.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                      for role in ("server", "client")]
        addresses = [side.stdout.readline().split(maxsplit=1)[1] for side in self.sides]
        for side, peer in zip(self.sides, reversed(addresses)):
            side.stdin.write(peer)
            side.stdin.flush()
            assert side.stdout.readline() == "at connected\n"
        self.listener = subprocess.Popen(self.device.wrap(["rping", "-s"]), env=self.device.environment,
                                         stdout=subprocess.DEVNULL)
        return self

    def __exit__(self, *_):
        for side in self.sides:
            side.kill()
            side.communicate()
        self.listener.kill()
        self.listener.wait()

    def status(self):
        """Returns a status with all three processes in it."""
        end = time.monotonic() + LIMIT
        while True:
            status = json.loads(self.device.control("status", "--json").stdout)
            responds = all(c["responding"] for d in status["devices"] for c in d["contexts"])
            if responds and status["cm_ids"] or time.monotonic() > end:
                return status
            time.sleep(0.05)
