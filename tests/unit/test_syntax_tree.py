"""What the constructs of the language are read as: trees worked out by hand."""

from __future__ import annotations

from fractions import Fraction

import pytest
from syntax_support import at, clause, needs_shared, only, read, shared_specs, threat, tree, value

from tmlang.base.source import NOWHERE, Source
from tmlang.syntax import ast, parse


def number(text: str) -> ast.Number:
    return ast.Number(NOWHERE, Fraction(text), text)


def name(text: str) -> ast.Name:
    return ast.Name(NOWHERE, text)


def unit(text: str) -> ast.Unit:
    return ast.Unit(NOWHERE, text)


def binary(left: ast.Value, op: str, right: ast.Value) -> ast.Binary:
    return ast.Binary(NOWHERE, op, left, right)  # type: ignore[arg-type]


def quantity(inner: ast.Value, text: str) -> ast.Quantity:
    return ast.Quantity(NOWHERE, inner, unit(text))


EIGHT = binary(number("8"), "/", number("255"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8/255", EIGHT),
        ("1/2 'degC'", quantity(binary(number("1"), "/", number("2")), "degC")),
        ("45 %", quantity(number("45"), "%")),
        ("1 + 2 * 3", binary(number("1"), "+", binary(number("2"), "*", number("3")))),
        ("1 - 2 - 3", binary(binary(number("1"), "-", number("2")), "-", number("3"))),
        ("1 - (2 - 3)", binary(number("1"), "-", binary(number("2"), "-", number("3")))),
        ("-1/2", binary(ast.Negate(NOWHERE, number("1")), "/", number("2"))),
        ("-(1/2)", ast.Negate(NOWHERE, binary(number("1"), "/", number("2")))),
        ("1 's' + 2 's'", binary(quantity(number("1"), "s"), "+", quantity(number("2"), "s"))),
        ("(eps)", name("eps")),
        ("[1, 2,]", ast.List(NOWHERE, (number("1"), number("2")))),
        ("(1, 2)", ast.Tuple(NOWHERE, (ast.Arg(NOWHERE, None, number("1")), ast.Arg(NOWHERE, None, number("2"))))),
        ("(temp: 2 'K')", ast.Tuple(NOWHERE, (ast.Arg(NOWHERE, name("temp"), quantity(number("2"), "K")),))),
    ],
)
def test_values(text: str, expected: ast.Value) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "exact", "decimals"),
    [
        ("0.5", Fraction(1, 2), 1),
        ("1e-5", Fraction(1, 100_000), 5),
        ("59.530", Fraction(5953, 100), 3),
        ("2.5e1", Fraction(25), 0),
        ("2.55E1", Fraction(51, 2), 1),
        ("00012", Fraction(12), 0),
        ("123456789012345678901234567890", Fraction(123456789012345678901234567890), 0),
    ],
)
def test_numbers_are_exact_and_keep_their_digits(text: str, exact: Fraction, decimals: int) -> None:
    read_ = value(text)
    assert isinstance(read_, ast.Number)
    assert (read_.value, read_.text, read_.decimals) == (exact, text, decimals)


def test_strings_resolve_the_two_escapes() -> None:
    text = 'tm 1 let x = "a \\"b\\" \\\\ c"'
    declaration = read(text).tree.declarations[0]  # type: ignore[union-attr]
    assert isinstance(declaration, ast.Let)
    assert isinstance(declaration.value, ast.String)
    assert declaration.value.value == 'a "b" \\ c'
    assert at(text, declaration.value.inner) == 'a \\"b\\" \\\\ c'


# --- tokens -----------------------------------------------------------------------------------------------------------


def test_keywords_are_whole_words_and_only_where_they_mean_something() -> None:
    assert isinstance(threat("goal: targeted classes"), ast.Goal)
    goal = threat("goal: targeted classes")
    assert isinstance(goal, ast.Goal)
    assert (goal.kind, goal.word.text) == ("rule", "classes")
    ball = threat("allow: linf <= inner in interior")
    assert ball == ast.Ball(NOWHERE, name("linf"), name("inner"), name("interior"))
    model = only("model model: space -> {threat, claim} { }")
    assert isinstance(model, ast.Model)
    assert (model.name.text, model.space.text) == ("model", "space")


