"""Dividing a stream into ranges of about equal numbers of entries.

A stream cannot be asked for its n-th entry, so its density is sampled: a few ids from evenly spaced points, more
points where it turns out to be dense. Every cut is the id of an entry that was there when the plan was made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from chasqui_engine.values.stream_ids import as_number, as_text, before

SAMPLE = 32
_FAN_OUT = 8
_ROUNDS = 8
_FINENESS = 16
"""Pieces of known weight per range wanted: the error of a cut is about one piece."""

Sampler = Callable[[Sequence[str], str], list[list[str]]]
"""Ids from each start on, at most `SAMPLE` each, none later than the end."""


@dataclass(frozen=True, slots=True)
class IdRange:
    """Entries from `start` to `end`, both included."""

    start: str
    end: str


@dataclass(frozen=True, slots=True)
class _Piece:
    start: int
    end: int
    weight: float
    exact: bool


def split(first: str, last: str, length: int, wanted: int, sampler: Sampler) -> list[IdRange]:
    """`wanted` ranges that cover all from `first` to `last`; fewer only where there are fewer entries."""
    low, high = as_number(first), as_number(last)
    if wanted <= 1 or length <= 1 or low >= high:
        return [IdRange(first, last)]
    pieces = _weigh([(low, high)], last, sampler)
    for _ in range(_ROUNDS):
        total = sum(piece.weight for piece in pieces)
        heavy = [piece for piece in pieces if not piece.exact and piece.weight > total / (wanted * _FINENESS)]
        if not heavy:
            break
        finer = _weigh([part for piece in heavy for part in _divide(piece)], last, sampler)
        pieces = sorted([piece for piece in pieces if piece not in heavy] + finer, key=lambda piece: piece.start)
    return _refine(_ranges(low, high, _cuts(pieces, wanted)), wanted, sampler)


def _weigh(spans: Sequence[tuple[int, int]], last: str, sampler: Sampler) -> list[_Piece]:
    found = sampler([as_text(start) for start, _ in spans], last)
    return [_piece(span, [as_number(i) for i in ids]) for span, ids in zip(spans, found, strict=True)]


def _piece(span: tuple[int, int], ids: list[int]) -> _Piece:
    start, end = span
    inside = [i for i in ids if i <= end]
    if len(inside) < len(ids) or len(ids) < SAMPLE:
        # The sample holds all of the piece. It begins at its first entry: that is where it can be cut.
        return _Piece(inside[0] if inside else start, end, float(len(inside)), True)
    seen = inside[-1] - inside[0] + 1
    return _Piece(inside[0], end, len(inside) * (end - inside[0] + 1) / seen, end - inside[0] < _FAN_OUT)


def _divide(piece: _Piece) -> list[tuple[int, int]]:
    width = max(1, (piece.end - piece.start + 1) // _FAN_OUT)
    starts = [piece.start + n * width for n in range(_FAN_OUT)]
    ends = [start - 1 for start in starts[1:]] + [piece.end]
    return [(start, end) for start, end in zip(starts, ends, strict=True) if start <= end]


def _cuts(pieces: Sequence[_Piece], wanted: int) -> list[int]:
    total = sum(piece.weight for piece in pieces)
    cuts: list[int] = []
    passed = 0.0
    for piece in pieces:
        if piece.weight and passed >= total * (len(cuts) + 1) / wanted and len(cuts) < wanted - 1:
            cuts.append(piece.start)
        passed += piece.weight
    return cuts


def _refine(ranges: list[IdRange], wanted: int, sampler: Sampler) -> list[IdRange]:
    """More ranges, where a piece was too heavy to be cut between; each new one begins at an entry that was seen."""
    while len(ranges) < wanted:
        finer: list[IdRange] = []
        seen = sampler([part.start for part in ranges], ranges[-1].end)
        for done, (part, ids) in enumerate(zip(ranges, seen, strict=True)):
            inside = [entry_id for entry_id in ids if as_number(entry_id) <= as_number(part.end)]
            if len(inside) > 1 and len(finer) + len(ranges) - done < wanted:
                cut = inside[len(inside) // 2]
                finer += (IdRange(part.start, before(cut)), IdRange(cut, part.end))
            else:
                finer.append(part)
        if len(finer) == len(ranges):
            break
        ranges = finer
    return ranges


def _ranges(low: int, high: int, cuts: Sequence[int]) -> list[IdRange]:
    starts = [low, *(cut for cut in cuts if low < cut <= high)]
    ends = [start - 1 for start in starts[1:]] + [high]
    return [IdRange(as_text(start), as_text(end)) for start, end in zip(starts, ends, strict=True)]
