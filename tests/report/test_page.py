"""The report in a real browser, and its numbers against report.json."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from browser import CHROMIUM, MISSING, Browser
from made_runs import made_run, with_attacks, with_audit

from reticent.core.errors import DataError, IntegrityError
from reticent.mechanisms.events import Composed, Gaussian
from reticent.report.facts.facts import Bars, Chart, ValueKind
from reticent.report.facts.training import sections
from reticent.report.from_run import collect_facts
from reticent.report.render.html import page
from reticent.runs.folder import read_record
from reticent.runs.record import PreparationCost

WIDTHS = (360, 768, 1440)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = made_run(tmp_path_factory.mktemp("report") / "run")
    with_attacks(folder)
    with_audit(folder)
    return folder


@pytest.fixture(scope="module")
def written(run: Path) -> Path:
    facts = collect_facts(run)
    (run / "report.html").write_text(page(facts), encoding="utf-8")
    (run / "report.json").write_text(json.dumps(facts.to_json()))
    return run / "report.html"


# Without a browser


def values_in(found: Any) -> list[dict[str, Any]]:
    if isinstance(found, dict):
        own = [found] if {"name", "kind", "shown"} <= found.keys() else []
        return own + [value for item in found.values() for value in values_in(item)]
    return [value for item in found for value in values_in(item)] if isinstance(found, list) else []


def test_every_number_says_what_kind_it_is(written: Path):
    known = values_in(json.loads(written.with_suffix(".json").read_text()))
    assert len(known) > 15
    assert {value["kind"] for value in known} == {kind.value for kind in ValueKind}
    text = written.read_text()
    for value in known:
        assert value["shown"] in text


def test_curves_over_training_say_what_they_are(run: Path):
    (section,) = (part for part in collect_facts(run).sections if part.id == "training")
    reliability, spent, learned = (chart for chart in section.charts)
    assert "unreleased" in reliability.title
    assert "fixed in advance" in spent.description
    assert "unreleased" in learned.title


def test_no_percent_is_above_a_hundred(run: Path):
    charts = [chart for section in collect_facts(run).sections for chart in section.charts]
    lines = [
        line for chart in charts if isinstance(chart, Chart) and "%" in chart.y_label for line in chart.lines
    ]
    assert len(lines) > 3
    for line in lines:
        assert max(line.y) > 1  # percent, not shares
        assert max(line.y) <= 100


def test_the_budget_is_drawn_when_something_had_to_be_found_first(run: Path):
    record = read_record(run)
    (whole,) = (part for part in sections(record) if part.id == "budget")
    assert whole.charts == ()
    found = replace(
        record,
        preparation=PreparationCost(noise_multiplier=20.0, epsilon=0.2, delta=1e-6),
        event=Composed(events=(Gaussian(noise_multiplier=20.0), record.event)),
    )
    (parted,) = (part for part in sections(found) if part.id == "budget")
    (bars,) = parted.charts
    assert isinstance(bars, Bars)
    assert bars.names == ("preparation", "training", "all together")
    assert 0 < bars.amounts[0] < bars.amounts[1] <= bars.amounts[2] + 1e-6


def test_the_page_is_small_and_alone(written: Path):
    text = written.read_text()
    assert len(text) < 3_000_000
    assert "<script" not in text
    assert not re.search(r'(?:src|href)="(?!#)', text)
    assert "http-equiv" in text
    assert "default-src 'none'" in text


class _Balance(HTMLParser):
    """Which tags were opened and not closed in their order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag not in ("meta", "path", "rect", "polygon"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


def test_tags_are_closed_and_pictures_told(written: Path):
    text = written.read_text()
    balance = _Balance()
    balance.feed(re.sub(r"<(path|rect|polygon)([^>]*)/>", "", text))
    assert not balance.wrong
    assert not balance.open
    pictures = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(pictures) >= 4
    for picture in pictures:
        assert 'role="img"' in picture
        assert re.search(r"<title id=[^>]+>[^<]+</title><desc id=[^>]+>[^<]{20,}</desc>", picture)


def test_words_of_a_stranger_are_not_run(run: Path, tmp_path: Path):
    record = json.loads((run / "run.json").read_text())
    record["request"]["source"] = "<script>alert(1)</script>.csv"
    record["request"]["target"] = "<img src=x onerror=alert(1)>"
    record["problem"]["classes"][3] = "<img src=y onerror=alert(1)>"
    (tmp_path / "run.json").write_text(json.dumps(record))
    hidden = json.loads((run / "private" / "unreleased.json").read_text())
    hidden["warnings"] = ["<img src=z onerror=alert(1)>"]
    hidden["metrics"]["details"]["outside"] = {"<img src=w onerror=alert(1)>": 0.5}
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "unreleased.json").write_text(json.dumps(hidden))
    text = page(collect_facts(tmp_path))
    assert "<script" not in text
    assert "<img" not in text
    assert all(f"&lt;img src={name}" in text for name in "xyzw")


