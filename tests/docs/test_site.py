"""The documents as a site: it is built without a warning, and its links lead somewhere."""

from __future__ import annotations

import html
import re
import subprocess
import sys
import urllib.parse
from pathlib import Path

import pytest

from tests.inspection.browser import dumped, needs_browser

pytest.importorskip("mkdocs", reason="an extra")
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", folder],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return folder


LINK = re.compile(
    r'<(?:a|img|link|script)\b[^>]*?\b(?:href|src)="([^"#]*)(?:#([^"]*))?"'
)
PLACE = re.compile(r'\bid="([^"]*)"')


def test_every_link_of_the_site_leads_to_a_page_and_a_place(site):
    pages = {path: path.read_text() for path in site.rglob("*.html")}
    places = {path: set(PLACE.findall(text)) for path, text in pages.items()}
    lost, seen = [], set()
    for path, text in pages.items():
        for target, place in set(LINK.findall(text)):
            if path.name == "404.html" or (path.parent, target, place) in seen:
                continue
            if urllib.parse.urlsplit(target).scheme:
                continue
            seen.add((path.parent, target, place) if target else ())
            there = (
                path.parent / html.unescape(urllib.parse.unquote(target))
            ).resolve()
            there = there if target else path
            exists = there in pages or there.is_file()
            if not exists or (place and place not in places.get(there, {place})):
                lost.append((path.name, target, place))
    assert not lost, lost[:20]
    assert len(pages) > 200 and (site / "index.html") in pages


def test_the_site_needs_no_other_server(site):
    loaded = re.compile(r'<(?:script|link|img)[^>]*(?:src|href)="(https?:[^"]*)"')
    for path in (site / "index.html", site / "guides" / "profiling.html"):
        assert loaded.findall(path.read_text()) == []


def test_the_menu_has_the_tour_in_its_order_and_every_guide(site):
    text = (site / "index.html").read_text()
    menu = text[text.index("<nav" if "<nav" in text else "navbar") :]
    tour = [menu.find(f"tour/{n:02d}-") for n in range(1, 13)]
    assert -1 not in tour and tour == sorted(tour)
    guides = [path.stem for path in (ROOT / "docs" / "guides").glob("*.md")]
    assert [name for name in guides if f"guides/{name}.html" not in menu] == []


CLICKS = """
window.onload = () => {
  const said = [];
  for (const toggle of document.querySelectorAll(".dropdown-toggle")) {
    toggle.click();
    said.push(toggle.textContent.trim() + toggle.parentNode.querySelectorAll("a").length);
  }
  const open = document.querySelectorAll(".dropdown-menu.show").length;
  document.title = "said " + open + " " + said.join("|");
};
"""


@needs_browser
def test_a_browser_opens_the_menu(site):
    text = dumped((site / "index.html").read_text(), CLICKS, site)
    open_menus, _, said = (
        re.search(r"<title>said (.*?)</title>", text).group(1).partition(" ")
    )
    assert open_menus == "1"
    assert [re.sub(r"\d", "", name) for name in said.split("|")][:2] == [
        "Tour",
        "Guides",
    ]
