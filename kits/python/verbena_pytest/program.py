# SPDX-License-Identifier: BSD-2-Clause
"""The command `verbena`: finds it, checks its version and runs it."""

import os
import pathlib
import re
import shutil
import subprocess

from verbena_pytest.version import VERSION

LIMIT = 60  # seconds for a command that only talks to the emulator


class VerbenaError(Exception):
    """The command is missing, has another version, or refused; the text says which."""


class Program:
    """The command at the path `name`, or of that name in PATH."""

    def __init__(self, name="verbena"):
        found = shutil.which(name)
        if found is None:
            raise VerbenaError(f"there is no program '{name}': install Verbena and put it into PATH, "
                               "or name it with --verbena PATH (pytest.ini: verbena_program)")
        self.path = str(pathlib.Path(found).absolute())
        self.version = self._version()
        if not self.fits():
            raise VerbenaError(f"{self.path} is Verbena {self.version}, and this is verbena-pytest {VERSION}: "
                               "install both from one release")

    def _version(self):
        said = self._ask(["version"], None)
        found = re.search(r"\d+\.\d+\.\d+", said.stdout)
        if said.returncode != 0 or found is None:
            raise VerbenaError(f"{self.path} is not Verbena: 'version' says {(said.stdout + said.stderr).strip()!r}")
        return found[0]

    def fits(self):
        """Returns whether the versions fit: releases work together if they differ only in the last number."""
        return self.version.split(".")[:2] == VERSION.split(".")[:2]

    def _ask(self, words, environment):
        try:
            return subprocess.run([self.path, *words], env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                                  text=True, timeout=LIMIT, check=False)
        except OSError as error:
            raise VerbenaError(f"cannot run {self.path}: {error.strerror}") from None
        except subprocess.TimeoutExpired:
            raise VerbenaError(f"'verbena {' '.join(words)}' has not ended for {LIMIT} s") from None

    def ask(self, *words, environment=None):
        """Returns what the command prints. If it fails, VerbenaError has what it printed."""
        done = self._ask([os.fspath(word) for word in words], environment)
        if done.returncode != 0:
            raise VerbenaError(f"'verbena {' '.join(map(str, words))}': {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def environment(self, runtime_dir=None):
        """Returns the environment of this process, with what makes a program see the devices of the emulator in that
        directory."""
        base = {**os.environ, "VERBENA_LOG": "explain"}
        if runtime_dir is not None:
            base["VERBENA_RUNTIME_DIR"] = str(runtime_dir)
        shown = re.findall(r"^export (\w+)='(.*)'$", self.ask("env", environment=base), re.MULTILINE)
        return {**base, **{name: value.replace("'\\''", "'") for name, value in shown}}
