"""Tests; a package, so that oracles are imported by one name from here and from benchmarks."""
