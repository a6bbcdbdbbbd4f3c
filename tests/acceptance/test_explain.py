"""Operations, dry runs, conflicts and their stories on real servers, as an operator types them."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.acceptance.test_cli import TABLE, User, append, lines

pytestmark = pytest.mark.timeout(600)

COLUMNS = ("--column", "id long required", "--column", "note string", "--partition", "bucket(4, id)")


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    """Somebody with a running daemon and a table."""
    user = User(tmp_path_factory.mktemp("operator"))
    user.serve()
    assert user.firn("table", "create", TABLE, *COLUMNS).code == 0
    yield user
    if user.daemon is not None:
        user.stop()


def head(user: User) -> int:
    return int(user.firn("table", "show", TABLE, "--json").json["current-snapshot"]["snapshot-id"])


def done(user: User, *arguments: str) -> dict[str, object]:
    """The outcome of a command that must be committed."""
    said = user.firn(*arguments, "--json")
    assert said.code == 0, said.out + said.err
    outcome: dict[str, object] = said.json
    return outcome


def test_a_conflict_is_foretold_happens_and_is_explained(user: User) -> None:
    sent = user.firn("submit", "-", "--json", stdin=lines([append(user, "a"), append(user, "b")]))
    assert sent.code == 0, sent.err
    base = head(user)
    (path, *_) = [f["file-path"] for f in user.firn("table", "files", TABLE, "--json").json]
    winner = done(user, "file", "delete", TABLE, path, "--writer", "janitor")
    late = {"operation": "overwrite", "table": TABLE, "writer": "merger", "base-snapshot-id": base,
            "removed-data-files": [path], "data-files": append(user, "c")["data-files"]}  # fmt: skip
    foretold = user.firn("submit", "-", "--dry-run", "--json", stdin=lines([late]))
    assert foretold.code == 1
    (forecast,) = foretold.lines
    refused = user.firn("submit", "-", "--json", stdin=lines([late]))
    assert refused.code == 1
    (outcome,) = refused.lines
    told = forecast["outcome"]
    assert {k: told[k] for k in ("rule", "message", "hint", "files", "base-snapshot-id", "head-snapshot-id")} == {
        k: outcome[k] for k in ("rule", "message", "hint", "files", "base-snapshot-id", "head-snapshot-id")
    }
    assert (outcome["conflicting-writer"], outcome["conflicting-intent-id"]) == ("janitor", winner["intent-id"])

    story = user.firn("explain", outcome["intent-id"], "--json").json
    assert (story["state"], story["outcome"]["rule"]) == ("decided", outcome["rule"])
    assert story["winner"]["writer"] == "janitor"
    assert [one["writer"] for one in story["rebased-over"]] == ["janitor"]
    human = " ".join(user.firn("explain", outcome["intent-id"]).out.split())
    assert f"first was delete-files, by janitor, intent {winner['intent-id']}" in human
    assert "do replan: read the table again" in human
    (logged,) = user.firn("conflicts", "--winner", "janitor", "--since", "1h", "--json").lines
    assert logged["outcome"]["intent-id"] == outcome["intent-id"]
    assert user.firn("conflicts", "--until", "1h").out == "no conflicts\n"
    events = [e for e in user.firn("events", "--json", "--limit", "100").lines if e["type"] == "firn.intent.rejected"]
    assert events[-1]["data"]["conflicting-writer"] == "janitor"
    made = user.firn("explain", "--snapshot", str(winner["snapshot-id"]), "--table", TABLE, "--json").json
    assert [one["intent-id"] for one in made["intents"]] == [winner["intent-id"]]


def test_every_family_of_operations_works_from_the_command_line(user: User) -> None:
    tip = head(user)
    done(user, "branch", "create", TABLE, "audit", "--max-ref-age", "30d")
    done(user, "tag", "create", TABLE, "v1", "--at", "audit")
    assert "would be committed" in user.firn("schema", "add-column", TABLE, "country string", "--dry-run").out
    done(user, "schema", "add-column", TABLE, "country string")
    done(user, "schema", "rename-column", TABLE, "note", "remark")
    done(user, "partition", "add", TABLE, "country")
    done(user, "sort-order", "set", TABLE, "id desc")
    done(user, "property", "set", TABLE, "owner=me")
    done(user, "table", "upgrade-format", TABLE, "3")
    staged = [{**append(user, "w"), "stage": True, "wap-id": "nightly"}]
    assert user.firn("submit", "-", stdin=lines(staged)).code == 0
    assert head(user) == tip
    done(user, "snapshot", "publish", TABLE, "nightly")
    assert head(user) != tip
    done(user, "branch", "fast-forward", TABLE, "audit", "--to", "main")
    done(user, "snapshot", "rollback", TABLE, "--to", "v1")
    assert head(user) == tip
    done(user, "branch", "remove", TABLE, "audit")
    done(user, "expire", TABLE, "--older-than", "0s", "--retain-last", "1")
    conflict = user.firn("schema", "rename-column", TABLE, "note", "other", "--base", "0", "--json")
    assert conflict.code == 1
    assert (conflict.json["rule"], conflict.json["columns"]) == ("schema-conflict", ["note"])
    assert conflict.json["conflicting-operation"] == "update-schema"
    shown = user.firn("table", "show", TABLE, "--json").json
    assert [f["name"] for f in shown["schema"]["fields"]] == ["id", "remark", "country"]
    assert (shown["format-version"], shown["properties"]["owner"], set(shown["refs"])) == (3, "me", {"main", "v1"})
    assert user.firn("fsck", TABLE, "--deep").code == 0


def test_what_waits_is_told_its_place(user: User) -> None:
    user.stop()
    user.serve()
    queued = user.firn("submit", "-", "--no-wait", "--json", stdin=json.dumps(append(user, "q")))
    assert queued.code == 0
    story = user.firn("explain", queued.lines[0]["intent-id"])
    assert story.code == 0
    assert "asks for" in story.out
