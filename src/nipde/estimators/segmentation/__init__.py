"""Phases at points by a network that was trained on simulations."""
