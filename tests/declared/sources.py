# SPDX-License-Identifier: BSD-2-Clause
"""Finds the text of a test case: its body, and what it uses of the same file, that is helpers, constants and set-up."""

import ast
import functools
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
PREPARE = ("setUp", "setUpClass")  # called for each case of a class


class PythonFile:
    """The functions and the constants of a file, of which several may have one name."""

    def __init__(self, text):
        self._lines = text.splitlines()
        self._parts = {}  # name: nodes
        self._cases = {}  # name: what runs, for each class that has the case
        for node in ast.walk(ast.parse(text)):
            body = getattr(node, "body", None)
            for part in body if isinstance(node, (ast.Module, ast.ClassDef)) else ():
                for name in self._names(part):
                    self._parts.setdefault(name, []).append(part)
                if isinstance(part, ast.FunctionDef):
                    own = [other for other in body if isinstance(other, ast.FunctionDef) and other.name in PREPARE]
                    self._cases.setdefault(part.name, []).append([part, *own])

    @staticmethod
    def _names(part):
        if isinstance(part, ast.FunctionDef):
            return [part.name]
        targets = part.targets if isinstance(part, ast.Assign) else []
        return [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]

    def text_of(self, case):
        waiting, seen = [part for parts in self._cases.get(case, ()) for part in parts], set()
        while waiting:
            part = waiting.pop()
            if part in seen:
                continue
            seen.add(part)
            for node in ast.walk(part):
                used = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else None
                waiting += self._parts.get(used, ())
        return "\n".join(line for part in seen for line in self._lines[part.lineno - 1:part.end_lineno])


class CppFile:
    """Reads a formatted file: a function ends with a brace below its first character, a constant with a semicolon."""

    HEAD = r"^(?P<indent> {{0,2}})(?! )[^\n#/;={{}}()]*\b{}\((?:[^;{{}}]|{{}})*?\{{"
    CONSTANT = r"^ {{0,2}}(?:static |inline |constexpr |const )+[^;=()]*\b{}(?:\[\w*\])?(?: = |\{{).*?;$"

    def __init__(self, text):
        self._text = text

    def _parts(self, name):
        for head in re.finditer(self.HEAD.format(re.escape(name)), self._text, re.MULTILINE):
            line_end = self._text.find("\n", head.end())
            if self._text[head.end():line_end].endswith("}"):
                yield self._text[head.start():line_end]
            else:
                end = re.compile(rf"^{head['indent']}\}}", re.MULTILINE).search(self._text, head.end())
                yield self._text[head.start():end.end() if end else len(self._text)]
        for found in re.finditer(self.CONSTANT.format(re.escape(name)), self._text, re.MULTILINE | re.DOTALL):
            yield found[0]

    def text_of(self, case):
        test = re.search(rf"^TEST\w*\(\s*\w+,\s*{re.escape(case)}\).*?^\}}", self._text, re.MULTILINE | re.DOTALL)
        waiting, seen = [test[0]] if test else [], {}
        while waiting:
            part = waiting.pop()
            for name in set(re.findall(r"\b[a-z]\w*(?=\()|\bk[A-Z]\w*", part)) - seen.keys():
                seen[name] = list(self._parts(name))
                waiting += seen[name]
        return "\n".join([test[0] if test else "", *(part for parts in seen.values() for part in parts)])


class TomlFile:
    """Reads a manifest: a case is what stands between two headers."""

    def __init__(self, text):
        self._tables = re.split(r"^(?=\[)", text, flags=re.MULTILINE)

    def text_of(self, case):
        return "\n".join(table for table in self._tables if re.search(rf'^name = "{re.escape(case)}"', table, re.MULTILINE))


class Sources:
    """The files that define test cases."""

    FORMS = {".py": (PythonFile, r"^\s+def {}\("), ".cpp": (CppFile, r"^TEST\w*\(\s*\w+,\s*{}\)"),
             ".toml": (TomlFile, r'^name = "{}"')}

    def __init__(self):
        folders = [ROOT / "tests" / "integration", ROOT / "conformance"]
        files = [file for folder in folders for file in sorted(folder.rglob("*")) if file.suffix in self.FORMS]
        self._texts = {file: file.read_text(encoding="utf-8") for file in files}
        self._parsed = {}

    @functools.cache
    def texts_of(self, case):
        """Returns the text of each case with this name."""
        found = []
        for file, text in self._texts.items():
            kind, form = self.FORMS[file.suffix]
            if re.search(form.format(re.escape(case)), text, re.MULTILINE):
                if file not in self._parsed:
                    self._parsed[file] = kind(text)
                found.append(self._parsed[file].text_of(case))
        return found
