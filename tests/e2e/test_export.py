"""stampede export: everything filed, as CSV or JSON Lines, the same as what the API lists, also while selling."""

import csv
import io
import json
import os
import re
import subprocess

import pytest
from harness import BINARY, Shop, environment, eventually, ledger_arguments, ledger_flags, mint_name, run
from provider import Provider
from terminal import on_a_terminal

ORDER_COLUMNS = ["no", "sale", "buyer", "units", "amount", "state", "won_at", "pay_by", "ended_at", "payment_ref", "cancelled_by", "reason", "key"]
HOSTILE = ["plain", "comma, comma", 'quote "quoted" ""', "line\nfeed", "'=1+1", "=cmd|' /C calc'!A0", "tab\there", "ends with\n", "Ünïcödé 雪 🦬", '"', ",",
           "\\", " spaces around ", "null", "\u2028", ""]
FORMULA = tuple("=+-@\t\r\n'")  # beginnings
HOSTILE += ["+1", "-1+1", "@SUM(A1)", "\t=1", "\n=1", '=HYPERLINK("http://evil", "here")', "''", "1-1"]
# No request may have these, but a row in the ledger might.
CONTROLS = ["carriage\r\nreturn", "\r", "bell\a", "\x01\x1f\x7f", "\x1b[2J"]


def export(server, *arguments):
    done = run("export", *arguments, "--data", server.data)
    assert (done.code, done.err) == (0, ""), done
    return done.out


def export_csv(server, what, *arguments):
    """Rows as dictionaries of text, read by a parser that is not ours."""
    # run() decodes, and never touches the ends of lines.
    return list(csv.DictReader(io.StringIO(export(server, what, "--format", "csv", *arguments), newline="")))


def export_jsonl(server, what, *arguments):
    text = export(server, what, "--format", "jsonl", *arguments)
    assert text == "" or text.endswith("\n")
    return [json.loads(line) for line in text.split("\n")[:-1]]


def as_cells(row):
    """What a JSON object says, as a CSV row has it: an apostrophe keeps a text from being a formula."""
    def cell(value):
        return "'" + value if isinstance(value, str) and value[:1] in FORMULA else str(value)
    return {name: "" if value is None else cell(value) for name, value in row.items()}


def filed(shop, path, token):
    """A list of the API waits for the clerk, so what it shows is filed."""
    return list(reversed(shop.listed(path, token)))


def test_exported_orders_are_those_the_api_lists(shop, server):
    sale = shop.sale(stock=100, price=250, currency="EUR", pay_within_s=3600, units_per_grab_max=5)["id"]
    free = shop.sale(stock=100)["id"]
    for i in range(20):
        shop.win(sale, f"buyer-{i}", units=1 + i % 5, key=f"key-{i}" if i % 2 else None)
        shop.win(free, f"buyer-{i}")
    listed = filed(shop, "/v1/orders", shop.admin_token)
    assert len(listed) >= 40
    rows = export_jsonl(server, "orders")
    assert all(list(row) == ORDER_COLUMNS for row in rows)
    assert [{name: row[name] for name in order} for row, order in zip(rows, listed, strict=True)] == listed
    by_key = [row["key"] for row in rows if row["sale"] == sale]
    assert by_key == [f"key-{i}" if i % 2 else None for i in range(20)]
    cells = export_csv(server, "orders")
    assert all(list(row) == ORDER_COLUMNS for row in cells)
    assert cells == [as_cells(row) for row in rows]


