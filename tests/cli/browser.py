"""Headless Chromium over the DevTools protocol, on two pipes: JSON messages that end with a zero byte. Nothing but Python's own library
is needed; a WebSocket, which a package would bring, is only the protocol's other transport."""
import base64
import json
import os
import shutil
import subprocess
import threading
import time

PROGRAM = next(filter(None, map(shutil.which, ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"])), None)
MISSING = "no Chromium here: apt-get install chromium-headless-shell"


class Browser:
    def __init__(self, profile, *flags):
        to_browser, mine_out = os.pipe()
        mine_in, from_browser = os.pipe()
        os.set_inheritable(to_browser, True)
        os.set_inheritable(from_browser, True)

        def as_three_and_four():
            # Moved out of the way first: one may be 3 or 4 itself.
            reading, writing = os.dup(to_browser), os.dup(from_browser)
            os.dup2(reading, 3)
            os.dup2(writing, 4)

        self.process = subprocess.Popen(
            [PROGRAM, "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--hide-scrollbars", "--force-color-profile=srgb", f"--user-data-dir={profile}", *flags, "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False, preexec_fn=as_three_and_four)
        os.close(to_browser)
        os.close(from_browser)
        self.output = os.fdopen(mine_out, "wb", buffering=0)
        self.input = os.fdopen(mine_in, "rb", buffering=0)
        self.next, self.answers, self.events, self.arrived = 0, {}, [], threading.Condition()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        left = b""
        while part := self.input.read(1 << 16):
            *messages, left = (left + part).split(b"\0")
            with self.arrived:
                for message in map(json.loads, messages):
                    if "id" in message:
                        self.answers[message["id"]] = message
                    else:
                        self.events.append(message)
                self.arrived.notify_all()

    def call(self, method, session=None, timeout=30, **parameters):
        self.next += 1
        message = {"id": self.next, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        self.output.write(json.dumps(message).encode() + b"\0")
        with self.arrived:
            number = self.next
            if not self.arrived.wait_for(lambda: number in self.answers, timeout):
                raise TimeoutError(method)
            answer = self.answers.pop(number)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def page(self, url=None, **size):
        return Page(self, url, **size)

    def close(self):
        try:
            self.call("Browser.close", timeout=5)
        except (OSError, TimeoutError, RuntimeError):
            pass
        self.output.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.reader.join(5)  # it reads to the end, which the browser's end is
        self.input.close()


class Page:
    """A tab with cookies of its own."""

    def __init__(self, browser, url=None, width=1280, height=900, dark=False):
        self.browser = browser
        self.context = browser.call("Target.createBrowserContext")["browserContextId"]
        target = browser.call("Target.createTarget", url="about:blank", browserContextId=self.context)["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ["Page", "Runtime", "Log", "Network"]:
            self.call(domain + ".enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        if url:
            self.open(url)

    def call(self, method, **parameters):
        return self.browser.call(method, session=self.session, **parameters)

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'")

    def run(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"].get("exception", {}).get("description", "exception") + " in " + expression)
        return answer["result"].get("value")

    def until(self, expression, timeout=20):
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            try:
                if value := self.run(expression):
                    return value
            except RuntimeError:
                pass  # between two pages
            time.sleep(0.03)
        raise AssertionError(f"never came true: {expression}; the page says: {self.text()[:400]}")

    def text(self):
        return self.run("document.body.innerText")

    def press(self, key):
        for kind in ["keyDown", "keyUp"]:
            self.call("Input.dispatchKeyEvent", type=kind, key=key, **({"text": {"Enter": "\r"}.get(key, key)} if kind == "keyDown" else {}))

    # What went wrong in the page: exceptions, and errors in its log.
    def complaints(self):
        with self.browser.arrived:
            mine = [event for event in self.browser.events if event.get("sessionId") == self.session]
        found = [event["params"]["exceptionDetails"]["text"] for event in mine if event["method"] == "Runtime.exceptionThrown"]
        return found + [event["params"]["entry"]["text"] for event in mine
                        if event["method"] == "Log.entryAdded" and event["params"]["entry"]["level"] == "error"]

    # From the upper edge of an element on.
    def screenshot(self, path, start, height):
        width = self.call("Page.getLayoutMetrics")["cssLayoutViewport"]["clientWidth"]
        top = self.run(f"document.querySelector({json.dumps(start)}).getBoundingClientRect().top + scrollY")
        clip = {"x": 0, "y": top, "width": width, "height": height, "scale": 1}
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)["data"]))
