"""Finite volumes: cells, links between them, the operator A = Dᵀ c D + Dᵀ t M, its derivative, solves and gauge.

`links`, `conductances` and `sensitivity` are NumPy and import no torch; the rest works on tensors.
"""
