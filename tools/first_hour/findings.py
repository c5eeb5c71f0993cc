"""Where stages keep what they find."""

import json
import os


def put(out, name, value):
    """Keeps a stage's findings as JSON."""
    with open(os.path.join(out, name + ".json"), "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1, default=str)
