"""From responses to a coefficient of a known law: linearisation, regularisation, choice of its weight."""
