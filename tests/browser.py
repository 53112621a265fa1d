"""A real headless browser, driven through its DevTools protocol.

Where no Chromium is installed the tests that need one are left out with a reason; with
BRTHEORY_BROWSER_REQUIRED=1 they fail instead. BRTHEORY_BROWSER names another one.
"""

import asyncio
import itertools
import json
import os
import shutil
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import ClientSession

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless=new",
    "--no-sandbox",  # tests run as root in containers
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--no-first-run",
    "--remote-debugging-port=0",
)


def find_browser():
    """Path of a browser; leaves the test out, or fails it, where there is none."""
    named = os.environ.get("BRTHEORY_BROWSER")
    found = shutil.which(named) if named else next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        if os.environ.get("BRTHEORY_BROWSER_REQUIRED") == "1":
            pytest.fail("a browser is required (BRTHEORY_BROWSER_REQUIRED=1) and none is installed")
        pytest.skip("NO BROWSER: install chromium, or name one with BRTHEORY_BROWSER")
    return found


class Tab:
    """A page in the browser.

    ``problems`` collects what went wrong in it: exceptions, console errors, refused resources.
    ``requested`` collects the addresses it asked for.
    """

    def __init__(self, socket):
        self.problems = []
        self.requested = []
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers = {}
        self._session = None
        self._reader = asyncio.create_task(self._read())

    async def open(self, url, *, width=1600, height=1000, mobile=False):
        target = await self.send("Target.createTarget", url="about:blank")
        attached = await self.send(
            "Target.attachToTarget", targetId=target["targetId"], flatten=True
        )
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
            await self.send(f"{domain}.enable")
        await self.resize(width, height, mobile=mobile)
        await self.send("Page.navigate", url=url)

    async def resize(self, width, height, *, mobile=False):
        await self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if mobile else 1,
            mobile=mobile,
        )

    async def evaluate(self, expression):
        """The value of an expression, awaited if it is a promise."""
        answer = await self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise AssertionError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    async def text(self, selector):
        return await self.evaluate(f"document.querySelector({json.dumps(selector)}).textContent")

    async def until(self, expression, *, timeout_s=20.0):
        """Wait until an expression is true, and return its value."""
        deadline_s = asyncio.get_running_loop().time() + timeout_s
        while True:
            # A page that is just being loaded may not know its own names yet.
            value = await self.evaluate(f"(() => {{ try {{ return {expression} }} catch {{}} }})()")
            if value:
                return value
            assert asyncio.get_running_loop().time() < deadline_s, (expression, self.problems)
            await asyncio.sleep(0.05)

    async def click(self, selector):
        """Press the mouse where an element is, as a person would."""
        where = await self.evaluate(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            " e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect();"
            " return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            await self.send(
                "Input.dispatchMouseEvent",
                type=kind,
                x=where[0],
                y=where[1],
                button="left",
                clickCount=1,
            )

    async def press(self, key):
        """Press and release a key."""
        text = {"Enter": "\r"}.get(key, "")
        code = {"Enter": 13, "Tab": 9, "ArrowLeft": 37, "ArrowRight": 39}[key]
        for kind in ("keyDown", "keyUp"):
            await self.send(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=code,
                **({"text": text} if text and kind == "keyDown" else {}),
            )

    async def type(self, text):
        await self.send("Input.insertText", text=text)

    async def choose(self, selector, value):
        """Choose an option of a list, with the event a person's choice makes."""
        await self.evaluate(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            f" e.value = {json.dumps(value)};"
            " e.dispatchEvent(new Event('change', {bubbles: true})); })()"
        )

    async def send(self, method, **params):
        """Send a command and return its result."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json(message)
        async with asyncio.timeout(30):
            answer = await self._answers[number]
        assert "error" not in answer, (method, answer)
        return answer["result"]

    async def close(self):
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)

    async def _read(self):
        async for message in self._socket:
            document = json.loads(message.data)
            if "id" in document:
                self._answers.pop(document["id"]).set_result(document)
            else:
                self._note(document["method"], document["params"])

    def _note(self, method, params):
        if method == "Runtime.exceptionThrown":
            self.problems.append(params["exceptionDetails"])
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.problems.append(params["entry"])
        elif method == "Network.requestWillBeSent":
            self.requested.append(params["request"]["url"])


@asynccontextmanager
async def browser():
    """A browser of its own, with an empty profile; yields a tab."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = await asyncio.create_subprocess_exec(
            find_browser(),
            *FLAGS,
            f"--user-data-dir={profile}",
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            address = await _address(Path(profile) / "DevToolsActivePort")
            async with (
                ClientSession() as http,
                http.ws_connect(address, max_msg_size=0) as socket,
            ):
                tab = Tab(socket)
                try:
                    yield tab
                finally:
                    await tab.close()
        finally:
            process.terminate()
            await process.wait()


async def _address(file):
    """Where the browser listens, once it has written that down."""
    async with asyncio.timeout(30):
        while not file.exists() or len(lines := file.read_text().split()) < 2:
            await asyncio.sleep(0.05)
    return f"ws://127.0.0.1:{lines[0]}{lines[1]}"
