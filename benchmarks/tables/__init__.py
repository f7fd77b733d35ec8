"""Records to tables: the only place that formats a measured number."""
