"""``access:``: what the attacker sees, and how often it may ask."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, cast

from tmlang.diagnostics.suggest import either
from tmlang.meaning.threats import Access
from tmlang.semantics import models, values
from tmlang.semantics.scope import Env, World
from tmlang.syntax import ast

LEVELS = ("white_box", "scores", "decisions", "nothing")
_VAGUE = ("black_box", "blackbox", "grey_box", "gray_box", "adaptive", "black", "white", "grey", "gray")

Level = Literal["white_box", "scores", "decisions", "transfer", "nothing"]


def access(world: World, env: Env, node: ast.Access) -> Access | None:
    """The access; it has exactly one level, and every other item at most once."""
    made: Access | None = None
    ok = True
    seen: set[type] = set()
    for item in node.items:
        kind = ast.Level if isinstance(item, ast.TransferFrom) else type(item)
        if kind in seen:
            message = "there is one level of access" if kind is ast.Level else "this is said twice"
            world.report("TM413", message, item)
            ok = False
            continue
        seen.add(kind)
        if isinstance(item, ast.Level | ast.TransferFrom):
            made = _level(world, env, item)
            ok = ok and made is not None
    if ast.Level not in seen:
        help = f"access: {either([*LEVELS, 'transfer from […]'])}"
        world.report("TM413", "nothing says what the attacker sees", node, help=help)
    for item in node.items if made is not None else ():
        more = _more(world, env, made, item) if made else None
        ok = ok and more is not None
        made = more or made
    return made if ok else None


def _level(world: World, env: Env, node: ast.Level | ast.TransferFrom) -> Access | None:
    if isinstance(node, ast.TransferFrom):
        return _transfer(world, env, node)
    word = node.word.text
    if word not in LEVELS:
        if word in _VAGUE:
            message = f"{word} says too little: does the attacker see scores, decisions, other models or nothing"
            help = "scores, decisions, transfer from […] or nothing; and queries <= N per example"
            world.report("TM413", message, node.word, help=help)
        else:
            world.unknown("TM413", node.word, "level of access", [*LEVELS, "transfer"])
        return None
    details: dict[str, int] = {}
    for name, number in node.details:
        key = name.text if name.text == "rounded" else "top" if name.text[:3] == "top" else None
        count = name.text[3:] if key == "top" and number is None else number.text if number else ""
        if word != "scores" or key is None or not count.isdigit() or int(count) < 1:
            world.report("TM413", f"{word} has no detail {name.text}", name, help="scores (top5, rounded 3)")
            return None
        classes = env.model.meaning.classes if env.model else ()
        if key == "top" and classes and int(count) > len(classes):
            message = f"the model has {len(classes)} classes, and the attacker sees the greatest {count} scores"
            world.report("TM413", message, name, help="write scores alone when all of them are seen")
            return None
        details[key] = int(count)
    return Access(cast(Level, word), details.get("top"), details.get("rounded"))


def _transfer(world: World, env: Env, node: ast.TransferFrom) -> Access | None:
    """Surrogates are other models of the same space."""
    found = [(name, models.model(world, env, name)) for name in node.models]
    if not found:
        world.report("TM414", "a transfer comes from at least one model", node)
        return None
    victim = env.model
    ok = True
    for name, surrogate in found:
        if surrogate is None:
            ok = False
        elif victim is not None and surrogate.meaning.name == victim.meaning.name:
            message = f"{name.text} is the attacked model itself: that is white_box, scores or decisions"
            world.report("TM414", message, name)
            ok = False
        elif victim is not None and surrogate.space.name != victim.space.name:
            message = f"{name.text} takes {surrogate.space.name}, and {victim.meaning.name} takes {victim.space.name}"
            world.report("TM414", message, name)
            ok = False
    names = tuple(m.meaning.name for _, m in found if m)
    return Access("transfer", surrogates=names) if ok else None


def _more(world: World, env: Env, made: Access, item: ast.AccessItem) -> Access | None:
    match item:
        case ast.Queries():
            # No query at all leaves something to try only where candidates come from elsewhere.
            least = 0 if made.level in ("transfer", "nothing") else 1
            limit = values.whole(world, env, item.limit, least=least, what="a number of queries")
            per = values.word(world, item.per, ("example", "attack"), "unit of the query limit")
            if limit is None or per is None:
                return None
            return replace(made, queries=limit, queries_per=cast("Literal['example', 'attack']", per))
        case ast.RandomnessKnown():
            known = values.word(world, item.word, ("known", "unknown"), "state of the randomness")
            return replace(made, randomness=cast("Literal['known', 'unknown']", known)) if known else None
        case ast.Requests():
            return replace(made, requests=item.word)
        case ast.UnawareOf():
            return _unaware(world, env, made, item)
    return made


def _unaware(world: World, env: Env, made: Access, item: ast.UnawareOf) -> Access | None:
    """What the attacker does not know: rejection, or steps of the model by name."""
    if env.model is None:
        return None
    model = env.model.meaning
    parts = [s.name for s in model.steps] + (["reject"] if env.model.rejects else [])
    for name in item.parts:
        if name.text not in parts:
            known = f"it has {', '.join(parts)}" if parts else "it has no parts to be unaware of"
            world.report("TM413", f"{model.name} has no {name.text} to be unaware of; {known}", name)
            return None
    return replace(made, unaware_of=tuple(n.text for n in item.parts))
