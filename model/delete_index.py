"""Which delete files apply to a data file (table specification, "Scan Planning").

A delete reaches files of its own partition that are not younger than it: position deletes and deletion vectors those
as old as they are or older, equality deletes only older ones. A position delete file may name the one data file that
it is for, a deletion vector must, and equality deletes of an unpartitioned spec are for the whole table.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

from firn.model.datafile import DataFile
from firn.model.equality_keys import EqualityKeys, MetricColumns
from firn.model.errors import CorruptFile
from firn.model.expressions.column_facts import ColumnFacts
from firn.model.manifest import ManifestEntry
from firn.model.partition_values import as_keys
from firn.model.partitioning import PartitionSpec
from firn.model.reserved import DELETE_FILE_PATH_ID
from firn.model.schema import Schema

PartitionKey = Hashable
"""A spec id and partition tuple that compare as the specification says; see `partition_key`."""

_File = TypeVar("_File")


def partition_key(spec_id: int, partition: Sequence[Any]) -> PartitionKey:
    """What is equal exactly for files of one spec and partition (`firn.model.partition_values`)."""
    return spec_id, as_keys(partition)


def equality_scope(file: DataFile, specs: Mapping[int, PartitionSpec]) -> PartitionKey | None:
    """The partition that equality deletes are for; None for the whole table, as those of an unpartitioned spec are.

    Raises CorruptFile for a spec that is not among `specs`.
    """
    spec = specs.get(file.spec_id)
    if spec is None:
        raise CorruptFile(file.file_path, f"partition spec {file.spec_id} is not the table's")
    return partition_key(file.spec_id, file.partition) if spec.is_partitioned else None


def referenced_data_file(file: DataFile) -> str | None:
    """The one data file that position deletes are for, None if they may be for any of their partition.

    The entry names it, or its bounds of paths leave no other: those say so for files from before it could be named.
    """
    if file.content != "position-deletes":
        return None
    if file.referenced_data_file is not None:
        return file.referenced_data_file
    lower = (file.lower_bounds or {}).get(DELETE_FILE_PATH_ID)
    if lower is None or lower != (file.upper_bounds or {}).get(DELETE_FILE_PATH_ID):
        return None
    try:
        return lower.decode()
    except UnicodeDecodeError:
        return None


class DeleteIndex:
    """The delete files of one snapshot, asked data file by data file.

    `deletes` are live entries of delete manifests with what they inherit, `specs` the table's partition specs by id,
    `schemas` all of its schemas, the one that is read first. Raises CorruptFile for two deletion vectors of one data
    file and for entries that lack what their kind must have.
    """

    def __init__(
        self, deletes: Iterable[ManifestEntry], *, specs: Mapping[int, PartitionSpec], schemas: Iterable[Schema]
    ) -> None:
        self._specs = specs
        self._columns = MetricColumns(schemas)
        self._vectors: dict[str, ManifestEntry] = {}
        self._of_path: dict[str, _Aged[DataFile]] = {}
        self._of_partition: dict[PartitionKey, _Aged[DataFile]] = {}
        self._equality_everywhere: _Aged[EqualityKeys] = _Aged()
        self._equality_of_partition: dict[PartitionKey, _Aged[EqualityKeys]] = {}
        self.size = 0
        for entry in deletes:
            self._add(entry)
            self.size += 1

    def __bool__(self) -> bool:
        return self.size > 0

    def of(self, entry: ManifestEntry) -> tuple[DataFile, ...]:
        """The delete files that must be applied to a data file; equality deletes first, each kind oldest first.

        Where a deletion vector applies, position delete files do not: it has absorbed them. Equality deletes whose
        metrics share no key with the data file's are left out. Raises CorruptFile when deletes that name the data file
        are of another partition, or its deletion vector is older than it.
        """
        if not self.size:
            return ()
        file, age = entry.data_file, age_of(entry)
        key = partition_key(file.spec_id, file.partition)
        known: dict[int, ColumnFacts] = {}
        found = [one.file for one in self._equality(key, age) if one.may_be_in(file, known)]
        vector = self._vectors.get(file.file_path)
        if vector is not None:
            _check_vector(vector, file, age)
            _check_partition(vector.data_file, file, key)
            return (*found, vector.data_file)
        found += self._of_partition.get(key, _NO_FILES).at_least(age)
        for delete in self._of_path.get(file.file_path, _NO_FILES).at_least(age):
            _check_partition(delete, file, key)
            found.append(delete)
        return tuple(found)

    def _equality(self, key: PartitionKey, age: int) -> Iterator[EqualityKeys]:
        yield from self._equality_everywhere.above(age)
        if key in self._equality_of_partition:
            yield from self._equality_of_partition[key].above(age)

    def _add(self, entry: ManifestEntry) -> None:
        file, age = entry.data_file, age_of(entry)
        if file.is_deletion_vector:
            self._add_vector(entry)
        elif file.content == "position-deletes":
            path = referenced_data_file(file)
            if path is not None:
                self._of_path.setdefault(path, _Aged()).add(age, file)
            else:
                key = partition_key(file.spec_id, file.partition)
                self._of_partition.setdefault(key, _Aged()).add(age, file)
        elif file.content == "equality-deletes":
            self._add_equality(file, age)
        else:
            raise CorruptFile(file.file_path, "a data file among the delete files")

    def _add_vector(self, entry: ManifestEntry) -> None:
        path = entry.data_file.referenced_data_file
        if path is None:
            raise CorruptFile(entry.data_file.file_path, "the entry of a deletion vector does not name its data file")
        first = self._vectors.setdefault(path, entry)
        if first is not entry:
            raise CorruptFile(
                path, f"has two deletion vectors, {_place(first.data_file)} and {_place(entry.data_file)}"
            )

    def _add_equality(self, file: DataFile, age: int) -> None:
        if not file.equality_ids:
            raise CorruptFile(file.file_path, "the entry of an equality delete file names no columns")
        scope, delete = equality_scope(file, self._specs), EqualityKeys(file, self._columns)
        if scope is None:
            self._equality_everywhere.add(age, delete)
        else:
            self._equality_of_partition.setdefault(scope, _Aged()).add(age, delete)


def age_of(entry: ManifestEntry) -> int:
    """The data sequence number of a live entry; CorruptFile when it has none, though all have once they inherited."""
    if entry.sequence_number is None:
        raise CorruptFile(entry.data_file.file_path, "its entry has no data sequence number")
    return entry.sequence_number


def _place(vector: DataFile) -> str:
    return f"{vector.file_path} at {vector.content_offset}"


def _check_vector(vector: ManifestEntry, file: DataFile, age: int) -> None:
    """A vector for a file that did not exist yet is another file's: its positions would delete the wrong rows."""
    if age_of(vector) < age:
        raise CorruptFile(
            vector.data_file.file_path,
            f"deletion vector of sequence number {vector.sequence_number} for {file.file_path}, which is of {age}",
        )


