"""One reader per kind of file; they run in a child process and must not import torch."""
