"""Spaces, units and budgets."""

from tmlang.diagnostics.registry import Rule

RULES = (
    Rule("TM201", "the radius is as wide as the domain"),
    Rule("TM202", "the radius leaves only the original"),
    Rule("TM203", "the radius is near a usual one, and not equal to it", "warning"),
    Rule("TM204", "a distance is measured in a derived space"),
    Rule("TM205", "one radius covers features of different units"),
    Rule("TM206", "a unit of another kind"),
    Rule("TM207", "a unit is missing"),
    Rule("TM208", "a unit is not known"),
    Rule("TM209", "a tolerance on a lattice"),
    Rule("TM210", "this codec cannot deliver an input"),
    Rule("TM211", "a parameter lies outside its range"),
    Rule("TM212", "a range is empty"),
    Rule("TM213", "a number must be positive here"),
    Rule("TM214", "the number of entries does not fit"),
    Rule("TM215", "the lattice does not fit its range"),
    Rule("TM216", "the ball is in another space than the model"),
    Rule("TM217", "an equation between real features needs a tolerance"),
    Rule("TM218", "arithmetic with a category"),
    Rule("TM219", "the metric does not fit the space"),
    Rule("TM220", "a division by zero"),
    Rule("TM221", "a value of another kind is needed here"),
    Rule("TM222", "a number of levels must be whole"),
    Rule("TM223", "several radii where one is needed"),
    Rule("TM224", "the shape of the tensor"),
    Rule("TM225", "radii per channel or feature do not fit the space"),
    Rule("TM226", "a patch or transform does not fit the space"),
    Rule("TM228", "a number is too large"),
    Rule("TM229", "a space of real numbers does not say how they are stored"),
)