def test_one_sale_alone(shop, server):
    sale, other = shop.sale(stock=100)["id"], shop.sale(stock=100)["id"]
    for i in range(10):
        shop.win(sale, f"one-{i}")
        shop.win(other, f"one-{i}")
    listed = filed(shop, f"/v1/orders?sale={sale}", shop.seller_token)
    for rows in (export_jsonl(server, "orders", "--sale", sale), export_csv(server, "orders", f"--sale={sale}")):
        assert [row["no"] for row in rows] == [order["no"] for order in listed] and len(rows) == 10
    assert [row["id"] for row in export_jsonl(server, "sales", "--sale", sale)] == [sale]
    assert [row["id"] for row in export_csv(server, "sales", "--sale", sale)] == [sale]
    empty = shop.sale(stock=1)["id"]
    filed(shop, "/v1/orders", shop.admin_token)
    assert export_jsonl(server, "orders", "--sale", empty) == []
    assert export(server, "orders", "--format", "csv", "--sale", empty) == ",".join(ORDER_COLUMNS) + "\r\n"


def test_how_an_order_ended_is_exported(shop, server):
    """P6: each row tells the one end its order had."""
    provider = Provider(server)
    sale = shop.sale(stock=100, price=250, currency="EUR", pay_within_s=3600)["id"]
    won = {name: shop.win(sale, mint_name(name)) for name in ("held", "paid", "bought", "sold", "refunded")}
    provider.paid(shop.client, won["paid"], "ref, \"1\"")
    for name, token, reason in (("bought", shop.buyer(won["bought"]["buyer"]), {}), ("sold", shop.seller_token, {"reason": "broken, \"really\""}),
                                ("refunded", shop.admin_token, {"reason": "fraud"})):
        answer = shop.client.post(f"/v1/orders/{won[name]['no']}/cancel", reason or None, token)
        assert answer.status == 200, answer
    assert provider.tell(shop.client, won["refunded"], "ref-2").status == 200
    filed(shop, f"/v1/orders?sale={sale}", shop.seller_token)
    rows = {row["no"]: row for row in export_jsonl(server, "orders", "--sale", sale)}
    told = {name: tuple(rows[order["no"]][column] for column in ("state", "payment_ref", "cancelled_by", "reason")) for name, order in won.items()}
    assert told == {
        "held": ("held", None, None, None),
        "paid": ("paid", 'ref, "1"', None, None),
        "bought": ("cancelled", None, "buyer", None),
        "sold": ("cancelled", None, "seller", 'broken, "really"'),
        "refunded": ("refund_due", "ref-2", "admin", "fraud"),
    }
    for name, order in won.items():
        row = rows[order["no"]]
        assert row["pay_by"] == order["pay_by"]
        assert (row["ended_at"] is None) == (name == "held")
        assert name == "held" or order["won_at"] <= row["ended_at"] < order["pay_by"]
    assert [as_cells(row) for row in rows.values()] == export_csv(server, "orders", "--sale", sale)


def test_exported_sales_are_those_the_api_lists(shop, server):
    """Texts that a careless writer breaks on come back as they were, from both formats."""
    made = [shop.sale(description=text, price=i, currency="EUR") for i, text in enumerate(HOSTILE)]
    made.append(shop.sale(admission="line", line={"rate_per_s": 5, "size": 6, "timeout_ms": 7000}, tokens_max=3, admit_max=9))
    made.append(shop.sale(pay_within_s=60, late_payment="refund", closes_at="2099-01-02T03:04:05.678Z"))
    listed = {sale["id"]: sale for sale in filed(shop, f"/v1/sales?seller={shop.seller}", shop.seller_token)}
    assert set(listed) == {sale["id"] for sale in made}
    rows = {row["id"]: row for row in export_jsonl(server, "sales") if row["seller"] == shop.seller}
    assert list(rows) == list(listed), "in order of their ids"
    for sale in listed.values():
        row, shown = rows[sale["id"]], {name: value for name, value in sale.items() if name != "now"}
        assert {name: row[name] for name in shown} == shown
    cells = {row["id"]: row for row in export_csv(server, "sales") if row["seller"] == shop.seller}
    assert list(cells) == list(rows)
    for name, row in rows.items():
        line = row.pop("line")
        flat = {"line": None, **{f"line_{key}": value for key, value in (line or dict.fromkeys(("rate_per_s", "size", "timeout_ms"))).items()}}
        assert cells[name] == as_cells({**row, **flat})
    for sale, text in zip(made, HOSTILE, strict=False):
        cell = cells[sale["id"]]["description"]
        assert rows[sale["id"]]["description"] == text == cell.removeprefix("'")
        assert not cell.startswith(tuple("=+-@\t\r\n")), "a spreadsheet runs this"


