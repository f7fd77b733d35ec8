"""People's own files to Pairs: parsed in a child process, units never guessed, gaps masked, the reading said aloud."""
