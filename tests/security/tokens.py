"""Who signs tokens (OAUTHBEARER): a key, its public half in a key set, and JSON Web Tokens signed with it."""

import base64
import json
import re
import subprocess
import time
from pathlib import Path


def base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Signer:
    """Signs with ES256."""

    ISSUER = "https://signer.example"

    def __init__(self, directory: Path, name: str = "signer"):
        self.name = name
        self.key = directory / f"{name}.key"
        subprocess.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", self.key], check=True)

    def public_key(self) -> dict[str, str]:
        command = ["openssl", "ec", "-in", self.key, "-pubout", "-outform", "DER"]
        point = subprocess.run(command, check=True, capture_output=True).stdout[-64:]
        return {"kty": "EC", "crv": "P-256", "kid": self.name, "x": base64url(point[:32]), "y": base64url(point[32:])}

    def token(self, user: str, lifetime_s: float = 300, **claims) -> str:
        now = int(time.time())
        claims = {"sub": user, "iss": self.ISSUER, "aud": "logway", "iat": now, "exp": int(now + lifetime_s)} | claims
        parts = [{"alg": "ES256", "typ": "JWT", "kid": self.name}, claims]
        signed = ".".join(base64url(json.dumps(part).encode()) for part in parts)
        command = ["openssl", "dgst", "-sha256", "-sign", self.key]
        der = subprocess.run(command, input=signed.encode(), check=True, capture_output=True).stdout
        command = ["openssl", "asn1parse", "-inform", "DER"]
        shown = subprocess.run(command, input=der, check=True, capture_output=True, text=False).stdout.decode()
        numbers = [bytes.fromhex(number.zfill(64)) for number in re.findall(r"INTEGER\s+:([0-9A-F]+)", shown)]
        return f"{signed}.{base64url(b''.join(numbers))}"


def write_keys(path: Path, *signers: Signer):
    path.write_text(json.dumps({"keys": [signer.public_key() for signer in signers]}))