def test_every_clause_word_may_be_a_feature_and_an_argument() -> None:
    from tmlang.syntax.parser import table

    words = sorted(word[:-1] for word in table().clause_words)
    assert len(words) == 39
    members = " ".join(f"{word}: real[0, 1]" for word in words)
    space = only(f"space s {{ {members} }} stored as float32")
    assert isinstance(space, ast.Space)
    assert isinstance(space.body, ast.FeatureBody)
    assert [m.name.text for m in space.body.members if isinstance(m, ast.Feature)] == words
    call = value(f"f({', '.join(f'{word}: 1' for word in words)})")
    assert isinstance(call, ast.Call)
    assert [a.name.text for a in call.args if a.name] == words


def test_white_space_is_free() -> None:
    loose = "threat t\n  on m over d{allow:linf<=8/255 in px mutable :\n\n all}"
    tight = "threat t on m over d {\n  allow: linf <= 8/255 in px\n  mutable: all\n}"
    assert tree(loose) == tree(tight) == tree(tight.replace("\n", "\r\n")) == tree(tight.replace(" ", "\t"))


def test_spans_cover_the_words_as_written() -> None:
    text = "tm 1\nthreat t on m over d {\n  mutable:  a up only, b\n}\n"
    (declaration,) = read(text).tree.declarations  # type: ignore[union-attr]
    assert isinstance(declaration, ast.Threat)
    (found,) = declaration.clauses
    assert at(text, found.word.span) == "mutable:"
    assert (found.word.span.line, found.word.span.column) == (3, 3)
    assert at(text, found.span) == "mutable:  a up only, b"
    assert isinstance(found.value, ast.Mutable)
    assert [at(text, pick.span) for pick in found.value.picks] == ["a up only", "b"]
    assert at(text, declaration.span) == text[5:-1]
    assert declaration.span.end_line == 4


def test_doc_comments_belong_to_the_next_declaration() -> None:
    module = tree("## first\n# plain\n## second\nlet a = 1 ## behind\n# alone\nlet b = ## inside\n 2\n")
    a, b = module.declarations
    assert [c.text for c in a.doc] == ["first", "second"]
    assert b.doc == ()
    assert [(c.text, c.doc) for c in module.comments] == [
        ("first", True),
        ("plain", False),
        ("second", True),
        ("behind", False),
        ("alone", False),
        ("inside", False),
    ]


# --- spaces, models, data ---------------------------------------------------------------------------------------------


def test_space_of_features() -> None:
    space = only(
        "space s { a: real[0, 1] 'V' step 1/8  b: int open(0, 5)  c: {x, \"y z\"}  derive r = a / b"
        "  where a <= b  where a + b == 1 tolerance 1/100  where one_hot(a, b)  metric m { a: 1/2  c: mismatch } }"
        " stored as float64 originals exempt"
    )
    assert isinstance(space, ast.Space)
    assert isinstance(space.body, ast.FeatureBody)
    a, b, c, r, first, second, third, metric = space.body.members
    assert isinstance(a, ast.Feature)
    assert (a.cell.kind, a.cell.step, a.cell.unit) == ("real", binary(number("1"), "/", number("8")), unit("V"))
    assert isinstance(b, ast.Feature)
    assert b.cell.range == ast.Range(NOWHERE, number("0"), number("5"), open=True)
    assert isinstance(c, ast.Feature)
    assert c.cell.choices == (name("x"), ast.String(NOWHERE, "y z"))
    assert r == ast.Derive(NOWHERE, name("r"), binary(name("a"), "/", name("b")))
    assert first == ast.Where(NOWHERE, ast.Comparison(NOWHERE, name("a"), "<=", name("b")))
    assert isinstance(second, ast.Where)
    assert isinstance(second.relation, ast.Comparison)
    assert second.relation.tolerance == binary(number("1"), "/", number("100"))
    assert isinstance(third, ast.Where)
    assert isinstance(third.relation, ast.Call)
    assert isinstance(metric, ast.Metric)
    assert [w.value for w in metric.weights] == [binary(number("1"), "/", number("2")), name("mismatch")]
    assert space.modifiers == (ast.StoredAs(NOWHERE, name("float64")), ast.Originals(NOWHERE, name("exempt")))


def test_space_of_a_tensor() -> None:
    space = only("space s: tensor(3, 8, 8) of bytes order rgb delivered as rounded(1/255) originals must comply")
    assert isinstance(space, ast.Space)
    assert isinstance(space.body, ast.TensorBody)
    assert space.body.shape == (number("3"), number("8"), number("8"))
    assert space.body.cell == ast.Cell(NOWHERE, "bytes", NOWHERE)
    order, delivered, originals = space.modifiers
    assert order == ast.Order(NOWHERE, name("rgb"))
    assert isinstance(delivered, ast.DeliveredAs)
    assert isinstance(delivered.codec, ast.Call)
    assert originals == ast.Originals(NOWHERE, name("comply"))


