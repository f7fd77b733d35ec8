"""What one laboratory adds to nipde: a law, an estimator, a file format."""
