"""The grammar for editors knows the words of the language, all of them and no others."""

from __future__ import annotations

import json
import re

from tmlang.base.resources import resource
from tmlang.syntax.parser import table
from tmlang.syntax.words import DECLARATIONS

PATTERNS = {
    p["name"].removesuffix(".tmlang"): p["match"]
    for p in json.loads((resource("grammar") / "tm.tmLanguage.json").read_text(encoding="utf-8"))["patterns"]
}


def words(pattern: str) -> set[str]:
    found = re.search(r"\(([a-z_|]+)\)", PATTERNS[pattern])
    assert found is not None
    return set(found[1].split("|"))


def test_words() -> None:
    kinds = {kind for state in table().states for kind, target in state.actions.items() if target >= 0}
    assert words("keyword.other.clause") == {word[:-1] for word in table().clause_words}
    assert words("keyword.declaration") == DECLARATIONS.keys()
    keywords = {kind for kind in kinds if kind.isidentifier() and kind.islower()} - DECLARATIONS.keys()
    assert words("keyword.control") == keywords


def test_signs_and_literals() -> None:
    kinds = {kind for state in table().states for kind in state.actions if not kind.isidentifier()}
    signs = {kind for kind in kinds if not re.search(r"\w", kind)} - set("()[]{},:%.")
    assert {sign for sign in signs if re.fullmatch(PATTERNS["keyword.operator"], sign)} == signs
    assert re.fullmatch(PATTERNS["string.quoted.double"], r'"a \"b\" \\"')
    assert re.fullmatch(PATTERNS["constant.numeric"], "1.5e-3")
