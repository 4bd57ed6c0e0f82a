from tmlang.api.evidence import Evidence as Evidence
from tmlang.api.evidence import open as open
from tmlang.api.live import Live as Live
from tmlang.api.mlflow import log_to_mlflow as log_to_mlflow
from tmlang.api.reading import Front as Front
from tmlang.api.reading import Planned as Planned
from tmlang.api.reading import Refused as Refused
from tmlang.api.reading import check as check
from tmlang.api.reading import plan_of as plan_of
from tmlang.api.running import run as run

__version__: str
