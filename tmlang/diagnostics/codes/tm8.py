"""Execution and records."""

from tmlang.diagnostics.registry import Rule

RULES = (
    Rule("TM801", "at least one run is needed"),
    Rule("TM802", "a time limit must be positive"),
    # Found while a spec runs.
    Rule("TM820", "an original is not in its own allowed set"),
    Rule("TM821", "the allowed set holds nothing but the original"),
    Rule("TM822", "a stage changed the model"),
    Rule("TM823", "a certificate is contradicted by a witness"),
    Rule("TM824", "the output folder cannot be used"),
    Rule("TM825", "a stage failed on some units", "warning"),
    Rule("TM826", "the runner cannot carry this yet"),
    Rule("TM827", "the fresh draws are too few to confirm anything"),
    Rule("TM828", "there is nothing to run"),
    Rule("TM829", "this system cannot contain the run"),
    # Found while a bundle is read or audited.
    Rule("TM830", "what nature draws can be read in two ways"),
    Rule("TM831", "a figure could not be drawn", "warning"),
    Rule("TM840", "this is not the bundle of a finished run"),
    Rule("TM841", "the bundle is not what was sealed"),
    Rule("TM842", "a file of the bundle is not read"),
    Rule("TM843", "a name or a link leads out of the bundle"),
    Rule("TM844", "the records do not fit together"),
    Rule("TM845", "a number does not follow from the records"),
    Rule("TM846", "a candidate is not what its record says"),
    Rule("TM847", "a sealed bundle is not written to"),
    Rule("TM848", "the model does not do what was recorded"),
    Rule("TM849", "the bounds of an output do not hold"),
    Rule("TM850", "the plan is not what its spec asks for"),
    Rule("TM851", "a page of the bundle does not follow from the rest"),
    Rule("TM852", "an incident cannot be kept or asked about"),
    Rule("TM853", "the zip is not one that tmc packed"),
    Rule("TM854", "a review does not fit its bundle"),
    Rule("TM855", "this key cannot be used"),
    Rule("TM856", "the signature does not hold"),
    Rule("TM857", "the run, made again, gives another row"),
    Rule("TM858", "the run is not reproduced here", "warning"),
    Rule("TM859", "there are not so many examples to run again"),
    # A run under a lock.
    Rule("TM860", "there is no lock"),
    Rule("TM861", "the lock cannot be read"),
    Rule("TM862", "the spec is not what was locked"),
    Rule("TM863", "a library is not the one that was locked"),
    # Signs that gradients are masked, read from the records.
    Rule("TM870", "a search without gradients beats them", "warning"),
    Rule("TM871", "random search beats gradients", "warning"),
    Rule("TM872", "zero gradients", "warning"),
    Rule("TM873", "the loss does not fall with steps", "warning"),
    Rule("TM874", "few steps beat many", "warning"),
    Rule("TM875", "a larger radius does not reach zero survival", "warning"),
    # Papers.
    Rule("TM880", "a PDF that nothing can be attached to, or read from"),
    Rule("TM881", "nothing is attached"),
    Rule("TM882", "an attachment is refused"),
    Rule("TM883", "the parts of a paper do not belong together"),
    Rule("TM884", "the threat is none that the leaderboard lists"),
    # A fault of ours, told by the command line.
    Rule("TM890", "tmc failed in a way that no spec should be able to cause"),
)
