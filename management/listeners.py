"""The HTTP servers of a node, which show the same figures."""

from __future__ import annotations

from ..actors.node_context import NodeContext
from ..actors.nsq.settings import NsqSettings
from .about import About, HttpLimits, ListLimits, NsqAddress, OpenAccess
from .api import Api, Figures
from .nsq.calls import CALLS
from .nsq.site import NsqSite
from .resources import metrics
from .resources.table import ACTIONS
from .sampler import Samples
from .server import HttpServer

# As RabbitMQ's: whoever reaches the port may read the metrics.
_OPEN_METRICS = OpenAccess(health_without_password="never", metrics_without_password="everywhere")


class Listeners:
    """Makes the servers of one node."""

    def __init__(
        self,
        context: NodeContext,
        about: About,
        samples: Samples,
        lists: ListLimits,
        *,
        per_object: bool,
    ) -> None:
        """`per_object`: the setting `prometheus_per_object` is on."""
        self._context = context
        self._figures = Figures(context, about, samples, lists, per_object=per_object)

    def management(self, access: OpenAccess, limits: HttpLimits) -> HttpServer:
        """All resources."""
        return HttpServer(self._context, Api(self._figures, access, limits, ACTIONS), limits)

    def metrics_alone(self, limits: HttpLimits) -> HttpServer:
        """The metrics, without a password."""
        api = Api(self._figures, _OPEN_METRICS, limits, metrics.ACTIONS)
        return HttpServer(self._context, api, limits)

    def nsq(self, settings: NsqSettings, address: NsqAddress, limits: HttpLimits) -> HttpServer:
        """nsqd's and nsqlookupd's calls."""
        figures = self._figures
        site = NsqSite(self._context, settings, figures.about, address, limits, figures.pace, CALLS)
        return HttpServer(self._context, site, limits)
