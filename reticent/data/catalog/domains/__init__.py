"""What is public about the tables of the catalog: a TOML file each, with the source of its bounds."""

from __future__ import annotations

from importlib import resources

from reticent.data.domain import Domain


def public_domain(name: str) -> Domain | None:
    """The domain of a named dataset, or None if it is not a table with a public description."""
    file = resources.files("reticent.data.catalog.domains").joinpath(f"{name}.toml")
    if not file.is_file():
        return None
    return Domain.from_toml(file.read_text(encoding="utf-8"), source=f"the domain of '{name}'")
