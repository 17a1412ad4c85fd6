#!/usr/bin/env python3
"""Pictures of the pages of `ridge serve` for the documents: screenshots.py RIDGE WEB_FIXTURE FOLDER."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import browser

MOST_BYTES = 200_000
KEPT = ["nine-rounds", "sixty-rounds", "full-answers", "paused", "single-shape"]


def main():
    ridge, fixture, images = map(pathlib.Path, sys.argv[1:4])
    if not browser.PROGRAM:
        sys.exit(browser.MISSING)
    with tempfile.TemporaryDirectory() as folder:
        campaigns = pathlib.Path(folder) / "campaigns"
        subprocess.run([fixture, campaigns], check=True)
        for campaign in campaigns.iterdir():
            if campaign.name not in KEPT:
                shutil.rmtree(campaign)
        server = subprocess.Popen([ridge, "serve", campaigns, "--port", "0", "--no-token", "--json"], stdout=subprocess.PIPE, text=True)
        url = json.loads(server.stdout.readline())["url"].rstrip("/")
        window = browser.Browser(pathlib.Path(folder) / "profile")
        try:
            page = window.page(url + "/", width=1100, height=620)
            page.until(f"document.querySelectorAll('tr.finished, tr.paused, tr.stopped').length === {len(KEPT)}")
            for name, path, start, height in [("overview", "/", "body", 560), ("campaign", "/campaign/nine-rounds", "#stands", 1230),
                                              ("round", "/campaign/nine-rounds/round/2", "body", 1000)]:
                page.open(url + path)
                page.until("document.getElementById('connection').textContent === 'Live'")
                time.sleep(0.3)
                target = images / f"serve-{name}.png"
                page.screenshot(target, start, height)
                print(f"{target}: {target.stat().st_size} bytes")
                if target.stat().st_size > MOST_BYTES:
                    sys.exit(f"{target} has more than {MOST_BYTES} bytes")
        finally:
            window.close()
            server.terminate()
            server.wait(10)


if __name__ == "__main__":
    main()
