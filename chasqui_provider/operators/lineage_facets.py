"""What this provider adds to OpenLineage's events; imported only where OpenLineage is installed."""

from __future__ import annotations

import attrs
from openlineage.client.facet_v2 import RunFacet


@attrs.define
class ChasquiJobsRunFacet(RunFacet):
    """The jobs that a task added, or waited for."""

    queue: str
    jobIds: list[str]  # noqa: N815 - OpenLineage's facets are written so
    """The first ids, at most 100."""
    jobCount: int  # noqa: N815
    """The total number."""
