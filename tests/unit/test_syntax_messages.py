"""What is said about text that is no spec: the code, the guilty token, the words, and the fix."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections import deque

import pytest
from syntax_support import at, needs_shared, read, shared_specs

from tmlang.base.source import Source
from tmlang.diagnostics.fixes import apply_fixes
from tmlang.syntax import parse
from tmlang.syntax.lexer import END, Token
from tmlang.syntax.messages import Trouble, explain
from tmlang.syntax.parser import table
from tmlang.syntax.words import CLAUSES, DECLARATIONS, FORMS, SYNONYMS

SPEC = """tm 1
space px: tensor(3, 32, 32) of real[0, 1] stored as float32

model net: px -> classes(10) {
  network:  torch("a.py:f", weights: "w")
  decide:   argmax ties lowest
  random:   never
}

threat t on net over test {
  allow:         linf <= 8/255 in px
  mutable:       all
  goal:          untargeted
  access:        white_box
  clean_errors:  fail
}

evaluate e of t {
  attack:  a = native.pgd(steps: 10)
  seed:    0
}

claim "x": survival(e) >= 45 %
"""

MISTAKES = [
    # what is written, what stands instead, code, guilty token, part of the message
    ("linf <= 8", "linf < 8", "TM001", "<", "written `<=`"),
    ("linf <= 8", "linf ≤ 8", "TM006", "≤", "the character `≤`"),
    (">= 45", "=> 45", "TM001", "=>", "written `>=`"),
    (">= 45", "= 45", "TM001", "=", "written `==`"),
    ("steps: 10", "steps=10", "TM001", "steps=", "with a colon"),
    ("a = native", "a: native", "TM001", "a:", "takes `=`"),
    ("untargeted", "untarget", "TM001", "untarget", "did you mean `untargeted`"),
    ("real[0", "float[0", "TM001", "float", "did you mean `real`"),
    ("untargeted", "targeted", "TM001", "targeted", "the next clause begins"),
    ("ties lowest", "ties", "TM001", "ties", "expected a name or a number"),
    ("mutable:       all", "mutable:", "TM002", "mutable:", "`mutable:` has no value; the next clause begins"),
    ("clean_errors:  fail", "clean_errors:", "TM002", "clean_errors:", "the block ends"),
    ("mutable: ", "mutabel: ", "TM003", "mutabel:", "is written `mutable:`"),
    ("mutable:       all", "epsilon: 8/255", "TM003", "epsilon:", "the allowed set is written `allow:`"),
    ("mutable: ", "changeable: ", "TM003", "changeable:", "is written `mutable:`"),
    ("mutable: ", "zebra: ", "TM003", "zebra:", "no clause `zebra:` in `threat`"),
    ("mutable:       all", "seed: 0", "TM003", "seed:", "belongs to `evaluate`"),
    ("seed:    0", "allow: anything", "TM003", "allow:", "belongs to `threat`"),
    ("mutable: ", "mutable ", "TM001", "mutable", "followed by a colon: `mutable:`"),
    ("mutable: ", "mutable = ", "TM001", "mutable", "followed by a colon: `mutable:`"),
    ("untargeted", "untargeted,", "TM001", ",", "without a separator"),
    ("never", "never;", "TM006", ";", "the character `;`"),
    ("model net", "modle net", "TM014", "modle", "did you mean `model`"),
    ("model net", "zebra net", "TM014", "zebra", "no declaration begins"),
    ("tm 1\n", "", "TM004", "space", "`tm 1`"),
    ("tm 1", "tm", "TM004", "tm", "`tm 1`"),
    ("tm 1", "tm 2", "TM010", "2", "edition 2"),
    ('"w")', '"w"', "TM005", "(", "not closed"),
    ('"w")', '"w"]', "TM005", "(", "not closed"),
    ('"w")', '"w)', "TM005", '"w)', "string is not closed"),
    ('"w"', "“w”", "TM006", "“w”", "straight double quotes"),
    ("8/255", "8 'levels", "TM005", "'levels in px", "unit is not closed"),
    ("8/255", "8 ''", "TM006", "''", "no unit"),
    ("fail\n}", "fail\n", "TM005", "{", "not closed"),
    ("random:   never\n}", "random:   never\n}}", "TM005", "}", "closes nothing"),
    ("8/255", "8 levels", "TM001", "levels", "a unit such as"),
    ("8/255", '8 "levels"', "TM001", '"levels"', "single quotes"),
    ('"x"', "'x'", "TM001", "'x'", "double quotes"),
    ("8/255 in px", "8/255 in", "TM001", "in", "expected a name behind `in`"),
    ("8/255 in px", "8/ in px", "TM001", "in", "expected a value"),
    ("8/255", ".5", "TM007", ".5", "no number"),
    ("8/255", "5.", "TM007", "5.", "no number"),
    ("8/255", "1_000", "TM007", "1_000", "no number"),
    ("8/255", "0x1f", "TM007", "0x1f", "no number"),
    ("8/255", "1.2.3", "TM007", "1.2.3", "no number"),
    ("8/255", "2px", "TM007", "2px", "2 'px'"),
    ("8/255", "1e999999999", "TM007", "1e999999999", "at most 400"),
    ("8/255", "1" * 101, "TM007", "1" * 101, "at most 100"),
    ("8/255", "-" * 120 + "1", "TM008", "-" * 100 + "1", "levels"),
    ("net: px", "größe: px", "TM006", "größe:", "ASCII"),
    ('"a.py:f"', '"C:\\data"', "TM013", "\\d", "means nothing"),
    ("on net over", "on [net, other] over", "TM012", "[", "several models"),
    ("on net over", "on net, other over", "TM012", ",", "several models"),
    ("tensor(3, 32, 32) of real[0, 1]", "text", "TM012", "text", "text"),
    ("never", "never\x00", "TM006", "\x00", "U+0000"),
    ("never", "never # \u202e", "TM006", "\u202e", "U+202E"),
    ("never", "never # \rx", "TM006", "\r", "U+000D"),
    ("model net: px", "model net px", "TM001", "net", "a name with a colon"),
]


@pytest.mark.parametrize(("right", "wrong", "code", "guilty", "part"), MISTAKES)
def test_one_mistake_is_one_diagnostic_at_its_token(right: str, wrong: str, code: str, guilty: str, part: str) -> None:
    assert right in SPEC
    text = SPEC.replace(right, wrong, 1)
    result = read(text)
    assert result.tree is None
    (found,) = result.diagnostics
    assert (found.code, at(text, found.span)) == (code, guilty)
    assert part in found.message
    assert (found.span.line, found.span.column) == position(text, found.span.start)


def position(text: str, offset: int) -> tuple[int, int]:
    before = text[:offset].split("\n")
    return len(before), len(before[-1]) + 1


def test_fixes_mend_what_they_promise_to() -> None:
    mended = 0
    for right, wrong, *_ in MISTAKES:
        text = SPEC.replace(right, wrong, 1)
        diagnostics = read(text).diagnostics
        if diagnostics and diagnostics[0].fix:
            fixed, count = apply_fixes(Source("spec.tm", text), diagnostics)
            assert count == 1
            assert read(fixed).diagnostics == (), fixed
            mended += 1
    assert mended >= 18


def test_every_mistake_of_a_file_is_found() -> None:
    text = (
        SPEC.replace("linf <= 8/255", "linf <= ")
        .replace("never", "sometimes")
        .replace("white_box", "")
        .replace("seed:    0", "sead: 0")
        .replace('claim "x":', "claim x:")
        .replace('"w")', '"w"')
    )
    found = [(d.code, at(text, d.span)) for d in read(text).diagnostics]
    assert found == [
        ("TM005", "("),
        ("TM001", "sometimes"),
        ("TM001", "in"),
        ("TM002", "access:"),
        ("TM003", "sead:"),
        ("TM001", "x:"),
    ]


def test_a_file_of_nothing_but_mistakes_is_cut_short() -> None:
    text = "tm 1\n" + "threat t on m over d { allow: }\n" * 100
    assert len(read(text).diagnostics) == 20


@pytest.mark.parametrize(
    "text", ["", "\n", "# only a comment", "\ufeff", "{", "}", "tm", "1", "tm tm", "tm 1 tm 1", '"', "'"]
)
def test_tiny_files(text: str) -> None:
    result = read(text)
    assert result.tree is None
    assert result.diagnostics


def test_a_byte_order_mark_at_the_start_is_no_mistake() -> None:
    assert read("\ufeff" + SPEC).diagnostics == ()
    assert read(SPEC + "\ufeff").diagnostics[0].code == "TM006"


def test_a_file_has_a_greatest_length() -> None:
    (found,) = read("tm 1\n#" + "x" * (1 << 20)).diagnostics
    assert found.code == "TM008"


@pytest.mark.parametrize(
    "one", ["let a = 1\n", "# hello\n", "foo bar ", 'claim "x": survival(aa) >= 1 %\n', '"', "}{ ] :"]
)
def test_a_file_has_a_greatest_number_of_words(one: str) -> None:
    """A megabyte of anything is answered before it is read whole."""
    found = read("tm 1\n" + one * (1_000_000 // len(one))).diagnostics
    assert any(d.code == "TM008" and "words and signs" in d.message for d in found) or len(found) == 20


@pytest.mark.parametrize("one", ["(", "[", "-", "not "])
def test_what_is_opened_a_thousand_times_is_refused_there(one: str) -> None:
    """However much follows: nothing is copied for each of 30,000 open brackets."""
    found = read("tm 1\nlet a = " + one * 30_000).diagnostics
    assert found[0].span.start < 8 + len(one) * 1_100


UNSEEN = (
    "00AD 034F 061C 200B-200F 2028-202E 2060-206F 3164 FE00-FE0F FEFF FFA0 FFF9-FFFB E0000-E01FF 115F 1160 180E 17B4"
)


def unseen() -> list[str]:
    """Those that the reference names, and every format character that Python's Unicode tables know."""
    named = [part.partition("-") for part in UNSEEN.split()]
    points = {p for low, _, high in named for p in range(int(low, 16), int(high or low, 16) + 1)}
    points |= {p for p in range(sys.maxunicode + 1) if unicodedata.category(chr(p)) == "Cf"}
    return [chr(p) for p in sorted(points)]


