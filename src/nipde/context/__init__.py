"""What an estimator sees: pairs of loads and responses, and their units."""
