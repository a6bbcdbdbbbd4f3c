"""Schema evolution: a list of changes applied to a schema (table specification, "Schema Evolution").

The changes are first gathered by field id, each checked against those before it, and then the schema is rebuilt once:
what a name means does not depend on what the list renames. Every change that the specification forbids is refused with
the column's name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from firn.model.errors import InvalidInput, InvalidSchema
from firn.model.field_ids import rekeyed, with_ids
from firn.model.promotion import promote_value, refusal, transforms_that_block
from firn.model.schema import Schema
from firn.model.schema_change import (
    AddColumn,
    DropColumn,
    MakeOptional,
    MoveAfter,
    MoveBefore,
    MoveFirst,
    RenameColumn,
    RequireColumn,
    SchemaChange,
    SetDefault,
    SetIdentifierFields,
    UpdateDoc,
    UpdateType,
)
from firn.model.schema_rules import check_default, validate_schema
from firn.model.types import UNKNOWN, ListType, MapType, NestedField, StructType, Type, is_nested
from firn.model.values import value_from_json


def apply_changes(
    schema: Schema,
    changes: Sequence[SchemaChange],
    *,
    last_column_id: int,
    format_version: int,
    allow_incompatible: bool = False,
    case_sensitive: bool = True,
    partition_transforms: Mapping[int, Collection[str]] | None = None,
) -> tuple[Schema, int]:
    """The schema after all `changes`, with the same schema id, and the last column id then in use.

    `last_column_id` is the table's: ids of dropped columns are never given again. `allow_incompatible` permits what
    breaks existing rows: required columns without a default, and making columns required. `partition_transforms`
    holds, by source column id, the transforms of all of the table's partition specs: a promotion that would change
    their results is refused. Raises InvalidSchema for the first change that is not allowed.
    """
    draft = _Draft(
        schema=schema,
        last_column_id=max(last_column_id, schema.highest_field_id),
        format_version=format_version,
        allow_incompatible=allow_incompatible,
        case_sensitive=case_sensitive,
        partition_transforms=partition_transforms or {},
    )
    for change in changes:
        draft.take(change)
    struct = draft.rebuilt_struct(schema.struct, None)
    renamed = msgspec.structs.replace(schema, struct=struct, identifier_field_ids=())
    result = msgspec.structs.replace(renamed, identifier_field_ids=draft.identifiers_in(renamed))
    validate_schema(result, format_version=format_version)
    return result, draft.last_column_id


class _Move(msgspec.Struct, frozen=True):
    """Where a field goes among its siblings: to the front, or beside the field `reference`."""

    field_id: int
    reference: int | None
    after: bool = False


class _Draft:
    """What the changes so far come to, by field id. `None` as a parent is the table itself."""

    def __init__(
        self,
        *,
        schema: Schema,
        last_column_id: int,
        format_version: int,
        allow_incompatible: bool,
        case_sensitive: bool,
        partition_transforms: Mapping[int, Collection[str]],
    ) -> None:
        self.schema = schema
        self.last_column_id = last_column_id
        self.format_version = format_version
        self.allow_incompatible = allow_incompatible
        self.case_sensitive = case_sensitive
        self.partition_transforms = partition_transforms
        self.changed: dict[int, NestedField] = {}
        self.dropped: set[int] = set()
        self.around_updates: set[int] = set()
        self.around_additions: set[int] = set()
        self.added: dict[int | None, list[int]] = {}
        self.added_ids: dict[str, int] = {}
        self.parent_of_added: dict[int, int | None] = {}
        self.moves: dict[int | None, list[_Move]] = {}
        self.identifier_names: tuple[str, ...] | None = None

    def take(self, change: SchemaChange) -> None:
        """Check one change and remember what it does."""
        match change:
            case AddColumn():
                self.add(change)
            case DropColumn(name=name):
                self.drop(name)
            case RenameColumn(name=name, new_name=new_name):
                self.rename(name, new_name)
            case UpdateType(name=name, type=type):
                self.promote(name, type)
            case UpdateDoc(name=name, doc=doc):
                self.changed_field(name, "comment on", doc=doc, structs_only=True)
            case SetDefault(name=name, default=default):
                self.set_default(name, default)
            case MakeOptional(name=name):
                self.changed_field(name, "make optional", required=False)
            case RequireColumn(name=name):
                self.require(name)
            case MoveFirst(name=name):
                self.move(name, None, "to the front")
            case MoveBefore(name=name, reference=reference):
                self.move(name, reference, "before")
            case MoveAfter(name=name, reference=reference):
                self.move(name, reference, "after")
            case SetIdentifierFields(names=names):
                self.identifier_names = names

    # -- finding --------------------------------------------------------------------------------------------------

    def key(self, name: str) -> str:
        return name if self.case_sensitive else name.lower()

    def existing(self, name: str) -> NestedField | None:
        return self.schema.find_field(name, self.case_sensitive)

    def target(self, name: str, verb: str) -> NestedField:
        """The column `name` with what was changed of it so far: one that the list adds, or one that was there."""
        field_id = self.added_ids.get(self.key(name))
        if field_id is None:
            field = self.existing(name)
            if field is None:
                raise InvalidSchema(f"cannot {verb} {name}: there is no such column")
            field_id = field.field_id
            if self.is_dropped(field_id):
                raise InvalidSchema(f"cannot {verb} {name}: the same changes drop it")
            self.refuse_in_map_key(field_id, f"cannot {verb} {name}")
        return self.changed.get(field_id) or self.schema.fields_by_id[field_id]

    def is_dropped(self, field_id: int | None) -> bool:
        """Whether the field or anything around it is dropped."""
        while field_id is not None:
            if field_id in self.dropped:
                return True
            field_id = self.parent(field_id)
        return False

    def parent(self, field_id: int) -> int | None:
        return self.parent_of_added.get(field_id, self.schema.parent_id(field_id))

    def holder(self, field_id: int) -> Type:
        """The type that directly contains a field."""
        parent_id = self.parent(field_id)
        return self.schema.struct if parent_id is None else self.schema.fields_by_id[parent_id].type

    def refuse_in_map_key(self, field_id: int | None, what: str) -> None:
        """Keys of existing maps would change what they are equal to."""
        while field_id is not None:
            holder = self.holder(field_id)
            if isinstance(holder, MapType) and holder.key_id == field_id:
                raise InvalidSchema(f"{what}: the key of a map cannot change")
            field_id = self.parent(field_id)

    # -- changes --------------------------------------------------------------------------------------------------

    def add(self, change: AddColumn) -> None:
        parent_id, full_name = self.place(change)
        taken = self.existing(full_name)
        if (taken is not None and not self.is_dropped(taken.field_id)) or self.key(full_name) in self.added_ids:
            raise InvalidSchema(f"cannot add {full_name}: there is a column of this name")
        if change.required and change.default is None and not self.allow_incompatible:
            raise InvalidSchema(
                f"cannot add {full_name} as required without a default: rows that are there have no value for it"
            )
        field_id = self.fresh_id()
        type = with_ids(change.type, self.fresh_id)
        field = NestedField(field_id=field_id, name=change.name, type=type, required=change.required, doc=change.doc)
        if change.default is not None:
            value = self.default_value(change.default, full_name, given=change.type, field=field)
            field = msgspec.structs.replace(field, initial_default=value, write_default=value)
        self.changed[field_id] = field
        self.added.setdefault(parent_id, []).append(field_id)
        self.added_ids[self.key(full_name)] = field_id
        if change.parent:
            self.added_ids.setdefault(self.key(f"{change.parent}.{change.name}"), field_id)
        self.parent_of_added[field_id] = parent_id
        self.mark(parent_id, self.around_additions)

    def place(self, change: AddColumn) -> tuple[int | None, str]:
        """Id of the struct field that a new column goes into, and the column's full name."""
        if not change.parent:
            if change.parent is None and "." in change.name:
                raise InvalidSchema(
                    f"cannot add {change.name}: a dot may be part of the name or lead into a struct",
                    hint='name the parent, "" for the table itself',
                )
            return None, change.name
        parent = self.existing(change.parent)
        if parent is None:
            raise InvalidSchema(f"cannot add {change.name} to {change.parent}: there is no such column")
        if isinstance(parent.type, ListType):
            parent = parent.type.element_field
        elif isinstance(parent.type, MapType):
            parent = parent.type.value_field
        what = f"cannot add {change.name} to {change.parent}"
        if not isinstance(parent.type, StructType):
            raise InvalidSchema(f"{what}: its type is {parent.type}, not a struct")
        if self.is_dropped(parent.field_id):
            raise InvalidSchema(f"{what}: the same changes drop it")
        self.refuse_in_map_key(parent.field_id, what)
        return parent.field_id, f"{self.schema.names_by_id[parent.field_id]}.{change.name}"

    def fresh_id(self, _old: int = 0) -> int:
        self.last_column_id += 1
        return self.last_column_id

    def default_value(self, default: Any, name: str, *, given: Type, field: NestedField) -> Any:
        """The internal value of a default in JSON, whose struct fields are named by the ids in `given`."""
        if self.format_version < 3:
            raise InvalidSchema(f"a default of {name} needs format version 3, the table has {self.format_version}")
        try:
            value = rekeyed(value_from_json(given, default, where="default"), old=given, new=field.type)
        except InvalidInput as exc:
            raise InvalidSchema(f"default of {name}: {exc.message}") from None
        check_default(field, value, name=name, kind="default")
        return value

    def drop(self, name: str) -> None:
        field = self.existing(name)
        if field is None:
            raise InvalidSchema(f"cannot drop {name}: there is no such column")
        field_id = field.field_id
        what = f"cannot drop {name}"
        self.refuse_in_map_key(field_id, what)
        if not isinstance(self.holder(field_id), StructType):
            raise InvalidSchema(f"{what}: a list has elements and a map has values", hint="drop the column itself")
        if field_id in self.around_additions:
            raise InvalidSchema(f"{what}: the same changes add to it")
        if field_id in self.around_updates:
            raise InvalidSchema(f"{what}: the same changes update it")
        self.dropped.add(field_id)

    def mark(self, field_id: int | None, marks: set[int]) -> None:
        """Remember a field and all that is around it."""
        while field_id is not None and field_id not in marks:
            marks.add(field_id)
            field_id = self.parent(field_id)

    def changed_field(self, name: str, verb: str, /, *, structs_only: bool = False, **attributes: Any) -> None:
        """Replace attributes of a column; only fields of structs have more than a type and nullability."""
        field = self.target(name, verb)
        if structs_only and not isinstance(self.holder(field.field_id), StructType):
            raise InvalidSchema(f"cannot {verb} {name}: it is an element or value, not a column of its own")
        changed = msgspec.structs.replace(field, **attributes)
        if changed != field:
            self.changed[field.field_id] = changed
            self.mark(field.field_id, self.around_updates)

    def rename(self, name: str, new_name: str) -> None:
        if not new_name:
            raise InvalidSchema(f"cannot rename {name} to an empty name")
        self.changed_field(name, "rename", name=new_name, structs_only=True)

    def require(self, name: str) -> None:
        field = self.target(name, "require")
        if field.required:
            return
        has_value_everywhere = field.field_id in self.parent_of_added and field.initial_default is not None
        if not has_value_everywhere and not self.allow_incompatible:
            raise InvalidSchema(f"cannot make {name} required: rows that are there may have null")
        self.changed_field(name, "require", required=True)

    def promote(self, name: str, type: Type) -> None:
        field = self.target(name, "change the type of")
        if field.type == type:
            return
        what = f"cannot change the type of {name} from {field.type} to {type}"
        reason = refusal(source=field.type, target=type, format_version=self.format_version)
        if reason is not None:
            raise InvalidSchema(f"{what}: {reason}")
        transforms = self.partition_transforms.get(field.field_id, ())
        blocking = transforms_that_block(source=field.type, target=type, transforms=transforms)
        if blocking:
            raise InvalidSchema(f"{what}: its rows are partitioned by {', '.join(blocking)}, which would change")
        defaults = {
            kind: promote_value(source=field.type, target=type, value=value, where=f"default of {name}")
            for kind, value in (("initial_default", field.initial_default), ("write_default", field.write_default))
        }
        # Only `unknown` becomes a nested type, whose ids are new in this table.
        new_type = with_ids(type, self.fresh_id) if is_nested(type) and field.type == UNKNOWN else type
        self.changed_field(name, "change the type of", type=new_type, **defaults)

    def set_default(self, name: str, default: Any) -> None:
        field = self.target(name, "set the default of")
        value = None if default is None else self.default_value(default, name, given=field.type, field=field)
        self.changed_field(name, "set the default of", write_default=value, structs_only=True)

    def move(self, name: str, reference: str | None, how: str) -> None:
        field_id = self.target(name, "move").field_id
        holder = self.holder(field_id)
        if not isinstance(holder, StructType):
            raise InvalidSchema(f"cannot move {name}: it is part of a {holder}, not of a struct")
        reference_id = None
        if reference is not None:
            reference_id = self.target(reference, f"move {name} {how}").field_id
            if reference_id == field_id:
                raise InvalidSchema(f"cannot move {name} {how} itself")
            if self.parent(reference_id) != self.parent(field_id):
                raise InvalidSchema(f"cannot move {name} {how} {reference}: that is in a different struct")
        self.moves.setdefault(self.parent(field_id), []).append(_Move(field_id, reference_id, how == "after"))

    # -- result ---------------------------------------------------------------------------------------------------

    def rebuilt_struct(self, struct: StructType, parent_id: int | None) -> StructType:
        """A struct of the schema with the changes to its fields, additions at the end, then moves in their order."""
        fields = [f if f.field_id in self.dropped else self.rebuilt_field(f) for f in struct.fields]
        fields += [self.changed[i] for i in self.added.get(parent_id, ())]
        for move in self.moves.get(parent_id, ()):
            at = next(i for i, f in enumerate(fields) if f.field_id == move.field_id)
            field = fields.pop(at)
            to = next((i for i, f in enumerate(fields) if f.field_id == move.reference), 0)
            fields.insert(to + 1 if move.after else to, field)
        # Dropped fields go last: others may have been moved beside them.
        return msgspec.structs.replace(struct, fields=tuple(f for f in fields if f.field_id not in self.dropped))

    def rebuilt_field(self, field: NestedField) -> NestedField:
        changed = self.changed.get(field.field_id, field)
        if changed.type != field.type:
            return changed
        return msgspec.structs.replace(changed, type=self.rebuilt_type(field))

    def rebuilt_type(self, field: NestedField) -> Type:
        match field.type:
            case StructType():
                return self.rebuilt_struct(field.type, field.field_id)
            case ListType() as of:
                element = self.rebuilt_field(of.element_field)
                return msgspec.structs.replace(of, element=element.type, element_required=element.required)
            case MapType() as of:
                value = self.rebuilt_field(of.value_field)
                return msgspec.structs.replace(of, value=value.type, value_required=value.required)
            case other:
                return other

    def identifiers_in(self, result: Schema) -> tuple[int, ...]:
        """Ids of the identifier fields in the changed schema. Dropping one must be said twice: it is easily missed."""
        if self.identifier_names is None:
            for field_id in self.schema.identifier_field_ids:
                if self.is_dropped(field_id):
                    raise InvalidSchema(
                        f"cannot drop {self.schema.column_name(field_id)}: it is an identifier field",
                        hint="set the identifier fields without it in the same changes",
                    )
            return self.schema.identifier_field_ids
        ids = []
        for name in self.identifier_names:
            field = result.find_field(name, self.case_sensitive) or self.existing(name)
            if field is None or field.field_id not in result.fields_by_id:
                raise InvalidSchema(f"column {name} cannot be an identifier field: there is no such column")
            ids.append(field.field_id)
        return tuple(dict.fromkeys(ids))
