"""The map of the package's rooms in the README, made from ``docs/rooms.toml``.

``python -m tools.rooms`` writes it.
"""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
START, END = "<!-- rooms -->", "<!-- end of rooms -->"


def read():
    """Each room's path, budget, aim and purpose, in the order of the floors."""
    return tomllib.loads((ROOT / "docs" / "rooms.toml").read_text())


def lines_of(path):
    """Lines of the Python sources and declarations below a folder, inner rooms left out."""
    inner = [ROOT / room["path"] for room in read().values()]
    inner = [room for room in inner if ROOT / path in room.parents]
    found = [
        p
        for p in (ROOT / path).rglob("*.p*")
        if p.suffix in (".py", ".pxd") and not any(r in p.parents for r in inner)
    ]
    return sum(len(p.read_text().splitlines()) for p in found)


def map_of(rooms):
    """The table for the README."""
    rows = [
        START,
        "| room | what it is for | lines at most | aim |",
        "| --- " * 4 + "|",
    ]
    for name, room in rooms.items():
        link = f"[`{name}`]({room['path']}/README.md)"
        rows.append(f"| {link} | {room['says']} | {room['most']:,} | {room['aim']:,} |")
    return "\n".join([*rows, END])


def main():
    """Writes the map."""
    readme = ROOT / "README.md"
    text = readme.read_text()
    before, _, rest = text.partition(START)
    after = rest.partition(END)[2]
    readme.write_text(before + map_of(read()) + after)


if __name__ == "__main__":
    main()
