"""Buyers who go on buying at a node whatever happens to it, and what must be true of what they were told (P1 to P4, P7; ack = ledger)."""

import contextlib
import threading
import time

from harness import Shop, eventually, problem, run

ANSWER_S_MAX = 20  # nobody waits longer than this, whatever is lost


class Buyers:
    """One who buys at a node, again and again, each time as another; what they were told."""

    def __init__(self, name, server, sale, pause_s=0.02):
        self.name, self.sale, self.pause_s = name, sale, pause_s
        self.shop = Shop(server)
        self.answers = {}  # buyer -> (when it came, the answer)
        self.slowest_s = 0.0
        self.wrong = None  # what ended them before their time
        self.going = threading.Event()
        self.thread = threading.Thread(target=self._buy)
        self.thread.start()

    def _buy(self):
        try:
            while not self.going.is_set():
                buyer = f"{self.name}-{len(self.answers)}"
                asked = time.monotonic()
                with contextlib.suppress(ConnectionError):
                    answer = self.shop.grab(self.sale, buyer, key="k-" + buyer)
                    self.answers[buyer] = time.monotonic(), answer
                self.slowest_s = max(self.slowest_s, time.monotonic() - asked)
                time.sleep(self.pause_s)
        except Exception as error:  # told by whoever waits for us
            self.wrong = error

    def end(self):
        self.going.set()
        self.thread.join(ANSWER_S_MAX + 10)
        assert not self.thread.is_alive() and self.slowest_s < ANSWER_S_MAX, f"{self.name}: {self.slowest_s:.1f} s for an answer"
        if self.wrong is not None:
            raise self.wrong

    def of(self, *codes):
        return {buyer for buyer, (_, answer) in self.answers.items() if answer.code in codes}

    @property
    def won(self):
        return {buyer: answer.json()["order"]["no"] for buyer, (_, answer) in self.answers.items() if answer.status == 201}

    def check_refusals(self):
        """Clear ones: why, and when to come again."""
        for _, answer in self.answers.values():
            if answer.status != 201:
                problem(answer, 503, ("BUSY", "OUTCOME_UNKNOWN", "NOT_READY"))
                assert int(answer.headers["retry-after"]) >= 1, answer


def settle(shop, sale, buyers):
    """P7: who does not know the outcome asks again, at any node, and the second time hears the same; the orders of those who have won."""
    won = {}
    for buyer in sorted(buyers):
        answer = eventually(lambda buyer=buyer: (got := shop.grab(sale, buyer, key="k-" + buyer)).status != 503 and got, 30)
        again = shop.grab(sale, buyer, key="k-" + buyer)
        if answer.status == 201:
            won[buyer] = answer.json()["order"]["no"]
            assert again.json()["order"]["no"] == won[buyer]
        else:
            problem(answer, 409, "SOLD_OUT")
    return won


def check_whole(nodes, shops, sale, told):
    """What was told is what there is, in the ledger and in Redis, as every node says."""
    rows = {row["buyer"]: str(row["no"]) for row in nodes.ledger().orders(sale)}
    assert rows == told, (rows.keys() - told.keys(), told.keys() - rows.keys())
    offered = nodes.ledger().sale(sale)["offered"]
    counts = (offered, offered - len(told), 0, len(told))
    for shop in shops:
        eventually(lambda shop=shop: shop.counts(sale) == counts, 20)
    done = eventually(lambda: (got := nodes.reconcile()).code == 0 and got, 20)
    assert "0 differ" in done.out, done
    audit = run("audit", "--data", nodes.folder / "nowhere", "--ledger", nodes.database, env=nodes.environment(), timeout=120)
    assert audit.code == 0 and "all promises hold" in audit.out, audit
