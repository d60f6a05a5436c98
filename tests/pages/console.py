"""The console in a browser, as sellers and operators meet it."""

from browser import Page
from harness import eventually

WORDS = {
    "en": {"sales": "Sales", "new": "New sale", "open": "Open", "paused": "Paused", "closed": "Closed", "upcoming": "Upcoming", "restock": "Restock",
           "sold_out": "Sold out", "won": "Won"},
    "zh": {"sales": "抢购", "new": "新建抢购", "open": "进行中", "paused": "已暂停", "closed": "已结束", "upcoming": "即将开始", "restock": "补货",
           "sold_out": "已售罄", "won": "抢到"},
}


class Console(Page):
    SITE, ROLE = "console", "seller"

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

    def a_second(self):
        """By verdict, as the page has it."""
        return self.driver.execute_script(
            "return Object.fromEntries([...document.querySelectorAll('[data-verdict]')].map((row) => [row.dataset.verdict, Number(row.lastChild.textContent.replaceAll(',', ''))]))")

    def curve(self, name):
        """The numbers beside it, the newest first: [[time, …]]."""
        return self.driver.execute_script(
            "return [...document.querySelectorAll(`#plot-${arguments[0]} tbody tr`)].map((row) => [...row.cells].map((cell) => cell.textContent))", name)

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

    def marks(self, selector, name):
        """An attribute of each, at one moment: what is drawn anew every few seconds is not to be held on to."""
        return self.driver.execute_script("return [...document.querySelectorAll(arguments[0])].map((one) => one.getAttribute(arguments[1]))", selector, name)

    def facts(self, node):
        """What the card of a node says: {fact: text}."""
        return self.driver.execute_script(
            "return Object.fromEntries([...document.querySelectorAll(`.node[data-node='${arguments[0]}'] [data-fact]`)].map((row) => [row.dataset.fact, row.querySelector('dd').textContent]))", node)
