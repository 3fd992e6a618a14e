"""The decisions of random boxes of the ACAS networks by brute force: `pytest -m campaign tests/campaigns/decide`."""