def test_characters_that_nobody_sees_are_refused_wherever_they_stand() -> None:
    for c in unseen():
        for text in (f"tm 1\n# a{c}b\n", f'tm 1\nlet a = "x{c}"\n', f"tm 1\nlet a{c}b = 1\n"):
            found = read(text).diagnostics
            assert [d.code for d in found][:1] == ["TM006"], f"U+{ord(c):04X} in {text!r}"


@needs_shared
def test_published_wrong_specs_are_refused_at_the_token() -> None:
    expected = {"17_sensor.wrong-3": ("TM002", "mutable:", 27, 3), "19_levels.wrong-3": ("TM003", "ball:", 26, 3)}
    for path in shared_specs(wrong=True):
        text = path.read_text(encoding="utf-8")
        found = [
            (d.code, at(text, d.span), d.span.line, d.span.column) for d in parse(Source(path.name, text)).diagnostics
        ]
        assert found == ([expected[path.stem]] if path.stem in expected else [])


# --- every state of the parser ----------------------------------------------------------------------------------------

_SAMPLES = {"NAME": "name", "NUMBER": "8", "STRING": '"text"', "UNIT": "'m'", "LABEL": "name:"}


def _paths() -> dict[int, list[tuple[str, int]]]:
    """Per state of the table, the symbols and states on a shortest way to it."""
    grammar = table()
    paths: dict[int, list[tuple[str, int]]] = {grammar.start: []}
    waiting = deque(paths)
    while waiting:
        number = waiting.popleft()
        state = grammar.states[number]
        for symbol, target in [*state.actions.items(), *state.gotos.items()]:
            if target >= 0 and target not in paths:
                paths[target] = [*paths[number], (symbol, target)]
                waiting.append(target)
    return paths


