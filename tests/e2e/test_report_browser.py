"""The page in a browser: opened from disk it asks for nothing, filters, sorts, opens an example, darkens and prints."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from html import escape
from pathlib import Path
from typing import Any

import pytest
from audit_support import BROKEN, Rows, attack, certifier, evaluation, make_bundle, plan, threat, worked_example

from tmlang.meaning.evaluations import Claim, Measured
from tmlang.report.page import page
from tmlang.report.view import view_of

api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (pip install playwright)")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine"),
    pytest.mark.xdist_group("browser"),
]

HOSTILE = '<img src=x onerror="document.title=1">'


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with api.sync_playwright() as play:
        opened = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The worked example, its first unit broken by a kept input, and one unit with a hostile name and message."""
    folder = tmp_path_factory.mktemp("page")
    records = worked_example()
    kept = {"candidate": "candidates/000001.safetensors#0", **BROKEN}
    rows = Rows().clean(HOSTILE).attack(HOSTILE, "a", "error", message=HOSTILE)
    records = [replace(r, **kept) if r.observed_failure and r.unit == "u000" else r for r in records]
    claim = Claim("nine in ten survive", Measured("survival", "e"), ">=", Fraction(9, 10))
    whole = plan([evaluation(attack(), certifier())], [threat()], claims=(claim,))
    path = folder / "report.html"
    path.write_text(page(view_of(make_bundle(folder / "run", whole, [*records, *rows.all]))), encoding="utf-8")
    return path


@pytest.fixture
def opened(browser: Any, written: Path) -> Iterator[Any]:
    """The page, and at its end the proof that it asked for nothing and said nothing."""
    shown = browser.new_page()
    asked: list[str] = []
    said: list[str] = []
    shown.on("request", lambda request: asked.append(request.url))
    shown.on("console", lambda message: said.append(message.text))
    shown.on("pageerror", lambda error: said.append(str(error)))
    shown.goto(written.as_uri())
    yield shown
    assert [url for url in asked if not url.startswith("data:")] == [written.as_uri()]
    assert said == []
    shown.close()


def units(shown: Any) -> list[str]:
    return [text.strip() for text in shown.locator("section.examples tbody th").all_inner_texts()]


def told(shown: Any) -> str:
    return str(shown.locator("section.examples [role=status]").inner_text())


def test_filters_sorts_and_pages(opened: Any) -> None:
    assert told(opened) == "101 of 101, 1 to 25 shown"
    opened.get_by_role("button", name="next 25").click()
    assert units(opened)[0] == "u025"
    opened.locator("select.fate").select_option("open")
    assert told(opened) == "11 of 101"
    opened.get_by_role("searchbox").fill("u03")
    assert units(opened) == [f"u{i:03d}" for i in range(30, 40)]
    head = opened.get_by_role("button", name="unit")
    head.click()
    head.click()
    assert units(opened)[0] == "u039"
    assert opened.locator("section.examples th[aria-sort=descending]").inner_text().startswith("unit")


def test_numbers_lead_to_their_units(opened: Any) -> None:
    opened.get_by_role("link", name="30 broken").click()
    assert told(opened).startswith("30 of 101")
    opened.get_by_role("link", name="20 proved").click()
    assert told(opened) == "20 of 101"
    opened.locator("#overview").get_by_role("link", name="%").first.click()
    assert opened.locator("details.numbers").get_attribute("open") is not None


def test_opens_one_example_by_keyboard(opened: Any) -> None:
    opened.locator("section.examples tbody button").first.focus()
    opened.keyboard.press("Enter")
    dialog = opened.get_by_role("dialog")
    assert dialog.get_by_role("heading", name="u000").is_visible()
    assert dialog.locator("img").count() == 3
    assert "records/000001.parquet#" in dialog.inner_text()
    assert opened.url.endswith("#example/0/u000")
    opened.keyboard.press("ArrowRight")
    assert dialog.get_by_role("heading", name="u001").is_visible()
    opened.keyboard.press("Escape")
    assert not dialog.is_visible()


def test_an_example_has_an_address(browser: Any, written: Path) -> None:
    shown = browser.new_page()
    shown.goto(written.as_uri() + "#example/0/u042")
    assert shown.get_by_role("dialog").get_by_role("heading", name="u042").is_visible()
    shown.close()


def test_where_to_look_first_opens_it(opened: Any) -> None:
    opened.locator("select.fate").select_option("proved")
    opened.get_by_role("link", name="open it").click()
    assert opened.get_by_role("dialog").get_by_role("heading", name="u000").is_visible()
    assert opened.url.endswith("#example/0/u000")


def test_a_phone_shows_the_first_page_without_scrolling_aside(opened: Any) -> None:
    opened.set_viewport_size({"width": 360, "height": 740})
    assert opened.evaluate("document.documentElement.scrollWidth") == 360
    for selector in ("#claims .scroll", "#overview .scroll"):
        assert opened.locator(selector).evaluate("box => box.scrollWidth <= box.clientWidth"), selector
    told = opened.locator("#overview tbody td").all()
    assert all(cell.bounding_box()["x"] + cell.bounding_box()["width"] <= 360 for cell in told)


