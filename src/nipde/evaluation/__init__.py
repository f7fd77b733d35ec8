"""How good an estimator is: one set of measures for the classical, the learned and the ones to come."""
