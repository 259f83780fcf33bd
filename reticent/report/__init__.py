"""What people look at: figures and terminal pictures made from results, never from data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reticent.core.pages import open_page

if TYPE_CHECKING:
    from reticent.report.facts.odds import ClaimPoint as ClaimPoint
    from reticent.report.facts.odds import best_guess as best_guess
    from reticent.report.facts.odds import claim_points as claim_points
    from reticent.report.facts.odds import largest_belief as largest_belief

open_page(__name__)
