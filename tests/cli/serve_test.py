#!/usr/bin/env python3
"""`ridge serve` as people meet it: the command, and its pages in headless Chromium."""
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import browser

RIDGE = pathlib.Path(sys.argv.pop(1)).resolve()
FIXTURE = pathlib.Path(sys.argv.pop(1)).resolve()


class Server:
    def __init__(self, folder, *words, environment=None):
        self.process = subprocess.Popen([RIDGE, "serve", folder, "--port", "0", "--json", *map(str, words)], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, env=environment)
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(self.process.stderr.read())
        self.answer = json.loads(line)
        self.url, self.port = self.answer["url"].rstrip("/"), self.answer["port"]

    def get(self, path, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    def wait_until_read(self):
        for _ in range(400):
            if all(card["state"] != "reading" for card in json.loads(self.get("/campaigns.json")[1])):
                return
            time.sleep(0.05)
        raise AssertionError("campaigns are still being read")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(10)
        self.process.stdout.close()
        self.process.stderr.close()
        return code


class Base(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.tmp = pathlib.Path(cls.directory.name)
        cls.environment = {**os.environ, "RIDGE_CACHE_DIR": str(cls.tmp / "cache"), "XDG_CONFIG_HOME": str(cls.tmp / "config")}
        cls.made = cls.tmp / "made"
        subprocess.run([FIXTURE, cls.made], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    # A folder with the first lines of a campaign, and the lines that are to come.
    def live(self, name, share=0.6):
        folder = self.tmp / f"live-{self.id().rsplit('.', 1)[1]}"
        lines = (self.made / "nine-rounds/journal.jsonl").read_text().splitlines(keepends=True)
        (folder / name).mkdir(parents=True)
        cut = int(len(lines) * share)
        (folder / name / "journal.jsonl").write_text("".join(lines[:cut]))
        return folder, lines[cut:]

    @staticmethod
    def append(path, lines):
        with open(path, "a") as file:
            file.writelines(lines)

    def serve(self, folder, *words):
        server = Server(folder, *words, environment=self.environment)
        self.addCleanup(lambda: server.process.poll() is None and server.stop())
        return server


class Command(Base):
    def test_it_says_where_it_listens_and_ends_cleanly(self):
        server = self.serve(self.made)
        self.assertIn("?token=", server.answer["open"])
        self.assertEqual(server.get("/")[0], 401)
        self.assertEqual(server.stop(), 0)

    def refused(self, code, says, *words):
        result = subprocess.run([RIDGE, "serve", *map(str, words)], capture_output=True, text=True, timeout=30, env=self.environment, cwd=self.tmp)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        self.assertIn(says, result.stderr)

    def test_what_cannot_be_served_is_said(self):
        server = self.serve(self.made)
        self.refused(7, f"port {server.port} of 127.0.0.1 is taken", self.made, "--port", server.port)
        self.refused(2, "is no folder", self.tmp / "nothing")
        self.refused(2, "this machine has no address 203.0.113.7", self.made, "--bind", "203.0.113.7")
        self.refused(2, "70000 is no port", self.made, "--port", "70000")
        self.refused(2, "--allow-control needs a token", self.made, "--no-token", "--allow-control")
        self.refused(2, "not this machine alone", self.made, "--no-token", "--bind", "0.0.0.0")

    def test_two_servers_on_one_folder_only_read_it(self):
        servers = [self.serve(self.made, "--no-token") for _ in range(2)]
        for server in servers:
            server.wait_until_read()
            self.assertEqual(server.get("/campaign/nine-rounds")[0], 200)

    def test_the_token_of_a_file(self):
        file = self.tmp / "secret/token"
        server = self.serve(self.made, "--token-file", file)
        self.assertEqual(file.stat().st_mode & 0o777, 0o600)
        token = file.read_text().strip()
        self.assertEqual(server.get("/", Authorization=f"Bearer {token}")[0], 200)
        self.assertEqual(server.get("/", Authorization=f"Bearer {token[:-1]}x")[0], 401)
        file.chmod(0o644)
        self.refused(2, "others may read the token", self.made, "--port", "0", "--token-file", file)

    def test_control_stops_a_campaign(self):
        folder, _ = self.live("one")
        file = self.tmp / "control-token"
        server = self.serve(folder, "--allow-control", "--token-file", file)
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        headers = {"Authorization": f"Bearer {file.read_text().strip()}", "Content-Type": "application/json"}
        connection.request("POST", "/campaign/one/stop", "{}", headers)
        answer = connection.getresponse()
        self.assertEqual((answer.status, answer.read().decode()), (200, "The campaign ends after the measurement that is under way, with its final measurement and report.\n"))
        self.assertTrue((folder / "one/stop").exists())
        connection.request("POST", "/campaign/one/extend", '{"budget": "soon"}', headers)
        answer = connection.getresponse()
        self.assertEqual((answer.status, answer.read() != b""), (400, True))
        before = (folder / "one/journal.jsonl").read_bytes()
        connection.request("POST", "/campaign/one/propose", '{"title": "--give-up", "reason": "r", "expect": "8%"}', headers)
        answer = connection.getresponse()
        said = answer.read().decode()
        self.assertEqual(answer.status, 409, said)
        self.assertIn("--kernel or --defines", said)  # a text is a text, also one that looks like an option
        self.assertEqual((folder / "one/journal.jsonl").read_bytes(), before)

    def test_fifty_clients_and_a_slow_one_see_a_change_within_a_second(self):
        folder, rest = self.live("one")
        server = self.serve(folder, "--no-token")
        server.wait_until_read()
        slow = socket.create_connection(("127.0.0.1", server.port))
        slow.sendall(b"GET /campaign/one HTTP/1.1\r\nHost: localhost\r\n")  # and never more
        followers = []
        for _ in range(50):
            follower = socket.create_connection(("127.0.0.1", server.port), timeout=5)
            follower.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.seen(follower, b"following")
            followers.append(follower)
        began = time.monotonic()
        self.append(folder / "one/journal.jsonl", rest)
        for follower in followers:
            self.seen(follower, b"data: one")
        self.assertLess(time.monotonic() - began, 1.0)
        for follower in [*followers, slow]:
            follower.close()

    @staticmethod
    def seen(follower, text):
        data = b""
        while text not in data:
            part = follower.recv(4096)
            if not part:
                raise AssertionError(f"the stream ended before {text}")
            data += part


# What the rules of accessibility ask of every page, as far as a program can see it: names, one h1, a language, contrast.
CHECK = r"""(() => {
  const found = [];
  const named = (e) => (e.getAttribute("aria-label") || e.innerText || e.title || [...(e.labels ?? [])].map((l) => l.innerText).join("") || "").trim();
  if (document.documentElement.lang !== "en") found.push("no language");
  if (document.querySelectorAll("h1").length !== 1) found.push("not one h1");
  if (!document.querySelector("main")) found.push("no main");
  for (const e of document.querySelectorAll("a, button, input, select")) if (!e.hidden && !named(e)) found.push("no name: " + e.outerHTML.slice(0, 80));
  for (const e of document.querySelectorAll("svg[role=img]")) if (!document.getElementById(e.getAttribute("aria-labelledby").split(" ")[0])) found.push("no name: svg");
  let level = 1;
  for (const e of document.querySelectorAll("h1, h2, h3, h4")) { const l = +e.tagName[1]; if (l > level + 1) found.push("heading skips to " + e.outerHTML.slice(0, 60)); level = l; }
  const parse = (c) => { const m = c.match(/[\d.]+/g).map(Number); return c.startsWith("color(srgb") ? [m[0] * 255, m[1] * 255, m[2] * 255, m[3] ?? 1] : [m[0], m[1], m[2], m[3] ?? 1]; };
  const light = ([r, g, b]) => { const f = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b); };
  const under = (e) => { const layers = []; for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c[3] > 0) layers.push(c); if (c[3] === 1) break; }
    let base = [255, 255, 255]; if (layers.length && layers.at(-1)[3] === 1) base = layers.pop(); for (const l of layers.reverse()) base = base.map((v, i) => v * (1 - l[3]) + l[i] * l[3]); return base; };
  for (const e of document.querySelectorAll("p, a, td, th, dd, dt, span, h1, h2, h3, small, label, button, summary, li, kbd")) {
    if (!e.checkVisibility() || ![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
    const a = light(parse(getComputedStyle(e).color)), b = light(under(e));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.45) found.push(`contrast ${ratio.toFixed(2)}: ${e.outerHTML.slice(0, 90)}`);
  }
  if (document.documentElement.scrollWidth > innerWidth + 1) found.push(`wider than the window: ${document.documentElement.scrollWidth} of ${innerWidth}`);
  return found;
})()"""


@unittest.skipUnless(browser.PROGRAM, browser.MISSING)
class Pages(Base):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.browser = browser.Browser(cls.tmp / "profile")

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        super().tearDownClass()

    def test_a_running_campaign_is_followed_and_a_reader_keeps_the_place(self):
        folder, rest = self.live("one")
        server = self.serve(folder, "--no-token")
        page = self.browser.page(server.url + "/campaign/one")
        page.until("document.getElementById('connection').textContent === 'Live'")
        before = page.run("document.querySelectorAll('#rounds tbody tr').length")
        page.run("document.querySelector('#stands figure').scrollIntoView(); document.querySelector('#rounds a.row').focus({preventScroll: true})")
        place, focus = page.run("scrollY"), page.run("document.activeElement.getAttribute('href')")
        began = time.monotonic()
        self.append(folder / "one/journal.jsonl", rest)
        page.until(f"document.querySelectorAll('#rounds tbody tr').length > {before}")
        self.assertLess(time.monotonic() - began, 2.0)
        page.until("document.getElementById('connection').textContent === 'Live'")
        self.assertLess(abs(page.run("scrollY") - place), 400)
        self.assertEqual(page.run("document.activeElement.getAttribute('href')"), focus)
        self.assertEqual(page.complaints(), [])

    def test_a_browser_comes_back_when_the_server_does(self):
        folder, rest = self.live("one")
        server = self.serve(folder, "--no-token")
        page = self.browser.page(server.url + "/campaign/one")
        page.until("document.getElementById('connection').textContent === 'Live'")
        before = page.run("document.querySelectorAll('#rounds tbody tr').length")
        server.stop()
        page.until("document.getElementById('connection').textContent.includes('lost')")
        self.append(folder / "one/journal.jsonl", rest)
        again = Server(folder, "--no-token", "--port", server.port, environment=self.environment)
        self.addCleanup(again.stop)
        page.until(f"document.querySelectorAll('#rounds tbody tr').length > {before}")
        page.until("document.getElementById('connection').textContent === 'Live'")

    def test_an_evil_title_runs_no_script(self):
        server = self.serve(self.made, "--no-token")
        server.wait_until_read()
        for path in ["/", "/campaign/hostile-texts", "/campaign/hostile-texts/round/2"]:
            page = self.browser.page()
            page.call("Page.addScriptToEvaluateOnNewDocument", source="window.alert = (what) => { window.attacked = what; };")
            page.open(server.url + path)
            self.assertIsNone(page.run("window.attacked ?? null"), path)
            self.assertEqual(page.run("document.querySelectorAll('script:not([src]), img, iframe').length"), 0, path)
            self.assertEqual(page.complaints(), [], path)
        self.assertIn("<script>alert(1)</script>", page.text() + self.browser.page(server.url + "/campaign/hostile-texts").text())
        # Even one that became markup would not run.
        page.run("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.attacked = 1\">'); 0")
        time.sleep(0.2)
        self.assertIsNone(page.run("window.attacked ?? null"))

    def test_a_browser_needs_the_address_that_works_once(self):
        server = self.serve(self.made)
        stranger = self.browser.page(server.url + "/")
        self.assertIn("a token is needed", stranger.text())
        owner = self.browser.page(server.answer["open"])
        owner.until("document.querySelector('h1').innerText === 'Campaigns'")
        self.assertNotIn("token", owner.run("location.href"))
        owner.open(server.url + "/campaign/nine-rounds")
        self.assertIn("Rounds", owner.text())
        self.assertIn("a token is needed", self.browser.page(server.answer["open"]).text())

    def test_the_list_is_searched_by_keyboard(self):
        server = self.serve(self.made, "--no-token")
        server.wait_until_read()
        page = self.browser.page(server.url + "/")
        page.press("/")
        self.assertEqual(page.run("document.activeElement.name"), "q")
        for letter in "sixty":
            page.press(letter)
        page.until("document.querySelectorAll('tbody tr').length === 1")
        self.assertEqual(page.run("document.activeElement.name + '=' + document.activeElement.value"), "q=sixty")
        self.assertIn("q=sixty", page.run("location.search"))
        page.run("document.activeElement.blur()")
        page.press("j")
        page.press("Enter")
        page.until("location.pathname === '/campaign/sixty-rounds'")
        page.open(server.url + "/campaign/sixty-rounds/round/5")
        page.until("document.getElementById('connection').textContent === 'Live'")
        page.press("j")
        page.until("location.pathname.endsWith('/round/6') && document.getElementById('connection').textContent === 'Live'")
        page.press("u")
        page.until("location.pathname === '/campaign/sixty-rounds'")

    def test_names_contrast_and_width_from_a_phone_to_a_wall(self):
        server = self.serve(self.made, "--no-token")
        server.wait_until_read()
        paths = ["/", "/campaign/full-answers", "/campaign/full-answers/round/2", "/campaign/sixty-rounds", "/campaign/hostile-texts/round/2",
                 "/compare?c=nine-rounds&c=sixty-rounds", "/device", "/device/full-answers", "/library", "/campaign/full-answers/round/2/samples"]
        for width, dark in [(1280, False), (1280, True), (375, False), (3840, True)]:
            page = self.browser.page(width=width, height=900, dark=dark)
            for path in paths:
                page.open(server.url + path)
                self.assertEqual(page.run(CHECK), [], f"{path} at {width}{' dark' if dark else ''}")
            self.assertEqual(page.complaints(), [])

    def test_buttons_ask_the_server(self):
        folder, _ = self.live("one")
        server = self.serve(folder, "--allow-control")
        page = self.browser.page(server.answer["open"])
        page.open(server.url + "/campaign/one")
        page.until("document.querySelector('form[data-post] input') !== null")
        page.run("document.querySelector('form[data-post] input').value = 'soon'; document.querySelector('form[data-post]').requestSubmit()")
        page.until("document.getElementById('said').textContent.includes('soon')")


if __name__ == "__main__":
    unittest.main(verbosity=1)
