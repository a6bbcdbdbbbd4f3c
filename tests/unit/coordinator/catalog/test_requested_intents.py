"""What each request becomes, and what of it is refused at the door."""

import msgspec
import pytest

from firn.coordinator.catalog import requested_intents
from firn.coordinator.catalog.requests import (
    CommitBody,
    CreateTableBody,
    CreateViewBody,
    RegisterBody,
    RenameBody,
    TransactionBody,
    read_body,
    table_change,
    view_change,
)
from firn.coordinator.catalog.senders import Sender
from firn.coordinator.catalog.staged_tables import staged_location, staged_metadata
from firn.coordinator.catalog.statuses import CatalogError
from firn.model.errors import FirnError, InvalidInput, TooLarge
from firn.model.limits import Limits
from firn.model.operations.rest import RestCommit
from firn.model.operations.transaction import Transaction
from firn.model.rest_requirements import AssertCreate, AssertTableUuid

ID = "01890000-0000-7000-8000-000000000000"
SCHEMA = {
    "type": "struct",
    "schema-id": 7,
    "fields": [
        {"id": 4, "name": "id", "type": "long", "required": True},
        {"id": 9, "name": "day", "type": "date", "required": False},
    ],
}
SPEC = {"spec-id": 3, "fields": [{"name": "day", "source-id": 9, "field-id": 1_005, "transform": "identity"}]}
ORDER = {
    "order-id": 5,
    "fields": [{"transform": "identity", "source-id": 4, "direction": "asc", "null-order": "nulls-first"}],
}
VERSION = {
    "version-id": 1,
    "timestamp-ms": 1_790_000_000_000,
    "schema-id": 0,
    "summary": {"engine-name": "spark"},
    "default-namespace": ["ns"],
    "representations": [{"type": "sql", "sql": "select 1", "dialect": "spark"}],
}
SENDER = Sender(client="PyIceberg/0.12.0", blind=True)


def read(kind, value, **limits):
    data = value if isinstance(value, bytes) else msgspec.json.encode(value)
    return read_body(data, kind, limits=Limits(**limits))


def test_members_that_the_specification_does_not_have_are_passed_over():
    body = read(RegisterBody, {"name": "t", "metadata-location": "file:///m.json", "of-tomorrow": 1})
    assert (body.name, body.metadata_location, body.overwrite) == ("t", "file:///m.json", None)


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (RegisterBody, b"", "request body: not JSON at line 1"),
        (RegisterBody, b"\xff", "request body: not UTF-8 at byte 0"),
        (RegisterBody, b'{"name": "t", "name": "u"}', "request body: .*name"),
        (RegisterBody, b'{"name": NaN}', "request body: .*NaN"),
        (RegisterBody, [], "request body: Expected `object`, got `array`"),
        (RegisterBody, {"name": "t"}, "missing required field `metadata-location`"),
        (RegisterBody, {"name": 1, "metadata-location": "m"}, r"Expected `str`, got `int` - at `\$.name`"),
        (CreateTableBody, {"name": "t", "schema": "long"}, r"at `\$.schema`"),
        (CreateTableBody, {"name": "t", "schema": {}, "properties": {"a": 1}}, r"at `\$.properties\[...\]`"),
        (CreateTableBody, {"name": "t", "schema": {}, "stage-create": "true"}, r"at `\$.stage-create`"),
        (CommitBody, {"requirements": []}, "missing required field `updates`"),
        (CommitBody, {"updates": [1]}, r"at `\$.updates\[0\]`"),
        (RenameBody, {"source": {"namespace": ["a"], "name": "t"}}, "missing required field `destination`"),
        (TransactionBody, {}, "missing required field `table-changes`"),
    ],
)
def test_a_body_that_is_none_is_refused_by_the_member(kind, value, message):
    with pytest.raises(InvalidInput, match=message):
        read(kind, value)


@pytest.mark.parametrize(
    ("value", "limits"),
    [
        (b'{"name": "%s"}' % (b"x" * 200), {"intent_bytes_max": 100}),
        (b'{"name": [%s]}' % b",".join([b"1"] * 200), {"intent_values_max": 100}),
        (b"[" * 100 + b"]" * 100, {}),
    ],
    ids=["bytes", "values", "depth"],
)
def test_a_body_is_bounded_before_it_is_decoded(value, limits):
    with pytest.raises(TooLarge):
        read(RegisterBody, value, **limits)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (CommitBody(updates=({"action": "grow"},)), r"updates\[0\].action: unknown action 'grow'"),
        (CommitBody(updates=({"action": "set-location"},)), r"updates\[0\]"),
        (
            CommitBody(updates=(), requirements=({"type": "assert-sun"},)),
            r"requirements\[0\].type: unknown requirement",
        ),
    ],
)
def test_updates_and_requirements_that_the_specification_does_not_have_are_refused(body, message):
    for reading in (table_change, view_change):
        with pytest.raises(InvalidInput, match=message):
            reading(body)


