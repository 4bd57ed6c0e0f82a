"""Access and backends: raised by the matcher of ``plan`` from the manifests."""

from tmlang.diagnostics.registry import Rule

RULES = (
    Rule("TM501", "no such backend"),
    Rule("TM502", "the backend has no such method"),
    Rule("TM503", "the method has no such argument"),
    Rule("TM504", "the argument of a method has another type or range"),
    Rule("TM505", "the budget stands in the threat, not in the call"),
    Rule("TM506", "the threat does not grant this access"),
    Rule("TM507", "no gradient through a step"),
    Rule("TM508", "the method cannot search this set"),
    Rule("TM509", "the method cannot reach this goal"),
    Rule("TM510", "the backend is not installed"),
    Rule("TM511", "the number of classes does not suit the method"),
    Rule("TM512", "the method plays another role"),
    Rule("TM513", "the method is described and not built yet"),
    Rule("TM514", "the method needs another kind of network"),
    Rule("TM515", "the steps cannot cross the ball", "warning"),
    Rule("TM516", "the method needs inputs of another form"),
    Rule("TM517", "attacks that look for the nearest failure are asked at a radius", "warning"),
    Rule("TM518", "the method is known to miss failures", "warning"),
    Rule("TM519", "the attacks together are too weak to say anything", "warning"),
    Rule("TM520", "a universal perturbation is searched for more than once"),
    Rule("TM521", "the manifest of a plugin cannot be used"),
    Rule("TM522", "an attack starts from failures that are never handed to it"),
    Rule("TM527", "a library is not of the version that was measured", "warning"),
)
