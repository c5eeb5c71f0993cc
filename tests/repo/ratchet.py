"""Counts of what is not yet as it should be, kept in a file; they may only shrink.

``RATCHET=write pytest tests/repo`` writes smaller counts down; larger ones it refuses.
"""

import json
import os
from pathlib import Path

FOLDER = Path(__file__).with_name("ratchets")


def hold(name, found, remedy):
    """Fails where there is more of something than the list has, place by place.

    Args:
        name: the list's file in ``ratchets``, without ending.
        found: place -> count of today.
        remedy: what to do about a new one.
    """
    path = FOLDER / f"{name}.json"
    listed = json.loads(path.read_text()) if path.exists() else None
    writing = os.environ.get("RATCHET") == "write"
    if listed is None and writing:
        listed = found
    more = {
        place: f"{count}, at most {listed.get(place, 0)}"
        for place, count in sorted(found.items())
        if count > listed.get(place, 0)
    }
    assert not more, f"{name}: more than there were: {more}\n  remedy: {remedy}"
    if writing:
        FOLDER.mkdir(exist_ok=True)
        kept = {place: count for place, count in sorted(found.items()) if count}
        path.write_text(json.dumps(kept, indent=0) + "\n")
