"""How the expression cases' data become schemas, files and expressions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from firn.model.datafile import DataFile
from firn.model.expressions.predicates import Expression, Operation, and_, not_, or_, predicate
from firn.model.schema import Schema, schema_from_json

DATA = Path(__file__).parent / "data"

OPERATIONS: dict[str, Operation] = {
    "isNull": "is-null", "notNull": "not-null", "isNaN": "is-nan", "notNaN": "not-nan",
    "lessThan": "lt", "lessThanOrEqual": "lt-eq", "greaterThan": "gt", "greaterThanOrEqual": "gt-eq",
    "equal": "eq", "notEqual": "not-eq", "startsWith": "starts-with", "notStartsWith": "not-starts-with",
    "in": "in", "notIn": "not-in",
}  # fmt: skip


def load(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((DATA / name).read_text(encoding="utf-8"))
    return document


def schema_of(fields: list[dict[str, Any]]) -> Schema:
    return schema_from_json({"type": "struct", "schema-id": 0, "fields": fields})


def expression_of(expr: dict[str, Any]) -> Expression:
    if "not" in expr:
        return not_(expression_of(expr["not"]))
    for name, combine in (("and", and_), ("or", or_)):
        if name in expr:
            return combine(*map(expression_of, expr[name]))
    return predicate(OPERATIONS[expr["op"]], expr["column"], expr["values"])


def file_of(stats: dict[str, Any]) -> DataFile:
    return DataFile(
        file_path="file:///t/f.parquet", file_format="parquet", spec_id=0, file_size_in_bytes=1,
        record_count=stats["record_count"],
        value_counts=_counts(stats["value_counts"]),
        null_value_counts=_counts(stats["null_value_counts"]),
        nan_value_counts=_counts(stats["nan_value_counts"]),
        lower_bounds=_bounds(stats["lower_bounds_hex"]),
        upper_bounds=_bounds(stats["upper_bounds_hex"]),
    )  # fmt: skip


def _counts(counts: dict[str, int] | None) -> dict[int, int] | None:
    return None if counts is None else {int(i): count for i, count in counts.items()}


def _bounds(bounds: dict[str, str] | None) -> dict[int, bytes] | None:
    return None if bounds is None else {int(i): bytes.fromhex(bound) for i, bound in bounds.items()}
