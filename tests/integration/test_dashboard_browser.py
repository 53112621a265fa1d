"""The dashboard in a real headless browser: numbers that change, a router switched by a click."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from brtheory.core.requests import Request
from brtheory.simulation.workload import ClusterShape, StepTime
from tests.browser import browser, find_browser
from tests.unit.proxy.engines import asynchronous_for, until
from tests.unit.proxy.test_with_emulator import emulated

KEY = "a+key/with=signs"
EVIL = "<img src=x onerror=alert(1)><script>alert(2)</script>"
LIVE = "document.querySelector('#status').dataset.state === 'live'"
asynchronous = asynchronous_for(120)


@pytest.fixture(scope="module", autouse=True)
def _needs_a_browser():
    find_browser()


@asynccontextmanager
async def under_load(*flags, requests=24):
    """A proxy whose emulated ranks are busy until the end; yields it and its admin address."""
    shape, step = ClusterShape(4, 4, 1_000_000), StepTime(a0=0, b0=0.02)
    async with emulated(*flags, shape=shape, step_time=step) as s:
        body = {"model": "emulated", "max_tokens": 400, "ignore_eos": True, "stream": True}

        async def one(number):
            while True:
                await s.generate(prompt="word " * (5 + 30 * number), **body)

        tasks = [asyncio.create_task(one(number)) for number in range(requests)]
        await until(lambda: sum(s.truth["active"]) == 16)
        try:
            yield s, f"http://127.0.0.1:{s.running.admin_port}"
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def loads(tab):
    """KV tokens as the table of workers shows them."""
    return await tab.evaluate(
        "[...document.querySelectorAll('#workers tr')].map((r) => r.children[3].textContent)"
    )


@asynchronous
async def test_numbers_live_and_a_click_switches_the_router():
    async with under_load() as (s, admin), browser() as tab:
        await tab.open(f"{admin}/dashboard")
        await tab.until(LIVE)
        await tab.until("document.querySelectorAll('#bars .bar').length === 4")
        first = await loads(tab)
        # Loads, tables and charts move, and what is shown is what the books hold.
        async with asyncio.timeout(20):
            while await loads(tab) == first:
                await asyncio.sleep(0.1)
        shown = [int(text.replace(",", "")) for text in (await loads(tab))[:4]]
        books = s.running.proxy.desk.mirror.loads(s.names)
        # Requests grow by some 50 tokens a second and replica, tables are a second old.
        assert all(abs(a - b) < 2000 for a, b in zip(shown, books, strict=True)), (shown, books)
        assert (await tab.text("#v-idle")).endswith("%")
        assert await tab.text("#v-decoding") == "16"
        await tab.until("document.querySelectorAll('#c-idle .line').length === 1")
        # The form follows what runs; choosing and clicking switches.
        assert await tab.text("#router-now") == "br0"
        assert await tab.evaluate("document.querySelector('#router-name').value") == "br0"
        await tab.choose("#router-name", "window")
        await tab.evaluate(
            "document.querySelector('#router-more').open = true;"
            "document.querySelector('[name=window]').value = '32'"
        )
        await tab.click("#router-switch")
        await tab.until("document.querySelector('#router-now').textContent === 'window'")
        choice = s.running.proxy.desk.ticker.choice
        assert (choice.name, choice.params["window"]) == ("window", 32)
        await tab.until("document.querySelector('#router-result').textContent.includes('window')")
        await tab.until("document.querySelectorAll('#phases tr').length === 2")
        assert await tab.text("#phases tr.current th") == "window"
        assert tab.problems == []
        # Nothing but the proxy itself was asked for anything.
        assert all(url.startswith((admin, "data:")) for url in tab.requested), tab.requested


@asynchronous
async def test_bars_waits_and_the_peak_meet_where_the_numbers_say():
    """Drawn heights, in pixels: load + gap is the peak's height for every replica."""
    tokens = (400, 1000, 700, 100)
    async with emulated(shape=ClusterShape(4, 4, 1_000_000)) as s, browser() as tab:
        mirror = s.running.proxy.desk.mirror
        holds = [
            mirror.bind(Request(10_000 + number, size), s.names[number])
            for number, size in enumerate(tokens)
        ]
        await tab.open(f"http://127.0.0.1:{s.running.admin_port}/dashboard")
        await tab.until("document.querySelector('.peak-line').textContent === 'peak 1,000'")
        await asyncio.sleep(1.0)
        fills, gaps = [
            await tab.evaluate(
                f"[...document.querySelectorAll('#bars {part}')]"
                ".map((e) => e.getBoundingClientRect().height)"
            )
            for part in (".fill", ".gap")
        ]
        unit = fills[1] / 1000
        assert fills == pytest.approx([size * unit for size in tokens], abs=1.5)
        assert [f + g for f, g in zip(fills, gaps, strict=True)] == pytest.approx(
            [1000 * unit] * 4, abs=2.5
        )
        # I / (G*M) = (4*1000 - 2200) / 4000
        assert await tab.text("#v-idle") == "45.0 %"
        for hold in holds:
            mirror.release(hold)


