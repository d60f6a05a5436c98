"""stampede audit proves the promises offline; stampede repair cuts what is damaged when told (P1, P2, P4, P5, P11)."""

import hashlib
import re

import pytest
from harness import Server, ServerDied, Shop, crowd, data_copy, eventually, request_bytes, run, time_text, unhurried
from provider import Provider

SECTOR = 512


def cancelled(shop, order, token, **reason):
    answer = shop.client.post(f"/v1/orders/{order['no']}/cancel", reason or None, token)
    assert answer.status == 200, answer
    assert answer.json()["state"] == "cancelled", answer
    return answer.json()


def ended(shop, provider):
    """An order for each way a hold can end; by name."""
    sale = shop.sale(stock=100, price=700, currency="EUR", pay_within_s=3600)["id"]
    short = shop.sale(stock=100, price=700, currency="EUR", pay_within_s=1, late_payment="retake")["id"]
    won = {name: shop.win(sale, f"buyer-{name}") for name in ("paid", "cancelled", "withdrawn", "refunded")}
    ends = {"paid": provider.paid(shop.client, won["paid"], "ref-paid"),
            "cancelled": cancelled(shop, won["cancelled"], shop.buyer("buyer-cancelled"), reason="too dear"),
            "withdrawn": cancelled(shop, won["withdrawn"], shop.seller_token, reason="broken")}
    provider.paid(shop.client, cancelled(shop, won["refunded"], shop.buyer("buyer-refunded")), "ref-refunded", "refund_due")
    ends["refunded"] = shop.order(won["refunded"]["no"]).json()
    late = {name: shop.win(short, f"buyer-{name}") for name in ("expired", "retaken")}
    late = {name: eventually(lambda: (one := shop.order(order["no"]).json())["state"] == "expired" and one) for name, order in late.items()}
    ends.update(late, retaken=provider.paid(shop.client, late["retaken"], "ref-retaken"))
    states = {"paid": "paid", "cancelled": "cancelled", "withdrawn": "cancelled", "refunded": "refund_due", "expired": "expired", "retaken": "paid"}
    assert {name: order["state"] for name, order in ends.items()} == states
    return ends


def busy(server, wins=30):
    """A little history of every kind; (shop, sale, orders)."""
    shop = Shop(server)
    ends = ended(shop, Provider(server))
    sale = shop.sale(stock=1000, units_per_grab_max=3, grabs_per_buyer_max=2, price=100, currency="EUR", pay_within_s=900)["id"]
    other = shop.sale(stock=5, admission="open")["id"]
    orders = [shop.win(sale, f"buyer-{i}", units=1 + i % 3, key=f"key-{i}") for i in range(wins)]
    orders += [shop.win(other) for _ in range(5)]
    guarded = shop.sale(stock=5, admission="token", tokens_max=4, admit_max=50, line={"rate_per_s": 1, "size": 2, "timeout_ms": 3})["id"]
    tokens = [shop.purchase_token(guarded, f"buyer-{i}") for i in range(3)]
    orders += [shop.win(guarded, f"buyer-{i}", purchase=tokens[i]) for i in range(2)]
    shop.act(sale, "stock", {"add": 50})
    shop.act(sale, "pause")
    shop.act(sale, "resume")
    shop.act(other, "close")
    shop.close()
    return shop, sale, sorted([*ends.values(), *orders], key=lambda order: int(order["no"])), {name: order["no"] for name, order in ends.items()}


def segments(data):
    """The journal files; a spare that was prepared holds nothing yet and does not count."""
    return sorted((data / "journal").glob("*.seg"))


def journal_sum(data):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in segments(data)}


def used_sectors(path):
    """Numbers of the sectors that hold something, the segment's header not counted."""
    data = path.read_bytes()
    return [at for at in range(1, len(data) // SECTOR) if any(data[at * SECTOR:(at + 1) * SECTOR])]


def flip(path, offset, mask=0x01):
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ mask]))


