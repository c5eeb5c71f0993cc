"""What ``mkdocs`` does besides: the order of pages, and links out of ``docs``.

Pages link to files of the repository beside ``docs``. Markdown there becomes pages of the
site; of others the site has the text. A link to what is not there stops a strict build.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.exceptions import Abort
from mkdocs.structure.files import File, InclusionLevel

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")
# Pages from outside of `docs`, by where the site has them.
OUTSIDE = ("CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "benchmarks/RESULTS.md")
FOLDER = "repository"  # of the site, for what lies beside `docs`


def title_of(path):
    """A page's first heading."""
    for line in path.read_text().splitlines():
        if line.startswith("# "):
            return line[2:].strip()
    return path.stem.replace("_", " ")


def listed(folder):
    """A folder's pages as entries of the menu."""
    found = sorted(folder.glob("*.md"))
    return [
        {title_of(path): path.relative_to(ROOT / "docs").as_posix()}
        for path in found
        if path.name != "README.md"
    ]


def on_config(config):
    """The menu: the tour in its order, then guides, reference and decisions."""
    docs = ROOT / "docs"
    menu = [
        {"Start": "README.md"},
        {"Tour": listed(docs / "tour")},
        {"Guides": listed(docs / "guides")},
    ]
    if (docs / "reference").is_dir():
        menu.append({"Reference": listed(docs / "reference")})
    decisions = [{"Index": "decisions/README.md"}, *listed(docs / "decisions")]
    menu.append({"Decisions": decisions})
    menu.append(
        {"More": [{title_of(p): p.name} for p in sorted(docs.glob("[!R]*.md"))]}
    )
    config.nav = menu
    return config


def linked(path, text):
    """Files of the repository that a page links to."""
    folder = posixpath.dirname(path)
    for target, _ in LINK.findall(text):
        if "://" not in target:
            yield posixpath.normpath(posixpath.join(folder, target))


def on_files(files, config):
    """Adds what pages link to beside ``docs``, and what those link to."""
    todo = list(OUTSIDE)
    for file in files.documentation_pages():
        todo += linked(f"docs/{file.src_uri}", file.content_string)
    done = set()
    while todo:
        path = todo.pop()
        place = ROOT / path
        if path in done or path.startswith(("docs/", "../")) or not place.is_file():
            continue
        done.add(path)
        if place.suffix == ".md":
            todo += linked(path, place.read_text())
        made = File.generated(
            config,
            outside(path),
            content=shown(place),
            inclusion=InclusionLevel.NOT_IN_NAV,
        )
        files.append(made)
    return files


def outside(path):
    """Where the site has a file from beside ``docs``."""
    name = path if path.endswith(".md") else path + ".md"
    return f"{FOLDER}/{name}"


def shown(path):
    """A page: of Markdown its text, of another file its lines."""
    text = path.read_text()
    if path.suffix == ".md":
        return LINK.sub(lambda found: relinked(found, path), text)
    fence = "`" * 6
    name = path.relative_to(ROOT).as_posix()
    return f"# {name}\n\n{fence}text\n{text}\n{fence}\n"


def relinked(found, path):
    """A link of a page from beside ``docs``, in the site."""
    target, anchor = found.group(1), found.group(2) or ""
    if "://" in target:
        return found.group(0)
    there = (path.parent / target).resolve()
    if not there.is_relative_to(ROOT) or not there.exists():
        raise Abort(f"{path}: there is no {target}")
    name = there.relative_to(ROOT).as_posix()
    here = posixpath.dirname(outside(path.relative_to(ROOT).as_posix()))
    if name.startswith("docs/") and name.endswith(".md"):
        return f"]({posixpath.relpath(name.removeprefix('docs/'), here)}{anchor})"
    return "](#)" if there.is_dir() else f"]({posixpath.relpath(outside(name), here)})"


def on_page_markdown(markdown, page, config, files):
    """Points links out of ``docs`` at the site's pages."""
    if page.file.src_uri.startswith(FOLDER):
        return markdown
    folder = posixpath.dirname(posixpath.join("docs", page.file.src_uri))

    def there(found):
        target, anchor = found.group(1), found.group(2) or ""
        path = posixpath.normpath(posixpath.join(folder, target))
        if "://" in target or path.startswith("docs/") or not (ROOT / path).is_file():
            return found.group(0)
        here = posixpath.dirname(page.file.src_uri)
        return f"]({posixpath.relpath(outside(path), here or '.')}{anchor})"

    return LINK.sub(there, markdown)