@asynchronous
async def test_it_fits_a_wide_screen_and_a_phone_in_light_and_dark():
    async with under_load() as (_, admin), browser() as tab:
        await tab.open(f"{admin}/dashboard")
        await tab.until(LIVE)
        for width, height, mobile in [(1600, 1000, False), (390, 844, True), (320, 640, True)]:
            await tab.resize(width, height, mobile=mobile)
            await asyncio.sleep(0.5)
            # Nothing sticks out to the side, and every bar is in sight.
            assert await tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
            right = await tab.evaluate(
                "Math.max(...[...document.querySelectorAll('#bars .bar, .tile, .card')]"
                ".map((e) => e.getBoundingClientRect().right))"
            )
            assert right <= width
        for scheme in ("dark", "light"):
            await tab.send(
                "Emulation.setEmulatedMedia",
                features=[{"name": "prefers-color-scheme", "value": scheme}],
            )
            await tab.until(f"document.documentElement.dataset.theme === '{scheme}'")
            for pair in ("--ink --card", "--muted --card", "--idle --card", "--bad --card"):
                assert await contrast(tab, *pair.split()) >= 4.5, (scheme, pair)
            assert await contrast(tab, "--work", "--card") >= 3
        await tab.click("#theme")
        await tab.until("document.querySelector('#theme').textContent === 'Light'")
        assert tab.problems == []


async def contrast(tab, first, second):
    """Contrast ratio of two colours of the page (WCAG 2.1)."""
    return await tab.evaluate(
        "(() => { const c = document.createElement('canvas').getContext('2d');"
        " const light = (name) => {"
        "  c.fillStyle = getComputedStyle(document.documentElement).getPropertyValue(name);"
        "  c.fillRect(0, 0, 1, 1);"
        "  const [r, g, b] = [...c.getImageData(0, 0, 1, 1).data].map((v) => v / 255)"
        "   .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);"
        "  return 0.2126 * r + 0.7152 * g + 0.0722 * b; };"
        f" const [a, b] = [light('{first}'), light('{second}')].sort((x, y) => y - x);"
        " return (a + 0.05) / (b + 0.05); })()"
    )


@asynchronous
async def test_it_asks_for_the_key_and_opens_with_the_right_one_alone():
    async with under_load(f"admin.key={KEY}", requests=16) as (_, admin), browser() as tab:
        await tab.open(f"{admin}/dashboard")
        await tab.until("document.querySelector('#ask').open")
        assert await tab.text("#v-idle") == "–"
        await tab.type("wrong")
        await tab.press("Enter")
        await tab.until(
            "document.querySelector('#ask-result').textContent.includes('not accepted')"
        )
        await tab.type(KEY)
        await tab.press("Enter")
        await tab.until(LIVE)
        # It is kept for this tab only, and forgotten when told to.
        assert (
            await tab.evaluate("Object.keys(localStorage).some((n) => n.includes('key'))") is False
        )
        await tab.send("Page.reload")
        await tab.until(LIVE)
        await tab.click("#forget")
        await tab.until("document.querySelector('#ask').open")
        # 401 answers are the only errors there were.
        assert all("401" in problem["text"] for problem in tab.problems), tab.problems


