"""The built site in a browser, from disk: nothing overflows or is clipped at three widths in both
colour schemes, pictures are readable in both, the search works, and nothing is fetched.
"""

import io
import os
import re
import shutil
import subprocess
import sys

import pytest

from helpers import ROOT

pytestmark = pytest.mark.tools

WIDTHS = (390, 768, 1400)
PALETTES = {"light": "default", "dark": "slate"}
NAMES = ("chromium", "chromium-browser", "google-chrome")
DESIGN = ("design/", "design.html", "notes.html", "changelog.html")

# Elements that are partly outside of the window, and those whose text is wider than they are. Code
# and tables may scroll, tables within the margins of the article. The folded navigation is outside.
# The padding of code at the end of a line takes 2 pixels of a margin.
OVERFLOWS = """() => {
  const wide = document.documentElement.clientWidth, found = [];
  const name = e => `${e.tagName}.${e.className}: ${e.textContent.trim().slice(0, 40)}`;
  const scrolls = e => /auto|scroll/.test(getComputedStyle(e).overflowX);
  if (document.documentElement.scrollWidth > wide) found.push("the page scrolls sideways");
  const inside = [...document.querySelectorAll(".md-header, .md-main, .md-footer")];
  while (inside.length) {
    const e = inside.pop(), style = getComputedStyle(e), box = e.getBoundingClientRect();
    if (e.matches(".md-search, .md-source, .headerlink, .md-code__nav, .md-top, svg *")) continue;
    if (style.visibility === "hidden" || !box.width || !box.height) continue;
    if (e.matches(".md-sidebar") && (box.right <= 0 || box.left >= wide)) continue;
    if (box.right > wide + 0.5 || box.left < -0.5) found.push(`outside: ${name(e)}`);
    if (scrolls(e)) continue;
    inside.push(...e.children);
    const hides = /hidden|clip/.test(style.overflowX);
    if (style.display === "inline" || e.matches("article")) continue;
    if (e.clientWidth && e.scrollWidth > e.clientWidth + 3)
      found.push(`${hides ? "clipped" : "overflows"}: ${name(e)}`);
  }
  return found;
}"""

# Of each text in a picture: what it says, the height of its letters for 390 pixels, whether it is
# inside, its colour and that of the shape below it.
TEXTS = """() => {
  const svg = document.documentElement, frame = svg.getBoundingClientRect();
  const scale = Math.min(352, frame.width) / svg.viewBox.baseVal.width;
  return [...document.querySelectorAll("text")].map(text => {
    const box = text.getBoundingClientRect(), of = [text, ...text.querySelectorAll("tspan")];
    const sizes = of.filter(e => [...e.childNodes].some(c => c.nodeType === 3 && c.data.trim()))
      .map(e => parseFloat(getComputedStyle(e).fontSize));
    const [x, y] = [(box.left + box.right) / 2, (box.top + box.bottom) / 2];
    const below = document.elementsFromPoint(x, y)
      .find(e => e !== svg && !e.closest("text") && getComputedStyle(e).fill.startsWith("rgb"));
    return {
      says: text.textContent.trim(),
      size: Math.min(...sizes) * scale,
      inside: box.left >= frame.left - 0.5 && box.right <= frame.right + 0.5 &&
        box.top >= frame.top - 0.5 && box.bottom <= frame.bottom + 0.5,
      colour: getComputedStyle(text).fill,
      below: below ? getComputedStyle(below).fill : null,
    };
  }).filter(text => text.says);
}"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built site. It is built twice: the second time there may be caches."""
    pytest.importorskip("mkdocs", reason="no mkdocs: make docs")
    folder = tmp_path_factory.mktemp("site")
    path = f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}"
    for _ in range(2):
        build = [sys.executable, "-m", "mkdocs", "build", "-q", "-d", str(folder)]
        made = subprocess.run(
            build, cwd=ROOT, env=os.environ | {"PATH": path}, capture_output=True, text=True
        )
        assert made.returncode == 0, made.stderr
    return folder


@pytest.fixture(scope="module")
def browser():
    api = pytest.importorskip("playwright.sync_api", reason="no playwright: make docs")
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip("no Chromium: apt-get install chromium")
    with api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program)
        yield started
        started.close()


@pytest.fixture
def page(browser):
    """A page that may load files alone, and may report no error."""
    opened = browser.new_page()
    opened.set_default_timeout(120_000)  # of a machine that has much else to do
    loaded, errors = [], []
    opened.on("request", lambda request: loaded.append(request.url))
    opened.on("pageerror", lambda error: errors.append(str(error)))
    yield opened
    opened.close()
    assert loaded and not errors
    own = ("file:", "data:", "blob:", "about:")
    assert [url for url in loaded if not url.startswith(own)] == []


def pictures(site):
    return sorted([*site.glob("plots/*.svg"), *site.glob("pictures/*.svg")])


def test_the_site_has_no_caches(site):
    made = [path for path in site.rglob("*") if path.is_file()]
    stray = [p for p in made if p.suffix in (".py", ".pyc") or "cache" in str(p.relative_to(site))]
    assert len(made) > 100 and stray == []


