"""Measurements whose records stand in results/, and the tables made from them."""
