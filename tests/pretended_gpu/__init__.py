"""A GPU that is pretended on the CPU: values are real, what a GPU would refuse is refused, graphs are replayed."""

from tests.pretended_gpu.gpu import pretended_gpu
from tests.pretended_gpu.refusals import HostAskedError, MixedDevicesError, NotOnAGpuError
from tests.pretended_gpu.streams import RaceError

__all__ = ["HostAskedError", "MixedDevicesError", "NotOnAGpuError", "RaceError", "pretended_gpu"]
