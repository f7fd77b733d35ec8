"""From a kernel to what to do next: which loads to apply, and what they are worth."""
