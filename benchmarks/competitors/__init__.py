"""What users would take instead of nipde: data to other packages, what they find, and how it is judged."""
