"""Estimators: Pairs in, Kernel out."""
