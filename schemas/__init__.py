"""Models of everything that crosses a border; imported by all, imports nothing else of the project."""
