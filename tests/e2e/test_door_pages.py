"""The sessions that the pages of the doors give to copy end as the pages say."""

import re
import subprocess

import pytest
from harness import ROOT, environment


@pytest.mark.parametrize("page", ["claim", "cart", "product"])
def test_the_session_of_a_page_ends_as_it_says(server, page):
    """All on one server, as somebody copies them who reads one page after the other."""
    text = (ROOT / "docs" / "doors" / f"{page}.md").read_text()
    session, says = re.findall(r"^```\n(.*?)^```$", text, re.M | re.S)
    address = "S=127.0.0.1:20080;"
    assert session.startswith(address)
    done = subprocess.run(["bash"], input=session.replace(address, f"S={server.host}:{server.port};").encode(), capture_output=True, timeout=120, env=environment())
    lines = [line.rstrip() for line in done.stdout.decode().strip().split("\n")]
    expected = says.strip().split("\n")
    assert done.returncode == 0 and len(lines) >= len(expected), done
    for line, want in zip(lines[-len(expected):], expected):
        assert re.fullmatch(".*".join(map(re.escape, want.split("…"))), line), f"the page says {want}, and it was {line}"
