"""Signatures of bundles: checked by hand with ``cryptography``, and no lie passes with the author's key at hand."""

from __future__ import annotations

import base64
import json
import shutil
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from audit_support import BROKEN, Rows, attack, evaluation, forged, key_pair, make_bundle, plan, refused, sealed, threat
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

import tmlang as tm
from tmlang.api.auditing import audit, sign
from tmlang.audit.bundle import Bundle
from tmlang.cli.main import main

Keys = tuple[Path, Path]


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return key_pair(tmp_path)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    kept = {"candidate": "candidates/000001.safetensors#0", **BROKEN}
    rows = Rows().clean("u").attack("u", outcome="broken", **kept).clean("v", "cw")
    sealed(make_bundle(tmp_path / "run", plan([evaluation(attack())], [threat()]), rows.all))
    return tmp_path / "run"


def codes(path: Path, key: Path | None) -> list[str]:
    return [fault.code for fault in audit(path, key=key).faults]


def test_the_signature_holds_by_hand(run: Path, keys: Keys) -> None:
    """DSSE: the signature is over ``DSSEv1 SP len SP type SP len SP body``; the body is an in-toto statement that names
    the SHA-256 of the signed file (github.com/secure-systems-lab/dsse, protocol.md)."""
    private, public = keys
    assert sign(run, private) == run / "signature.json"
    envelope = json.loads((run / "signature.json").read_text())["dsseEnvelope"]
    body, kind = base64.b64decode(envelope["payload"]), envelope["payloadType"]
    signed = f"DSSEv1 {len(kind)} {kind} {len(body)} ".encode() + body
    key = serialization.load_pem_public_key(public.read_bytes())
    assert isinstance(key, ec.EllipticCurvePublicKey)
    key.verify(base64.b64decode(envelope["signatures"][0]["sig"]), signed, ec.ECDSA(hashes.SHA256()))
    (resource,) = json.loads(body)["predicate"]["resources"]
    assert resource["digest"] == sha256((run / "statement.json").read_bytes()).hexdigest()


def test_the_commands(run: Path, keys: Keys, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    private, public = keys
    assert main(["audit", str(run), "--key", str(public)]) == 1
    assert "error[TM856]: the bundle is not signed" in capsys.readouterr().out
    assert main(["sign", str(run), "--key", str(private)]) == 0
    assert main(["audit", str(run)]) == 0
    assert "it is signed, and no key was given" in capsys.readouterr().out
    assert main(["pack", str(run), "--out", str(tmp_path / "x.zip")]) == 0
    for path in (run, tmp_path / "x.zip"):
        assert main(["audit", str(path), "--key", str(public)]) == 0
        said = capsys.readouterr().out
        assert f"that the owner of {public} signed the statement" in said
        assert "who made the bundle" not in said
    assert "packed" in refused("TM847", lambda: sign(tmp_path / "x.zip", private))


def another(tmp_path: Path) -> Keys:
    made = ec.generate_private_key(ec.SECP384R1())
    return written(made, tmp_path / "other.pem"), written(made.public_key(), tmp_path / "other.pub")


def written(key: Any, path: Path, password: bytes | None = None) -> Path:
    pem = serialization.Encoding.PEM
    if hasattr(key, "private_bytes"):
        how = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
        path.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, how))
    else:
        path.write_bytes(key.public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo))
    return path


def test_hashes_worked_out_anew_do_not_help(run: Path, keys: Keys, tmp_path: Path) -> None:
    private, public = keys
    sign(run, private)

    def fewer(run: dict[str, Any]) -> None:
        run["examples"] = {"e": ["u"]}

    forged(run, tmp_path / "forged", rows=lambda rows: [r for r in rows if r.unit == "u"], run=fewer)
    assert codes(tmp_path / "forged", None) == []
    assert codes(tmp_path / "forged", public) == ["TM856"]
    sign(tmp_path / "forged", another(tmp_path)[0])
    assert codes(tmp_path / "forged", public) == ["TM856"]
    assert codes(tmp_path / "forged", tmp_path / "other.pub") == []
    shutil.copy(run / "signature.json", tmp_path / "forged" / "signature.json")
    assert codes(tmp_path / "forged", public) == ["TM856"]
    assert codes(run, public) == []


