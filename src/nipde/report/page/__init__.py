"""A page of HTML that fetches nothing: what was found, for people."""
