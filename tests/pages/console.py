"""The console in a browser, as sellers and operators meet it."""

import json

from browser import Page
from harness import eventually

WORDS = {
    "en": {"sales": "Sales", "new": "New sale", "open": "Open", "paused": "Paused", "closed": "Closed", "upcoming": "Upcoming", "restock": "Restock",
           "sold_out": "Sold out", "won": "Won"},
    "zh": {"sales": "抢购", "new": "新建抢购", "open": "进行中", "paused": "已暂停", "closed": "已结束", "upcoming": "即将开始", "restock": "补货",
           "sold_out": "已售罄", "won": "抢到"},
}


class Console(Page):
    def enter(self, name, role="seller"):
        kept = {"name": name, "role": role, "token": self.server.token(name, role), "expires_at": "2099-01-01T00:00:00.000Z"}
        self.open("/pages.json")
        self.driver.execute_script("localStorage.setItem('stampede.session.console', arguments[0])", json.dumps(kept))
        return self

    def field(self, name):
        """Of the form of a sale."""
        return f"form [name='{name}']"

    def choose(self, selector, value):
        self.driver.execute_script("const at = arguments[0]; at.value = arguments[1]; "
                                   "for (const kind of ['input', 'change']) at.dispatchEvent(new Event(kind, { bubbles: true }))", self.one(selector), value)

    def number(self, name):
        """As the page has it; None where it shows none."""
        value = self.driver.execute_script("return document.querySelector(`[data-number='${arguments[0]}']`)?.dataset.value ?? ''", name)
        return float(value) if value != "" else None

    def verdicts(self):
        return self.driver.execute_script("return Object.fromEntries([...document.querySelectorAll('[data-verdict]')].map((row) => [row.dataset.verdict, Number(row.dataset.total)]))")

    def sale_state(self):
        return self.driver.execute_script("return document.querySelector('#sale-state [data-state]')?.dataset.state ?? null")

    def is_sale(self, state):
        return eventually(lambda: self.sale_state() == state)

    def link(self):
        return self.driver.execute_script("return document.getElementById('link')?.dataset.link ?? null")

    def is_linked(self, word, seconds=15):
        return eventually(lambda: self.link() == word, seconds)

    def sale_id(self):
        return self.driver.current_url.rpartition("/")[2]

    def fits(self):
        """Nothing is wider than the screen."""
        wide, screen = self.driver.execute_script("return [document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        return wide <= screen
