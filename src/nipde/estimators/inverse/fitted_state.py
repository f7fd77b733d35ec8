"""A material that was fitted, and what it leaves of the readings."""

from dataclasses import dataclass, replace

from nipde.estimators.inverse.material_models import MaterialModel, Parameters
from nipde.estimators.inverse.readings import Values
from nipde.grid import Grid


@dataclass(frozen=True, eq=False)
class Fit:
    """The state of least misfit and penalty."""

    model: MaterialModel
    parameters: Parameters
    #: rᵀ P r over the number of measured values.
    chi_square: float
    penalty: float
    residual: Values

    def moved(self, *, to: Grid) -> "Fit":
        """The same material on other nodes."""
        model, parameters = self.model.moved(self.parameters, to=to)
        return replace(self, model=model, parameters=parameters)
