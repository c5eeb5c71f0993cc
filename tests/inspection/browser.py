"""A browser that opens a page, does something there, and gives the page back."""

import shutil
import subprocess

import pytest

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(BROWSER is None, reason="chromium is not installed")


def dumped(page, program, folder):
    """The page's elements after a program ran at its end, as text."""
    path = folder / "opened.html"
    path.write_text(page.replace("</body>", f"<script>{program}</script></body>"))
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    command += [f"--user-data-dir={folder}", f"file://{path}"]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout
