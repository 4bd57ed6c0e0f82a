"""The audit of a whole bundle: what its records say (``audit.verify``), whether its plan is that of its spec, and
whether its pages show what the rest of it says.

The plan is made again from the spec in the bundle, and the reports from its records, and both are compared with what
lies there. What another version of tmlang made, or needs what is not installed here, is told as not checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from os.path import normpath, relpath
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

from tmlang import __version__
from tmlang.api.reading import Front, read_spec
from tmlang.audit import verify
from tmlang.audit.bundle import LOCK, SIGNATURE, Bundle
from tmlang.audit.descriptions import description_faults
from tmlang.audit.identity import Json, checked_environment
from tmlang.audit.review import REVIEW
from tmlang.audit.verify import Audit, Fault
from tmlang.diagnostics.stop import Stop, stop
from tmlang.execute.versions import version_faults
from tmlang.plan.capability import Capabilities
from tmlang.plan.ir import Plan
from tmlang.plan.lock import artifacts, changes, frozen
from tmlang.report.write import DEFAULT, described, rendered, tools

_SPEC = "spec/"
_PLAN = "that the plan is what its spec asks for"
_PICTURE = re.compile(rb"data:image/[a-z+]+;base64,[A-Za-z0-9+/=]*")
_WRITTEN = frozenset({"plan.json", "run.json", "columns.json", "environment.json", LOCK, REVIEW})
_SHOWN = 5


def audit(path: str | Path, *, key: Path | None = None) -> Audit:
    """Check the bundle at ``path``; with a public ``key`` (PEM), also who signed it.

    Raises a ``Stop`` where it cannot be read at all (TM840 to TM843, TM861), and for a key that is none (TM855).
    """
    found = verify.audit(path)
    bundle = Bundle.open(path, sealed=False)
    _signature(bundle, key, found)
    whole = _Whole(bundle, bundle.plan(), bundle.json("run.json"), checked_environment(bundle.json("environment.json")))
    _plan(whole, found)
    if whole.elsewhere is None:
        found.faults += [Fault("TM845", text) for text in version_faults(whole.plan, whole.run)]
    if found.faults:
        found.unchecked.append("the reports and descriptions: what they are made of does not hold")
    else:
        told = description_faults(bundle, whole.run, bundle.records())
        found.faults += [Fault("TM851", text) for text in told]
        found.checked.append("that the descriptions tell of the files, examples, labels and claims that are there")
        _reports(whole, found)
    return found


def sign(path: str | Path, key: Path) -> Path:
    """Sign the sealed bundle in the folder ``path`` with a private ``key`` (PEM); gives the path of the signature.

    Raises a ``Stop``: TM841 for a bundle that was changed, TM847 for a packed one, TM855 for a key that cannot sign,
    TM510 without the extra ``sign``.
    """
    bundle = Bundle.open(path)
    _signing().sign(bundle, key)
    return bundle.path / SIGNATURE


def _signature(bundle: Bundle, key: Path | None, found: Audit) -> None:
    signed = SIGNATURE in bundle
    if key is None and not signed:
        return
    found.unchecked.remove(verify.MAKER)
    if key is None:
        found.unchecked.append("who made the bundle: it is signed, and no key was given")
    elif (fault := _signing().fault(bundle, key)) is not None:
        found.faults.append(Fault("TM856", fault))
    else:
        found.checked.append(f"that the owner of {key} signed the statement, and so the hash of every file")


def _signing() -> ModuleType:
    try:
        from tmlang.audit import signature
    except ModuleNotFoundError as missing:
        help = "pip install 'tmlang[sign]'"
        raise stop("TM510", f"signatures need {missing.name}, which is not installed", help=help) from missing
    return signature


@dataclass(frozen=True)
class _Whole:
    """A bundle, and what it tells of how it was made."""

    bundle: Bundle
    plan: Plan
    run: Json
    environment: Json

    @property
    def texts(self) -> list[str]:
        """The files of the spec."""
        return [name for name in self.bundle.files() if name.startswith(_SPEC)]

    @property
    def elsewhere(self) -> str | None:
        """That another version made it, so that what is made here may differ."""
        version = self.run["tmlang"]
        return None if version == __version__ else f"it was made by tmlang {version}, and this is {__version__}"


# The plan ------------------------------------------------------------------------------------------------------------


def _plan(whole: _Whole, found: Audit) -> None:
    """The plan against that of the spec in the bundle, under the settings and with the hashes that it tells."""
    if not whole.plan.own_modules:
        found.faults += [Fault("TM850", f"`{name}` is no part of the plan") for name in whole.texts]
        found.unchecked.append(f"{_PLAN}: it names none")
        return
    main = _SPEC + Path(whole.plan.own_modules[0].name).name
    if main not in whole.texts:
        found.faults.append(Fault("TM850", f"the spec `{main}` is not in the bundle"))
        return
    with TemporaryDirectory(prefix="tmc-") as folder:
        front = _front(whole, main, Path(folder))
        faults = list(_other_plan(front, whole, Path(folder)))
    if not faults:
        found.checked.append(f"{_PLAN}: made again from the spec in the bundle")
    elif (why := whole.elsewhere or _plugins(whole.plan)) is not None:
        found.unchecked.append(f"{_PLAN}: {why}; here, {faults[0]}")
    else:
        found.faults += [Fault("TM850", fault) for fault in faults[:_SHOWN]]


def _front(whole: _Whole, main: str, folder: Path) -> Front:
    """The spec of the bundle, read as it was for the run; ``folder`` is empty and takes its files."""
    for name in whole.texts:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(whole.bundle.read_bytes(name))
    settings = {p.name: str(p.value) for p in whole.plan.parameters if p.changed}
    return read_spec(str(folder / main), settings)


def _other_plan(front: Front, whole: _Whole, folder: Path) -> Iterator[str]:
    """Where the plan, and what belongs to it, is not what the spec gives."""
    if front.plan is None:
        first = next(d for d in front.diagnostics if d.is_error)
        yield f"the spec in the bundle gives no plan: {first.code}: {first.message.replace(f'{folder}/', '')}"
        return
    made = _placed(frozen(front.plan, whole.run["artifacts"]), folder / _SPEC)
    told = _placed(whole.plan, Path(whole.plan.own_modules[0].name).parent)
    differences = changes(made, told, "in the spec", "in plan.json")
    for change in sorted(differences, key=lambda text: text.startswith("modules")):  # what is meant, before its text
        yield f"plan.json is not what the spec asks for: {change}"
    asked = {f"{_SPEC}{m.name}" for m in made.own_modules}
    yield from (f"`{name}` is no part of the spec" for name in whole.texts if name not in asked)
    without = {a.path for a in artifacts(front.plan) if a.sha256 is None} if whole.run["lock"] is None else set()
    if set(whole.environment["unfrozen"]) != without:
        yield f"the spec leaves out the hash of {', '.join(sorted(without)) or 'no file'}: environment.json differs"


def _placed(plan: Plan, folder: Path) -> Plan:
    """With the spec's own files named by their place below ``folder``, that of the main one."""
    own = {m: replace(m, name=normpath(relpath(m.name or ".", folder))) for m in plan.own_modules}
    return replace(plan, modules=tuple(own.get(m, m) for m in plan.modules))