def _check_partition(delete: DataFile, file: DataFile, key: PartitionKey) -> None:
    """Deletes that name a file of another partition are a sign of mixed-up metadata: do not guess which is right."""
    if partition_key(delete.spec_id, delete.partition) != key:
        raise CorruptFile(
            delete.file_path,
            f"deletes of spec {delete.spec_id}, partition {delete.partition} name {file.file_path}, which is of spec "
            f"{file.spec_id}, partition {file.partition}",
        )


class _Aged(Generic[_File]):
    """Delete files by data sequence number, oldest first."""

    def __init__(self) -> None:
        self._added: list[tuple[int, _File]] = []
        self._sorted = True
        self._ages: list[int] = []

    def add(self, age: int, file: _File) -> None:
        self._added.append((age, file))
        self._sorted = False

    def at_least(self, age: int) -> list[_File]:
        return self._from(age, bisect_left)

    def above(self, age: int) -> list[_File]:
        return self._from(age, bisect_right)

    def _from(self, age: int, bisect: Callable[[list[int], int], int]) -> list[_File]:
        if not self._sorted:
            self._added.sort(key=lambda aged: aged[0])
            self._ages = [aged[0] for aged in self._added]
            self._sorted = True
        return [file for _, file in self._added[bisect(self._ages, age) :]]


_NO_FILES: Final[_Aged[DataFile]] = _Aged()
