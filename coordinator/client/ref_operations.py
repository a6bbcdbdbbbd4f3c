"""Operations on branches and tags, and on what a branch points at, as methods."""

from __future__ import annotations

from datetime import datetime
from typing import Unpack

from firn.coordinator.client.intents import members_of, unix_ms
from firn.coordinator.client.options import IntentOptions, RefOptions, RetentionOptions
from firn.coordinator.client.submitting import Submitted_co, Submitting
from firn.model.operations.refs import (
    CherryPick,
    CreateBranch,
    CreateTag,
    FastForward,
    Publish,
    RemoveRef,
    RenameBranch,
    Rollback,
    SetCurrentSnapshot,
    SetRef,
    SetRetention,
)
from firn.model.snapshot import MAIN_BRANCH


class RefOperations(Submitting[Submitted_co]):
    """Every operation on branches, tags and their snapshots."""

    def create_branch(
        self, table: str, name: str, *, snapshot_id: int | None = None, **options: Unpack[RetentionOptions]
    ) -> Submitted_co:
        """Make a branch at a snapshot; the name must be free.

        Without `snapshot_id`, the branch starts where main is when its turn comes; on an empty main, with an empty
        snapshot.
        """
        return self.submit(CreateBranch(table=table, ref_name=name, snapshot_id=snapshot_id, **members_of(options)))

    def create_tag(
        self,
        table: str,
        name: str,
        *,
        snapshot_id: int,
        max_ref_age_ms: int | None = None,
        **options: Unpack[IntentOptions],
    ) -> Submitted_co:
        """Make a tag at a snapshot; the name must be free."""
        return self.submit(
            CreateTag(
                table=table,
                ref_name=name,
                snapshot_id=snapshot_id,
                max_ref_age_ms=max_ref_age_ms,
                **members_of(options),
            )
        )

    def set_ref(
        self,
        table: str,
        name: str,
        *,
        snapshot_id: int,
        expected_snapshot_id: int,
        **options: Unpack[IntentOptions],
    ) -> Submitted_co:
        """Move a branch or tag to another snapshot, if it still points at `expected_snapshot_id`."""
        return self.submit(
            SetRef(
                table=table,
                ref_name=name,
                snapshot_id=snapshot_id,
                expected_snapshot_id=expected_snapshot_id,
                **members_of(options),
            )
        )

    def remove_ref(
        self, table: str, name: str, *, expected_snapshot_id: int, **options: Unpack[IntentOptions]
    ) -> Submitted_co:
        """Remove a branch or tag, if it is still at `expected_snapshot_id`; its snapshots stay until they expire."""
        return self.submit(
            RemoveRef(table=table, ref_name=name, expected_snapshot_id=expected_snapshot_id, **members_of(options))
        )

    def rename_branch(self, table: str, name: str, new_name: str, **options: Unpack[RefOptions]) -> Submitted_co:
        """Give a branch another, free name."""
        return self.submit(RenameBranch(table=table, ref_name=name, new_name=new_name, **members_of(options)))

    def fast_forward(
        self, table: str, branch: str = MAIN_BRANCH, *, to: str, **options: Unpack[RefOptions]
    ) -> Submitted_co:
        """Move a branch ahead to where the branch or tag `to` is; rejected when commits would be lost by it."""
        return self.submit(FastForward(table=table, branch=branch, to=to, **members_of(options)))

    def set_retention(
        self,
        table: str,
        name: str,
        *,
        expected_snapshot_id: int | None = None,
        **options: Unpack[RetentionOptions],
    ) -> Submitted_co:
        """Change how long a branch or tag, and a branch's snapshots, are kept; what is left out stays as it is."""
        return self.submit(
            SetRetention(table=table, ref_name=name, expected_snapshot_id=expected_snapshot_id, **members_of(options))
        )

    def rollback(
        self,
        table: str,
        *,
        snapshot_id: int | None = None,
        before: datetime | None = None,
        branch: str = MAIN_BRANCH,
        **options: Unpack[RefOptions],
    ) -> Submitted_co:
        """Move a branch back to one of its ancestors: a snapshot, or the newest that is older than `before`."""
        return self.submit(
            Rollback(
                table=table,
                branch=branch,
                snapshot_id=snapshot_id,
                timestamp_ms=None if before is None else unix_ms(before, where="timestamp-ms"),
                **members_of(options),
            )
        )

    def set_current_snapshot(
        self, table: str, snapshot_id: int, *, branch: str = MAIN_BRANCH, **options: Unpack[RefOptions]
    ) -> Submitted_co:
        """Move a branch to any snapshot of the table, related or not."""
        return self.submit(
            SetCurrentSnapshot(table=table, branch=branch, snapshot_id=snapshot_id, **members_of(options))
        )

    def cherry_pick(
        self, table: str, snapshot_id: int, *, branch: str = MAIN_BRANCH, **options: Unpack[IntentOptions]
    ) -> Submitted_co:
        """Apply the changes of a snapshot that is not on the branch to the branch, once."""
        return self.submit(CherryPick(table=table, branch=branch, snapshot_id=snapshot_id, **members_of(options)))

    def publish(
        self, table: str, wap_id: str, *, branch: str = MAIN_BRANCH, **options: Unpack[IntentOptions]
    ) -> Submitted_co:
        """Apply to the branch what was staged under a write-audit-publish id (`stage`, `wap_id` of file operations)."""
        return self.submit(Publish(table=table, branch=branch, wap_id=wap_id, **members_of(options)))