def broken(change: Callable[[dict[str, Any]], object]) -> Callable[[bytes], bytes]:
    def changed(data: bytes) -> bytes:
        told = json.loads(data)
        change(told)
        return json.dumps(told).encode()

    return changed


@pytest.mark.parametrize(
    "change",
    [
        lambda _: b"",
        lambda _: b"{}",
        lambda _: b"\xff\x00",
        lambda data: data[:-9],
        lambda data: data + b" " * (1 << 20),
        broken(lambda told: told["dsseEnvelope"].update(signatures=[])),
        broken(lambda told: told["dsseEnvelope"].update(payload="")),
        broken(lambda told: told["dsseEnvelope"].update(payloadType="text/plain")),
        broken(lambda told: told["dsseEnvelope"]["signatures"][0].update(sig="AAAA")),
        broken(lambda told: told.pop("dsseEnvelope")),
    ],
)
def test_what_is_no_signature_is_told(run: Path, keys: Keys, change: Callable[[bytes], bytes]) -> None:
    private, public = keys
    sign(run, private)
    (run / "signature.json").write_bytes(change((run / "signature.json").read_bytes()))
    assert codes(run, public) == ["TM856"]


def test_every_changed_bit_of_what_was_signed_is_told(run: Path, keys: Keys) -> None:
    private, public = keys
    sign(run, private)
    told = json.loads((run / "signature.json").read_text())
    body = bytearray(base64.b64decode(told["dsseEnvelope"]["payload"]))
    for at in range(0, len(body), 37):
        body[at] ^= 1
        told["dsseEnvelope"]["payload"] = base64.b64encode(body).decode()
        (run / "signature.json").write_text(json.dumps(told))
        assert codes(run, public) == ["TM856"]
        body[at] ^= 1


def test_what_is_no_key_is_refused(run: Path, keys: Keys, tmp_path: Path) -> None:
    private, public = keys
    rsa_key = rsa.generate_private_key(65537, 2048)
    locked = written(ec.generate_private_key(ec.SECP256R1()), tmp_path / "locked.pem", b"secret")
    (tmp_path / "text").write_text("no key")
    for key in (written(rsa_key, tmp_path / "rsa.pem"), locked, tmp_path / "text", tmp_path / "nowhere", public):
        refused("TM855", lambda key=key: sign(run, key))  # type: ignore[misc]
        assert not (run / "signature.json").exists()
    sign(run, private)
    for key in (written(rsa_key.public_key(), tmp_path / "rsa.pub"), tmp_path / "text", tmp_path / "nowhere"):
        refused("TM855", lambda key=key: audit(run, key=key))  # type: ignore[misc]


def test_from_python(run: Path, keys: Keys) -> None:
    evidence = tm.open(run)
    assert [fault.code for fault in evidence.audit(key=keys[1]).faults] == ["TM856"]
    assert evidence.sign(str(keys[0])) == run / "signature.json"
    assert evidence.audit(key=str(keys[1])).faults == []


def test_a_changed_bundle_is_not_signed(run: Path, keys: Keys) -> None:
    (run / "columns.json").write_text("{}")
    refused("TM841", lambda: sign(run, keys[0]))
    assert not (run / "signature.json").exists()


def test_without_the_library_it_is_said_what_is_missing(run: Path, keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    sign(run, keys[0])
    monkeypatch.delitem(sys.modules, "tmlang.audit.signature", raising=False)
    monkeypatch.delattr("tmlang.audit.signature", raising=False)
    monkeypatch.setitem(sys.modules, "model_signing.signing", None)
    monkeypatch.setitem(sys.modules, "model_signing", None)
    assert "which is not installed" in refused("TM510", lambda: audit(run, key=keys[1]))
    assert audit(run).faults == []
    assert Bundle.open(run).statement()
