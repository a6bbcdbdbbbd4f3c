"""Up to where a journal was committed: which of its segments the lost pointer named.

A daemon builds on the state that the pointer names, and only after it has read it under the lock. So a segment that
another one names as its predecessor was committed, whether that other one was or not. What is left to decide is the
newest number of each journal: a segment there was either swapped in, or written for a swap that never came off. Files
alone cannot always tell; `choose` says what it rests on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal

import msgspec

from firn.coordinator.recovery.contents import Contents
from firn.coordinator.recovery.journals import Journals, Link
from firn.storage.journal import JournalFiles, home_of, segment_key, sequence_of

FAILED: Final = frozenset({"lost", "fencedout"})
"""How a swap ends that did not come off for certain."""

Certainty = Literal["proven", "taken"]
"""``proven``: nothing else can have been the head. ``taken``: the newest, whole, and nothing speaks of its swap."""

Witness = Callable[[Link], str | None]
"""What Redis, if it still has its content, says for a segment having been committed."""


class Head(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The newest committed segment of a name's journal; None when nothing of it was ever committed.

    `evidence` says why, `passed_over` are segments of the same number or a newer one that were not committed.
    """

    link: Link | None
    certainty: Certainty
    evidence: tuple[str, ...]
    passed_over: tuple[Link, ...] = ()


class AmbiguousJournalError(Exception):
    """Two journals claim one name, and nothing says which is its own."""


