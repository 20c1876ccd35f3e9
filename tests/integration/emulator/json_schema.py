# SPDX-License-Identifier: BSD-2-Clause
"""Checks a value against a JSON Schema, as far as the project's schemas go (emulator/cli/share/*.schema.json). An
unknown keyword is an error, so that no schema promises what is not checked."""

import json
import pathlib
import re

SHARE = pathlib.Path(__file__).resolve().parents[3] / "emulator" / "cli" / "share"
TYPES = {"string": str, "integer": int, "boolean": bool, "object": dict, "array": list, "null": type(None),
         "number": (int, float)}
KNOWN = {"$schema", "$defs", "$ref", "title", "description", "type", "const", "enum", "pattern", "minimum", "properties",
         "required", "additionalProperties", "items", "oneOf"}


def load(name):
    return json.loads((SHARE / f"{name}.schema.json").read_text(encoding="utf-8"))


def is_of(value, names):
    names = [names] if isinstance(names, str) else names
    return any(isinstance(value, TYPES[name]) and (name == "boolean" or not isinstance(value, bool)) for name in names)


def wrong(value, schema, root=None, path="$"):
    """Returns what is wrong, in lines."""
    root = schema if root is None else root
    if "$ref" in schema:
        schema = root["$defs"][schema["$ref"].removeprefix("#/$defs/")] | {k: v for k, v in schema.items() if k != "$ref"}
    if not schema.keys() <= KNOWN:
        raise ValueError(f"{path}: unknown keywords {schema.keys() - KNOWN}")
    if "oneOf" in schema:
        return wrong_in_all(value, schema["oneOf"], root, path)
    if "type" in schema and not is_of(value, schema["type"]):
        return [f"{path}: {value!r} is no {schema['type']}"]
    found = []
    if "const" in schema and value != schema["const"] or "enum" in schema and value not in schema["enum"]:
        found.append(f"{path}: {value!r} is not {schema.get('const', schema.get('enum'))}")
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        found.append(f"{path}: {value!r} is not of the form {schema['pattern']}")
    if isinstance(value, (int, float)) and value < schema.get("minimum", value):
        found.append(f"{path}: {value} is less than {schema['minimum']}")
    if isinstance(value, list):
        found += [line for i, item in enumerate(value) for line in wrong(item, schema.get("items", {}), root, f"{path}[{i}]")]
    if isinstance(value, dict):
        found += wrong_in_members(value, schema, root, path)
    return found


def wrong_in_members(value, schema, root, path):
    known = schema.get("properties", {})
    more = schema.get("additionalProperties", True)
    found = [f"{path}.{name}: missing" for name in schema.get("required", []) if name not in value]
    for name, member in value.items():
        if name in known:
            found += wrong(member, known[name], root, f"{path}.{name}")
        elif more is False:
            found.append(f"{path}.{name}: not in the schema")
        elif isinstance(more, dict):
            found += wrong(member, more, root, f"{path}.{name}")
    return found


def wrong_in_all(value, schemas, root, path):
    """Checks a value that must match exactly one schema. Returns the errors of the schema that comes closest."""
    answers = [wrong(value, one, root, path) for one in schemas]
    if sum(not answer for answer in answers) == 1:
        return []
    return min(answers, key=len) or [f"{path}: more than one fits"]
