"""Every text in every language, and every text that a page asks for."""

import base64
import json
import pathlib
import re
import subprocess

import pytest

PAGES = pathlib.Path(__file__).resolve().parents[2] / "pages"
SITES = sorted(path.parent.name for path in PAGES.glob("*/texts"))
READ = """
const table = (await import(process.argv[1])).default;
const shown = (entry) => typeof entry === 'function' ? entry(new Proxy({}, { get: (_, name) => `{${String(name)}}` })) : entry;
console.log(JSON.stringify(Object.fromEntries(Object.entries(table).map(([key, entry]) => [key, shown(entry)]))));
"""


def table(site, language):
    """key: text, with {name} where a value goes."""
    path = PAGES / site / "texts" / f"{language}.js"
    source = "data:text/javascript;base64," + base64.b64encode(path.read_bytes()).decode()
    done = subprocess.run(["node", "--input-type=module", "-e", READ, source], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def values(text):
    return set(re.findall(r"\{(\w+)\}", text))


def test_there_are_sites():
    assert SITES == ["console", "store"]


@pytest.mark.parametrize("site", SITES)
def test_languages_say_the_same(site):
    english, chinese = table(site, "en"), table(site, "zh")
    assert english.keys() == chinese.keys(), english.keys() ^ chinese.keys()
    for key, text in english.items():
        assert text.strip() and chinese[key].strip(), f"{key} says nothing"
        assert values(text) == values(chinese[key]), f"{key} tells other values"
    same = {key for key in english if english[key] == chinese[key] and re.search(r"[a-z]{4}", english[key])}
    assert not same, f"not translated: {same}"


@pytest.mark.parametrize("site", SITES)
def test_whatever_a_page_asks_for_is_there(site):
    known = table(site, "en").keys()
    for path in (PAGES / site).glob("*.js"):
        asked = set(re.findall(r"\btext\('([\w.]+)'", path.read_text()))
        assert asked <= known, f"{path.name}: {asked - known}"
        for begin in re.findall(r"\btext\(`([\w.]+)\.\$\{", path.read_text()):
            assert any(key.startswith(begin + ".") for key in known), f"{path.name}: {begin}."
