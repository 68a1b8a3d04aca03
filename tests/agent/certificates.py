"""Keys and certificates for hops in TLS."""

import subprocess

PASSWORD = "changeit"


def run(*command):
    subprocess.run(list(map(str, command)), check=True, capture_output=True)


class Certificates:
    """An authority and a key for this machine, as PEM files and as Java's stores."""

    def __init__(self, directory):
        self.directory = directory
        directory.mkdir(exist_ok=True)
        self.authority, self.key = directory / "authority.pem", directory / "key.pem"
        self.jks, self.p12 = directory / "trust.jks", directory / "key.p12"
        curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        of_authority = directory / "authority.key"
        run("openssl", "req", "-x509", *curve, "-days", 30, "-subj", f"/CN={directory.name}", "-keyout", of_authority, "-out", self.authority)
        self.private, self.certificate = directory / "leaf.key", directory / "leaf.pem"
        request, names = directory / "leaf.csr", directory / "names"
        names.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        run("openssl", "req", "-new", *curve, "-subj", "/CN=agent", "-keyout", self.private, "-out", request)
        run("openssl", "x509", "-req", "-in", request, "-CA", self.authority, "-CAkey", of_authority, "-CAcreateserial", "-days", 30,
            "-extfile", names, "-out", self.certificate)
        self.key.write_text(self.private.read_text() + self.certificate.read_text() + self.authority.read_text())
        run("openssl", "pkcs12", "-export", "-in", self.key, "-out", self.p12, "-passout", f"pass:{PASSWORD}")
        run("keytool", "-importcert", "-noprompt", "-alias", "authority", "-file", self.authority, "-keystore", self.jks,
            "-storepass", PASSWORD, "-storetype", "JKS")
