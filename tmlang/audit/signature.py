"""Who made a bundle: a signature of its statement by a key (the only module that imports model_signing).

The statement holds the hash of every other file, so it alone is signed. The signature is the Sigstore bundle of OpenSSF
Model Signing, over an in-toto statement that names ``statement.json``: ``model_signing verify key statement.json
--signature signature.json --public-key KEY`` verifies it without tmlang.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import model_signing.signing
import model_signing.verifying

from tmlang.audit.bundle import SIGNATURE, STATEMENT, Bundle
from tmlang.diagnostics.stop import stop

MAX_BYTES = 1 << 20
"""Of a signature."""


def sign(bundle: Bundle, key: Path) -> None:
    """Add (or replace) the signature of a sealed bundle by the EC private key in a PEM file without a password (P-256,
    P-384 or P-521). Raises TM847 for a packed bundle, TM855 where the key cannot be used."""
    with TemporaryDirectory(prefix="tmc-") as folder:
        statement, signature = Path(folder, STATEMENT), Path(folder, SIGNATURE)
        statement.write_bytes(bundle.read_bytes(STATEMENT))
        try:
            signer = model_signing.signing.Config()  # type: ignore[no-untyped-call]
            signer.use_elliptic_key_signer(private_key=key).sign(statement, signature)
        except Exception as error:  # whatever a library says of a file that is no such key
            raise stop("TM855", f"`{key}` cannot sign: {_said(error)}", help=_MAKE) from error
        bundle.add_signature(signature.read_bytes())


def fault(bundle: Bundle, key: Path) -> str | None:
    """Why the statement is not signed by the owner of the public key in a PEM file; ``None`` if it is."""
    if SIGNATURE not in bundle:
        return "the bundle is not signed"
    data = bundle.read_bytes(SIGNATURE)
    if len(data) > MAX_BYTES:
        return f"{SIGNATURE} is larger than {MAX_BYTES} bytes"
    with TemporaryDirectory(prefix="tmc-") as folder:
        statement, signature = Path(folder, STATEMENT), Path(folder, SIGNATURE)
        statement.write_bytes(bundle.read_bytes(STATEMENT))
        signature.write_bytes(data)
        try:
            verifier = model_signing.verifying.Config()  # type: ignore[no-untyped-call]
            verifier.use_elliptic_key_verifier(public_key=key)
        except Exception as error:
            raise stop("TM855", f"`{key}` cannot verify: {_said(error)}", help=_MAKE) from error
        try:
            verifier.verify(statement, signature)
        except Exception as error:  # whatever a library says of what is no signature of this file
            return f"the statement is not signed by the owner of `{key}`: {_said(error)}"
    return None


_MAKE = "make a pair: openssl ecparam -name prime256v1 -genkey -noout -out key.pem; openssl ec -in key.pem -pubout"


def _said(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:120]
