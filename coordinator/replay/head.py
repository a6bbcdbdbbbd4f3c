"""What a branch points at, while intents are applied to it."""

from __future__ import annotations

from collections.abc import Sequence

from firn.coordinator.replay.draft import ManifestRef
from firn.coordinator.replay.known_deletes import KnownDeletes
from firn.coordinator.replay.live_deletes import LiveDeletes
from firn.coordinator.replay.live_files import LiveFiles
from firn.model.long_tuples import ends_with
from firn.storage.listed_manifests import ListedManifests


class Head:
    """What a branch points at: manifests in list order, its live data files, and once asked for its live deletes.

    `doubles` are the canonical names of data files that other writers have listed several times, of which `live` names
    one manifest; some may be gone.
    """

    __slots__ = (
        "base_snapshot_id", "deletes", "doubles", "known_deletes", "listed", "live", "manifests", "settled_for",
        "snapshot_id",
    )  # fmt: skip

    def __init__(
        self,
        *,
        snapshot_id: int | None,
        manifests: Sequence[ManifestRef],
        live: LiveFiles,
        doubles: frozenset[str] = frozenset(),
    ) -> None:
        self.base_snapshot_id = snapshot_id
        self.snapshot_id = snapshot_id
        self.manifests = manifests
        self.live = live
        self.doubles = doubles
        self.deletes: LiveDeletes | None = None
        self.known_deletes: KnownDeletes | None = None
        """What need not be read for `deletes`, while these have not been asked for."""
        self.listed: ListedManifests | None = None
        """The last list that was written here with most of the manifests, if one was."""
        self.settled_for: int | None = None
        """The format version of the last snapshot that this replay has made here, where each of the manifests belongs
        into the next one's list as well, with the numbers that it has been given; else None.
        """

    def branch_off(self) -> Head:
        """A view of this that a replay can change without changing this."""
        head = Head(
            snapshot_id=self.snapshot_id, manifests=self.manifests, live=self.live.branch_off(), doubles=self.doubles
        )
        head.deletes = None if self.deletes is None else self.deletes.branch_off()
        head.known_deletes = self.known_deletes
        head.listed = self.listed
        return head

    @property
    def goes_on(self) -> bool:
        """Whether the next list is the last that was written here, and a few manifests before it."""
        last = self.listed
        return last is not None and last.all_live and last.manifests is self.manifests

    @property
    def has_only_data(self) -> bool:
        """Whether no manifest has deletes."""
        last = self.listed
        if last is not None and last.manifests is self.manifests:
            return last.all_data
        return all(manifest.content == "data" for manifest in self.manifests)

    def split(
        self, manifests: Sequence[ManifestRef], *, format_version: int
    ) -> tuple[tuple[ManifestRef, ...], Sequence[ManifestRef]]:
        """Some manifests, and those behind them of which the last list says all that a new one would."""
        last = self.listed
        known = last is not None and last.all_live and last.format_version == format_version
        shared = last.shared_by(manifests) if last is not None and known else 0
        at = len(manifests) - shared
        front = tuple(manifests[:at])
        return front, last.manifests if last is not None and shared == len(last.manifests) else manifests[at:]

    def is_followed_by(self, manifests: Sequence[ManifestRef], *, format_version: int) -> bool:
        """Whether a list is the last one of this replay, which is settled, and others before it."""
        return self.settled_for == format_version and ends_with(manifests, self.manifests)
