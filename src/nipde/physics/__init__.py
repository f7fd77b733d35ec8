"""Hidden field and load in, response out: float64 solvers that everything else is measured against."""
