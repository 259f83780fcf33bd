"""What updates tell about clients: for attacks on one's own plans, before others try.

    seen = watch_rounds(loss, params, rows, users, plan.server, plan.local, watched=8, rounds=10, seed=0)
    scores = membership_from_updates(loss, [SeenUpdate(r.params, r.alone[0]) for r in seen], candidates)

`seen[0].views` has what is seen by a trusted server, by one that adds up securely, and by everybody. The
functions are those of `reticent.attacks` and `reticent.training`; `reticent.attacks.reconstruction` inverts
gradients and reads malicious parameters.
"""

from __future__ import annotations

from reticent.attacks.inference.client_updates import SeenUpdate as SeenUpdate
from reticent.attacks.inference.client_updates import descent_directions as descent_directions
from reticent.attacks.inference.client_updates import membership_from_updates as membership_from_updates
from reticent.attacks.inference.client_updates import property_from_updates as property_from_updates
from reticent.training.watched_rounds import WatchedRound as WatchedRound
from reticent.training.watched_rounds import watch_rounds as watch_rounds
