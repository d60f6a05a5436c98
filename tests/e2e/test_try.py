"""What `make run` tells people to paste must work as it is printed."""

import json
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_the_session_of_make_run_can_be_pasted(server):
    printed = subprocess.run([ROOT / "tools/try"], capture_output=True, text=True, check=True, timeout=10).stdout
    lines = [line[4:] for line in printed.split("\n") if line.startswith("    ")]
    assert lines and "20080" in lines[0]
    session = "\n".join(lines).replace("20080", str(server.port))
    done = subprocess.run(["bash", "-u"], input=session, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and done.stderr == "", done.stderr

    seller, buyer, won, again, order, orders, sale = [json.loads(line) for line in done.stdout.splitlines()]
    assert (seller["role"], buyer["role"]) == ("seller", "customer")
    assert again["code"] == "ALREADY_WON" and again["order"]["no"] == order["no"]
    assert order["buyer"] == buyer["username"] and order["state"] == "paid"
    assert won.get("order", won)["no"] == order["no"]
    assert [item["no"] for item in orders["items"]] == [order["no"]]
    assert (sale["offered"], sale["available"], sale["sold"]) == (100, 99, 1)
