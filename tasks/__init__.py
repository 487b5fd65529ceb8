"""The pipeline's steps in order, and the numerics and services they call."""
