"""Slow and plain forms, to test fast ones against."""
