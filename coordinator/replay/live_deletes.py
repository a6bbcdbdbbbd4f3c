"""The live delete files of a branch head, by themselves and by the one data file that they are for.

Read when an operation first asks for it; tables without deletes, and appends to those with, never pay for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

import msgspec

from firn.model.datafile import DataFile
from firn.model.delete_index import partition_key, referenced_data_file
from firn.model.manifest import ManifestEntry
from firn.model.operations.files import DeleteFileRef
from firn.storage.locations import canonical

DeleteKey = tuple[str, int | None]
"""What tells a delete file from others: its canonical location, and for a deletion vector its offset there."""

K = TypeVar("K")
V = TypeVar("V")


def delete_key(file: DataFile) -> DeleteKey:
    """The identity of a delete file."""
    return canonical(file.file_path), file.content_offset if file.is_deletion_vector else None


def named_key(file: DeleteFileRef) -> DeleteKey:
    """The identity of a delete file that an intent names."""
    return canonical(file.file_path), file.content_offset


def _target(file: DataFile) -> str | None:
    """The canonical name of the one data file that deletes are for."""
    path = referenced_data_file(file)
    return None if path is None else canonical(path)


class LiveDelete(msgspec.Struct, frozen=True):
    """A live delete file, and the location of the manifest that holds it."""

    entry: ManifestEntry
    manifest: str

    @property
    def file(self) -> DataFile:
        """The delete file."""
        return self.entry.data_file


class _Overlay(Generic[K, V]):
    """A dictionary with pending changes: a replay's can be thrown away, a won one's become the base."""

    __slots__ = ("_base", "_changed", "_removed")

    def __init__(self, base: dict[K, V]) -> None:
        self._base = base
        self._changed: dict[K, V] = {}
        self._removed: set[K] = set()

    def branch_off(self) -> _Overlay[K, V]:
        assert not self._changed
        assert not self._removed
        return _Overlay(self._base)

    def get(self, key: K) -> V | None:
        if key in self._changed:
            return self._changed[key]
        return None if key in self._removed else self._base.get(key)

    def put(self, key: K, value: V) -> None:
        self._changed[key] = value

    def remove(self, key: K) -> None:
        self._changed.pop(key, None)
        if key in self._base:
            self._removed.add(key)

    def values(self) -> Iterator[V]:
        yield from self._changed.values()
        for key, value in self._base.items():
            if key not in self._changed and key not in self._removed:
                yield value

    def adopt(self, *, shared: bool) -> None:
        if shared:
            self._base = dict(self._base)
        for key in self._removed:
            self._base.pop(key, None)
        self._base.update(self._changed)
        self._changed = {}
        self._removed = set()


class LiveDeletes:
    """Delete files of one head. As `LiveFiles`: a replay works on a `branch_off`, `adopt` makes it the base."""

    __slots__ = ("_by_key", "_of_file", "_wide")

    def __init__(self) -> None:
        self._by_key: _Overlay[DeleteKey, LiveDelete] = _Overlay({})
        self._of_file: _Overlay[str, tuple[DeleteKey, ...]] = _Overlay({})
        self._wide: _Overlay[DeleteKey, LiveDelete] = _Overlay({})
        """Position deletes that are for no data file in particular."""

    @classmethod
    def of(cls, deletes: Iterable[LiveDelete]) -> LiveDeletes:
        """The index of all live deletes of a head."""
        index = cls()
        for delete in deletes:
            index.put(delete)
        index.adopt(shared=False)
        return index

    def branch_off(self) -> LiveDeletes:
        """A view of this that can be changed without changing this; there must be no pending change here."""
        other = LiveDeletes()
        other._by_key = self._by_key.branch_off()
        other._of_file = self._of_file.branch_off()
        other._wide = self._wide.branch_off()
        return other

    def get(self, key: DeleteKey) -> LiveDelete | None:
        """The delete file with that identity, None if it is not live."""
        return self._by_key.get(key)

    def __contains__(self, key: DeleteKey) -> bool:
        return self._by_key.get(key) is not None

    def __iter__(self) -> Iterator[LiveDelete]:
        return self._by_key.values()

    def only_for(self, data_file: str) -> list[LiveDelete]:
        """The deletes that are for this data file alone: its deletion vector, position delete files that name it."""
        found = (self._by_key.get(key) for key in self._of_file.get(canonical(data_file)) or ())
        return [delete for delete in found if delete is not None]

    def vectors_of(self, data_file: str) -> list[LiveDelete]:
        """The deletion vectors of this data file: one at most, unless another writer broke the table."""
        return [delete for delete in self.only_for(data_file) if delete.file.is_deletion_vector]

    def hidden_by(self, vector: DataFile) -> list[DataFile]:
        """Position delete files that may be for a deletion vector's data file, where no reader looks at them any more.

        There are such in tables that were upgraded from v2.
        """
        own = [one.file for one in self.only_for(vector.referenced_data_file or "") if not one.file.is_deletion_vector]
        key = partition_key(vector.spec_id, vector.partition)
        wide = (one.file for one in self._wide.values())
        return [*own, *(file for file in wide if partition_key(file.spec_id, file.partition) == key)]

    def of_partitions(self, whole: Callable[[DataFile], bool]) -> set[DeleteKey]:
        """The deletes that are only for partitions that go as a whole, as `whole` says of a delete file."""
        return {delete_key(delete.file) for delete in self if whole(delete.file)}

    def put(self, delete: LiveDelete) -> None:
        """The delete file is live, in this manifest (which may be another than before)."""
        key = delete_key(delete.file)
        self._by_key.put(key, delete)
        data_file = _target(delete.file)
        if data_file is not None:
            known = self._of_file.get(data_file) or ()
            if key not in known:
                self._of_file.put(data_file, (*known, key))
        elif delete.file.content == "position-deletes":
            self._wide.put(key, delete)

    def remove(self, key: DeleteKey) -> None:
        """The delete file is not live any more."""
        delete = self._by_key.get(key)
        if delete is None:
            return
        self._by_key.remove(key)
        self._wide.remove(key)
        data_file = _target(delete.file)
        if data_file is None:
            return
        left = tuple(one for one in self._of_file.get(data_file) or () if one != key)
        if left:
            self._of_file.put(data_file, left)
        else:
            self._of_file.remove(data_file)

    def rename_manifests(self, names: Mapping[str, str]) -> None:
        """Replace the locations of some manifests by those of the merged ones that hold their deletes now."""
        for delete in [one for one in self if one.manifest in names]:
            self.put(LiveDelete(delete.entry, names[delete.manifest]))

    def adopt(self, *, shared: bool) -> None:
        """Make the pending changes part of the base; `shared` as in `LiveFiles.adopt`."""
        self._by_key.adopt(shared=shared)
        self._of_file.adopt(shared=shared)
        self._wide.adopt(shared=shared)