class Heads:
    """Decides for every name; a name's decision may need those of others, by its transactions."""

    def __init__(
        self, journals: Journals, *, journal: JournalFiles, contents: Contents, witness: Witness = lambda _: None
    ) -> None:
        self._journals = journals
        self._journal = journal
        self._contents = contents
        self._witness = witness
        self._named = {
            segment_key(before) for link in journals.by_key.values() if (before := link.batch.previous_segment)
        }
        self._void: dict[str, str] = {}
        """Segments that were certainly not committed, with the reason."""
        self._looked_at: set[str] = set()

    def of(self, name: str) -> Head:
        """The head of a name's journal. Raises AmbiguousJournalError, and what reading raises."""
        links = self._journals.by_name[name]
        newest = max(link.batch.sequence for link in links)
        candidates = [link for link in links if link.batch.sequence == newest]
        for link in candidates:
            proof = self._proof(link)
            if proof is not None:
                others = tuple(one for one in candidates if one is not link)
                return self._checked(links, Head(link=link, certainty="proven", evidence=(proof,), passed_over=others))
        alive = [link for link in self._in_order(candidates) if self._why_void(link, candidates) is None]
        if alive:
            return self._checked(links, self._taken(alive[0], candidates))
        return self._checked(links, self._before(candidates))

    def _taken(self, link: Link, candidates: list[Link]) -> Head:
        passed_over = tuple(one for one in candidates if one is not link)
        reasons = [f"{_short(one)} was not committed: {self._why_void(one, candidates) or 'an earlier attempt'}"
                   for one in passed_over]  # fmt: skip
        said = "all that its swap needs is there, and nothing says that the swap failed"
        return Head(link=link, certainty="taken", evidence=(said, *reasons), passed_over=passed_over)

    def _before(self, candidates: list[Link]) -> Head:
        """The one before those of the newest number, of which none was committed."""
        reasons = tuple(f"{_short(one)} was not committed: {self._why_void(one, candidates)}" for one in candidates)
        named = {one.batch.previous_segment for one in candidates}
        if len(named) > 1:
            raise AmbiguousJournalError(f"{', '.join(map(_short, candidates))} name different predecessors")
        (before,) = named
        if before is None:
            return Head(link=None, certainty="proven", evidence=reasons, passed_over=tuple(candidates))
        link = self._journals.find(before)
        if link is None:
            raise AmbiguousJournalError(f"{before}, which {_short(candidates[0])} follows, is missing or torn")
        return Head(
            link=link, certainty="proven", passed_over=tuple(candidates),
            evidence=(f"{_short(candidates[0])} was built on it", *reasons),
        )  # fmt: skip

    # -- what speaks for and against a segment -------------------------------------------------------------------------

    def _proof(self, link: Link) -> str | None:
        """Why a segment was committed for certain; None where nothing says so."""
        if link.key in self._named:
            return "a later segment names it"
        if self._contents.is_named_by_table(link):
            return "the newest v<N>.metadata.json of the table names it"
        for other in link.batch.others:
            if segment_key(other.segment) in self._named:
                return f"its part in {other.table} was built upon: one swap moved both"
        return self._witness(link)

    def _why_void(self, link: Link, candidates: list[Link]) -> str | None:
        """Why a segment was certainly not committed; None where it may have been."""
        known = self._void.get(link.location)
        if known is None:
            known = self._against(link, candidates)
            if known is not None:
                self._void[link.location] = known
        return known

    def _against(self, link: Link, candidates: list[Link]) -> str | None:
        if self._proof(link) is not None:
            return None
        proven = next((one for one in candidates if one is not link and self._proof(one) is not None), None)
        if proven is not None:
            return f"{_short(proven)} has its place: {self._proof(proven)}"
        for later in candidates:
            if _locked_later(later, than=link):
                return (
                    f"{_short(later)} was written under a later lock (token {later.batch.lock_token} after "
                    f"{link.batch.lock_token}), by one who read the pointer and did not find it"
                )
        for later in candidates:
            if later.batch.batch == link.batch.batch and later.attempt > link.attempt:
                reason = self._reasons(later).get(link.attempt)
                if reason in FAILED:
                    return f"the next attempt at its batch says that its swap was {reason}"
        incomplete = self._contents.what_is_missing(link)
        return incomplete if incomplete is not None else self._against_parts(link)

    def _against_parts(self, link: Link) -> str | None:
        """A transaction or rename is one swap: where one of its parts was not committed, none was."""
        if link.location in self._looked_at:
            return None  # asked for by its own other part
        self._looked_at.add(link.location)
        try:
            for other in link.batch.others:
                part = self._journals.find(other.segment)
                if part is None:
                    return f"its part in {other.table} is missing or torn"
                rivals = self._journals.by_name[other.table]
                newest = max(one.batch.sequence for one in rivals)
                if part.batch.sequence < newest and part.key not in self._named:
                    return f"its part in {other.table} was not committed: that journal went on without it"
                same = [one for one in rivals if one.batch.sequence == part.batch.sequence]
                reason = self._why_void(part, same)
                if reason is not None:
                    return f"its part in {other.table} was not committed: {reason}"
            return None
        finally:
            self._looked_at.discard(link.location)

    def _reasons(self, link: Link) -> Mapping[int, str]:
        return {retried.attempt: retried.reason for retried in self._journal.read(link.location).retried}

    def _in_order(self, candidates: list[Link]) -> list[Link]:
        """Those that are to be taken first: the latest."""
        return sorted(candidates, key=lambda one: (one.batch.lock_token, one.batch.timestamp_ms, one.attempt))[::-1]

    # -- the whole journal ---------------------------------------------------------------------------------------------

    def _checked(self, links: list[Link], head: Head) -> Head:
        """Refuse a name whose journal has holes, or that another journal claims, too."""
        chain: set[str] = set()
        link = head.link
        while link is not None:
            chain.add(link.key)
            before = link.batch.previous_segment
            if before is None:
                break
            found = self._journals.find(before)
            if found is None:
                why = self._journals.torn.get(before, "it is missing")
                raise AmbiguousJournalError(
                    f"the journal has a hole before number {link.batch.sequence}: {before}: {why}"
                )
            link = found
        strange = [one for one in links if one.key in self._named and one.key not in chain]
        if strange:
            raise AmbiguousJournalError(
                f"a second journal claims the name: {strange[0].location} has followers, and is not in that of "
                f"{'nothing' if head.link is None else head.link.location}"
            )
        return self._doubted(head)

    def _doubted(self, head: Head) -> Head:
        """With the files that may have its place or have followed it and cannot be read: half written, or damaged?"""
        if head.link is None:
            return head
        first = head.link.batch.sequence + (head.certainty == "proven")
        doubts = tuple(
            f"{location} may have come after it, and is no whole segment: if it was committed, that is lost"
            for location in self._journals.torn
            if home_of(location) == head.link.home and sequence_of(location) >= first
        )
        if not doubts:
            return head
        return msgspec.structs.replace(head, certainty="taken", evidence=(*head.evidence, *doubts))


def _locked_later(link: Link, *, than: Link) -> bool:
    """Whether one lock was taken after another. Tokens begin anew with a new ZooKeeper; then the clocks contradict."""
    batch, other = link.batch, than.batch
    return batch.lock_token > other.lock_token and batch.timestamp_ms >= other.timestamp_ms


def _short(link: Link) -> str:
    return f"segment {link.location.rpartition('/')[2].removesuffix('.jsonl.gz')}"
