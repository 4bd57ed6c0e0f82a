"""Files inside a PDF, associated with the document (ISO 32000-2, 14.13); the only module that imports pikepdf."""

from __future__ import annotations

import io
import zlib
from collections.abc import Mapping
from typing import Any

from tmlang.diagnostics.stop import stop

MAX_FILE = 512 * 1024**2
MAX_FILES = 1000
_KINDS = {
    ".tm": ("text/plain", "/Source", "threat-model spec"),
    ".lock": ("application/json", "/Supplement", "lock of the spec: every hash, version and resolved argument"),
    ".json": ("application/json", "/Supplement", "claims, their identities and results"),
    ".zip": ("application/zip", "/Data", "evidence, to be audited with tmc extract"),
}
_HELP = "attach to the PDF before it is signed or locked"


def attach(pdf: bytes, files: Mapping[str, bytes]) -> bytes:
    """``pdf`` with ``files`` attached, each by its name; one that is attached under this name already is replaced.

    Raises a ``Stop``: TM880 for what is no PDF, for an encrypted one, and for a signed one, whose signature this would
    break; TM510 without the extra ``papers``.
    """
    pikepdf = _library()
    document = _opened(pdf)
    if int(document.Root.get("/AcroForm", {}).get("/SigFlags", 0)) & 1:
        raise stop("TM880", "the PDF is signed, and attaching would break the signature", help=_HELP)
    associated = [f for f in document.Root.get("/AF", []) if str(f.get("/UF", f.get("/F", ""))) not in files]
    for name, data in files.items():
        mime, relationship, description = _KINDS[name[name.rindex(".") :]]
        spec = pikepdf.AttachedFileSpec(
            document,
            data,
            filename=name,
            description=description,
            mime_type=mime,
            relationship=pikepdf.Name(relationship),
        )
        document.attachments[name] = spec
        associated.append(spec.obj)
    document.Root.AF = pikepdf.Array(associated)
    saved = io.BytesIO()
    document.save(saved, deterministic_id=True)
    return saved.getvalue()


def attached(pdf: bytes, endings: tuple[str, ...]) -> dict[str, bytes]:
    """The attached files whose names end so.

    Raises a ``Stop``: TM880 for what is no PDF or is encrypted, TM882 for more than :data:`MAX_FILES`, and for one that
    is larger than :data:`MAX_FILE` or packed otherwise than by deflate.
    """
    document = _opened(pdf)
    names = list(document.attachments)
    if len(names) > MAX_FILES:
        raise stop("TM882", f"more than {MAX_FILES} files are attached")
    wanted = [name for name in names if name.endswith(endings)]
    return {name: _content(name, document.attachments[name]) for name in wanted}


def _opened(pdf: bytes) -> Any:
    pikepdf = _library()
    try:
        return pikepdf.open(io.BytesIO(pdf))
    except pikepdf.PasswordError as error:
        raise stop("TM880", "the PDF is encrypted", help=_HELP) from error
    except (pikepdf.PdfError, ValueError) as error:
        raise stop("TM880", f"the PDF cannot be read: {error}") from error


def _content(name: str, spec: Any) -> bytes:
    """The bytes of one file, unpacked here so that a small stream cannot fill the memory."""
    pikepdf = _library()
    try:
        stream = spec.obj.EF.F
        packing = stream.get("/Filter", None)
        filters = list(packing) if isinstance(packing, pikepdf.Array) else [] if packing is None else [packing]
        raw: bytes = stream.read_raw_bytes()
    except (pikepdf.PdfError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise stop("TM882", f"`{name}` cannot be read from the PDF: {error}") from error
    if filters not in ([], [pikepdf.Name.FlateDecode]) or "/DecodeParms" in stream:
        raise stop("TM882", f"`{name}` is packed in a way that tmc does not unpack")
    unpacker = zlib.decompressobj()
    try:
        data = unpacker.decompress(raw, MAX_FILE + 1) if filters else raw
    except zlib.error as error:
        raise stop("TM882", f"`{name}` cannot be unpacked: {error}") from error
    if len(data) > MAX_FILE:
        raise stop("TM882", f"`{name}` is larger than {MAX_FILE} bytes")
    return data


def _library() -> Any:
    try:
        import pikepdf
    except ModuleNotFoundError as missing:
        help = "pip install 'tmlang[papers]'"
        raise stop("TM510", "attaching to a PDF needs pikepdf, which is not installed", help=help) from missing
    return pikepdf