def test_in_the_frame_of_a_notebook_it_stays_in_its_frame(browser: Any, written: Path, tmp_path: Path) -> None:
    """Links lead within the frame, whose address is the notebook's, and no origin is lent to it."""
    framed = f'<iframe sandbox="allow-scripts" srcdoc="{escape(written.read_text())}"></iframe>'
    (tmp_path / "notebook.html").write_text(f"<title>notebook</title>{framed}")
    shown, said, moved = browser.new_page(), [], []
    shown.on("pageerror", lambda error: said.append(str(error)))
    shown.goto((tmp_path / "notebook.html").as_uri())
    inner = shown.frames[-1]
    inner.locator("section.examples tbody tr").first.wait_for()
    shown.on("framenavigated", lambda frame: moved.append(frame.url))
    inner.get_by_role("link", name="not tested").click()
    assert inner.evaluate("scrollY") > 0
    inner.get_by_role("link", name="open it").click()
    assert inner.get_by_role("dialog").get_by_role("heading", name="u000").is_visible()
    inner.get_by_role("button", name="close").click()
    assert (said, moved, inner.url) == ([], [], "about:srcdoc")
    shown.close()


def test_hostile_names_stay_text(opened: Any) -> None:
    opened.get_by_role("searchbox").fill("onerror")
    opened.locator("section.examples tbody button").click()
    assert opened.get_by_role("dialog").locator("h2").inner_text() == HOSTILE
    assert opened.get_by_role("dialog").locator("img").count() == 0
    assert opened.title() != "1"


def test_dark_and_printed(opened: Any) -> None:
    colour = "getComputedStyle(document.body).backgroundColor"
    light = opened.evaluate(colour)
    opened.emulate_media(color_scheme="dark")
    dark = opened.evaluate(colour)
    assert sum(map(int, dark[4:-1].split(","))) < 120 < 600 < sum(map(int, light[4:-1].split(",")))
    opened.emulate_media(media="print", color_scheme="dark")
    assert opened.evaluate(colour) == "rgb(255, 255, 255)"
    assert not opened.get_by_role("searchbox").is_visible()
    opened.emulate_media(media="print", color_scheme="light")
    assert opened.pdf().startswith(b"%PDF")


@pytest.mark.parametrize(("scheme", "other"), [("light", "dark"), ("dark", "light")])
def test_the_reader_may_choose_dark_or_light(opened: Any, scheme: str, other: str) -> None:
    """Against the system as well; what is printed stays light."""
    colour = "getComputedStyle(document.body).backgroundColor"
    opened.emulate_media(media="screen", color_scheme=scheme)
    before = opened.evaluate(colour)
    opened.get_by_role("button", name=other, exact=True).click()
    after = opened.evaluate(colour)
    dark, light = sorted((before, after), key=lambda text: sum(map(int, text[4:-1].split(","))))
    assert dark != light
    assert (before, after) == ((light, dark) if scheme == "light" else (dark, light))
    opened.emulate_media(media="print", color_scheme=scheme)
    assert opened.evaluate(colour) == "rgb(255, 255, 255)"
    opened.emulate_media(media="screen", color_scheme=scheme)
    opened.get_by_role("button", name=scheme, exact=True).click()
    assert opened.evaluate(colour) == before


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_serious_fault(opened: Any, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed")
    opened.emulate_media(color_scheme=scheme)
    opened.locator("details").evaluate_all("all => all.forEach(d => { d.open = true; })")
    for state in ("closed", "open"):
        if state == "open":
            opened.locator("section.examples tbody button").first.click()
        found = axe.Axe().run(opened).response
        assert {"color-contrast", "button-name"} <= {passed["id"] for passed in found["passes"]}
        grave = [v for v in found["violations"] if v["impact"] in ("serious", "critical")]
        serious = [(v["id"], [n["html"][:200] for n in v["nodes"]][:3]) for v in grave]
        assert serious == [], state


@pytest.mark.nightly
def test_twenty_thousand_examples_are_quick(browser: Any, tmp_path: Path) -> None:
    """Opens in under 2 s and filters in under 100 ms."""
    rows = Rows()
    for i in range(20_000):
        rows.clean(f"example-{i:05d}", label=i % 10).attack(f"example-{i:05d}", "a", "broken" if i % 3 else "none")
    whole = plan([evaluation(attack())], [threat()])
    path = tmp_path / "large.html"
    path.write_text(page(view_of(make_bundle(tmp_path / "run", whole, rows.all))), encoding="utf-8")
    shown = browser.new_page()
    began = time.perf_counter()
    shown.goto(path.as_uri())
    shown.locator("section.examples tbody tr").first.wait_for()
    took = time.perf_counter() - began
    filtering = shown.evaluate(
        """() => { const box = document.querySelector("input[type=search]"), began = performance.now();
        box.value = "example-19"; box.dispatchEvent(new Event("input")); document.body.offsetHeight;
        return performance.now() - began; }"""
    )
    sorting = shown.evaluate(
        """() => { const box = document.querySelector("input[type=search]"); box.value = "";
        box.dispatchEvent(new Event("input")); const began = performance.now();
        document.querySelector("thead button[value=label]").click(); return performance.now() - began; }"""
    )
    size = path.stat().st_size / 1e6
    print(f"{size:.1f} MB: open {took:.2f} s, filter {filtering:.0f} ms, sort {sorting:.0f} ms")
    assert took < 2
    assert filtering < 100
    shown.close()
