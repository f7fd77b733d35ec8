"""Results for people: statements, figures, files and the report page."""
