"""Operations on views as methods. What changes a view takes the view as it was seen, and names its version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Unpack

from firn.coordinator.client.intents import members_of, schema_json
from firn.coordinator.client.options import IntentOptions, ViewOptions
from firn.coordinator.client.submitting import Submitted_co, Submitting
from firn.coordinator.client.view_found import ViewFound
from firn.model.operations.views import (
    CreateView,
    DropView,
    RegisterView,
    RenameView,
    ReplaceView,
    SetCurrentViewVersion,
    UpdateViewProperties,
)
from firn.model.schema import Schema


class ViewOperations(Submitting[Submitted_co]):
    """Views made, replaced, changed, set back, dropped."""

    def create_view(
        self,
        name: str,
        schema: Schema | Mapping[str, Any],
        queries: Mapping[str, str],
        **options: Unpack[ViewOptions],
    ) -> Submitted_co:
        """Create a view: its columns, and its query in each dialect (``{"spark": "SELECT …"}``)."""
        return self.submit(
            CreateView(
                table=name,
                schema=schema_json(schema),
                representations=_representations(queries),
                **members_of(options),
            )
        )

    def register_view(self, name: str, metadata_location: str, **options: Unpack[IntentOptions]) -> Submitted_co:
        """Take over a view that exists in storage, given by its metadata file."""
        return self.submit(RegisterView(table=name, metadata_location=metadata_location, **members_of(options)))

    def replace_view(
        self,
        seen: ViewFound,
        queries: Mapping[str, str],
        *,
        schema: Schema | Mapping[str, Any] | None = None,
        **options: Unpack[ViewOptions],
    ) -> Submitted_co:
        """Give a view another definition; without `schema` it keeps its columns. Rejected if `seen` is passed."""
        return self.submit(
            ReplaceView(
                schema=schema_json(seen.schema if schema is None else schema),
                representations=_representations(queries),
                **_change_of(seen, options),
            )
        )

    def update_view_properties(
        self,
        seen: ViewFound,
        updates: Mapping[str, str] | None = None,
        *,
        removals: Iterable[str] = (),
        expect: Mapping[str, str | None] | None = None,
        **options: Unpack[IntentOptions],
    ) -> Submitted_co:
        """Set and remove a view's properties, if those in `expect` have the value there (None: are not set)."""
        return self.submit(
            UpdateViewProperties(
                updates=dict(updates or {}),
                removals=tuple(removals),
                expect=dict(expect or {}),
                **_change_of(seen, options),
            )
        )

    def set_current_view_version(
        self, seen: ViewFound, version_id: int, **options: Unpack[IntentOptions]
    ) -> Submitted_co:
        """Set a view to another of the versions that it still has."""
        return self.submit(SetCurrentViewVersion(version_id=version_id, **_change_of(seen, options)))

    def rename_view(self, seen: ViewFound, new_name: str, **options: Unpack[IntentOptions]) -> Submitted_co:
        """Give a view another, free name; its files stay where they are."""
        return self.submit(RenameView(new_name=new_name, **_change_of(seen, options)))

    def drop_view(self, seen: ViewFound, *, purge: bool = False, **options: Unpack[IntentOptions]) -> Submitted_co:
        """Forget a view; its files stay, unless maintenance is to `purge` them some days later."""
        return self.submit(DropView(**_change_of(seen, options), purge=purge))


def _change_of(seen: ViewFound, options: ViewOptions | IntentOptions) -> dict[str, Any]:
    """The members of a change of a view: whose, and the version that was seen."""
    version = seen.version
    return {
        "table": seen.name,
        "table_uuid": seen.uuid or None,
        "base_version_id": version.version_id,
        "base_timestamp_ms": version.timestamp_ms,
        **members_of(options),
    }


def _representations(queries: Mapping[str, str]) -> tuple[dict[str, Any], ...]:
    return tuple({"type": "sql", "sql": sql, "dialect": dialect} for dialect, sql in queries.items())