def test_csv_is_as_rfc_4180_has_it(shop, server):
    sale = shop.sale(description='a "b", c\nd', stock=1)["id"]
    filed(shop, "/v1/sales", shop.seller_token)
    text = export(server, "sales", "--format", "csv", "--sale", sale)
    header, rest = text.split("\r\n", 1)
    assert header.startswith("id,seller,name,description,") and '"' not in header
    assert '"a ""b"", c\nd"' in rest and rest.endswith("\r\n") and rest.count("\r\n") == 1


def test_an_export_while_selling_is_of_one_moment(shop, server):
    """The rows of a sale, and the sale itself, are as they were at one point of the journal: its first orders, none left out.
    Their numbers may have gaps, for holds of other sales expire meanwhile and take numbers, too."""
    sale = shop.sale(stock=100000, grabs_per_buyer_max=100000)["id"]
    buyer = mint_name("crowd")
    filed(shop, "/v1/sales", shop.seller_token)
    won, sizes = [], []
    for _ in range(20):
        won += [shop.win(sale, buyer)["no"] for _ in range(50)]
        numbers = [row["no"] for row in export_jsonl(server, "orders", "--sale", sale)]
        assert numbers == won[:len(numbers)]
        sizes.append(len(numbers))
    assert sizes == sorted(sizes)
    assert eventually(lambda: [row["no"] for row in export_jsonl(server, "orders", "--sale", sale)] == won)


@pytest.mark.parametrize("arguments", [[], ["users"], ["orders"], ["orders", "--format"], ["orders", "--format", "xml"], ["orders", "--format", "CSV"], ["orders", "--format="],
                                       ["--format", "csv"], ["orders", "csv"], ["orders", "--format", "csv", "--format", "jsonl"], ["orders", "--format", "csv", "--sale", "x"],
                                       ["orders", "--format", "csv", "--sale", "0"], ["orders", "--format", "csv", "--sale", "-1"], ["orders", "--format", "csv", "--colour", "red"],
                                       ["orders", "--format", "csv", "--output"], ["orders", "--format", "csv", "stray"]])
def test_wrong_usage_is_told(arguments, tmp_path):
    done = run("export", *arguments, *(["--data", tmp_path] if arguments[-1:] != ["--output"] and arguments[-1:] != ["--format"] else []))
    assert done.code == 2 and done.err.strip() and not done.out, done


def test_a_sale_that_is_not_there_is_told(server):
    done = run("export", "orders", "--format", "csv", "--data", server.data, "--sale", "999999")
    assert done.code == 1 and "no sale 999999" in done.err and not done.out, done


@pytest.mark.sqlite
def test_a_folder_that_is_not_there_is_told(tmp_path):
    done = run("export", "orders", "--format", "csv", "--data", tmp_path / "nowhere")
    assert done.code == 1 and "nowhere" in done.err and not done.out, done
    assert not (tmp_path / "nowhere").exists()


