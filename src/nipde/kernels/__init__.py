"""Kernels: linear operators on a grid, (K f)(x) = ∫ K(x, y) f(y) dy; no N × N matrix unless asked for."""
