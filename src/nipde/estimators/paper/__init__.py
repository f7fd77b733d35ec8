"""The networks of the ICML 2025 paper: NIPS, NIPS-mlp, NAO, AFNO, in its notation."""
