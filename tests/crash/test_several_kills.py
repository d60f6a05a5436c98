"""kill -9 of each part of several machines under load, again and again, and a Redis that forgets everything (P1–P4, P6, P7 with ack = ledger)."""

import pytest
from several import Several
from several_witness import SeveralWitness

CYCLES = 10


@pytest.fixture(scope="module")
def several():
    with Several() as made:
        yield made


@pytest.mark.parametrize("kind", ["node", "redis", "empty", "ledger", "flush"])
def test_kills_under_load_lose_and_double_nothing(several, kind):
    """None oversold, none double, none missing of what was told, and it sells on each time; Redis has what the ledger has."""
    witness = SeveralWitness(several)
    print(f"seed {witness.seed}")
    with witness.load():
        for _ in range(CYCLES):
            several.cycle(kind, witness)
    witness.finish()
    print(witness.summary())
    assert len(witness.told) > 300, f"hardly anything was sold: {witness.summary()}"
