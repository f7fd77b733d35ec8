"""Training that can be trusted: recipes, one loop, checkpoints that survive anything."""
