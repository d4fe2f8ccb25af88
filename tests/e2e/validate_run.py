#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks a run folder against the published schemas: every line of run.jsonl, and environment.json.

validate_run.py FOLDER [--allow-torn]     exit 0 valid, 1 first violation (one sentence), 2 usage, 3 jsonschema missing
Stricter than a reader: a field that the schema does not describe is a violation too, so that no field goes undocumented.
"""
import argparse
import json
import pathlib
import sys

try:
    import jsonschema
except ImportError:
    print("python3-jsonschema is missing; install it to validate run folders")
    sys.exit(3)

SCHEMAS = pathlib.Path(__file__).resolve().parents[2] / "docs" / "schema"


class Violation(Exception):
    pass


def no_duplicates(pairs):
    keys = [key for key, _ in pairs]
    for key in keys:
        if keys.count(key) > 1:
            raise ValueError(f"key {key!r} occurs twice")
    return dict(pairs)


def no_constant(name):
    raise ValueError(f"{name} is not JSON; NaN and infinities must be strings")


def parse(text, where):
    try:
        return json.loads(text, object_pairs_hook=no_duplicates, parse_constant=no_constant)
    except ValueError as error:
        raise Violation(f"{where}: not valid JSON: {error}") from None


def undescribed(value, schema, root, at=""):
    """Names of fields in value that schema says nothing about."""
    for part in schema.get("allOf", []):
        if "$ref" in part:
            schema = part
    if "$ref" in schema:
        schema = root["definitions"][schema["$ref"].rsplit("/", 1)[1]]
    if isinstance(value, list):
        for item in value:
            yield from undescribed(item, schema.get("items", {}), root, at + "[]")
    if isinstance(value, dict) and "properties" in schema:
        for key, inner in value.items():
            if key in schema["properties"]:
                yield from undescribed(inner, schema["properties"][key], root, f"{at}.{key}")
            else:
                if "additionalProperties" not in schema:
                    yield f"{at}.{key}"


def load(name):
    schema = json.loads((SCHEMAS / name).read_text(encoding="utf-8"))
    jsonschema.Draft7Validator.check_schema(schema)
    return jsonschema.Draft7Validator(schema)


def check(value, validator, where):
    for error in validator.iter_errors(value):
        field = ".".join(str(part) for part in error.absolute_path) or "the whole"
        raise Violation(f"{where}: {field}: {error.message[:300]}")
    for field in undescribed(value, validator.schema, validator.schema):
        raise Violation(f"{where}: field {field[1:]} is not described by the schema")


def check_run(path, validator, allow_torn):
    data = path.read_bytes()
    lines = data.split(b"\n")
    torn = lines.pop()
    if torn and not allow_torn:
        raise Violation(f"{path}: line {len(lines) + 1}: does not end in a newline (torn)")
    for number, line in enumerate(lines, 1):
        where = f"{path}: line {number}"
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise Violation(f"{where}: not UTF-8: {error}") from None
        check(parse(text, where), validator, where)
    return len(lines)


def main():
    parser = argparse.ArgumentParser(description="validate a run folder against docs/schema")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--allow-torn", action="store_true", help="the last line may be incomplete (a killed run)")
    options = parser.parse_args()
    try:
        records = check_run(options.folder / "run.jsonl", load("record.schema.json"), options.allow_torn)
        environment = options.folder / "environment.json"
        check(parse(environment.read_text(encoding="utf-8"), environment), load("environment.schema.json"), environment)
    except (Violation, OSError, UnicodeDecodeError) as problem:
        print(problem)
        return 1
    print(f"{options.folder}: {records} records and the environment are valid")
    return 0


if __name__ == "__main__":
    sys.exit(main())