MODEL = "model m: px -> classes(10)"


def test_decisions_and_rejections() -> None:
    def decide(text: str) -> ast.Decide:
        found = clause(MODEL, f"decide: {text}")
        assert isinstance(found, ast.Decide)
        return found

    assert decide("argmax ties lowest") == ast.Decide(NOWHERE, ast.Extreme(NOWHERE, "argmax"), name("lowest"))
    assert decide("argmin ties 3").ties == number("3")
    assert decide("majority of 10 draws").rule == ast.Draws(NOWHERE, "majority", number("10"))
    assert decide("mean of n draws ties reject").rule == ast.Draws(NOWHERE, "mean", name("n"))
    assert decide("most_likely draw").rule == ast.MostLikely(NOWHERE)
    threshold = ast.Threshold(NOWHERE, name("score"), ">=", number("1"), name("attack"), number("0"))
    assert decide("threshold score >= 1 then attack else 0").rule == threshold

    reject = clause(MODEL, "reject: when class 10 or distance > 2 calibrated on calib at 5 % clean rejection")
    first = ast.RejectIf(NOWHERE, name("class"), "==", number("10"))
    calibration = ast.Calibration(NOWHERE, name("calib"), quantity(number("5"), "%"))
    second = ast.RejectIf(NOWHERE, name("distance"), ">", number("2"), calibration)
    assert reject == ast.Reject(NOWHERE, (first, second))


def test_random_network_ensemble_and_steps() -> None:
    assert clause(MODEL, "random: never") == ast.Random(NOWHERE, "never")
    assert clause(MODEL, "random: per request") == ast.Random(NOWHERE, "per_request")
    seeded = clause(MODEL, 'random: seeded 7 because "it does"')
    assert seeded == ast.Random(NOWHERE, "seeded", number("7"), ast.String(NOWHERE, "it does"))
    network = clause(MODEL, 'network: onnx("f.onnx") outputs logits: 10, distance: 1')
    assert isinstance(network, ast.Network)
    assert [(h.name.text, h.value) for h in network.outputs if h.name] == [
        ("logits", number("10")),
        ("distance", number("1")),
    ]
    ensemble = clause(MODEL, "ensemble: mean of probabilities over [a, b]")
    assert ensemble == ast.Ensemble(NOWHERE, name("mean"), name("probabilities"), (name("a"), name("b")))
    step = clause(MODEL, "step: normalize(mean: m) as standardized")
    assert isinstance(step, ast.Step)
    assert step.result == name("standardized")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("all", ast.Take(NOWHERE, "all")),
        ("first 10", ast.Take(NOWHERE, "first", number("10"))),
        ("sample 5 seed 1", ast.Take(NOWHERE, "sample", number("5"), number("1"))),
        ('ids "f.txt"', ast.Take(NOWHERE, "ids", file=ast.File(NOWHERE, ast.String(NOWHERE, "f.txt")))),
        (
            'ids file("f.txt", sha256: "ab")',
            ast.Take(NOWHERE, "ids", file=ast.File(NOWHERE, ast.String(NOWHERE, "f.txt"), ast.String(NOWHERE, "ab"))),
        ),
        ("where label == 3", ast.Take(NOWHERE, "where", label=number("3"))),
        ("correct under m", ast.Take(NOWHERE, "correct", model=name("m"))),
    ],
)
def test_take(text: str, expected: ast.Take) -> None:
    assert clause("data d: px", f"take: {text}") == expected


# --- threats ----------------------------------------------------------------------------------------------------------


def ball(norm: str) -> ast.Ball:
    return ast.Ball(NOWHERE, name(norm), number("1"), name("px"))


def test_and_binds_closer_than_or() -> None:
    a, b, c = (ast.Ball(NOWHERE, name(n), number("1"), name("px")) for n in ("linf", "l2", "l1"))
    written = "linf <= 1 in px or l2 <= 1 in px and l1 <= 1 in px"
    assert threat(f"allow: {written}") == ast.Either(NOWHERE, (a, ast.Both(NOWHERE, (b, c))))
    grouped = "(linf <= 1 in px or l2 <= 1 in px) and l1 <= 1 in px"
    assert threat(f"allow: {grouped}") == ast.Both(NOWHERE, (ast.Either(NOWHERE, (a, b)), c))


