"""The tree of a spec as written: frozen nodes with positions, before any name is looked up.

Every node has a ``span``; spans take no part in comparison, so two trees are equal iff they say the same thing in
the same words. A block (``model``, ``threat`` ...) holds its clauses in the order written, doubles included:
``Clause.word`` is the clause word with its colon (``mutable:``), ``Clause.value`` what stands behind it. Numbers
keep the exact value and the text, since ``rounds to 45.30 %`` says more than ``rounds to 45.3 %``.
"""

from tmlang.syntax.ast.declarations import *  # noqa: F403
from tmlang.syntax.ast.objects import *  # noqa: F403
from tmlang.syntax.ast.threats import *  # noqa: F403
from tmlang.syntax.ast.values import *  # noqa: F403
