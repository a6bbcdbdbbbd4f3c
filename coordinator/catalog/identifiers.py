"""Names in the catalog's paths and bodies, as names of firn: levels of a namespace are parts between dots.

In a path the levels are separated by ``%1F``, the unit separator: every client knows it, and most know no other. A part
that holds a dot would be two parts of a table's name, so there is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from aiohttp import web

from firn.coordinator.catalog.statuses import BAD_REQUEST, CatalogError
from firn.model.errors import InvalidInput
from firn.model.identifiers import TABLE_PARTS_MAX, check_table_name

SEPARATOR: Final = "\x1f"
"""Between the levels of a namespace in a path: ``%1F``, decoded."""

Namespace = tuple[str, ...]


def name_of(namespace: Sequence[str], name: str) -> str:
    """Return the name of a table or view. Raises CatalogError for parts that such a name cannot have."""
    return _checked((*namespace, name), parts_max=TABLE_PARTS_MAX)


def checked_namespace(levels: Sequence[str]) -> Namespace:
    """Return a namespace in which tables can be. Raises CatalogError for one without levels, or with wrong ones."""
    if not levels:
        raise CatalogError(BAD_REQUEST, "a namespace has at least one level")
    _checked(levels, parts_max=TABLE_PARTS_MAX - 1)
    return tuple(levels)


def namespace_in(text: str) -> Namespace:
    """Return the namespace of a path or parameter, decoded. Raises CatalogError."""
    return checked_namespace(text.split(SEPARATOR))


def namespace_of(request: web.Request) -> Namespace:
    """Return the namespace in the path of a request."""
    return namespace_in(request.match_info["namespace"])


def table_of(request: web.Request) -> str:
    """Return the table in the path of a request."""
    return name_of(namespace_of(request), request.match_info["table"])


def view_of(request: web.Request) -> str:
    """Return the view in the path of a request."""
    return name_of(namespace_of(request), request.match_info["view"])


def identifier_of(name: str) -> dict[str, object]:
    """Return a table or view as clients are sent it (``TableIdentifier``)."""
    *namespace, last = name.split(".")
    return {"namespace": namespace, "name": last}


def _checked(parts: Sequence[str], *, parts_max: int) -> str:
    wrong = next((part for part in parts if "." in part or not part), None)
    if wrong is not None:
        raise CatalogError(BAD_REQUEST, f"{wrong!r} is no part of a name: it must not be empty or hold a dot")
    if len(parts) > parts_max:
        raise CatalogError(BAD_REQUEST, f"{'.'.join(parts)!r} has more than {parts_max} parts")
    try:
        return check_table_name(".".join(parts), where="name")
    except InvalidInput as error:
        raise CatalogError(BAD_REQUEST, str(error)) from error
