"""How large a table or view may be defined by an intent: its columns, the fields of its layout, its properties."""

from __future__ import annotations

from typing import Any

from firn.model.errors import InvalidIntent
from firn.model.intent import CreateOrReplaceTable, CreateTable
from firn.model.limits import Limits
from firn.model.operations.common import Operation
from firn.model.operations.layout import UpdateSchema
from firn.model.operations.rest import RestRequest
from firn.model.operations.views import CreateView, ReplaceView


def check_definition(operation: Operation, *, limits: Limits) -> None:
    """Raise InvalidIntent for a definition that is larger than the limits allow."""
    match operation:
        case CreateTable() | CreateOrReplaceTable():
            _check_columns(operation.schema, where="schema", limits=limits)
            _check_layout(operation.partition_spec, where="partition-spec", limits=limits)
            _check_layout(operation.write_order, where="write-order", limits=limits)
            if len(operation.properties) > limits.properties_max:
                raise _too_large(len(operation.properties), "properties", limits.properties_max, where="properties")
        case CreateView() | ReplaceView():
            _check_columns(operation.schema, where="schema", limits=limits)
        case RestRequest():
            for at, update in enumerate(operation.updates):
                _check_columns(update.get("schema"), where=f"updates[{at}].schema", limits=limits)
                for member in ("spec", "sort-order"):
                    _check_layout(update.get(member), where=f"updates[{at}].{member}", limits=limits)
        case UpdateSchema():
            _check_columns(operation.changes, where="changes", limits=limits)


def columns_in(schema: Any) -> int:
    """How many columns a schema, or what is to be changed of one, names: fields of structs, elements, keys and values.

    It is not checked to be a schema, only counted.
    """
    columns, unseen = 0, [schema]
    while unseen:
        one = unseen.pop()
        if isinstance(one, list | tuple):
            unseen += one
        elif isinstance(one, dict):
            columns += sum(name in one for name in ("name", "element", "key", "value"))
            unseen += one.values()
    return columns


def _check_columns(schema: Any, *, where: str, limits: Limits) -> None:
    columns = columns_in(schema)
    if columns > limits.columns_max:
        raise _too_large(columns, "columns", limits.columns_max, where=where)


def _check_layout(layout: Any, *, where: str, limits: Limits) -> None:
    fields = layout.get("fields") if isinstance(layout, dict) else None
    if isinstance(fields, list) and len(fields) > limits.layout_fields_max:
        raise _too_large(len(fields), "fields", limits.layout_fields_max, where=f"{where}.fields")


def _too_large(count: int, what: str, limit: int, *, where: str) -> InvalidIntent:
    return InvalidIntent(f"{count} {what}, the limit is {limit}", rule="metadata-too-large", where=where)