def overflows(page) -> list[str]:
    """What overflows once the page has arranged itself for its width."""
    for _ in range(3):
        if not (found := page.evaluate(OVERFLOWS)):
            break
        page.wait_for_timeout(200)
    return found


@pytest.mark.timeout(900)
def test_nothing_overflows(site, page):
    """Every page, at every width, in both schemes."""
    found = {}
    for path in sorted(site.rglob("*.html")):
        if path.name == "404.html":
            continue  # only a server shows it: its addresses begin at the root
        page.goto(path.as_uri(), wait_until="domcontentloaded")  # without the index of the search
        for scheme in PALETTES:
            page.emulate_media(color_scheme=scheme)
            page.wait_for_selector(f"body[data-md-color-scheme={PALETTES[scheme]}]")
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 900})
                if wrong := overflows(page):
                    found[f"{path.relative_to(site)} at {width}, {scheme}"] = wrong[:5]
    assert found == {}


def luminance(colour: str) -> float:
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


def test_texts_of_pictures_are_whole_and_readable(site, page):
    """Inside of the picture, large enough on a telephone, in contrast with both schemes."""
    found = []
    page.set_viewport_size({"width": 1000, "height": 2000})
    assert len(pictures(site)) > 20
    for path in pictures(site):
        page.goto(path.as_uri())
        texts = page.evaluate(TEXTS)
        assert texts, path.name
        for text in texts:
            behind = [text["below"]] if text["below"] else ["rgb(255, 255, 255)", "rgb(30, 33, 41)"]
            least = min(contrast(text["colour"], colour) for colour in behind)
            if not text["inside"] or text["size"] < 7.8 or least < 3.5:
                found.append((path.name, text, round(least, 2)))
    assert found == []


def test_pictures_do_not_glare(site, page):
    """On a dark page none is mostly white."""
    Image = pytest.importorskip("PIL.Image")
    style = "margin: 0; background: #1e2129"
    page.set_viewport_size({"width": 1000, "height": 2000})
    for path in pictures(site):
        page.goto(path.as_uri())  # a page from disk, as a blank one may not show files
        page.evaluate("style => document.documentElement.setAttribute('style', style)", style)
        frame = "(({x, y, width, height}) => ({x, y, width, height}))"
        clip = page.evaluate(f"{frame}(document.documentElement.getBoundingClientRect())")
        shown = Image.open(io.BytesIO(page.screenshot(clip=clip))).convert("L").resize((100, 100))
        light = sum(shown.histogram()[230:]) / 100**2
        assert light < 0.15, (path.name, light)


def test_pages_use_pictures_that_scale(site, page):
    """No page has an image that is wider than its letters allow, or that is missing."""
    for name in ("examples.html", "performance.html", "transposition.html", "index.html"):
        page.set_viewport_size({"width": 390, "height": 900})
        page.goto((site / name).as_uri())
        page.evaluate("document.querySelectorAll('img').forEach(i => i.loading = 'eager')")
        page.wait_for_function("[...document.images].every(i => i.complete)")
        shown = page.evaluate("[...document.images].map(i => [i.src, i.naturalWidth, i.width])")
        assert shown and all(natural and width > 300 for _, natural, width in shown), shown


@pytest.mark.parametrize("start", ["index.html", "design/cpu.html"])
def test_search_works_from_disk(site, page, start):
    """From pages in every folder; those for users come before those of Design."""
    page.goto((site / start).as_uri())
    page.click(".md-search__input")
    questions = {
        "transposition": "transposition.html",
        "donation overwrite_a": "sharding.html",
        "batch vmap": "batching.html",
        "processes": "processes.html",
    }
    for question, answer in questions.items():
        page.fill(".md-search__input", "")
        page.type(".md-search__input", question)
        first = ".md-search-result__item a.md-search-result__link"
        page.wait_for_function(
            "([first, answer]) => document.querySelector(first)?.href.includes(answer)",
            arg=[first, answer],
        )
        href = page.get_attribute(first, "href").removeprefix(f"{site.as_uri()}/")
        assert href.startswith(answer) and not href.startswith(DESIGN), question
    page.click(first)
    page.wait_for_url("**/processes.html*")


def test_formulas_are_shown(site, page):
    """As MathML, whole on a telephone, and none is left in LaTeX."""
    page.set_viewport_size({"width": 390, "height": 900})
    made = 0
    for path in sorted(site.rglob("*.html")):
        text = path.read_text()
        assert "arithmatex" not in text and "$$" not in text, path
        if "<math" not in text:
            continue
        page.goto(path.as_uri())
        heights = page.evaluate(
            "[...document.querySelectorAll('math')].map(m => m.getBoundingClientRect().height)"
        )
        beyond = page.evaluate(
            "[...document.querySelectorAll('.formula')].map(f => f.scrollWidth - f.clientWidth)"
        )
        assert min(heights) > 8 and max(beyond, default=0) <= 0, (path.name, heights, beyond)
        made += len(heights)
    assert made > 10


def test_pages_link_to_their_neighbours(site, page):
    page.goto((site / "first-solve.html").as_uri())
    for way, target in ("prev", "install.html"), ("next", "examples.html"):
        assert page.get_attribute(f".md-footer__link--{way}", "href") == target
