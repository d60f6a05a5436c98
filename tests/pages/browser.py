"""A real Chromium, and one page in it as a person meets it."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import tempfile

from harness import eventually
from selenium import webdriver
from selenium.common.exceptions import (ElementClickInterceptedException, ElementNotInteractableException, JavascriptException,
                                        StaleElementReferenceException, WebDriverException)
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHOTS = ROOT / "build" / "screenshots"
DESK, PHONE = (1200, 900), (360, 740)
SWITCHES = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--disable-extensions",
            "--disable-background-networking", "--disable-component-update", "--no-first-run", "--disable-sync"]
# What a browser logs about answers that a test asked for; everything else there is a mistake of ours.
EXPECTED = ("Failed to load resource", "net::ERR_", "Failed to fetch dynamically imported module")


class Browser:
    def __init__(self):
        options = webdriver.ChromeOptions()
        for switch in SWITCHES:
            options.add_argument(switch)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.folder = tempfile.mkdtemp(prefix="stampede-browser-")  # it leaves things behind where it runs
        service = Service("/usr/bin/chromedriver", env={**os.environ, "TMPDIR": self.folder})
        self.driver = webdriver.Chrome(service=service, options=options)
        self.driver.set_page_load_timeout(90)
        self.driver.set_script_timeout(90)

    def close(self):
        self.driver.quit()
        shutil.rmtree(self.folder, ignore_errors=True)


class Page:
    """One person at one site. What the browser kept of the person before is thrown away."""

    SITE, ROLE = "store", "customer"

    def __init__(self, browser, server, port=None):
        self.driver = browser.driver
        self.server = server
        self.base = f"http://127.0.0.1:{port or server.port}"
        self.driver.execute_cdp_cmd("Storage.clearDataForOrigin", {"origin": self.base, "storageTypes": "all"})
        self.driver.get_log("browser")
        self.meddled = []
        self.speak("en-US")
        self.screen(DESK)
        self.scheme("light")

    def finish(self):
        said = [entry["message"] for entry in self.driver.get_log("browser") if not any(word in entry["message"] for word in EXPECTED)]
        for one in self.meddled:
            self.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", {"identifier": one})
        self.driver.get("about:blank")
        assert not said, said

    # How the person comes.

    def speak(self, language):
        """What navigator.languages says."""
        agent = self.driver.execute_script("return navigator.userAgent")
        self.driver.execute_cdp_cmd("Network.setUserAgentOverride", {"userAgent": agent, "acceptLanguage": language})

    def screen(self, size):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": size[0] < 600})

    def scheme(self, name, calm=False):
        """By day or by night; calm: nothing moves, so that colours are not judged on their way."""
        features = [{"name": "prefers-color-scheme", "value": name}, {"name": "prefers-reduced-motion", "value": "reduce" if calm else "no-preference"}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def meddle(self, script, *values):
        """Runs before the scripts of whatever this tab opens from now on. values stand for the $1, $2 … in it."""
        for i, value in enumerate(values, 1):
            script = script.replace(f"${i}", json.dumps(value))
        self.driver.execute_cdp_cmd("Page.enable", {})
        self.meddled.append(self.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": script})["identifier"])
        return self

    def open(self, path):
        self.driver.get(self.base + path)
        return self

    def reload(self):
        self.driver.refresh()
        return self

    def enter(self, name, role=None):
        """Logged in as if by the form, without the time a password takes."""
        role = role or self.ROLE
        kept = {"name": name, "role": role, "token": self.server.token(name, role), "expires_at": "2099-01-01T00:00:00.000Z"}
        self.open("/pages.json")
        self.driver.execute_script("localStorage.setItem(`stampede.session.${arguments[0]}`, arguments[1])", self.SITE, json.dumps(kept))
        return self

    def token(self):
        """Of whoever is logged in."""
        return self.driver.execute_script("return JSON.parse(localStorage.getItem(`stampede.session.${arguments[0]}`)).token", self.SITE)

    @contextlib.contextmanager
    def injected(self, script):
        """Runs before anything else in every page that is opened meanwhile."""
        self.driver.execute_cdp_cmd("Page.enable", {})
        made = self.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": script})
        try:
            yield
        finally:
            self.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", {"identifier": made["identifier"]})

    @contextlib.contextmanager
    def hidden(self):
        """Its window is put away meanwhile."""
        window = self.driver.execute_cdp_cmd("Browser.getWindowForTarget", {})["windowId"]
        self.driver.execute_cdp_cmd("Browser.setWindowBounds", {"windowId": window, "bounds": {"windowState": "minimized"}})
        eventually(lambda: self.driver.execute_script("return document.hidden"))
        try:
            yield
        finally:
            self.driver.execute_cdp_cmd("Browser.setWindowBounds", {"windowId": window, "bounds": {"windowState": "normal"}})

    # What is there.

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector, seconds=10):
        """The first that is visible; it may take a moment to come."""
        return self.waits(lambda: next((element for element in self.seen(selector)), None), seconds, selector)

    def waits(self, check, seconds, wish):
        """eventually(), with what the page shows where it does not come."""
        try:
            return eventually(check, seconds)
        except AssertionError:
            logged = [entry["message"] for entry in self.driver.get_log("browser")]
            raise AssertionError(f"no {wish} after {seconds} s at {self.driver.current_url}: button {self.state()}\n{self.text('body')}\n{logged}") from None

    def seen(self, selector):
        found = []
        for element in self.all(selector):
            try:
                if element.is_displayed():
                    found.append(element)
            except StaleElementReferenceException:
                continue
        return found

    def text(self, selector="main"):
        try:
            return self.driver.execute_script("return document.querySelector(arguments[0])?.innerText ?? ''", selector)
        except (JavascriptException, WebDriverException):
            return ""

    def says(self, words, selector="main", seconds=10):
        """Waits until the words are there."""
        return self.waits(lambda: words in self.text(selector), seconds, words)

    def shows(self, pattern, selector="main", seconds=10):
        """says(), of what a regular expression finds: times go on meanwhile."""
        return self.waits(lambda: re.search(pattern, self.text(selector)), seconds, pattern)

    def is_at(self, path):
        """Waits until this is the address."""
        return self.waits(lambda: self.driver.current_url == self.base + path, 10, path)

    def state(self):
        """Of the button; None while the page is on its way."""
        try:
            return self.driver.execute_script("return document.getElementById('grab')?.dataset.state ?? null")
        except (JavascriptException, WebDriverException):
            return None

    def comes_to(self, *states, seconds=15):
        """Waits until the button is in one of these states; which."""
        return self.waits(lambda: next((state for state in [self.state()] if state in states), None), seconds, states)

    def asked(self):
        """How often a page with COUNT has asked since it was loaded, once it has heard all that it asked for."""
        return self.waits(lambda: self.driver.execute_script("return window.underWay === 0 ? [window.asked] : null"), 10, "last answer")[0]

    def knows_orders(self):
        """Waits until the page has heard which orders its buyer has: it asks by itself once it is opened."""
        asked = "return performance.getEntriesByType('resource').some((one) => one.name.includes('/v1/orders'))"
        self.waits(lambda: self.driver.execute_script(asked), 10, "answer about orders")

    def listen(self):
        """From now on heard() has all that a screen reader is told, until the next reload."""
        self.driver.execute_script(
            "window.heard = []; const live = document.getElementById('live');"
            "new MutationObserver(() => window.heard.push(live.textContent)).observe(live, { childList: true, characterData: true, subtree: true })")

    def heard(self):
        return self.driver.execute_script("return window.heard")

    def hears(self, words, seconds=15):
        self.waits(lambda: any(words in each for each in self.heard()), seconds, words)

    def watch(self):
        """From now on watched() has each state of the button with what it said first, until the next reload: some last for a moment only."""
        self.driver.execute_script(
            "window.watched = {}; const look = () => { const button = document.getElementById('grab');"
            "if (button) window.watched[button.dataset.state] ??= button.innerText; };"
            "new MutationObserver(look).observe(document.body, { childList: true, attributes: true, characterData: true, subtree: true })")

    def watched(self):
        return self.driver.execute_script("return window.watched")

    # What the person does.

    def press(self, selector, seconds=10):
        def pressed():
            try:
                element = self.one(selector, seconds)
                self.driver.execute_script("arguments[0].scrollIntoView({ block: 'center' })", element)
                element.click()
                return True
            except (StaleElementReferenceException, ElementClickInterceptedException, ElementNotInteractableException):
                return False  # it is being drawn
        eventually(pressed, seconds)

    def write(self, selector, words):
        element = self.one(selector)
        element.clear()
        element.send_keys(words)

    def keys(self, *keys):
        webdriver.ActionChains(self.driver).send_keys(*keys).perform()

    def tab_to(self, selector, most=40):
        """Goes there with the Tab key alone."""
        for _ in range(most):
            self.keys(Keys.TAB)
            if self.driver.execute_script("return document.activeElement?.matches(arguments[0]) ?? false", selector):
                return
        raise AssertionError(f"{selector} cannot be reached with the Tab key")

    def fits(self):
        """Nothing is wider than the screen."""
        wide, screen = self.driver.execute_script("return [document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        return wide <= screen

    def shot(self, name):
        """Kept to be looked at."""
        SHOTS.mkdir(parents=True, exist_ok=True)
        self.driver.save_screenshot(str(SHOTS / f"{name}.png"))
