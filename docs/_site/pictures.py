"""Takes the pictures of README and the site from the real thing: `make pictures` (needs chromium).

python docs/_site/pictures.py [FOLDER]     # of a demonstration that is there already
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

FIGURES = Path(__file__).resolve().parents[1] / "figures"
_COLOURS = 64  # a page has few: a palette makes the file a fifth as large
_PICTURES = {  # name: the page below the demonstration, width and height in pixels
    "report": ("report.html", 1280, 700),
    "report_phone": ("report.html", 390, 900),
}


def main() -> None:
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        raise SystemExit("Pictures are taken by chromium, and there is none.")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(scratch) / "demo"
        if not folder.exists():
            command = [sys.executable, "-c", "from reticent.cli.app import main; main()", "demo"]
            subprocess.run([*command, "-o", str(folder)], check=True)
        for name, (page, width, height) in _PICTURES.items():
            take(browser, folder / page, FIGURES / f"{name}.png", width, height, Path(scratch))


def take(browser: str, page: Path, goal: Path, width: int, height: int, scratch: Path) -> None:
    """A page as a browser without a window draws it, in few colours."""
    shot = scratch / goal.name
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    options += ["--no-first-run", "--hide-scrollbars", f"--user-data-dir={scratch / 'profile'}"]
    place = [f"--window-size={width},{height}", f"--screenshot={shot}", page.resolve().as_uri()]
    subprocess.run([browser, *options, *place], check=True, capture_output=True)
    Image.open(shot).convert("RGB").quantize(_COLOURS).save(goal, optimize=True)
    print(f"{goal} {goal.stat().st_size / 1024:.0f} kB")


if __name__ == "__main__":
    main()
