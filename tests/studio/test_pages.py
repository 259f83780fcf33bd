"""Every page in a real browser, and a training from a file to a finished run, by clicks."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
from browser import CHROMIUM, MISSING, Browser

from reticent.studio.pages.lessons import LESSONS

HOSTILE = "<img src=x onerror=alert(1)>"
WIDTHS = (360, 800, 1600)
PAGES = {
    "plan": "plan",
    "runs": "runs",
    "run": "run?name=runs/first",
    "compare": f"compare?name=runs/first&name={quote('runs/' + HOSTILE)}",
    "train": "train",
    "columns": f"train?file={quote('tables/' + HOSTILE + '.csv')}",
    "ledgers": "ledgers",
    "ledger": "ledger?name=clinic.ledger",
    "learn": "learn",
    **{lesson.id: f"learn?topic={lesson.id}" for lesson in LESSONS},
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip(MISSING)
    with Browser() as found:
        yield found


def write_table(path: Path) -> Path:
    """Patients who come back the more often the older they are, with a column that is hostile to pages."""
    chance = random.Random(0)
    path.parent.mkdir(exist_ok=True)
    lines = [f"age,{HOSTILE},readmitted"]
    for _ in range(600):
        age = chance.randint(20, 90)
        lines.append(f"{age},{chance.gauss(0, 1):.3f},{'yes' if age + chance.gauss(0, 9) > 55 else 'no'}")
    path.write_text("\n".join([*lines, ""]))
    return path


@pytest.fixture(scope="module")
def filled(studio):
    """The same studio with a table of a hostile name, and a ledger with a charge in it."""
    import reticent as rt
    from reticent.mechanisms.events import Gaussian

    write_table(studio.folder / "tables" / f"{HOSTILE}.csv")
    with rt.Ledger.create(studio.folder / "clinic.ledger") as ledger:
        ledger.limit(HOSTILE, epsilon=3.0, delta=1e-6)
        budget = ledger.for_dataset(HOSTILE)
        budget.charge(Gaussian(noise_multiplier=8.0), adjacency=rt.Adjacency.ADD_OR_REMOVE, purpose=HOSTILE)
    return studio


# Text whose luminance is too near to that of what is behind it, by WCAG.
_FAINT = r"""(() => {
  const linear = v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = c => { const p = c.match(/[\d.]+/g).slice(0, 3).map(v => linear(v / 255));
    return 0.2126 * p[0] + 0.7152 * p[1] + 0.0722 * p[2]; };
  const isClear = e => getComputedStyle(e).backgroundColor === 'rgba(0, 0, 0, 0)';
  const backOf = e => { while (e && isClear(e)) e = e.parentElement;
    return e ? getComputedStyle(e).backgroundColor : 'rgb(255, 255, 255)'; };
  return [...document.querySelectorAll('body *')]
    .filter(e => [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()))
    .filter(e => e.checkVisibility() && !e.closest('.busy'))
    .filter(e => { const style = getComputedStyle(e);
      const own = e instanceof SVGElement ? style.fill : style.color;
      const x = light(own), y = light(backOf(e));
      return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05) < 4.5; })
    .map(e => e.outerHTML.slice(0, 120));
})()"""


def require_quiet(browser: Browser, address: str) -> None:
    """Nothing on the console, and nothing asked of anybody but the studio."""
    assert not browser.complaints()
    own = f"http://{urlsplit(address).netloc}/"
    assert all(url.startswith((own, "data:")) for url in browser.requests()), browser.requests()


@pytest.mark.parametrize("width", WIDTHS)
def test_every_page_fits_and_is_quiet(browser: Browser, filled, width: int):
    for name, page in PAGES.items():
        browser.open(filled.address + page, width=width, dark=width == 800)
        browser.wait_for(
            "!document.querySelector('#results') || document.querySelector('#epsilon').textContent > '0'"
        )
        browser.wait_for(
            "!document.querySelector('#facts') || document.querySelector('#facts').textContent.length > 40"
        )
        require_quiet(browser, filled.address)
        assert browser.run("document.documentElement.scrollWidth") <= width, name
        assert browser.run("document.images.length") == 0, name
        unnamed = browser.run(
            "[...document.querySelectorAll('input:not([type=hidden]),select,button,a,meter,progress')]"
            ".filter(e => !(e.labels?.length || e.getAttribute('aria-label') || e.textContent.trim()))"
            ".map(e => e.outerHTML)"
        )
        assert unnamed == [], name
        assert browser.run(
            "[...document.querySelectorAll('svg')].every(s => s.querySelector('title,desc'))"
        ), name
        assert browser.run("document.querySelectorAll('h1').length") == 1, name
        assert browser.run(_FAINT) == [], name


def test_a_plan_is_priced_while_one_types(browser: Browser, studio):
    from reticent.studio import planning

    words = "rows=60000&batch=256&epochs=60&multiplier=1.1&delta=1e-5&target=2"
    browser.open(f"{studio.address}plan?{words}", width=1200)
    browser.wait_for("document.querySelector('#epsilon').textContent === '2.383'")
    browser.wait_for("document.querySelector('[data-take=multiplier]').textContent.includes('1.2')")
    browser.run("document.querySelector('[data-take=multiplier] + td button').click()")
    browser.wait_for("Number(document.querySelector('#epsilon').textContent) <= 2")
    line = browser.run("document.querySelector('#command').textContent")
    assert (
        line
        == planning.price(
            {"rows": "60000", "batch": "256", "epochs": "60", "delta": "1e-5", "multiplier": "1.225"}
        )["command"]
    )
    type_into(browser, "#delta", "0.5")
    browser.wait_for("document.querySelector('#error').textContent.includes('promises nothing')")
    require_quiet(browser, studio.address)


def type_into(browser: Browser, selector: str, value: str) -> None:
    browser.run(
        f"(e => {{ e.value = {value!r}; e.dispatchEvent(new Event('input', {{bubbles: true}})); }})"
        f"(document.querySelector({selector!r}))"
    )


def test_a_file_becomes_a_private_model_by_clicks(browser: Browser, studio, tmp_path: Path):
    table = write_table(tmp_path / "patients.csv")
    browser.open(f"{studio.address}train", width=1200)
    browser.choose_files("#file", table)
    browser.wait_for("document.querySelector('[data-column]')")
    assert "yes" not in browser.run("document.querySelector('table').innerText")
    browser.run("document.querySelector('input[value=readmitted]').click()")
    type_into(browser, "[name=known]", "declared")
    type_into(browser, "#classes", "no,yes")
    for place, bounds in enumerate([(0, 120), (-5, 5)]):
        type_into(browser, f"[name=kind-{place}]", "number")
        type_into(browser, f"[name=low-{place}]", str(bounds[0]))
        type_into(browser, f"[name=high-{place}]", str(bounds[1]))
    type_into(browser, "#epsilon", "2")
    type_into(browser, "#method", "objective")
    browser.wait_for("document.querySelector('#price-epsilon').textContent === '2.000'")
    line = browser.run("document.querySelector('#line').textContent")
    assert line.startswith("reticent train tables/patients.csv --target readmitted --epsilon 2")
    assert "--bounds age=0:120" in line
    browser.run("document.querySelector('#train').click()")
    browser.wait_for("document.querySelector('#state')?.textContent === 'finished'", seconds=240)
    assert browser.run("document.querySelector('.command code').textContent") == line
    assert "differential privacy" in browser.run("document.querySelector('#printed').textContent")
    browser.run("document.querySelector('#result').click()")
    browser.wait_for("document.querySelector('h1')?.textContent === 'runs/patients-1'")
    assert "2.000" in browser.run("document.querySelector('.stats').textContent")
    require_quiet(browser, studio.address)