def starts(server):
    """None when it runs, else what it said when it refused."""
    try:
        server.start(ready_s=30)
    except ServerDied as died:
        return str(died)
    return None


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A data folder after a clean stop, everything filed; tests copy it."""
    with Server() as server:
        shop, sale, orders, ends = busy(server)
        server.stop()
        keep = tmp_path_factory.mktemp("finished") / "data"
        data_copy(server.data, keep)
    return keep, sale, orders, ends


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """A data folder after kill -9 with most of it not yet filed; tests copy it."""
    with Server("--clerk-pause-ms", "60000") as server:
        early = Shop(server)
        early.sale()
        eventually(lambda: server.ledger().rows("SELECT seq FROM point")[0]["seq"] == 1)
        early.close()
        shop, sale, orders, _ = busy(server)
        server.kill()
        keep = tmp_path_factory.mktemp("killed") / "data"
        data_copy(server.data, keep)
    return keep, sale, orders


@pytest.fixture
def copy(own_server):
    """A server, not started, on a copy of a data folder."""
    def make(folder, *flags):
        server = own_server(*flags, start=False)
        data_copy(folder, server.data)
        return server
    return make


def test_an_audit_of_good_data_says_what_it_checked(finished):
    data, _, orders, _ = finished
    done = run("audit", "--data", data)
    assert done.code == 0, done
    assert re.search(rf"\b{len(orders)}\b", done.out), f"the count of orders is not told: {done.out}"
    assert re.search(r"\b5\b", done.out), f"the count of sales is not told: {done.out}"
    assert "P6 8 ends of orders" in done.out, done.out


def test_an_audit_changes_nothing(finished, copy):
    server = copy(finished[0])
    before = journal_sum(server.data)
    ledger = server.ledger().digest()
    assert server.audit().code == 0
    assert journal_sum(server.data) == before
    assert server.ledger().digest() == ledger


def test_an_audit_of_unfiled_data_after_a_kill_is_good(killed, copy):
    """P5: what the ledger has not got yet is in the journal; that is no fault."""
    server = copy(killed[0])
    assert server.audit().code == 0
    assert starts(server) is None
    server.stop()
    assert server.audit().code == 0
    assert len(server.ledger().orders()) == len(killed[2])


# What is done to the ledger, and what the audit must say of it. {no} is an order that is held.
TAMPERINGS = {
    "an order's units": ("UPDATE orders SET units = units + 1 WHERE no = {no}", "P4 order {no}: units is"),
    "an order's buyer": ("UPDATE orders SET buyer = 'mallory' WHERE no = {no}", "P4 order {no}: buyer is not"),
    "an order's key": ("UPDATE orders SET `key` = 'stolen' WHERE no = {no}", "P4 order {no}: key is not"),
    "an order's amount": ("UPDATE orders SET amount = 1 WHERE no = {no}", "P4 order {no}: amount is"),
    "an order's sale": ("UPDATE orders SET sale = sale + 1 WHERE no = {no}", "P4 order {no}: sale is"),
    "an order's time": ("UPDATE orders SET won_ms = won_ms + 1 WHERE no = {no}", "P4 order {no}: won_ms is"),
    "an order's deadline": ("UPDATE orders SET pay_by_ms = pay_by_ms + 1 WHERE no = {no}", "P4 order {no}: pay_by_ms is"),
    "an order without its deadline": ("UPDATE orders SET pay_by_ms = 0 WHERE no = {no}", "P4 order {no}: pay_by_ms is"),
    "an order gone": ("DELETE FROM orders WHERE no = {no}", "P4 the ledger has 42 orders, the journal up to there has 43"),
    "an order more": ("INSERT INTO orders (no, sale, buyer, units, amount, state, won_ms, pay_by_ms, `key`, token_nonce, payment_ref, ended_ms, canceller, reason) "
                      "SELECT no + 1000000, sale, 'mallory', units, amount, state, won_ms, pay_by_ms, '', "
                      "token_nonce, payment_ref, ended_ms, canceller, reason FROM orders WHERE no = {no}", "is in the ledger beyond"),
    "an ended order gone": ("DELETE FROM orders WHERE no = {expired}", "P4 order {expired} has an end in the journal"),
    "an order's token": ("UPDATE orders SET token_nonce = token_nonce + 1 WHERE no = (SELECT no FROM (SELECT max(no) AS no FROM orders WHERE token_nonce <> 0) AS last_one)", "token_nonce is"),
    "a held order paid": ("UPDATE orders SET state = 1 WHERE no = {no}", "P6 order {no}: state is held by the journal, paid in the ledger"),
    "a held order expired": ("UPDATE orders SET state = 3 WHERE no = {no}", "P6 order {no}: state is held by the journal, expired in the ledger"),
    "a held order due a refund": ("UPDATE orders SET state = 4 WHERE no = {no}", "P6 order {no}: state is held by the journal, refund_due"),
    "a held order with an end": ("UPDATE orders SET ended_ms = 1 WHERE no = {no}", "P4 order {no}: ended_ms is 0 by the journal, 1 in the ledger"),
    "a held order with a payment": ("UPDATE orders SET payment_ref = 'x' WHERE no = {no}", "P4 order {no}: payment_ref is not"),
    "a held order with a canceller": ("UPDATE orders SET canceller = 2 WHERE no = {no}", "P4 order {no}: canceller is '' by the journal, 'seller'"),
    "a held order with a reason": ("UPDATE orders SET reason = 'x' WHERE no = {no}", "P4 order {no}: reason is not"),
    "a paid order held again": ("UPDATE orders SET state = 0 WHERE no = {paid}", "P6 order {paid}: state is paid by the journal, held"),
    "a paid order cancelled": ("UPDATE orders SET state = 2 WHERE no = {paid}", "P6 order {paid}: state is paid by the journal, cancelled"),
    "a paid order due a refund": ("UPDATE orders SET state = 4 WHERE no = {paid}", "P6 order {paid}: state is paid by the journal, refund_due"),
    "another payment": ("UPDATE orders SET payment_ref = 'ref-stolen' WHERE no = {paid}", "P4 order {paid}: payment_ref is not"),
    "another payment retaken": ("UPDATE orders SET payment_ref = '' WHERE no = {retaken}", "P4 order {retaken}: payment_ref is not"),
    "another payment refunded": ("UPDATE orders SET payment_ref = 'x' WHERE no = {refunded}", "P4 order {refunded}: payment_ref is not"),
    "an earlier payment": ("UPDATE orders SET ended_ms = ended_ms - 1 WHERE no = {paid}", "P4 order {paid}: ended_ms is"),
    "a later retake": ("UPDATE orders SET ended_ms = ended_ms + 1 WHERE no = {retaken}", "P4 order {retaken}: ended_ms is"),
    "an earlier refund": ("UPDATE orders SET ended_ms = ended_ms - 1 WHERE no = {refunded}", "P6 the ledger has 1 orders due a refund"),
    "a later refund": ("UPDATE orders SET ended_ms = ended_ms + 1 WHERE no = {refunded}", "P4 order {refunded}: ended_ms is"),
    "a refund taken back": ("UPDATE orders SET state = 2, payment_ref = '' WHERE no = {refunded}", "P6 order {refunded}: state is refund_due"),
    "a hold ended twice": ("UPDATE orders SET state = 3 WHERE no = {cancelled}", "P6 order {cancelled}: state is cancelled by the journal, expired"),
    "another canceller": ("UPDATE orders SET canceller = 3 WHERE no = {withdrawn}", "P4 order {withdrawn}: canceller is 'seller' by the journal, 'admin'"),
    "another reason": ("UPDATE orders SET reason = 'none of yours' WHERE no = {withdrawn}", "P4 order {withdrawn}: reason is not"),
    "a reason taken away": ("UPDATE orders SET reason = '' WHERE no = {cancelled}", "P4 order {cancelled}: reason is not"),
    "a canceller of a refund": ("UPDATE orders SET canceller = 0 WHERE no = {refunded}", "P4 order {refunded}: canceller is 'buyer'"),
    "an expired order cancelled": ("UPDATE orders SET state = 2 WHERE no = {expired}", "P6 order {expired}: state is expired by the journal, cancelled"),
    "an expired order retaken": ("UPDATE orders SET state = 1 WHERE no = {expired}", "P6 order {expired}: state is expired by the journal, paid"),
    "a refund nobody is due": ("UPDATE orders SET state = 4 WHERE no = {expired}", "P6 the ledger has 2 orders due a refund, the journal up to there 1"),
    "an expiry moved": ("UPDATE orders SET ended_ms = ended_ms + 1 WHERE no = {expired}", "P4 order {expired}: ended_ms is"),
    "units of an ended order": ("UPDATE orders SET units = units + 1 WHERE no = {expired}", "P4 order {expired}: units is"),
    "a count moved with its order": ("UPDATE sales SET available = available + 1, held = held - 1 WHERE id = {sale}", "P1 sale {sale}: its held and paid orders"),
    "a token's buyer": ("UPDATE tokens SET buyer = 'mallory' WHERE spent = 0", "the journal leads elsewhere"),
    "a token spent": ("UPDATE tokens SET spent = {no} WHERE spent = 0", "the ledger has it spent by order {no}, which did not"),
    "a token not spent": ("UPDATE tokens SET spent = 0 WHERE nonce = (SELECT nonce FROM (SELECT min(nonce) AS nonce FROM tokens) AS first_one)", "the ledger has it not spent"),
    "a token gone": ("DELETE FROM tokens WHERE spent = 0", "P4 the ledger has 2 tokens"),
    "a token more": ("INSERT INTO tokens (nonce, sale, buyer, given_ms, spent) SELECT nonce + 1000000, sale, 'mallory', given_ms, spent FROM tokens WHERE spent = 0", "P4 the ledger has 4 tokens"),
    "a sale's tokens given": ("UPDATE sales SET tokens_given = tokens_given - 1 WHERE tokens_given > 0", "terms or state differ"),
    "a sale's tokens_max": ("UPDATE sales SET tokens_max = 1000 WHERE tokens_max > 0", "terms or state differ"),
    "a sale's admit_max": ("UPDATE sales SET admit_max = 1000 WHERE admit_max > 0", "terms or state differ"),
    "a sale's line": ("UPDATE sales SET line_size = 1000 WHERE line_size > 0", "terms or state differ"),
    "a sale's counts": ("UPDATE sales SET available = available - 1, sold = sold + 1 WHERE id = {sale}", "P4 sale {sale}: the journal leads to offered"),
    "a sale's stock": ("UPDATE sales SET available = available + 1, offered = offered + 1 WHERE id = {sale}", "P4 sale {sale}: the journal leads to offered"),
    "a sale's seller": ("UPDATE sales SET seller = 'mallory' WHERE id = {sale}", "P4 sale {sale}: the ledger's terms"),
    "a sale's price": ("UPDATE sales SET price = 1 WHERE id = {sale}", "P4 sale {sale}: the ledger's terms"),
    "a sale's late_payment": ("UPDATE sales SET late_payment = 1 WHERE id = {sale}", "P4 sale {sale}: the ledger's terms"),
    "a sale's event": ("UPDATE sales SET event_id = 7 WHERE id = {sale}", "P4 sale {sale}: the ledger's terms"),
    **{f"a sale's {column}": (f"UPDATE sales SET {column} = {column} + 1 WHERE id = {{sale}}", "P4 sale {sale}: its numbers are not")
       for column in ("holds_made", "holds_paid", "orders_cancelled", "orders_expired", "orders_refund_due", "units_cancelled", "units_expired", "units_refund_due")},
    "a sale's units_returned": ("UPDATE sales SET units_returned = -1 WHERE id = {sale}", "P4 sale {sale}: its numbers are not"),
    "a sale gone": ("DELETE FROM sales WHERE id = {sale}", "P4 the ledger has 4 sales, the journal up to there created 5"),
    "the point behind": ("UPDATE point SET seq = seq - 1", "beyond what it says it has filed|P5|P4"),
    "the point ahead": ("UPDATE point SET seq = seq + 1", "P4 the ledger has filed up to"),
    "the digest": ("UPDATE point SET digest = digest + 1", "P5 the ledger's digest"),
}


@pytest.mark.parametrize("name", TAMPERINGS)
def test_an_audit_finds_a_ledger_that_was_tampered_with(finished, copy, name):
    """P4, P5 and P6: journal and ledger tell the same story, row by row, and the audit says where they do not."""
    data, sale, orders, ends = finished
    server = copy(data)
    numbers = {"no": next(order["no"] for order in orders if order["state"] == "held"), "sale": sale, **ends}
    sql, named = (text.format(**numbers) for text in TAMPERINGS[name])
    assert server.ledger().change(sql) == 1, "the tampering itself did not work"
    done = server.audit()
    assert done.code == 1, f"not found: {done}"
    assert any(one in done.out for one in named.split("|")), f"found, but not named: {done}"
    assert "audit: FAILED" in done.out


@pytest.fixture(scope="module")
def telling(tmp_path_factory):
    """A data folder with every kind of notice that nobody has taken, an event that opened and one that is to come."""
    with Server("--webhooks-private", "on", "--clerk-pause-ms", "5") as server:
        shop = Shop(server)
        assert shop.client.request("PUT", "/v1/webhook", {"url": "http://127.0.0.1:1/"}, shop.seller_token).status in (200, 201)

        def event(opens_in_s):
            made = shop.client.post("/v1/events", {"name": f"in {opens_in_s}", "opens_at": time_text(opens_in_s)}, shop.seller_token)
            assert made.status == 201, made
            for name in ("ann", "bob"):
                assert shop.client.post(f"/v1/events/{made.json()['id']}/subscribe", None, shop.buyer(name)).status == 204
            return made.json()["id"]

        def won(closes_in_s):
            sale = shop.sale(stock=1, event=later, closes_at=time_text(closes_in_s))["id"]
            shop.win(sale, "ann")
            return sale
        unhurried(event, 2, 6, 20)
        later = event(3600)
        ended(shop, Provider(server))
        unhurried(won, 2, 6, 20)
        sale = won(3600)
        shop.act(sale, "close")
        assert shop.client.post("/v1/webhook/test", None, shop.seller_token).status < 300
        kinds = "SELECT DISTINCT kind FROM outbox ORDER BY kind"
        eventually(lambda: [row["kind"] for row in server.ledger().rows(kinds)] == list(range(1, 12)))
        shop.close()
        server.stop()
        keep = tmp_path_factory.mktemp("telling") / "data"
        data_copy(server.data, keep)
    return keep


def test_an_audit_of_all_kinds_of_notices_is_good(telling, copy):
    done = copy(telling).audit()
    assert done.code == 0, done


NOTICE_MORE = ("INSERT INTO outbox (seller, kind, stream, sale, order_no, event, at_ms, state, since_ms, next_ms, attempts, status, error) "
               "SELECT seller, {kind}, stream, sale, order_no, event, at_ms, 0, since_ms, next_ms, 0, 0, '' FROM outbox WHERE id = (SELECT min(id) FROM outbox WHERE kind = 1)")
CONTRADICTIONS = {
    "a notice of no order": ("UPDATE outbox SET order_no = 999999 WHERE kind = 2", "order 999999 is not in the ledger"),
    "a notice of another sale": ("UPDATE outbox SET sale = sale + 1 WHERE kind = 4", "is of another sale"),
    "a notice of no sale": ("UPDATE outbox SET sale = 999999 WHERE kind = 8", "sale 999999 is not in the ledger"),
    "a notice of no event": ("UPDATE outbox SET event = 999999 WHERE kind = 10", "event 999999 is not in the ledger"),
    "a notice to another seller": ("UPDATE outbox SET seller = 'mallory' WHERE kind = 1", "is another seller's"),
    "a seller without a webhook": ("DELETE FROM hooks", "its seller has no webhook"),
    "a webhook of later": ("UPDATE hooks SET since_ms = since_ms + 1000000", "it is older than the webhook"),
    "a kind that is none": ("UPDATE outbox SET kind = 12 WHERE kind = 11", "there is no kind 12"),
    **{f"a notice of kind {kind} more": (NOTICE_MORE.format(kind=kind), "what it tells did not happen") for kind in (2, 3, 4, 5, 6)},
    "a win told twice": (NOTICE_MORE.format(kind=1), "it tells what another tells"),
    **{f"a notice of kind {kind} at another time": (f"UPDATE outbox SET at_ms = at_ms + 1 WHERE kind = {kind}", "what it tells did not happen") for kind in (1, 2, 3, 9, 10)},
    "a stream of something else": ("UPDATE outbox SET stream = stream + 4 WHERE kind = 7", "it is in the stream of something else"),
    "a part that is none": ("UPDATE outbox SET part = 1 WHERE kind = 10", "what it tells did not happen"),
    "a subscriber more": ("INSERT INTO subscriptions SELECT event, 'mallory', 7 FROM subscriptions WHERE buyer = 'ann'", "it has 3 subscribers and counts 2"),
    "a subscriber gone": ("DELETE FROM subscriptions WHERE buyer = 'ann'", "it has 1 subscribers and counts 2"),
    "a count of subscribers": ("UPDATE events SET subscribers = 99", "it has 2 subscribers and counts 99"),
    "a place of a subscriber": ("UPDATE subscriptions SET place = place + 7", "the places of its subscribers have a gap"),
    "events gone": ("DELETE FROM events", "subscribers and is not there"),
    "the event of a sale gone": ("DELETE FROM events WHERE id IN (SELECT event_id FROM sales)", "its event 2 is not there"),
    "when a sale sold out": ("UPDATE sales SET sold_out_ms = sold_out_ms + 1 WHERE sold_out_ms > 0", "sold_out_ms is"),
    "a sale that never sold out": ("UPDATE sales SET sold_out_ms = 1 WHERE sold_out_ms = 0", "sold_out_ms is 0 by the journal, 1 in the ledger"),
    "units returned": ("UPDATE sales SET units_returned = units_returned + 7", "units_returned is"),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_an_audit_finds_what_contradicts_the_rest_of_the_ledger(telling, copy, name):
    """P4: also what the journal does not tell of has to fit."""
    server = copy(telling)
    sql, named = CONTRADICTIONS[name]
    assert server.ledger().change(sql) >= 1, "the tampering itself did not work"
    done = server.audit()
    assert done.code == 1 and named in done.out, f"not found, or not named: {done}"


@pytest.mark.parametrize("where", ["first", "middle", "last"])
@pytest.mark.parametrize("offset,mask", [(0, 1), (9, 128), (40, 4), (100, 16), (200, 1)])
def test_a_flipped_bit_is_refused_with_file_and_offset(finished, copy, where, offset, mask):
    """P11: all of it was acknowledged and filed, so nothing of it can be a torn tail. Padding is covered too."""
    server = copy(finished[0])
    path = segments(server.data)[0]
    used = used_sectors(path)
    sector = {"first": used[0], "middle": used[len(used) // 2], "last": used[-1]}[where]
    flip(path, sector * SECTOR + offset, mask)
    before = journal_sum(server.data)
    text = starts(server)
    assert text is not None, "a damaged journal was taken"
    assert "exit 3\n" in text, text
    assert path.name in text, f"the file is not named: {text}"
    assert any(str(at * SECTOR) in text for at in range(0, sector + 1)), f"the offset is not told: {text}"
    assert journal_sum(server.data) == before, "P11: refusing changes nothing"
    assert server.audit().code == 1


@pytest.mark.parametrize("damage", ["header", "magic", "truncated", "gone", "zeroed middle", "swapped sectors"])
def test_other_damage_is_refused_too(finished, copy, damage):
    """P11"""
    server = copy(finished[0])
    path = segments(server.data)[0]
    used = used_sectors(path)
    data = bytearray(path.read_bytes())
    middle = used[len(used) // 2]
    if damage == "header":
        data[20] ^= 1
    elif damage == "magic":
        data[0:8] = b"\0" * 8
    elif damage == "truncated":
        del data[middle * SECTOR + 100:]
    elif damage == "zeroed middle":
        data[middle * SECTOR:(middle + 1) * SECTOR] = bytes(SECTOR)
    elif damage == "swapped sectors":
        one, two = used[2] * SECTOR, used[3] * SECTOR
        data[one:one + SECTOR], data[two:two + SECTOR] = data[two:two + SECTOR], data[one:one + SECTOR]
    path.write_bytes(data)
    if damage == "gone":
        path.unlink()
    text = starts(server)
    assert text is not None, "damage was taken"
    assert "exit 3\n" in text, text


@pytest.mark.parametrize("back", [1, 2, 5, 10])
def test_a_flipped_bit_after_a_kill_is_never_a_silent_loss(killed, copy, back):
    """P3 and P11: a whole batch with a wrong bit is damage, not a torn tail, also at the very end."""
    server = copy(killed[0])
    path = segments(server.data)[0]
    sector = used_sectors(path)[-back]
    flip(path, sector * SECTOR + 30, 0x10)
    text = starts(server)
    assert text is not None and "exit 3\n" in text, text


def test_repair_shows_then_cuts_and_keeps_a_copy(killed, copy):
    """P11: an explicit repair. Without --yes nothing changes."""
    data, sale, orders = killed
    server = copy(data)
    path = segments(server.data)[0]
    used = used_sectors(path)
    flip(path, used[len(used) // 2] * SECTOR + 30, 0x10)
    damaged = journal_sum(server.data)
    shown = run("repair", "--data", server.data)
    assert path.name in shown.text and re.search(r"lose.*\d+", shown.text), shown
    assert journal_sum(server.data) == damaged, "shown only, and yet it was changed"
    assert starts(server) is not None
    done = run("repair", "--data", server.data, "--yes")
    assert done.code == 0, done
    copies = [one for one in server.data.iterdir() if "damaged" in one.name]
    assert len(copies) == 1 and copies[0].name in done.text, f"no copy, or it is not told: {done} {copies}"
    assert {one.name: hashlib.sha256(one.read_bytes()).hexdigest() for one in copies[0].glob("*.seg")} == damaged
    assert starts(server) is None, server.log()
    shop = Shop(server)
    kept = [order for order in orders if shop.order(order["no"]).status == 200]
    assert 0 < len(kept) < len(orders)
    assert kept == orders[:len(kept)], "what is kept is not the first part"
    assert shop.counts(sale)[0] >= 1000
    fresh = shop.win(sale, "after the repair")
    assert shop.order(fresh["no"]).json() == fresh
    shop.close()
    server.stop()
    assert server.audit().code == 0


@pytest.fixture(scope="module")
def continued(tmp_path_factory):
    """A data folder after kill -9 with wins in more than one journal file and little of it filed: (folder, sale, numbers of the orders)."""
    with Server("--clerk-pause-ms", "60000", segment_mb=1) as server:
        shop = Shop(server)
        sale = shop.sale(stock=10 ** 6, grabs_per_buyer_max=10 ** 6)["id"]
        numbers = []
        while len(segments(server.data)) < 2:
            requests = [request_bytes("POST", f"/v1/sales/{sale}/grabs", None, shop.buyer(f"b{i}"), key=f"{len(numbers) + i:0>60}") for i in range(50)]
            answers = crowd(server, requests, 2)
            assert {answer.status for answer in answers} == {201}
            numbers += [int(answer.json()["order"]["no"]) for answer in answers]
        numbers += [int(shop.win(sale, "the last")["no"])]
        shop.close()
        server.kill()
        keep = tmp_path_factory.mktemp("continued") / "data"
        data_copy(server.data, keep)
    return keep, sale, sorted(numbers)


def test_a_missing_last_journal_file_is_refused_told_and_cut_on_request(continued, copy):
    """P3, P5 and P11: what it held was acknowledged and is not filed; nothing but the file before it knows of it."""
    data, sale, numbers = continued
    server = copy(data)
    missing = segments(server.data)[-1]
    first = int(missing.stem)
    assert first <= numbers[-1], "nothing was acknowledged in the last file: the test proves nothing"
    missing.unlink()
    text = starts(server)
    assert text is not None, "acknowledged orders are gone without a word"
    assert "exit 3\n" in text and f"{missing.name} is damaged" in text and "the file is missing" in text, text
    assert "put it back from a copy" in text and "stampede repair" in text, text
    audit = server.audit()
    assert audit.code == 1 and missing.name in audit.text, audit
    shown = run("repair", "--data", server.data)
    assert shown.code == 3 and missing.name in shown.text and f"good: up to decision {first - 1};" in shown.text, shown
    done = run("repair", "--data", server.data, "--yes")
    assert done.code == 0 and f"above {first - 1}, are given again" in done.text, done
    assert starts(server) is None, server.log()
    shop = Shop(server)
    left = [number for number in numbers if number < first]
    assert shop.counts(sale)[3] == len(left)
    assert int(shop.win(sale, "after the repair")["no"]) >= first
    shop.close()
    server.stop()
    assert server.audit().code == 0


def test_a_last_journal_file_that_is_put_back_is_good_again(continued, copy):
    """P3 and P11"""
    data, sale, numbers = continued
    server = copy(data)
    path = segments(server.data)[-1]
    away = path.rename(server.data / "away")
    assert "exit 3\n" in starts(server)
    away.rename(path)
    assert starts(server) is None, server.log()
    shop = Shop(server)
    assert shop.counts(sale)[3] == len(numbers)
    shop.close()


def test_repair_of_good_data_has_nothing_to_do(finished, copy):
    server = copy(finished[0])
    before = journal_sum(server.data)
    for flags in ([], ["--yes"]):
        done = run("repair", "--data", server.data, *flags)
        assert done.code == 0, done
    assert journal_sum(server.data) == before
    assert not [one for one in server.data.iterdir() if "damaged" in one.name]


def test_repair_does_not_cut_below_what_is_filed(finished, copy):
    """P4: the ledger holds these orders; a journal cut before them would never agree again."""
    server = copy(finished[0])
    path = segments(server.data)[0]
    flip(path, used_sectors(path)[1] * SECTOR + 30, 0x10)
    before = journal_sum(server.data)
    done = run("repair", "--data", server.data, "--yes")
    assert done.code != 0 and done.text.strip(), done
    assert journal_sum(server.data) == before


def test_audit_and_repair_keep_out_while_the_server_runs(own_server):
    """A journal that is being written cannot be proved: in use is said, with the pid, or the answer is right."""
    server = own_server()
    shop = Shop(server)
    shop.sale()
    for command in (["audit"], ["repair"], ["repair", "--yes"]):
        done = run(*command, "--data", server.data)
        assert done.code == 0 or str(server.pid) in done.text, done
    shop.sale()
    shop.close()


@pytest.mark.parametrize("command", ["audit", "repair"])
def test_a_folder_without_data_is_no_proof(tmp_path, command):
    done = run(command, "--data", tmp_path / "nowhere")
    assert done.code != 0 and done.text.strip(), done
    assert not (tmp_path / "nowhere").exists(), "a look made a folder"