@pytest.mark.parametrize(
    ("outcome", "signal", "tone"),
    [
        ("CONSISTENT", 0.1, "good"),
        ("CONTRADICTED", 0.1, "bad"),
        ("UNINFORMATIVE", 0.1, "plain"),
        ("CONSISTENT", 1.5, "bad"),
    ],
)
def test_the_first_screen_tells_good_news_from_bad(
    run: Path, tmp_path: Path, outcome: str, signal: float, tone: str
):
    (tmp_path / "run.json").write_bytes((run / "run.json").read_bytes())
    with_attacks(tmp_path, signal=signal)
    with_audit(tmp_path, outcome=outcome)
    assert collect_facts(tmp_path).tone == tone


def test_without_attacks_and_audit_it_says_so(run: Path, tmp_path: Path):
    (tmp_path / "run.json").write_bytes((run / "run.json").read_bytes())
    facts = collect_facts(tmp_path)
    assert facts.tone == "plain"
    assert any("not attacked yet" in line for line in facts.lead)
    assert any("not audited yet" in line for line in facts.lead)


def test_what_cannot_be_reported_is_said(run: Path, tmp_path: Path):
    with pytest.raises(DataError, match="no run"):
        collect_facts(tmp_path)
    record = json.loads((run / "run.json").read_text())
    (tmp_path / "run.json").write_text(json.dumps({**record, "state": "paid"}))
    with pytest.raises(DataError, match="not finished"):
        collect_facts(tmp_path)
    (tmp_path / "run.json").write_text(json.dumps({**record, "guarantee": {}}))
    with pytest.raises(IntegrityError):
        collect_facts(tmp_path)
    (tmp_path / "run.json").write_text(json.dumps(record))
    (tmp_path / "audit.json").write_text("[]")
    with pytest.raises(IntegrityError, match=r"audit\.json"):
        collect_facts(tmp_path)
    with pytest.raises(DataError, match="nowhere"):
        collect_facts(tmp_path, audit=tmp_path / "nowhere.json")


# In a browser


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip(MISSING)
    with Browser() as found:
        yield found


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_fits_and_is_quiet(browser: Browser, written: Path, width: int, dark: bool):
    browser.open(written, width=width, dark=dark)
    assert not browser.complaints()
    assert browser.requests() == [written.as_uri()]
    assert browser.run("document.documentElement.scrollWidth") <= width
    wide = browser.run(
        "[...document.querySelectorAll('h1,h2,p,figure,svg,li,table,dl')]"
        ".filter(e => !e.closest('.wide') && e.getBoundingClientRect().right > innerWidth + 1)"
        ".map(e => e.tagName + ' ' + e.textContent.slice(0, 40))"
    )
    assert wide == []


def test_numbers_on_the_page_are_those_of_the_json(browser: Browser, written: Path):
    browser.open(written, width=1440)
    shown = browser.run("document.body.innerText")
    facts = json.loads(written.with_suffix(".json").read_text())
    for value in facts["headline"]:
        assert value["shown"] in shown
    rows = browser.run(
        "[...document.querySelectorAll('table.values tbody tr')]"
        ".map(r => [...r.children].map(c => c.innerText))"
    )
    known = [value for section in facts["sections"] for value in section["values"]]
    assert [(row[0], row[1], row[2]) for row in rows] == [
        (value["name"], value["shown"], value["kind"]) for value in known
    ]


def test_pictures_and_tables_can_be_heard(browser: Browser, written: Path):
    browser.open(written, width=768)
    assert browser.run("[...document.querySelectorAll('svg')].every(s => s.querySelector('title,desc'))")
    assert browser.run("[...document.querySelectorAll('th')].every(t => t.scope)")
    assert browser.run("document.documentElement.lang") == "en"
    headings = browser.run("[...document.querySelectorAll('h1,h2,h3')].map(h => +h.tagName[1])")
    assert headings[0] == 1
    assert headings.count(1) == 1


_CONTRAST = """(() => {
  const lum = c => {
    const p = c.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255);
    const q = p.map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * q[0] + 0.7152 * q[1] + 0.0722 * q[2];
  };
  const e = document.querySelector('SELECTOR');
  let b = e;
  while (getComputedStyle(b).backgroundColor === 'rgba(0, 0, 0, 0)') b = b.parentElement;
  const x = lum(getComputedStyle(e).color), y = lum(getComputedStyle(b).backgroundColor);
  return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
})()"""


def contrast(browser: Browser, selector: str) -> float:
    """The ratio of the text's luminance to the page's, by WCAG."""
    return browser.run(_CONTRAST.replace("SELECTOR", selector))


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_can_be_read(browser: Browser, written: Path, dark: bool):
    browser.open(written, width=768, dark=dark)
    for selector in (
        "p",
        ".subtitle",
        ".verdict",
        ".badge.bound",
        ".badge.assumption",
        "nav a",
        ".note",
        "pre",
    ):
        assert contrast(browser, selector) >= 4.5, selector
