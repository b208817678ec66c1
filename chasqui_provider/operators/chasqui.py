"""The operators under their public names."""

from __future__ import annotations

from chasqui_provider.operators.bulk import ChasquiBulkEnqueueOperator
from chasqui_provider.operators.enqueue import ChasquiEnqueueOperator, ChasquiOperator
from chasqui_provider.operators.manage import (
    ChasquiCancelDelayedOperator,
    ChasquiRemoveRepeatableOperator,
    ChasquiReplayDlqOperator,
    ChasquiSnapshotRepeatablesOperator,
    ChasquiUpsertRepeatableOperator,
)

__all__ = [
    "ChasquiBulkEnqueueOperator",
    "ChasquiCancelDelayedOperator",
    "ChasquiEnqueueOperator",
    "ChasquiOperator",
    "ChasquiRemoveRepeatableOperator",
    "ChasquiReplayDlqOperator",
    "ChasquiSnapshotRepeatablesOperator",
    "ChasquiUpsertRepeatableOperator",
]
