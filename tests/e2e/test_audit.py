"""stampede audit proves the promises offline; stampede repair cuts what is damaged when told (P1, P2, P4, P5, P11)."""

import contextlib
import hashlib
import re
import shutil
import sqlite3

import pytest
from harness import Server, ServerDied, Shop, eventually, run

SECTOR = 512


def busy(server, wins=30):
    """A little history of every kind; (shop, sale, orders)."""
    shop = Shop(server)
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
    return shop, sale, orders


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
        shop, sale, orders = busy(server)
        server.stop()
        keep = tmp_path_factory.mktemp("finished") / "data"
        shutil.copytree(server.data, keep)
    return keep, sale, orders


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """A data folder after kill -9 with most of it not yet filed; tests copy it."""
    with Server("--clerk-pause-ms", "60000") as server:
        early = Shop(server)
        early.sale()
        eventually(lambda: server.ledger().rows("SELECT seq FROM point")[0]["seq"] == 1)
        early.close()
        shop, sale, orders = busy(server)
        server.kill()
        keep = tmp_path_factory.mktemp("killed") / "data"
        shutil.copytree(server.data, keep)
    return keep, sale, orders


@pytest.fixture
def copy(own_server):
    """A server, not started, on a copy of a data folder."""
    def make(folder, *flags):
        server = own_server(*flags, start=False)
        shutil.copytree(folder, server.data)
        return server
    return make


def test_an_audit_of_good_data_says_what_it_checked(finished):
    data, _, orders = finished
    done = run("audit", "--data", data)
    assert done.code == 0, done
    assert re.search(rf"\b{len(orders)}\b", done.out), f"the count of orders is not told: {done.out}"
    assert re.search(r"\b3\b", done.out), f"the count of sales is not told: {done.out}"


def test_an_audit_changes_nothing(finished, copy):
    server = copy(finished[0])
    before = journal_sum(server.data)
    ledger = hashlib.sha256((server.data / "ledger.db").read_bytes()).hexdigest()
    assert server.audit().code == 0
    assert journal_sum(server.data) == before
    assert hashlib.sha256((server.data / "ledger.db").read_bytes()).hexdigest() == ledger


def test_an_audit_of_unfiled_data_after_a_kill_is_good(killed, copy):
    """P5: what the ledger has not got yet is in the journal; that is no fault."""
    server = copy(killed[0])
    assert server.audit().code == 0
    assert starts(server) is None
    server.stop()
    assert server.audit().code == 0
    assert len(server.ledger().orders()) == len(killed[2])


TAMPERINGS = {
    "an order's units": "UPDATE orders SET units = units + 1 WHERE no = {no}",
    "an order's buyer": "UPDATE orders SET buyer = 'mallory' WHERE no = {no}",
    "an order's key": "UPDATE orders SET key = 'stolen' WHERE no = {no}",
    "an order's amount": "UPDATE orders SET amount = 1 WHERE no = {no}",
    "an order's state": "UPDATE orders SET state = 1 - state WHERE no = {no}",
    "an order's sale": "UPDATE orders SET sale = sale + 1 WHERE no = {no}",
    "an order's time": "UPDATE orders SET won_ms = won_ms + 1 WHERE no = {no}",
    "an order gone": "DELETE FROM orders WHERE no = {no}",
    "an order more": "INSERT INTO orders SELECT no + 1000000, sale, 'mallory', units, amount, state, won_ms, pay_by_ms, '', "
    "token_nonce, payment_ref, ended_ms, canceller, reason FROM orders WHERE no = {no}",
    "an order's token": "UPDATE orders SET token_nonce = token_nonce + 1 WHERE no = (SELECT max(no) FROM orders WHERE token_nonce <> 0)",
    "a token's buyer": "UPDATE tokens SET buyer = 'mallory' WHERE spent = 0",
    "a token spent": "UPDATE tokens SET spent = {no} WHERE spent = 0",
    "a token not spent": "UPDATE tokens SET spent = 0 WHERE nonce = (SELECT min(nonce) FROM tokens)",
    "a token gone": "DELETE FROM tokens WHERE spent = 0",
    "a token more": "INSERT INTO tokens SELECT nonce + 1000000, sale, 'mallory', given_ms, spent FROM tokens WHERE spent = 0",
    "a sale's tokens given": "UPDATE sales SET tokens_given = tokens_given - 1 WHERE tokens_given > 0",
    "a sale's tokens_max": "UPDATE sales SET tokens_max = 1000 WHERE tokens_max > 0",
    "a sale's admit_max": "UPDATE sales SET admit_max = 1000 WHERE admit_max > 0",
    "a sale's line": "UPDATE sales SET line_size = 1000 WHERE line_size > 0",
    "a sale's counts": "UPDATE sales SET available = available + 1, held = held - 1 WHERE id = {sale}",
    "a sale's stock": "UPDATE sales SET available = available + 1, offered = offered + 1 WHERE id = {sale}",
    "a sale's seller": "UPDATE sales SET seller = 'mallory' WHERE id = {sale}",
    "a sale's price": "UPDATE sales SET price = 1 WHERE id = {sale}",
    "a sale gone": "DELETE FROM sales WHERE id = {sale}",
    "the point behind": "UPDATE point SET seq = seq - 1",
    "the point ahead": "UPDATE point SET seq = seq + 1",
    "the digest": "UPDATE point SET digest = digest + 1",
}


@pytest.mark.parametrize("name", TAMPERINGS)
def test_an_audit_finds_a_ledger_that_was_tampered_with(finished, copy, name):
    """P4 and P5: journal and ledger tell the same story, row by row."""
    data, sale, orders = finished
    server = copy(data)
    with contextlib.closing(sqlite3.connect(server.data / "ledger.db")) as db:
        db.execute("PRAGMA ignore_check_constraints = ON")
        changed = db.execute(TAMPERINGS[name].format(no=orders[3]["no"], sale=sale)).rowcount
        db.commit()
    assert changed == 1, "the tampering itself did not work"
    done = server.audit()
    assert done.code == 1, f"not found: {done}"
    assert done.text.strip(), "found, but not told"


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
