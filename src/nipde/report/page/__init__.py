"""The report page: one HTML file that fetches nothing."""