def test_every_state_of_the_parser_has_something_to_say() -> None:
    """On a stray sign, at the end of the file and at a clause: a message and a form, without names of the grammar."""
    grammar = table()
    paths = _paths()
    assert len(paths) == len(grammar.states)
    for number, path in paths.items():
        if number in (grammar.start, grammar.accept):
            continue  # the first token and the end of the file are settled before the parser runs
        tokens = [Token((symbol,), _SAMPLES.get(symbol, symbol), i, 1, i + 1) for i, (symbol, _) in enumerate(path)]
        for kinds, text in (("?",), "?"), ((END,), ""), (("LABEL",), "zzz:"):
            bad = Token(kinds, text, len(path), 2, 1)
            states = [grammar.start, *(state for _, state in path)]
            trouble = Trouble("spec.tm", grammar, states, list(tokens), [*tokens, bad], len(tokens))
            if kinds[0] in trouble.expected:
                continue
            found = explain(trouble)
            said = found.message.replace(trouble.before.text, "")
            assert not re.search(r"[A-Z]{3}|\$|__|expected nothing", said), found.message
            assert found.help or found.fix or found.code in ("TM005", "TM003"), found.message


def test_the_words_of_the_messages_are_those_of_the_grammar() -> None:
    grammar = table()
    assert {f"{word}:" for word in CLAUSES} == grammar.clause_words
    declaring = next(s for s in grammar.states if s.begins == "declaration")
    assert DECLARATIONS.keys() == {k for k, target in declaring.actions.items() if target >= 0 and k != END}
    rules = {rule.origin.lstrip("_") for rule in grammar.rules}
    assert set(FORMS) <= rules
    claimed = [synonym for synonyms in SYNONYMS.values() for synonym in synonyms.split()]
    assert SYNONYMS.keys() <= CLAUSES.keys()
    assert not set(claimed) & CLAUSES.keys()


