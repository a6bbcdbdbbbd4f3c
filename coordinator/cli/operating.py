"""Commands that are one operation on one table: their common options, the table as it is now, and what is said."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from firn.coordinator.cli.changes import SCHEMA_BYTES_MAX
from firn.coordinator.cli.making import ask, view_at
from firn.coordinator.cli.reach import Reach, reaching
from firn.coordinator.cli.times import Moment
from firn.model import strict_json
from firn.model.errors import InvalidInput, NotFound
from firn.model.scan_target import no_such_ref
from firn.storage.pointers import Pointer

if TYPE_CHECKING:
    from firn.coordinator.client import TableView
    from firn.model.intent import Intent
    from firn.model.metadata import TableMetadata
    from firn.model.snapshot import SnapshotRef

_COMMON: Final = ("writer", "priority", "deadline_ms", "summary")


def operating(command: Callable[..., Intent]) -> Callable[..., None]:
    """Make a command of a function that makes an intent: submit it, wait, and say what became of it.

    Adds the options of every operation and those of `reaching`.
    """

    @click.option("--dry-run", is_flag=True, help="Only say what would become of it now, and why; nothing is changed.")
    @click.option("--timeout", type=click.FloatRange(min=0), default=60.0, show_default=True, help="Seconds to wait.")
    @click.option("--summary", multiple=True, metavar="KEY=VALUE", help="A remark for the snapshot's summary.")
    @click.option("--deadline", "deadline_ms", type=Moment(), metavar="TIME", help="Not to be applied after this.")
    @click.option("--maintenance", is_flag=True, help="Give way to ingest.")
    @click.option("--writer", help="Who asks, for the journal and for conflicts.")
    @reaching
    @functools.wraps(command)
    def wrapped(reach: Reach, *, timeout: float, dry_run: bool, **options: Any) -> int:
        common = {
            "writer": options.pop("writer"),
            "priority": "maintenance" if options.pop("maintenance") else "ingest",
            "deadline_ms": options.pop("deadline_ms"),
            "summary": dict(key_value(text, "--summary") for text in options.pop("summary")),
        }
        intent = msgspec.structs.replace(command(reach, **options), **common)
        return ask(reach, intent, done=None, timeout_s=timeout, dry_run=dry_run)

    return wrapped


def metadata_of(reach: Reach, table: str) -> TableMetadata:
    """The table's metadata as it is now: what a command that reads before it writes has seen."""
    return reach.metadata_reader.metadata(_pointer(reach, table).metadata_location)


def view_of(reach: Reach, table: str) -> TableView:
    """The table as it is now."""
    return view_at(reach, _pointer(reach, table), name=table)


def _pointer(reach: Reach, table: str) -> Pointer:
    pointer = reach.pointer(table)
    if pointer.kind != "table":
        raise NotFound(f"{table!r} is a view, not a table")
    return pointer


def ref_of_table(metadata: TableMetadata, name: str) -> SnapshotRef:
    """A branch or tag as it is now. Raises NotFound."""
    ref = metadata.ref(name)
    if ref is None:
        raise no_such_ref(metadata, name)
    return ref


def snapshot_named(metadata: TableMetadata, text: str) -> int:
    """A snapshot by its id, or by the branch or tag that points at it. Raises NotFound."""
    ref = metadata.ref(text)
    if ref is not None:
        return ref.snapshot_id
    if text.isascii() and text.isdecimal() and len(text) < 20:
        return int(text)
    raise no_such_ref(metadata, text)


def key_value(text: str, option: str | None = None) -> tuple[str, str]:
    """The two sides of KEY=VALUE, which was given for `option`, or as an argument."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise InvalidInput(f"{text!r} is not KEY=VALUE", where=option)
    return key, value


def json_of(text: str, *, where: str) -> Any:
    """JSON given as such, as a file that holds it, or on standard input (-). Raises InvalidInput."""
    if text.lstrip()[:1] in ("{", "["):
        data = text.encode("utf-8", "surrogateescape")
    elif text == "-":
        data, where = sys.stdin.buffer.read(SCHEMA_BYTES_MAX + 1), "standard input"
    else:
        try:
            with Path(text).open("rb") as file:
                data, where = file.read(SCHEMA_BYTES_MAX + 1), text
        except OSError as error:
            raise InvalidInput(error.strerror or str(error), where=text) from error
    return strict_json.loads(data, where=where, bytes_max=SCHEMA_BYTES_MAX)


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the options that were given."""
    return {name: value for name, value in options.items() if value is not None}
