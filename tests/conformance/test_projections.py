"""Iceberg's own facts on projecting row filters to partition filters."""

import base64

import pytest

from firn.model.expressions.binding import bind
from firn.model.expressions.predicates import FALSE, TRUE, And, BoundPredicate, Or, predicate
from firn.model.expressions.projection import project_inclusive, project_strict
from firn.model.partitioning import PartitionField, PartitionSpec
from firn.model.transforms import parse_transform
from firn.model.types import BINARY
from tests.conformance.expression_cases import OPERATIONS, load, schema_of

CASES = load("projections.json")["cases"]
CONSTANTS = {"TRUE": TRUE, "FALSE": FALSE}
WRAPPED = {2147483646, 9223372036854775806}
"""What truncate[10] makes of the smallest int and long: firn makes room for it, Iceberg's libraries do not."""


def human_values(text_or_texts):
    texts = text_or_texts if isinstance(text_or_texts, list) else [text_or_texts]
    return set(texts)


def without_wrapped(projected):
    match projected:
        case And((rest, BoundPredicate("not-eq", _, (value,)))) | Or((rest, BoundPredicate("eq", _, (value,)))):
            assert value in WRAPPED
            return rest
    return projected


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_a_row_filter_projects_as_in_iceberg(case):
    schema = schema_of([{"id": 1, "name": "value", "type": case["source_type"], "required": False}])
    field = PartitionField(source_ids=(1,), field_id=1000, name="part", transform=case["transform"])
    spec = PartitionSpec(spec_id=0, fields=(field,))
    values = case["predicate"]["values"]
    if case["source_type"] == "binary":
        values = [value.encode() for value in values]
    bound = bind(predicate(OPERATIONS[case["predicate"]["op"]], "value", values), schema)

    projected = (project_inclusive if case["kind"] == "inclusive" else project_strict)(bound, spec)

    expected = case["expected"]
    if expected["op"] in CONSTANTS:
        assert projected == CONSTANTS[expected["op"]]
        return
    wanted = human_values(expected["literal_human"])
    op = expected["op"].lower().replace("_", "-")
    if len(wanted) == 1:  # a set of one is a comparison
        op = {"in": "eq", "not-in": "not-eq"}.get(op, op)
    transform = parse_transform(case["transform"])
    projected = without_wrapped(projected)
    assert isinstance(projected, BoundPredicate)
    assert projected.op == op
    assert {
        base64.b64encode(v).decode() if projected.term.type == BINARY else transform.human(projected.term.type, v)
        for v in projected.values
    } == wanted
