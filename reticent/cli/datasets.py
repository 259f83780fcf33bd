"""`reticent datasets`: lists, describes and fetches the named datasets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from reticent.cli import output

if TYPE_CHECKING:
    from reticent.data.catalog import CatalogEntry, Location
    from reticent.data.domain import Domain

app = typer.Typer(
    no_args_is_help=True,
    help="List, describe and fetch the named datasets.",
    epilog="Example:  reticent datasets get fashion_mnist",
)


def _complete(incomplete: str) -> list[str]:
    from reticent.data import catalog

    return [name for name in catalog.names() if name.startswith(incomplete)]


Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="The name of a dataset (reticent datasets list).", autocompletion=_complete
    ),
]


@app.command("list", epilog="Example:  reticent datasets list --json")
def list_datasets(as_json: output.AsJson = False) -> None:
    """List every named dataset and where it is.

    Datasets are looked for in the folder that RETICENT_DATA names, then in
    the cache, then in a Debian package. The last column says where each was
    found, or how large its download is. Rows are train + test + validation.
    """
    from reticent.data import catalog

    listed = [(catalog.describe(name), catalog.find(name)) for name in catalog.names()]
    if as_json:
        output.print_json([_entry_to_json(entry, found) for entry, found in listed])
        return
    columns = {"name": "left", "rows": "right", "record": "left", "classes": "right", "where": "left"}
    rows = [
        (entry.name, _rows(entry, found), _shape(entry), str(entry.classes or ""), _where(entry, found))
        for entry, found in listed
    ]
    output.print_table("Named datasets", columns, rows)


@app.command(epilog="Example:  reticent datasets show adult")
def show(name: Name, as_json: output.AsJson = False) -> None:
    """Describe a dataset: rows, licence, files, checksums, public columns.

    Nothing is downloaded and no record is read.
    """
    from reticent.data import catalog

    entry, found = catalog.describe(name), catalog.find(name)
    columns = _columns(catalog.domain(name))
    if as_json:
        output.print_json({**_entry_to_json(entry, found), "files": _files(entry), "columns": columns})
        return
    facts = {
        "name": entry.name,
        "task": f"{entry.task}, {entry.classes} classes" if entry.classes else entry.task,
        "rows": _rows(entry, found),
        "record": _shape(entry),
        "licence": entry.licence,
        "source": entry.source,
        "where": str(found) if found else _where(entry, found),
    }
    output.print_table(entry.title, {"": "left", " ": "left"}, list(facts.items()))
    _print_files(entry)
    if columns:
        headings = {"column": "left", "kind": "left", "public values": "left"}
        rows = [(column["name"], column["kind"], _public(column)) for column in columns]
        output.print_table("\nPublic facts about its columns", headings, rows)


@app.command(epilog="Example:  reticent datasets get mnist")
def get(name: Name, as_json: output.AsJson = False) -> None:
    """Fetch a dataset into the cache, or say where it already is.

    A download is checked against its size and checksum, and leaves nothing
    behind if it fails. The cache is the folder that RETICENT_CACHE names, or
    else the usual cache folder of the operating system.
    """
    from reticent.data import catalog

    was_here = catalog.find(name) is not None
    with output.watch(f"downloading {name}") as on_progress:
        location = catalog.fetch(name, on_progress=on_progress)
    if as_json:
        output.print_json({"name": name, "was_here": was_here, **_place(location)})
    elif was_here:
        output.print_line(f"{name} is already here: {location}")
    else:
        output.print_line(f"{name} is now in {location}")


def _entry_to_json(entry: CatalogEntry, found: Location | None) -> dict[str, Any]:
    return {
        "name": entry.name,
        "title": entry.title,
        "task": entry.task,
        "rows": entry.rows._asdict(),
        "shape": entry.shape,
        "classes": entry.classes,
        "licence": entry.licence,
        "source": entry.source,
        "download_bytes": entry.size if entry.is_downloadable else None,
        "found": _place(found) if found else None,
    }


def _place(location: Location) -> dict[str, Any]:
    return {
        "source": location.source,
        "folder": str(location.folder) if location.folder else None,
        "rows": location.form.rows._asdict(),
        "paths": [str(path) for path in location.paths.values()],
    }


def _files(entry: CatalogEntry) -> list[dict[str, Any]]:
    return [
        {"name": file.name, "size": file.size, "sha256": file.sha256, "urls": file.urls}
        for file in entry.files
    ]


def _columns(domain: Domain | None) -> list[dict[str, Any]]:
    from dataclasses import asdict

    if domain is None:
        return []
    return [
        {"name": name, "kind": column.kind}
        | {key: value for key, value in asdict(column).items() if key != "looked_up"}
        for name, column in domain.columns.items()
    ]


def _public(column: dict[str, Any]) -> str:
    said = []
    if column.get("bounds"):
        said.append("{:g} to {:g}".format(*column["bounds"]))
    if column.get("values"):
        said.append(", ".join(column["values"]))
    if column.get("missing"):
        said.append("or missing")
    return " ".join(said) or column.get("reason", "")


def _print_files(entry: CatalogEntry) -> None:
    for file in entry.files:
        output.print_line(f"\n{file.name}  {file.size:,} bytes\n  sha256 {file.sha256}")
        for url in file.urls:
            output.print_line(f"  {url}")


def _rows(entry: CatalogEntry, found: Location | None) -> str:
    """Train + test + validation; or how many of them all, where only a part is on this machine."""
    if found and found.form.rows != entry.rows:
        return f"{sum(found.form.rows):,} of {sum(entry.rows):,}"
    return " + ".join(f"{rows:,}" for rows in entry.rows if rows)


def _shape(entry: CatalogEntry) -> str:
    return " x ".join(str(length) for length in entry.shape) or entry.record


def _where(entry: CatalogEntry, found: Location | None) -> str:
    if entry.is_bundled:
        return "bundled"
    if found:
        return found.source
    if entry.is_downloadable:
        return f"download {_megabytes(entry.size)}"
    return "supply by hand"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.0f} MB" if size >= 1e6 else f"{size / 1e6:.1f} MB"