def test_a_branch_name_covers_one_ball_or_a_group() -> None:
    first = ast.Branch(NOWHERE, name("a"), ball("linf"))
    assert threat("allow: a: linf <= 1 in px and l2 <= 1 in px") == ast.Both(NOWHERE, (first, ball("l2")))
    group = ast.Branch(NOWHERE, name("a"), ast.Both(NOWHERE, (ball("linf"), ball("l2"))))
    assert threat("allow: a: (linf <= 1 in px and l2 <= 1 in px)") == group


def test_other_allowed_sets() -> None:
    assert threat("allow: anything") == ast.Anything(NOWHERE)
    metric = ast.Ball(NOWHERE, name("metric"), number("1"), name("s"), name("minmax"))
    assert threat("allow: metric minmax <= 1 in s") == metric
    radii = threat("allow: linf <= (1, 2, 3) per channel in px tolerance 1e-4")
    assert isinstance(radii, ast.Ball)
    assert (radii.per, radii.tolerance) == ("channel", number("1e-4"))
    assert isinstance(radii.radius, ast.Tuple)
    patch = threat("allow: patch(5, 5) at any place")
    assert isinstance(patch, ast.Patch)
    assert patch.at == ast.AnyPlace(NOWHERE)
    placed = threat("allow: patch(disc(diameter: 60)) at (0, 1)")
    assert isinstance(placed, ast.Patch)
    assert isinstance(placed.at, ast.Tuple)
    transform = threat("allow: transform { rotate <= 30 'deg' translate <= 3 'px' } interpolate bilinear fill 0")
    assert isinstance(transform, ast.Transform)
    assert [p.name.text for p in transform.parts] == ["rotate", "translate"]
    assert (transform.interpolate, transform.fill) == (name("bilinear"), number("0"))


def test_masks() -> None:
    assert threat("mutable: all") == ast.Mutable(NOWHERE, True)
    rows = ast.IndexPick(NOWHERE, "rows", number("0"), number("3"))
    assert threat("mutable: all except rows 0..3") == ast.Mutable(NOWHERE, True, (rows,))
    picks = (ast.FeaturePick(NOWHERE, name("goal")), ast.FeaturePick(NOWHERE, name("b"), "down"))
    assert threat("mutable: goal, b down only") == ast.Mutable(NOWHERE, False, picks)
    mask = threat('mutable: mask("m.npz") per example')
    assert isinstance(mask, ast.Mutable)
    (pick,) = mask.picks
    assert isinstance(pick, ast.MaskPick)
    assert pick.per_example


@pytest.mark.parametrize(
    ("text", "kind", "word"),
    [
        ("untargeted", "untargeted", "untargeted"),
        ("targeted class ok", "class", "class"),
        ("targeted each apart", "each", "each"),
        ('targeted column "t"', "column", "column"),
        ("targeted runner_up", "rule", "runner_up"),
        ("targeted random(7)", "rule", "random"),
    ],
)
def test_goals(text: str, kind: str, word: str) -> None:
    goal = threat(f"goal: {text}")
    assert isinstance(goal, ast.Goal)
    assert (goal.kind, goal.word.text) == (kind, word)


def test_access() -> None:
    access = threat(
        "access: scores (top5, rounded 3), transfer from [a, b], queries <= 5 per example, randomness unknown,"
        " requests share state, unaware of [reject]"
    )
    assert access == ast.Access(
        NOWHERE,
        (
            ast.Level(NOWHERE, name("scores"), ((name("top5"), None), (name("rounded"), number("3")))),
            ast.TransferFrom(NOWHERE, (name("a"), name("b"))),
            ast.Queries(NOWHERE, number("5"), name("example")),
            ast.RandomnessKnown(NOWHERE, name("unknown")),
            ast.Requests(NOWHERE, "share_state"),
            ast.UnawareOf(NOWHERE, (name("reject"),)),
        ),
    )


