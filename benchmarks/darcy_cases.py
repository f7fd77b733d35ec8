"""Every row of the paper's Darcy tables as data, on both laws of the loads.

The paper's appendix gives loads of smoothness α = 1 (`darcy-literal`), with which its figures for NIPS at 21² and
41² cannot be reached: a kernel of rank d_k does no better than the singular values of the responses allow. With α = 4
(`darcy-consistent`) they can. As in the paper, 90 systems are trained on, under the same 100 loads; unlike there, 20
other systems choose the weights, 110 more are the test, and further loads are in no training.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

from nipde.data.darcy import DarcyRecipe
from nipde.data.plan import Plan
from nipde.training.recipe import CASES, TrainingRecipe

Law = Literal["darcy-literal", "darcy-consistent"]
Shift = Literal["load", "field"] | None
LOAD_ALPHA: dict[Law, float] = {"darcy-literal": 1.0, "darcy-consistent": 4.0}
#: Systems for training, validation and test.
SYSTEMS = (90, 20, 110)
#: Training loads at 21² and 41²; at 11² a context has 150 pairs.
LOADS, WIDE_LOADS = 100, 300
DATA_SEED = 2026
#: The paper's shifts: smoothness of loads or of fields taken from the other end.
SHIFTS: dict[Literal["load", "field"], str] = {"load": "OOD, scenario 1", "field": "OOD, scenario 2"}


@dataclass(frozen=True)
class Case:
    """One row: what is trained, on which grid, and what the paper printed, in per cent."""

    table: Literal["layers", "orders", "rank", "interpretability"]
    row: str
    recipe: str
    nodes: int = 21
    options: dict[str, Any] = field(default_factory=dict)
    paper: dict[str, float] = field(default_factory=dict)
    #: The paper's error over several seeds, mean and spread, where it gives one.
    paper_seeds: tuple[float, float] | None = None
    #: Test systems of another law than the training systems'.
    shift: Shift = None

    @property
    def name(self) -> str:
        """As a folder's name and on the command line."""
        changed = "".join(f"-{key.replace('_', '-')}-{value:g}" for key, value in self.options.items())
        return f"{self.nodes}-{self.recipe}{changed}"

    def training(self, **length: Any) -> TrainingRecipe:
        """How it is trained, for the length of a budget."""
        return CASES[self.recipe].with_options({**self.options, **length})

    @property
    def ours(self) -> bool:
        """Whether the paper has no such row."""
        return not self.paper


def plan(law: Law, nodes: int, *, shift: Shift = None, same_systems: bool = False, few_loads: bool = False) -> Plan:
    """The archive of a law and grid; with a shift, of another law, and of other systems unless they are the same.

    `few_loads` gives 11² as many as the finer grids have, to train on it first.
    """
    alpha = LOAD_ALPHA[law]
    recipe = DarcyRecipe(
        nodes=nodes,
        pairs=_pairs(WIDE_LOADS if nodes == 11 and not few_loads else LOADS),
        shared_loads=True,
        load_alpha=5.0 - alpha if shift == "load" else alpha,
        field_alpha=1.0 if shift == "field" else 4.0,
    )
    total = sum(SYSTEMS)
    shares = tuple(part / total for part in SYSTEMS)
    seed = DATA_SEED + (0 if shift is None or same_systems else 1 + list(SHIFTS).index(shift))
    return Plan(recipe, systems=total, seed=seed, split=(shares[0], shares[1], shares[2]))


def _pairs(training: int) -> int:
    """So many loads that the split, the same for loads as for systems, leaves `training` of them to train with."""
    return round(training * sum(SYSTEMS) / SYSTEMS[0])


