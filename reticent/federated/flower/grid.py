"""Server and clients in one process: Flower's messages without its processes, for tests and a first look."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from reticent.federated.flower.library import app, identity, serverapp

_SERVER = 1  # Flower's number of the node that a server is


class InProcessGrid(serverapp.Grid):
    """A Flower grid that calls a `ClientApp` for every message, one client after the other.

    Args:
        clients: a node for each, which says that this is its name.
    """

    def __init__(self, client_app: Any, clients: Sequence[str]) -> None:
        self._app = client_app
        self._contexts = {
            node: app.Context(1, node, {"client": client}, app.RecordDict(), {})
            for node, client in enumerate(clients, start=_SERVER + 1)
        }
        self._replies: dict[str, Any] = {}
        self._count = 0
        # Messages are made with the identity of the task that a process of Flower's runs.
        task = identity.TaskIdentity
        task.task_id, task.run_id, task.node_id = 1, 1, _SERVER

    def set_run(self, run: Any) -> None:
        pass

    @property
    def run(self) -> Any:
        return None

    def create_message(
        self,
        content: Any,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Any:
        return app.Message(content, dst_node_id, message_type, group_id=group_id, ttl=ttl)

    def get_node_ids(self) -> list[int]:
        return list(self._contexts)

    def push_messages(self, messages: Iterable[Any]) -> list[str]:
        pushed = []
        for message in messages:
            self._count += 1
            name = str(self._count)
            message.metadata.__dict__["_message_id"] = name  # what a SuperLink does
            reply = self.answer(message, self._contexts[message.metadata.dst_node_id])
            if reply is not None:
                self._replies[name] = reply
            pushed.append(name)
        return pushed

    def pull_messages(self, message_ids: Iterable[str]) -> list[Any]:
        return [self._replies.pop(name) for name in message_ids if name in self._replies]

    def send_and_receive(self, messages: Iterable[Any], *, timeout: float | None = None) -> list[Any]:
        return self.pull_messages(self.push_messages(messages))

    def answer(self, message: Any, context: Any) -> Any:
        """What a client replies; None for nothing. An error of a client is a reply, as in a deployment."""
        try:
            return self._app(message, context)
        except Exception as error:  # noqa: BLE001  # whatever a client does, the server goes on
            return app.Message(app.Error(0, f"{type(error).__name__}: {error}"), reply_to=message)
