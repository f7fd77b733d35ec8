"""Data as a product: recipes that draw and solve systems, plans, and archives that prove their own bytes."""

from nipde.lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "AdvectionRecipe": "problems",
        "Archive": "archive",
        "DarcyRecipe": "darcy",
        "MechanicalMnistRecipe": "mechanics",
        "MixedDarcyRecipe": "darcy",
        "Plan": "plan",
        "Quantities": "system",
        "Quantity": "system",
        "Recipe": "recipe",
        "System": "system",
        "TissueRecipe": "mechanics",
        "generate": "generation",
        "generate_share": "array_jobs",
        "merge_shares": "array_jobs",
        "open_archive": "archive",
        "option": "recipe",
    },
)