def _plugins(plan: Plan) -> str | None:
    """That the plan needs backends which are no part of tmlang, and may be others here."""
    others = sorted({s.backend for e in plan.evaluations for s in e.stages} - set(Capabilities().names))
    return f"it needs the plugin {', '.join(others)}, as it was then" if others else None


# The reports ---------------------------------------------------------------------------------------------------------


def _reports(whole: _Whole, found: Audit) -> None:
    """Every page and figure against what is made of the rest now; and nothing lies beside them."""
    bundle = whole.bundle
    made, missing = _made(bundle)
    held: list[str] = []
    drawn: list[str] = []
    absent = [name for name, _ in described(bundle) if name not in set(bundle.files())]
    if whole.elsewhere is None:
        found.faults += [Fault("TM851", f"`{name}` is missing") for name in absent]
    for name in _beside(bundle):
        if name not in made and (not missing or not _is_report(name)):
            found.faults.append(Fault("TM851", f"`{name}` is no file that a run writes"))
        elif name not in made:
            found.unchecked.append(f"{name}: {missing}")
        elif bundle.read_bytes(name) == made[name]:
            held.append(name)
        elif whole.elsewhere is not None:
            found.unchecked.append(f"{name}: {whole.elsewhere}")
        elif _drawn_otherwise(whole, name, made[name]):
            drawn.append(name)
        else:
            found.faults.append(Fault("TM851", f"`{name}` is not what is made of the rest of the bundle"))
    if drawn:
        found.unchecked.append(f"the pictures of {_listed(drawn)}: drawn with {_others(whole.environment['tools'])}")
    if held:
        found.checked.append(f"that {_listed(held)} are what is made of the rest now, to the byte")


def _listed(names: list[str]) -> str:
    pages = [name for name in names if not name.startswith("figures/")]
    figures = len(names) - len(pages)
    return ", ".join([*pages, *([f"{figures} pictures in figures/"] if figures else [])])


def _beside(bundle: Bundle) -> list[str]:
    """The files that neither say what the run is nor hold its rows and what these name."""
    known = _WRITTEN | bundle.named()
    return [n for n in bundle.files() if n not in known and not n.startswith((_SPEC, "records/"))]


def _made(bundle: Bundle) -> tuple[dict[str, bytes], str]:
    """The pages and figures as they are made now; and what is not installed that some of them need."""
    made, missing = dict(described(bundle)), ""
    for forms in (DEFAULT, DEFAULT[:1]):  # the text needs nothing but tmlang, unless there are figures
        try:
            return made | rendered(bundle, forms), missing
        except Stop as stopped:
            missing = missing or stopped.diagnostics[0].message
    return made, missing


def _is_report(name: str) -> bool:
    return name in {f"report.{form}" for form in DEFAULT} or name.startswith("figures/")


def _drawn_otherwise(whole: _Whole, name: str, made: bytes) -> bool:
    """Whether other tools drew it, and nothing but pictures differs."""
    words = [_PICTURE.sub(b"", data) for data in (whole.bundle.read_bytes(name), made)]
    return whole.environment["tools"] != tools() and (words[0] == words[1] or name.startswith("figures/"))


def _others(then: Json) -> str:
    """``matplotlib 3.9, and here is 3.11``."""
    here = tools()
    other = sorted(k for k in {*then, *here} if then.get(k) != here.get(k))
    return ", ".join(f"{k} {then.get(k, 'not there')}, and here is {here.get(k, 'none')}" for k in other)
