"""Tables in parquet files, read on the calling thread alone."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq


def read(data: bytes) -> pa.Table:
    """The whole table; raises ``pa.ArrowException`` or ``OSError`` for bytes that are none.

    Not by ``pq.read_table``: its scanner leaves threads behind, and a process that ends soon after is aborted now and
    then (one audit in ten on a busy machine, with pyarrow 26).
    """
    return pq.ParquetFile(pa.BufferReader(data), pre_buffer=False).read(use_threads=False)
