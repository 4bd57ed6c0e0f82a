"""What the committed rows say about units while a run goes on: what is done, broken, used up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

from tmlang.audit.record import CLEAN_STAGE, Record
from tmlang.audit.units import is_witness


class Ledger:
    """Rows of one evaluation, by what the runner must know before the next batch."""

    def __init__(self, evaluation: str, records: Iterable[Record] = ()) -> None:
        self.evaluation = evaluation
        self.clean: set[str] = set()
        self._done: dict[tuple[str, int], set[str]] = defaultdict(set)
        self._broken: dict[tuple[str, int], set[str]] = defaultdict(set)
        self._queries: dict[str, dict[tuple[str, int], int]] = defaultdict(lambda: defaultdict(int))
        self.add(records)

    def add(self, records: Iterable[Record]) -> None:
        for row in records:
            if row.evaluation != self.evaluation:
                continue
            if row.stage == CLEAN_STAGE:
                self.clean.add(row.unit)
                continue
            self._done[row.stage, row.repeat].add(row.unit)
            spent, key = self._queries[row.unit], (row.stage, row.repeat)
            spent[key] = max(spent[key], row.queries)
            if is_witness(row) and row.within_access:
                self._broken[row.stage, row.repeat].add(row.unit)

    def done(self, stage: str, repeat: int) -> set[str]:
        """Units with a row of this stage and repeat."""
        return self._done[stage, repeat]

    def broken(self, repeat: int, stages: Iterable[str]) -> set[str]:
        """Units that a witness of these stages within the declared access broke in this repeat."""
        return set().union(*(self._broken[stage, repeat] for stage in stages))

    def broken_ever(self) -> set[str]:
        """Units that any witness within the declared access broke."""
        return set().union(*self._broken.values())

    def used(self, unit: str, before: Collection[tuple[str, int]]) -> int:
        """The queries that these (stage, repeat) have spent on ``unit`` (EVIDENCE.md section 4)."""
        return sum(spent for key, spent in self._queries[unit].items() if key in before)