def test_a_commit_is_passed_on_as_it_was_sent():
    body = CommitBody(
        updates=({"action": "set-properties", "updated": {"a": "b"}},),
        requirements=({"type": "assert-table-uuid", "uuid": "U"},),
    )
    intent = requested_intents.commit_of("ns.t", table_change(body), intent_id=ID, sender=SENDER)
    assert (intent.requirements, intent.updates) == (body.requirements, body.updates)
    assert (intent.client, intent.blind, intent.engine) == ("PyIceberg/0.12.0", True, None)


def test_a_transaction_of_one_table_is_a_commit_of_it():
    change = table_change(CommitBody(updates=()))
    one = requested_intents.transaction_of([("ns.a", change)], intent_id=ID, sender=SENDER)
    assert isinstance(one, RestCommit)
    both = requested_intents.transaction_of([("ns.a", change), ("ns.b", change)], intent_id=ID, sender=SENDER)
    assert isinstance(both, Transaction)
    assert (both.table, [member.table for member in both.members]) == ("ns.a", ["ns.a", "ns.b"])


def test_only_the_assertion_that_there_is_none_goes_with_a_creation():
    assert requested_intents.creates((AssertCreate(),))
    assert not requested_intents.creates((AssertTableUuid(uuid="u"),))
    with pytest.raises(InvalidInput, match="Invalid create requirements: assert-table-uuid"):
        requested_intents.creates((AssertCreate(), AssertTableUuid(uuid="u")))


@pytest.mark.parametrize(("given", "version"), [({}, 2), ({"format-version": "3"}, 3), ({"format-version": "1"}, 1)])
def test_the_format_version_is_no_property(given, version):
    body = CreateTableBody(name="t", schema=SCHEMA, properties={"a": "b", "uuid": "copied", **given})
    intent = requested_intents.creation_of("ns.t", body, intent_id=ID)
    assert (intent.format_version, intent.properties) == (version, {"a": "b"})


@pytest.mark.parametrize("version", ["", "two", "-1", "0", "4", "1e0", "9" * 99, "\u0662"])
def test_a_format_version_that_is_none_is_refused(version):
    body = CreateTableBody(name="t", schema=SCHEMA, properties={"format-version": version})
    with pytest.raises(InvalidInput):
        requested_intents.creation_of("ns.t", body, intent_id=ID)


def test_a_view_is_created_by_its_version():
    body = CreateViewBody(name="v", schema=SCHEMA, view_version=VERSION, properties={"a": "b"})
    intent = requested_intents.view_creation_of("ns.v", body, intent_id=ID)
    assert list(intent.representations) == VERSION["representations"]
    assert (intent.default_namespace, intent.summary, intent.properties) == (
        ("ns",),
        {"engine-name": "spark"},
        {"a": "b"},
    )


def test_two_queries_for_one_dialect_are_refused_in_the_words_of_the_reference():
    twice = [{"type": "sql", "sql": "select 1", "dialect": dialect} for dialect in ("trino", "Trino")]
    body = CreateViewBody(name="v", schema=SCHEMA, view_version={**VERSION, "representations": twice})
    with pytest.raises(CatalogError, match="Cannot add multiple queries for dialect trino") as caught:
        requested_intents.view_creation_of("ns.v", body, intent_id=ID)
    assert (caught.value.status.code, caught.value.status.error) == (400, "IllegalArgumentException")


def test_a_staged_table_has_the_ids_of_a_new_one():
    body = CreateTableBody(
        name="t", schema=SCHEMA, partition_spec=SPEC, write_order=ORDER, properties={"format-version": "3", "a": "b"}
    )
    staged = staged_metadata(body, location="file:///w/ns/t", table_uuid=ID, now_ms=1)
    assert [field.field_id for field in staged.current_schema.fields] == [1, 2]
    assert (staged.default_spec.fields[0].field_id, staged.default_spec.fields[0].source_ids) == (1_000, (2,))
    assert (staged.format_version, staged.properties["a"], staged.location) == (3, "b", "file:///w/ns/t")
    assert staged.sort_orders[0].fields[0].source_ids == (1,)


@pytest.mark.parametrize(
    "change",
    [
        {"schema": {"type": "struct", "fields": [{"id": 1, "name": "v", "type": "variant", "required": False}]}},
        {"partition_spec": {"fields": [{"name": "x", "source-id": 99, "transform": "identity"}]}},
        {"properties": {"format-version": "9"}},
    ],
)
def test_a_table_that_cannot_be_created_is_refused_when_it_is_staged(change):
    body = msgspec.structs.replace(CreateTableBody(name="t", schema=SCHEMA), **change)
    with pytest.raises(FirnError):
        staged_metadata(body, location="file:///w/ns/t", table_uuid=ID, now_ms=1)


@pytest.mark.parametrize(
    ("taken", "location"),
    [
        ((), "file:///w/ns/t"),
        (("file:///w/ns/other",), "file:///w/ns/t"),
        (("file:///w/ns/t",), "file:///w/ns/t-u"),
        (("file:///w/ns/t/below",), "file:///w/ns/t-u"),
    ],
)
def test_a_staged_table_is_beside_one_that_was_renamed(taken, location):
    assert staged_location("ns.t", warehouse="file:///w/", taken=taken, unique="u") == location
