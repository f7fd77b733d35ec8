"""A prior for plane solids: the body whose forces balance, cell by cell; nothing in it is trained."""

from torch import nn

from nipde.context.pairs import Pairs
from nipde.estimators.elastic_balance import ElasticBalance
from nipde.kernels.body import BodyPredictor


class ElasticPrior(nn.Module):
    """Pairs to bodies, systems along one axis."""

    def forward(self, pairs: Pairs) -> BodyPredictor:
        """No gradient passes: the balance is solved outside of torch."""
        found = ElasticBalance()(pairs)
        assert isinstance(found, BodyPredictor)
        return found