@asynchronous
async def test_a_key_in_the_address_is_taken_out_of_it_and_never_sent_as_such():
    async with under_load("admin.key=k3y", requests=16) as (_, admin), browser() as tab:
        await tab.open(f"{admin}/dashboard#key=k3y")
        await tab.until(LIVE)
        assert await tab.evaluate("location.href") == f"{admin}/dashboard"
        assert not any("k3y" in url.split("#")[0] for url in tab.requested)
        assert tab.problems == []


@asynchronous
async def test_what_workers_say_is_shown_as_text():
    async with under_load(requests=16) as (s, admin), browser() as tab:
        fleet = s.running.proxy.desk.fleet
        fleet.find(s.names[1]).draining = True
        await s.running.proxy.probes.close()  # so that nobody overwrites the reason
        broken = fleet.of("prefill")[0]
        broken.health.up, broken.health.reason = False, EVIL
        await tab.open(f"{admin}/dashboard")
        await tab.until(LIVE)
        await tab.until("document.querySelector('#workers').textContent.includes('down: ')")
        assert f"down: {EVIL}" in await tab.text("#workers")
        # The page's own script is the only one, and there is no picture.
        assert await tab.evaluate("document.querySelectorAll('img, script').length") == 1
        assert await tab.text("#workers tr:nth-child(2) td") == "draining"
        await tab.until(
            "document.querySelector('#bars .bar:nth-child(2) .slots').textContent === 'draining'"
        )


@asynchronous
async def test_it_comes_back_by_itself_and_says_so_when_the_proxy_is_away():
    async with browser() as tab:
        async with under_load(requests=16) as (_, admin):
            await tab.open(f"{admin}/dashboard")
            await tab.until(LIVE)
        await tab.until("document.querySelector('#status').dataset.state === 'lost'")
        assert await tab.evaluate("document.body.classList.contains('stale')")
        port = int(admin.rsplit(":", 1)[1])
        async with emulated(f"admin.port={port}"):
            await tab.until(LIVE, timeout_s=30)
            assert await tab.text("#router-now") == "br0"


@asynchronous
async def test_it_can_be_used_and_read_without_a_mouse_and_without_sight():
    async with under_load(requests=16) as (s, admin), browser() as tab:
        await tab.open(f"{admin}/dashboard")
        await tab.until(LIVE)
        await tab.until("!document.querySelector('#router-switch').disabled")
        label = "document.querySelector('#bars').getAttribute('aria-label')"
        await tab.until(f"{label}.includes('Fullest: ')")
        tree = (await tab.send("Accessibility.getFullAXTree"))["nodes"]
        named = {
            (node["role"]["value"], node.get("name", {}).get("value", ""))
            for node in tree
            if not node["ignored"]
        }
        wanted = {("heading", "Router"), ("combobox", "Switch to"), ("button", "Switch")}
        assert wanted <= named
        unnamed = [
            role for role, name in named if role in {"button", "combobox", "image"} and not name
        ]
        assert unnamed == []
        # From the list of routers the next stop of the keyboard is the button.
        await tab.choose("#router-name", "jsq")
        await tab.evaluate("document.querySelector('#router-name').focus()")
        await tab.press("Tab")
        assert await tab.evaluate("document.activeElement.id") == "router-switch"
        await tab.press("Enter")
        await until(lambda: s.running.proxy.desk.ticker.choice.name == "jsq", timeout_s=10)
        # A chart tells what was, step by step.
        await tab.until("document.querySelectorAll('#c-rate .line').length === 1")
        await tab.evaluate("document.querySelector('#c-rate').focus()")
        await tab.press("ArrowLeft")
        said = await tab.evaluate("document.querySelector('#c-rate').getAttribute('aria-label')")
        assert said.startswith("Tokens a second: ")
        assert said.endswith("s ago")