def test_the_remaining_clauses_of_threats() -> None:
    assert threat("perturbation: per example") == ast.Perturbation(NOWHERE)
    assert threat("perturbation: universal fitted on d") == ast.Perturbation(NOWHERE, name("d"))
    assert threat("minimize: l2 in px") == ast.Minimize(NOWHERE, name("l2"), name("px"))
    assert threat("minimize: metric mm in s") == ast.Minimize(NOWHERE, name("metric"), name("s"), name("mm"))
    within = ast.Ball(NOWHERE, name("linf"), number("1"), name("px"))
    rejected = threat("rejected: fail within linf <= 1 in px, safe beyond")
    assert rejected == ast.Rejected(NOWHERE, name("fail"), within, name("safe"))
    success = threat("success: error_probability > 1/2 at 99 % on 500 fresh draws")
    half, level = binary(number("1"), "/", number("2")), quantity(number("99"), "%")
    assert success == ast.ErrorProbability(NOWHERE, half, level, number("500"))
    assert threat("success: error_probability > 1/2 at 99 %") == ast.ErrorProbability(NOWHERE, half, level)
    assert threat("success: single draw judged on 9 fresh draws") == ast.SingleDraw(NOWHERE, number("9"))
    text = ast.String(NOWHERE, "x")
    assert threat('assume: "x"') == ast.Assume(NOWHERE, text)
    assert threat('assume: "x" unreviewed') == ast.Assume(NOWHERE, text, "unreviewed")
    reviewed = ast.Assume(NOWHERE, text, "reviewed", reviewed=number("3"), total=number("4"))
    assert threat('assume: "x" reviewed 3 of 4') == reviewed
    nature = threat("nature: { rotate uniform [-1, 1] 'deg' scale uniform open(0, 2) } draws 100")
    assert isinstance(nature, ast.Nature)
    assert nature.draws == number("100")
    assert [(p.name.text, p.range.open, p.unit) for p in nature.parts] == [
        ("rotate", False, unit("deg")),
        ("scale", True, None),
    ]


# --- the rest ---------------------------------------------------------------------------------------------------------


def test_properties_shifts_suites_reports() -> None:
    always = clause("property p on net", "always: (coc <= 1 or coc is not min) and b is max")
    low = ast.Comparison(NOWHERE, name("coc"), "<=", number("1"))
    either = ast.Disjunction(NOWHERE, (low, ast.Extremal(NOWHERE, name("coc"), True, "min")))
    assert always == ast.Conjunction(NOWHERE, (either, ast.Extremal(NOWHERE, name("b"), False, "max")))
    interval = clause("shift s on m over d", "interval: wilson at 95 %")
    assert interval == ast.Interval(NOWHERE, name("wilson"), quantity(number("95"), "%"))
    suite = only("suite s(steps = 100) { attack: a = native.pgd(steps: steps) through expectation(draws: 3) }")
    assert isinstance(suite, ast.Suite)
    assert suite.parameters == (ast.Parameter(NOWHERE, name("steps"), number("100")),)
    stage = suite.clauses[0].value
    assert isinstance(stage, ast.Stage)
    assert (stage.label, stage.call.path.text) == (name("a"), "native.pgd")
    assert isinstance(stage.through, ast.Call)
    report = only("report { figures: f(aa), g(aa) }")
    assert isinstance(report, ast.Report)
    assert isinstance(report.clauses[0].value, ast.Figures)


def test_evaluations_and_claims() -> None:
    plain, called = tree(
        "evaluate a of t { } evaluate b of t() { stop: after 2 'h' curve: eps over [1, 2] }"
    ).declarations
    assert isinstance(plain, ast.Evaluate)
    assert isinstance(called, ast.Evaluate)
    assert (plain.args, called.args) == (None, ())
    assert next(called.all("stop")).value == ast.StopAfter(NOWHERE, quantity(number("2"), "h"))
    found = called.first("curve")
    assert found is not None
    assert isinstance(found.value, ast.Curve)
    assert called.first("seed") is None
    holds = only('claim "a": holds(v)')
    assert isinstance(holds, ast.Claim)
    assert (holds.op, holds.right, holds.population) == (None, None, None)
    rounds = only('claim "a": survival(aa) rounds to 45.30 % population at 95 %')
    assert isinstance(rounds, ast.Claim)
    assert rounds.op == "rounds_to"
    assert rounds.right == ast.RoundsTo(NOWHERE, quantity(number("45.30"), "%"))
    assert rounds.population == quantity(number("95"), "%")
    compared = only('claim "a": survival(a) >= survival(b)')
    assert isinstance(compared, ast.Claim)
    assert isinstance(compared.right, ast.Call)


@needs_shared
@pytest.mark.parametrize("path", shared_specs(wrong=False) + shared_specs(wrong=True), ids=lambda p: p.stem)
def test_published_specs_are_read(path) -> None:  # type: ignore[no-untyped-def]
    text = path.read_text(encoding="utf-8")
    result = parse(Source(path.name, text))
    refused = text.startswith("# expect: TM0")
    assert (result.tree is None) == refused
    if result.tree is not None:
        assert all(at(text, d.span) for d in result.tree.declarations)
