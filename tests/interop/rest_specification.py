"""The REST catalog's specification, and what a catalog's answers have that it does not allow.

`rest_spec/rest-catalog-open-api.yaml` is the file of Apache Iceberg's release, unchanged. Its schemas are JSON Schema
2020-12, so no library for OpenAPI is needed.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from referencing import Registry
from referencing.jsonschema import DRAFT202012

SOURCE: Final = Path(__file__).parent / "rest_spec" / "rest-catalog-open-api.yaml"
URI: Final = "urn:iceberg-rest-catalog"
METHODS: Final = frozenset({"get", "head", "post", "put", "delete"})
PREFIX: Final = "{prefix}/"
ERROR: Final = "#/components/schemas/IcebergErrorResponse"
SHOWN_CHARACTERS: Final = 300


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """A request to a catalog, without its body, and the answer."""

    method: str
    path: str
    """As it was sent, still quoted, without the query."""

    status: int
    content_type: str
    body: bytes

    def __str__(self) -> str:
        return f"{self.method} {self.path} -> {self.status}"


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One method of one path in the specification."""

    method: str
    path: str
    pattern: re.Pattern[str]
    answers: dict[str, Any]

    @property
    def name(self) -> str:
        """As the configuration's `endpoints` name it."""
        return f"{self.method} {self.path}"


@cache
def operations() -> tuple[Operation, ...]:
    """Every operation; those without parameters in the path first, as `tables/rename` is no table."""
    found = [
        Operation(
            method=method.upper(),
            path=path,
            pattern=_pattern(path),
            answers={str(status): answer for status, answer in operation["responses"].items()},
        )
        for path, item in _document()["paths"].items()
        for method, operation in item.items()
        if method in METHODS
    ]
    return tuple(sorted(found, key=lambda operation: operation.path.replace(PREFIX, "").count("{")))


def operation_of(exchange: Exchange) -> Operation | None:
    """The operation that was asked for; None if the specification has none."""
    asked = (one for one in operations() if one.method == exchange.method and one.pattern.fullmatch(exchange.path))
    return next(asked, None)


def fault(exchange: Exchange) -> str | None:
    """Why the specification does not allow this answer, or None.

    Every error has the one shape, whether or not the specification lists its status (429 is in no list).
    """
    operation, schema = operation_of(exchange), None
    if exchange.method == "HEAD" or exchange.status in (204, 304):
        if exchange.body:
            return f"{exchange}: a body of {len(exchange.body)} bytes, and there is none"
    elif exchange.status >= 400:
        schema = ERROR
    elif operation is not None:
        schema = _schema(operation, exchange.status)
    if exchange.status < 400 and (operation is None or str(exchange.status) not in operation.answers):
        return f"{exchange}: the specification has no such answer"
    if schema is None:
        return None
    if exchange.content_type.partition(";")[0] != "application/json":
        return f"{exchange}: the content type is {exchange.content_type!r}"
    try:
        value = json.loads(exchange.body)
    except ValueError as error:
        return f"{exchange}: no JSON: {error}: {exchange.body[:SHOWN_CHARACTERS]!r}"
    wrong = best_match(_validator(schema).iter_errors(value))
    return f"{exchange}: {wrong.json_path}: {wrong.message[:SHOWN_CHARACTERS]}" if wrong else None


def unknown_endpoints(names: list[str]) -> list[str]:
    """Those of a configuration's `endpoints` that the specification does not have."""
    known = {operation.name for operation in operations()}
    return [name for name in names if name not in known]


@cache
def _document() -> dict[str, Any]:
    document: dict[str, Any] = yaml.load(SOURCE.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    return document


def _pattern(path: str) -> re.Pattern[str]:
    """A prefix is in the path only if the catalog's configuration gives one."""
    parts = [
        "(?:[^/]+/)?" if part == PREFIX else "[^/]+" if part.startswith("{") else re.escape(part)
        for part in re.split(r"(\{prefix\}/|\{[^}]+\})", path)
    ]
    return re.compile("".join(parts))


def _schema(operation: Operation, status: int) -> str | None:
    """Reference of the schema of an answer's body."""
    answer = operation.answers.get(str(status), {})
    while "$ref" in answer:
        answer = _at(answer["$ref"])
    content = answer.get("content")
    reference: str | None = content and content["application/json"]["schema"]["$ref"]
    return reference


def _at(reference: str) -> Any:
    found: Any = _document()
    for part in reference.removeprefix("#/").split("/"):
        found = found[part.replace("~1", "/").replace("~0", "~")]
    return found


@cache
def _validator(reference: str) -> Draft202012Validator:
    registry: Any = Registry().with_resource(URI, DRAFT202012.create_resource(_document()))
    return Draft202012Validator({"$ref": f"{URI}{reference}"}, registry=registry)
