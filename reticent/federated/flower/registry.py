"""Which node of the network is which registered client. Nodes come and go; the list of clients stays.

A node says who it is. Without Flower's authentication of nodes, whoever reaches the server can say anything:
then a name protects nobody against a client that takes it first.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from reticent.core.printable import printable
from reticent.federated.flower.library import QUERY, WHO, app

LOG = logging.getLogger("reticent.federated")


class Registry:
    """The nodes of registered clients.

    Args:
        tell: is given a sentence about every node or message that is left out.
    """

    def __init__(self, clients: Sequence[str], tell: Callable[[str], None]) -> None:
        self._clients, self._tell = frozenset(clients), tell
        self._client_of: dict[int, str] = {}
        self._refused: set[int] = set()

    def refresh(self, grid: Any, timeout: float) -> None:
        """Asks nodes that are new who they are, and forgets those that are gone."""
        connected = set(grid.get_node_ids())
        self._client_of = {node: name for node, name in self._client_of.items() if node in connected}
        self._refused &= connected
        new = sorted(connected - self._client_of.keys() - self._refused)
        messages = [
            app.Message(app.RecordDict(), dst_node_id=node, message_type=QUERY, ttl=timeout) for node in new
        ]
        if messages:
            self._take(grid.send_and_receive(messages, timeout=timeout))

    @property
    def nodes(self) -> dict[str, int]:
        """The node of every client that is connected."""
        return {name: node for node, name in self._client_of.items()}

    def client_at(self, node: int) -> str | None:
        return self._client_of.get(node)

    def _take(self, replies: Iterable[Any]) -> None:
        for reply in sorted(replies, key=lambda reply: reply.metadata.src_node_id):
            node = reply.metadata.src_node_id
            if reply.has_error():
                self._tell(f"Node {node} could not say who it is: {reason_of(reply)}. It is asked again.")
                continue
            name = name_in(reply)
            if name not in self._clients:
                self._tell(f"Node {node} says it is {name[:80]!r}, who is not registered. It is left out.")
                self._refused.add(node)
            elif self._client_of.get(node) == name:
                continue  # it said so before
            elif name in self._client_of.values():
                first = self.nodes[name]
                self._tell(
                    f"Nodes {first} and {node} both say they are '{name}': one user has one voice. "
                    f"Node {node} is left out while node {first} is connected."
                )
            else:
                self._client_of[node] = name


def name_in(reply: Any) -> str:
    """The sender that a reply names; empty if it names none."""
    found = reply.content.config_records.get(WHO) if reply.has_content() else None
    name = None if found is None else found.get("client")
    return name if isinstance(name, str) else ""


def reason_of(reply: Any) -> str:
    return printable(" ".join(str(reply.error.reason).split())[:200])
