"""Many appends bound to a table at once: what is right for all of their files need not be asked for each.

With a thousand intents in a batch, asking each by itself is most of what replaying it costs. Whatever is not like most,
and whatever is wrong, is left to `firn.coordinator.replay.append.bind_append`, which knows the rules and says what is.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from firn.coordinator.replay.decision import Refusal
from firn.coordinator.replay.files_rules import is_plainly_within
from firn.coordinator.replay.working import Working
from firn.model.content_file import bind_partitions, with_bytes
from firn.model.datafile import DataFile
from firn.model.errors import InvalidInput, InvalidIntent
from firn.model.file_origins import has_origin
from firn.model.intent import Append, ContentFile
from firn.storage.fitting_metrics import forms_of, require_fitting
from firn.storage.wire_metrics import EncodedFile, encoded_file


def bind_together(working: Working, intents: Sequence[Append]) -> list[list[DataFile]] | None:
    """The files of each append, as `bind_append` has them; None where they are to be bound one by one.

    They are right for whichever of the intents comes first: each file is named once by all of them and not live.
    """
    first, metadata = intents[0], working.metadata
    if len(intents) == 1 or metadata is None or metadata.format_version < 2:
        return None
    known = {metadata.current_schema_id}
    if any(
        intent.manifests
        or intent.branch != first.branch
        or intent.table_uuid not in {None, metadata.table_uuid}
        or not known.issuperset(intent.schema_ids)
        for intent in intents
    ):
        return None
    files = [file for intent in intents for file in intent.data_files]
    locations = [file.file_path for file in files]
    if not all(map(_is_plain, files)) or not is_plainly_within(metadata.location, locations):
        return None
    if working.placement.unusable:
        return None
    try:
        partitions = bind_partitions(files, metadata, where="data-files")
        metrics = [file.encoded if type(file) is EncodedFile else encoded_file(file).encoded for file in files]
        forms = forms_of(metadata)
        for encoded in metrics:
            require_fitting(encoded or b"", forms, where="data-files")
        if len(set(locations)) < len(locations) or working.head(first.branch).live.has_any(locations):
            return None
    except (InvalidIntent, InvalidInput, Refusal):
        return None
    working.new_files += locations
    bound = iter(list(map(partial(with_bytes, DataFile), files, metrics, partitions)))
    return [[next(bound) for _ in intent.data_files] for intent in intents]


def _is_plain(file: ContentFile) -> bool:
    return file.content == "data" and file.file_format != "puffin" and not has_origin(file)
