"""Keywords that functions do not have are refused before anything is looked at, with the nearest that they have."""

from __future__ import annotations

from typing import Any, cast

import pytest

from firn.coordinator.client.operations import Intents
from firn.coordinator.client.sync_client import Client
from firn.model.errors import InvalidInput, UnknownOptionError
from firn.model.spelling import refuse_unknown, require_one_of
from firn.pipeline.compaction import compact
from firn.pipeline.data_source import FirnSource
from firn.pipeline.delete_files_rewrite import rewrite_delete_files
from firn.pipeline.merge import Clauses, merge
from firn.pipeline.row_level import delete_where, update
from firn.pipeline.streams import stream_to
from firn.pipeline.writes import append, overwrite, replace_partitions

ROWS: Any = type("Rows", (), {"sparkSession": None})()
NO_SPARK = cast("Any", None)
CALLS: dict[str, Any] = {
    "append": lambda **o: append(ROWS, "db.t", **o),
    "overwrite": lambda **o: overwrite(ROWS, "db.t", **o),
    "replace_partitions": lambda **o: replace_partitions(ROWS, "db.t", **o),
    "stream_to": lambda **o: stream_to("db.t", **o),
    "delete_where": lambda **o: delete_where(NO_SPARK, "db.t", "id = 1", **o),
    "update": lambda **o: update(NO_SPARK, "db.t", {"id": "1"}, **o),
    "merge": lambda **o: merge(ROWS, "db.t", on="t.id = s.id", clauses=Clauses(), **o),
    "compact": lambda **o: compact(NO_SPARK, "db.t", **o),
    "rewrite_delete_files": lambda **o: rewrite_delete_files(NO_SPARK, "db.t", **o),
    "Intents.append": lambda **o: Intents().append("db.t", (), **o),
    "Intents.overwrite": lambda **o: Intents().overwrite("db.t", base_snapshot_id=1, **o),
    "Intents.create_branch": lambda **o: Intents().create_branch("db.t", "b", **o),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(
    ("wrong", "nearest"), [("brnach", "branch"), ("sumary", "summary"), ("dry_run", None), ("isolatoin", None)]
)
def test_an_unknown_keyword_is_refused(name: str, wrong: str, nearest: str | None) -> None:
    with pytest.raises(UnknownOptionError, match=f"there is no option '{wrong}'") as caught:
        CALLS[name](**{wrong: "audit"})
    assert isinstance(caught.value, TypeError)
    if nearest:
        assert nearest in (caught.value.hint or "")


@pytest.mark.parametrize("name", ["delete_where", "update", "merge"])
@pytest.mark.parametrize("wrong", [{"mode": "mor"}, {"mode": "merge_on_read"}, {"isolation": "serialisable"}])
def test_a_word_that_an_option_does_not_take_is_refused(name: str, wrong: dict[str, str]) -> None:
    (where,) = wrong
    with pytest.raises(InvalidInput, match="is one of") as caught:
        CALLS[name](**wrong)
    assert caught.value.where == where


@pytest.mark.parametrize("name", ["overwrite", "replace_partitions"])
def test_a_word_that_is_no_isolation_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="did you mean 'serializable'"):
        CALLS[name](isolation="serialisable")


@pytest.mark.parametrize("wrong", ["tabel", "branhc", "overwritemode", "dry-run"])
def test_an_unknown_option_of_the_data_source_is_refused(wrong: str) -> None:
    with pytest.raises(UnknownOptionError, match=wrong):
        FirnSource({"table": "db.t", wrong: "x"})
    FirnSource({"Table": "db.t", "checkpointLocation": "/c", "queryName": "q"})


def test_an_unknown_option_of_the_client_is_refused() -> None:
    with pytest.raises(UnknownOptionError, match=r"prefx.*did you mean 'prefix'"):
        Client("redis://127.0.0.1:1/0", **cast("Any", {"prefx": "firn"}))


def test_where_nothing_is_near_the_known_ones_are_listed() -> None:
    with pytest.raises(UnknownOptionError, match=r"there are a, b"):
        refuse_unknown(["zzz"], ("b", "a"))
    refuse_unknown(["a"], ("b", "a"))
    require_one_of(None, ("a",), where="mode")
