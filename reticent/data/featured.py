"""A column of texts or images of which a public model makes numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from reticent.core.errors import DomainError

_MOST = 1 << 17  # numbers that a model makes of one cell


@dataclass(frozen=True, kw_only=True)
class Featured:
    """Texts or images that a public model makes numbers of: each cell a row of them, no longer than 1.

    Args:
        model: what people call it. digest: of it and of everything that changes what it says.
        width: how many numbers there are.

    Example:
        >>> Featured(model="minilm.onnx", digest="00", width=384).width
        384
    """

    kind: ClassVar[str] = "features"

    model: str
    digest: str
    width: int
    looked_up: frozenset[str] = frozenset()

    def check(self, where: str) -> None:
        """Raises `DomainError` where it contradicts itself. `where` names file and column."""
        is_count = isinstance(self.width, int) and not isinstance(self.width, bool)
        if not (is_count and 1 <= self.width <= _MOST and self.model.isprintable() and self.digest.isalnum()):
            raise DomainError(
                f"{where}: not the features of a model: a name, a digest and a width from 1 to {_MOST:,}.",
                remedy="Leave the column out, and name the model with --features.",
            )
