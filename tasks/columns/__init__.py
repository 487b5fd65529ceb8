"""How declared columns become numbers and back, and what rows of them obey."""