def test_every_example_in_the_messages_is_right() -> None:
    """Each example of a clause stands in a block that has the clause, each example of a declaration in a file."""
    heads = {
        "model": "model m: px -> classes(10)",
        "data": "data d: px",
        "threat": "threat t on m over d",
        "property": "property p on m",
        "shift": "shift s on m over d",
        "suite": "suite s",
        "evaluate": "evaluate e of t",
        "report": "report",
    }
    for word, (_, example) in CLAUSES.items():
        results = [read(f"tm 1\n{head} {{ {example} }}") for head in heads.values()]
        assert any(result.tree is not None for result in results), word
    for word, example in DECLARATIONS.items():
        assert read("tm 1\n" + example.replace("{ … }", "{ }")).tree is not None, word


def test_depth_is_bounded_where_the_parser_recovers_too() -> None:
    """The error stands behind a value that was not reduced yet and is too deep."""
    found = [d.code for d in read("tm 1 threat t on m over d { allow: linf <= " + "-" * 120 + "1 ( }").diagnostics]
    assert "TM008" in found


def test_a_unit_without_quotes_gets_them() -> None:
    for bare, quoted in (("8 levels", "8 'levels'"), ("8/255 px", "8/255 'px'")):
        text = SPEC.replace("8/255", bare, 1)
        (found,) = read(text).diagnostics
        mended, count = apply_fixes(Source("spec.tm", text), [found])
        assert (mended, count) == (SPEC.replace("8/255", quoted, 1), 1)
    feature = "tm 1\nspace s { a: real[0, 1] degC } stored as float32\n"
    (found,) = read(feature).diagnostics
    assert apply_fixes(Source("spec.tm", feature), [found])[0] == feature.replace("degC", "'degC'")
