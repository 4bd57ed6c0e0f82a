"""Artifacts and data."""

from tmlang.diagnostics.registry import Rule

RULES = (
    Rule("TM701", "this is not a SHA-256"),
    Rule("TM702", "a clause of the data is missing"),
    Rule("TM703", "a path leaves the folder of the spec"),
    Rule("TM704", "the selection cannot be taken"),
    Rule("TM705", "a remote model is observed, not fixed"),
    Rule("TM706", "the reader of the data is not fully given"),
    Rule("TM707", "the prepared data do not lie in their space"),
    # Found when the files are opened (`tmc check --artifacts`, `tmc run`).
    Rule("TM710", "the file is not there"),
    Rule("TM711", "the file is not the one that was named"),
    Rule("TM712", "the file does not hold what it should"),
    Rule("TM713", "Python code is not run without consent"),
    Rule("TM714", "a pickle is not opened"),
    Rule("TM715", "the weights do not fit the network"),
    Rule("TM716", "the ONNX graph uses something that is not converted"),
    Rule("TM717", "the converted ONNX graph does not compute what onnxruntime computes"),
    Rule("TM718", "the outputs do not fit the classes"),
    Rule("TM719", "the factory of the network failed"),
    Rule("TM720", "data lies outside its declared space"),
    Rule("TM721", "the columns of the table do not fit the space"),
    Rule("TM722", "a cell of the table cannot be read"),
    Rule("TM723", "a label is no class of the model"),
    Rule("TM724", "an id is not in the data, or stands twice"),
    Rule("TM725", "the file is larger than the limit"),
    Rule("TM726", "this kind of source is not read"),
    Rule("TM727", "the shape of the data does not fit the space"),
    Rule("TM728", "the artifact is not frozen", "warning"),
    Rule("TM729", "a step cannot run as it is written"),
    Rule("TM730", "the outputs are not of the stated kind"),
    Rule("TM731", "the model is random and declared never"),
    Rule("TM732", "the answer depends on the batch", "warning"),
    Rule("TM733", "the gradient is zero", "warning"),
    Rule("TM734", "probabilities instead of logits", "warning"),
    Rule("TM735", "the data uses a small part of its space", "warning"),
    Rule("TM736", "the model cannot be run on an input of its space"),
    Rule("TM737", "the model optimizes when it answers", "warning"),
    # Found when other formats are read and written (`tmc import`, `tmc export`).
    Rule("TM740", "the VNN-LIB file is not well formed"),
    Rule("TM741", "this cannot be said in the other format"),
    Rule("TM742", "the network cannot be written as ONNX"),
    # Corrupted sets as they were published.
    Rule("TM743", "the corrupted set is laid out otherwise"),
    Rule("TM744", "the corruptions of a published set are not told"),
)
