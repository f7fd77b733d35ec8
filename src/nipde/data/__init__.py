"""Systems with known laws: drawn, solved, stored so that no byte can go wrong unnoticed, and read back anywhere."""
