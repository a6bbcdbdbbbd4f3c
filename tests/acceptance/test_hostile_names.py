"""Columns, tables, branches and tags of any name: they work whole, or are refused at once, with the reason."""

from __future__ import annotations

import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable

from firn import Client, arrow_schema, data_files_from_parquet
from firn.model.errors import InvalidIntent
from firn.model.intent import Intent
from firn.model.outcome import Rejected
from tests.acceptance.stack import SCHEMA, Stack
from tests.acceptance.test_disasters import MAKE, Told, ask, check, check_answers, stop
from tests.strategies.hostile_names import BIDI, CONTROLS, PLAIN, RESERVED_COLUMNS, SPACED

TABLE, SAFE = "db.hostile", "db.safe"
USABLE = tuple(name for name in PLAIN if name != "NULL")  # another letter case of "null"
TWINS = ("a", "A")
ESCAPE = "\x1b"

pytestmark = pytest.mark.timeout(120)


def columns(*names: str) -> dict[str, Any]:
    return {
        "type": "struct",
        "fields": [{"id": at, "name": name, "type": "string", "required": False} for at, name in enumerate(names, 1)],
    }


def refused_answer(client: Client, wish: Intent) -> list[Told]:
    """Ask for what must not be done; nothing was decided where the client itself refused it."""
    try:
        asked = ask(client, wish)
    except InvalidIntent:
        return []
    assert isinstance(asked[1], Rejected), wish
    return [asked]


def test_names_work_everywhere_or_are_refused_at_once(stack: Stack, tmp_path: Path) -> None:
    daemon = stack.daemon("a")
    told: list[Told] = []
    with stack.client() as client:
        for names in (*((one,) for one in (*RESERVED_COLUMNS, *CONTROLS, *BIDI, *SPACED)), TWINS):
            told.append(ask(client, MAKE.create_table(TABLE, columns(*names))))
            refused = told[-1][1]
            assert isinstance(refused, Rejected), names
            assert refused.rule in {"invalid-table", "invalid-field"}, (names, refused)

        client.create_table(TABLE, columns(*USABLE), format_version=2).committed(30)
        view = client.table(TABLE)
        rows = {name: [f"{at} of {name}", None] for at, name in enumerate(USABLE)}
        path = tmp_path / "warehouse-rows.parquet"
        place = Path(view.location.removeprefix("file://")) / "data" / path.name
        place.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(rows, schema=arrow_schema(view.schema)), place)
        told.append(ask(client, MAKE.append(TABLE, list(data_files_from_parquet([str(place)], view)))))
        client.create_table(SAFE, SCHEMA).committed(30)
        for name in (*CONTROLS, *BIDI, *SPACED):
            for wish in (MAKE.create_branch(SAFE, name), MAKE.create_table(f"db.{name}", SCHEMA)):
                told += refused_answer(client, wish)

        found = StaticTable.from_metadata(client.table(TABLE).metadata_location).scan().to_arrow()
        assert found.to_pydict() == rows

        for shown in (
            stack.firn("table", "show", TABLE),
            stack.firn("conflicts", "--limit", "200"),
            stack.firn("events", "--limit", "200"),
        ):
            assert shown.returncode == 0, shown.stderr
            assert ESCAPE not in shown.stdout
            assert not any(bidi in shown.stdout for bidi in "\u202e\u202a\u2066")
        for page in ("/conflicts", "/events", f"/tables/{urllib.parse.quote(TABLE)}"):
            with urllib.request.urlopen(f"{daemon.http}{page}", timeout=10) as answer:
                assert "<script>alert(1)" not in answer.read().decode()
    stop(stack)
    stack.daemon("b")
    with stack.client() as client:
        check_answers(client, told)
    check(stack)
