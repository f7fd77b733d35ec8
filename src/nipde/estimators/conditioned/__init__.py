"""Parts of Conditioned NIPS: what the pairs share, a prior from it, and the balance that they must keep."""