def test_a_file_is_whole_or_not_there(shop, server, tmp_path):
    sale = shop.sale(stock=10)["id"]
    shop.win(sale, "file-buyer")
    filed(shop, "/v1/orders", shop.admin_token)
    target = tmp_path / "orders.csv"
    target.write_text("old")
    assert export(server, "orders", "--format", "csv", "--output", target) == ""
    assert target.read_bytes().decode() == export(server, "orders", "--format", "csv")
    assert [one.name for one in tmp_path.iterdir()] == ["orders.csv"]
    assert target.stat().st_mode & 0o777 == 0o600
    done = run("export", "orders", "--format", "csv", "--data", server.data, "--sale", "999999", "--output", target)
    assert done.code == 1 and target.read_text().startswith("no,"), done
    assert [one.name for one in tmp_path.iterdir()] == ["orders.csv"], "a part was left behind"
    done = run("export", "orders", "--format", "csv", "--data", server.data, "--output", tmp_path / "no" / "such")
    assert done.code == 1 and str(tmp_path / "no" / "such") in done.err, done


def test_a_full_disk_is_an_error(shop, server):
    shop.sale()
    filed(shop, "/v1/sales", shop.seller_token)
    done = run("export", "sales", "--format", "csv", "--data", server.data, "--output", "/dev/full")
    assert done.code == 1 and "/dev/full" in done.err and "No space left" in done.err, done
    assert os.path.exists("/dev/full"), "a device was replaced"


def test_a_pipe_that_closes_is_an_error(shop, server):
    sale = shop.sale(description="x" * 2000)["id"]
    filed(shop, f"/v1/sales?seller={shop.seller}", shop.seller_token)
    assert sale
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([BINARY, "export", "sales", "--format", "jsonl", "--data", str(server.data), *ledger_flags(server.data)], stdout=writer, stderr=subprocess.PIPE,
                          timeout=60, env=environment())
    os.close(writer)
    assert done.returncode == 1 and b"standard output" in done.stderr and b"Broken pipe" in done.stderr, done


def test_a_terminal_sees_how_far_it_is(shop, server, tmp_path):
    sale = shop.sale(stock=10)["id"]
    for i in range(3):
        shop.win(sale, f"seen-{i}")
    filed(shop, "/v1/orders", shop.admin_token)
    arguments = ["export", "orders", "--format", "csv", "--data", str(server.data), "--sale", sale]
    command = [BINARY, *arguments, *ledger_arguments(arguments)]
    text, code = on_a_terminal([*command, "--output", tmp_path / "out.csv"], environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    assert code == 0, text
    assert re.search(r"\rorders #+ +100 % +3 of 3 +\d+/s", text), repr(text)
    assert text.endswith("\n")
    text, code = on_a_terminal(command, environment(), stdin=subprocess.DEVNULL)
    assert code == 0 and "%" not in text and "seen-2" in text, f"a bar among the rows: {text!r}"


def test_an_export_of_a_stopped_server(own_server):
    server = own_server()
    shop = Shop(server)
    sale = shop.sale(stock=10)["id"]
    won = [shop.win(sale, f"last-{i}")["no"] for i in range(5)]
    shop.close()
    server.stop()
    assert [row["no"] for row in export_jsonl(server, "orders")] == won
    assert server.audit().code == 0
    server.ledger().change("UPDATE orders SET buyer = ?, reason = ?, payment_ref = ? WHERE no = ?",
                           *((text, text, text, no) for no, text in zip(won, CONTROLS, strict=True)))
    rows = export_jsonl(server, "orders")
    assert [row["buyer"] for row in rows] == CONTROLS
    assert export_csv(server, "orders") == [as_cells(row) for row in rows]


def test_a_row_that_cannot_be_is_an_error(own_server):
    """Half an export that looks whole would be worse than none."""
    server = own_server()
    shop = Shop(server)
    sale = shop.sale(stock=10)["id"]
    won = [shop.win(sale, f"last-{i}")["no"] for i in range(5)]
    shop.close()
    server.stop()
    server.ledger().change("UPDATE orders SET state = 99 WHERE no = ?", (won[3],))
    done = run("export", "orders", "--format", "csv", "--data", server.data, "--output", server.folder / "out.csv")
    assert done.code == 1 and won[3] in done.err and "not complete" in done.err, done
    assert not list(server.folder.glob("out.csv*"))