def _interpretability() -> list[Case]:
    printed: dict[tuple[Shift, float], tuple[tuple[float, float, float], ...]] = {
        (None, 0.0): ((4.09, 9.24, 7.92), (4.15, 10.35, 7.09)),
        ("load", 0.0): ((3.40, 10.63, 11.23), (6.86, 14.46, 20.37)),
        ("field", 0.0): ((4.98, 9.68, 16.06), (5.57, 10.94, 20.30)),
        (None, 0.01): ((4.40, 9.47, 7.97),),
        ("load", 0.01): ((3.88, 11.14, 13.63),),
        ("field", 0.01): ((5.65, 10.21, 17.36),),
        (None, 0.1): ((9.98, 21.77, 14.84),),
        ("load", 0.1): ((3.84, 21.08, 19.87),),
        ("field", 0.1): ((11.67, 22.77, 26.54),),
    }  # fmt: skip
    cases = []
    for (shift, noise), models in printed.items():
        for model, figures in zip(("NIPS", "NAO"), models, strict=False):
            setting = "ID" if shift is None else SHIFTS[shift]
            cases.append(Case(
                "interpretability",
                f"{model}, {setting}, {f'noise {noise:g} on the loads' if noise else 'no noise'}",
                f"{model.lower()}-3-wide", nodes=11, options={"load_noise": noise} if noise else {},
                paper=dict(zip(("in_context", "kernel", "microstructure"), figures, strict=True)),
                shift=shift,
            ))  # fmt: skip
    return cases


def _errors(table: Any, rows: list[tuple[Any, ...]]) -> list[Case]:
    return [
        Case(table, row, recipe, nodes, options, {"in_context": error}, *seeds)
        for row, recipe, nodes, options, error, *seeds in rows
    ]


ALL: list[Case] = [
    *_errors("layers", [
        ("NIPS, 2 layers", "nips-2", 21, {}, 2.28, (2.31, 0.03)),
        ("NAO, 2 layers", "nao-2", 21, {}, 3.09, (3.25, 0.14)),
        ("NAO-f, 2 layers", "nao-f-2", 21, {}, 3.45),
        ("NAO-W^P, 2 layers", "nao-wp-2", 21, {}, 4.00),
        ("AFNO, 2 layers", "afno-2", 21, {}, 52.09, (52.92, 0.72)),
        ("NIPS, 4 layers", "nips-4", 21, {}, 1.03),
        ("NAO, 4 layers", "nao-4", 21, {}, 1.45),
        ("AFNO, 4 layers", "afno-4", 21, {}, 52.84),
        ("NIPS, 4 layers", "nips-4", 41, {}, 1.14),
        ("NAO, 4 layers", "nao-4", 41, {}, 1.49),
        ("AFNO, 4 layers", "afno-4", 41, {}, 98.70),
    ]),
    *_errors("orders", [
        (f"n_rand = {orders}", "nips-2", 21, {"orders": orders}, error)
        for orders, error in ((1, 42.04), (2, 28.98), (5, 18.37), (10, 9.02), (25, 3.52), (50, 2.53), (100, 2.28))
    ]),
    *_errors("rank", [
        (f"d_k = {rank}", "nips-2", 21, {"channels": rank, "orders": 50}, error)
        for rank, error in ((5, 14.67), (10, 6.93), (20, 4.03), (30, 3.01), (40, 2.53), (50, 2.45))
    ]),
    *_interpretability(),
]  # fmt: skip

#: Conditioned NIPS, trained on the same systems and loads.
OURS: list[Case] = [
    Case("layers", "Conditioned NIPS, elliptic", "conditioned-elliptic"),
    Case("layers", "Conditioned NIPS, gated", "conditioned-gated"),
    *(
        Case(
            "interpretability",
            f"Conditioned NIPS, {'ID' if shift is None else SHIFTS[shift]}, "
            f"{f'noise {noise:g} on the loads' if noise else 'no noise'}",
            "conditioned-wide",
            nodes=11,
            options={"load_noise": noise} if noise else {},
            shift=shift,
        )
        for noise in (0.0, 0.01, 0.1)
        for shift in (None, *SHIFTS)
    ),
]
