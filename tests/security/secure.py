"""A broker with a listener of each kind, and certificates of an authority that the tests make."""

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

from harness.logway import BINARY, Logway

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
PASSWORD = "open sesame"
PROTOCOLS = {"PLAINTEXT": "PLAINTEXT", "SSL": "SSL", "MUTUAL": "SSL", "SASL_PLAINTEXT": "SASL_PLAINTEXT",
             "SASL_SSL": "SASL_SSL"}


class Authority:
    """Signs certificates, whose files are in a directory."""

    def __init__(self, directory: Path):
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.file = directory / "ca.pem"
        subject = ["-subj", "/CN=authority"]
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30",
                *subject, "-keyout", directory / "ca.key", "-out", self.file)

    def issue(self, name: str, lifetime: timedelta = timedelta(days=30), organisation: str = "tests") -> Path:
        """A file with a key and a certificate for this machine, valid from a day ago until so long from now."""
        key, request, certificate = (self.directory / f"{name}.{end}" for end in ("key", "csr", "crt"))
        openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                "-subj", f"/O={organisation}/CN={name}", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                "-keyout", key, "-out", request)
        now = datetime.now(UTC)
        start, end = (f"{time:%Y%m%d%H%M%SZ}" for time in (now - timedelta(days=1), now + lifetime))
        openssl("ca", "-batch", "-notext", "-config", self._configuration(), "-cert", self.file,
                "-keyfile", self.directory / "ca.key", "-startdate", start, "-enddate", end,
                "-in", request, "-out", certificate)
        both = self.directory / f"{name}.pem"
        both.write_text(key.read_text() + certificate.read_text())
        return both

    def _configuration(self) -> Path:
        """What `openssl ca` wants to know; unlike `openssl x509` it can say when a certificate ends to the second."""
        path = self.directory / "ca.cnf"
        if not path.exists():
            (self.directory / "issued").touch()
            path.write_text(
                "[ca]\ndefault_ca = authority\n[any]\norganizationName = optional\ncommonName = supplied\n"
                f"[authority]\ndatabase = {self.directory}/issued\nnew_certs_dir = {self.directory}\nrand_serial = yes\n"
                "default_md = sha256\npolicy = any\ncopy_extensions = copy\nunique_subject = no\n"
            )
        return path


def openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


class SecureLogway(Logway):
    """`addresses` says where each listener is. Who comes without a password or certificate may do everything."""

    def __init__(self, name: str, settings: dict[str, str] | None = None, more_listeners: dict[str, str] | None = None):
        """`more_listeners` says by name what protocol they speak; how they do must be in `settings`."""
        super().__init__(name)
        more_listeners = more_listeners or {}
        self.listeners = [*PROTOCOLS, *more_listeners]
        self.authority = Authority(self.directory / "tls")
        self.key = self.authority.issue("broker")
        self.settings = {
            "listener.security.protocol.map": ",".join(
                f"{name}:{protocol}" for name, protocol in (PROTOCOLS | more_listeners).items()),
            "ssl.keystore.location": str(self.key),
            "ssl.truststore.location": str(self.authority.file),
            "listener.name.mutual.ssl.client.auth": "required",
            "ssl.principal.mapping.rules": "RULE:^CN=(.*?),O=tests$/$1/,DEFAULT",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "authorizer.class.name": AUTHORIZER,
            "super.users": "User:ANONYMOUS;User:admin",
            "group.initial.rebalance.delay.ms": "100",
        } | (settings or {})

    def command(self) -> list[str]:
        listeners = self.bootstrap or "127.0.0.1:0"
        named = ",".join(f"{name}://127.0.0.1:0" for name in self.listeners)
        words = super().command()
        words[words.index(listeners)] = named
        return words

    def start(self):
        super().start()
        self.addresses = dict(zip(self.listeners, self.bootstrap.split(","), strict=True))
        return self

    def logway(self, *words: str, user: str = "", listener: str = "PLAINTEXT", password: str = "",
               exit_code: int = 0) -> str:
        """What a command of ours prints."""
        command = [BINARY, *words, "-b", self.addresses[listener]]
        if "SSL" in listener:
            command += ["--tls-ca", str(self.authority.file)]
        environment = {"LOGWAY_PASSWORD": password or PASSWORD}
        command += ["--user", user] if user else []
        done = subprocess.run(command, input=f"{PASSWORD}\n", env=environment, capture_output=True, text=True)
        if done.returncode != exit_code:
            raise AssertionError(f"{' '.join(command)}: {done.stderr}")
        return done.stdout

    def add_user(self, name: str):
        self.logway("user", "create", name)

    def allow(self, user: str, *words: str):
        self.logway("acl", "create", "--allow", user, *words)

    def client(self, listener: str, mechanism: str = "", user: str = "", password: str = "", identity: str = "",
               authority: Path | None = None) -> dict[str, str]:
        """The settings of a client of librdkafka."""
        protocol = "SSL" if listener == "MUTUAL" else listener
        settings = {"bootstrap.servers": self.addresses[listener], "security.protocol": protocol}
        if "SSL" in protocol:
            settings["ssl.ca.location"] = str(authority or self.authority.file)
        if identity:
            self.authority.issue(identity)
            directory = self.authority.directory
            settings |= {"ssl.certificate.location": str(directory / f"{identity}.crt"),
                         "ssl.key.location": str(directory / f"{identity}.key")}
        if mechanism:
            settings |= {"sasl.mechanisms": mechanism, "sasl.username": user, "sasl.password": password or PASSWORD}
        return settings
