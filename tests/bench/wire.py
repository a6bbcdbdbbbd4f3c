"""Intents as bytes, made in microseconds: what writers cost is not what a row measures."""

from __future__ import annotations

import random
import secrets
import time
import uuid

from firn.coordinator.client.encoded_files import with_encoded_metrics
from firn.model.identifiers import uuid7
from firn.model.intent import Append, encode_intent
from tests.bench.data_files import content_file, make_facts

VARIETY = 64
"""Different files that the intents take turns with: a manifest must not compress better than in earnest."""

_ID_MARK = uuid7(now_ms=0, entropy=bytes(10))
_PATH_MARK = "PATH-MARK"


class AppendTemplate:
    """Appends of one new file each to one table, answered on one reply stream; its metrics may be `encoded`."""

    def __init__(
        self, table: str, *, folder: str, reply_to: str, seed: object, variety: int = VARIETY, encoded: bool = False
    ) -> None:
        rng = random.Random(f"{seed}")
        self.reply_to = reply_to
        self._made = 0
        self._folder = f"{folder}/data/{uuid.uuid4().hex}"
        self._parts = []
        for _ in range(variety):
            file = content_file(make_facts(rng), _PATH_MARK)
            if encoded:
                file = with_encoded_metrics(file)
            intent = Append(intent_id=_ID_MARK, table=table, data_files=(file,), reply_to=reply_to)
            before, _, rest = encode_intent(intent).partition(_ID_MARK.encode())
            middle, _, after = rest.partition(_PATH_MARK.encode())
            self._parts.append((before, middle, after))

    def next(self) -> tuple[str, bytes]:
        """The id of a new intent, and its payload."""
        intent_id = uuid7(now_ms=time.time_ns() // 1_000_000, entropy=secrets.token_bytes(10))
        before, middle, after = self._parts[self._made % len(self._parts)]
        self._made += 1
        path = f"{self._folder}-{self._made:08d}.parquet"
        return intent_id, b"".join((before, intent_id.encode(), middle, path.encode(), after))
