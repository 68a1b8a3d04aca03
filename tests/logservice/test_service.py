"""What surrounds the methods: health, reflection, TLS, users, permissions, and Akutan's service."""

import sys
import unittest
from base64 import b64encode
from pathlib import Path

import grpc
from confluent_kafka.admin import NewTopic
from google.protobuf import descriptor_pb2
from log_client import connect
from logspec import log_pb2 as spec_pb2
from logspec import log_pb2_grpc as spec_pb2_grpc
from logway.log.v1 import log_pb2, log_pb2_grpc

from harness.load import create_topics
from harness.logway import Logway

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "security"))
from secure import PASSWORD, SecureLogway  # noqa: E402
from secure_node import SecureNode  # noqa: E402


def message(*fields: tuple[int, bytes]) -> bytes:
    """A message by hand: the stubs of gRPC's own services would have the name of the package `grpc`."""
    return b"".join(bytes([number << 3 | 2, len(text)]) + text for number, text in fields)


class Services(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        settings = {"logservice.listen": "127.0.0.1:0", "logservice.logspec.listen": "127.0.0.1:0=spec"}
        cls.broker = Logway("logservice-services", settings).start()
        cls.addClassCleanup(cls.broker.kill)
        create_topics(cls.broker.bootstrap, NewTopic("spec", 1, 1))

    def setUp(self):
        self.channel = self.enterContext(connect(self.broker.log_service))

    def test_health(self):
        check = self.channel.unary_unary("/grpc.health.v1.Health/Check")
        self.assertEqual(check(b""), b"\x08\x01")
        self.assertEqual(check(message((1, b"logway.log.v1.LogService"))), b"\x08\x01")
        with self.assertRaises(grpc.RpcError) as caught:
            check(message((1, b"nothing")))
        self.assertEqual(caught.exception.code(), grpc.StatusCode.NOT_FOUND)

    def test_reflection(self):
        for version in ("v1", "v1alpha"):
            with self.subTest(version):
                self.check_reflection(version)

    def check_reflection(self, version: str):
        info = self.channel.stream_stream(f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo")
        listed, described = info(iter([message((7, b"")), message((4, b"logspec.Log"))]))
        self.assertIn(b"logway.log.v1.LogService", listed)
        # Of the answer, the file is the last thing but for lengths.
        file = descriptor_pb2.FileDescriptorProto()
        file.ParseFromString(described[described.index(b"\n\x11logspec/log.proto"):])
        self.assertEqual([method.name for method in file.service[0].method],
                         ["Append", "Discard", "Read", "Info", "InfoStream"])

    def test_logspec(self):
        with connect(self.broker.logspec) as channel:
            service = spec_pb2_grpc.LogStub(channel)
            self.assertEqual(service.Info(spec_pb2.InfoRequest()).ok.lastIndex, 0)
            requests = [spec_pb2.AppendRequest(sequence=1, proposals=[b"a", b"b"]),
                        spec_pb2.AppendRequest(sequence=2, proposals=[bytes([it % 256]) * 1000 for it in range(8_000)])]
            replies = list(service.Append(iter(requests)))
            self.assertEqual(list(replies[0].ok.indexes), [1, 2])
            self.assertEqual(list(replies[1].ok.indexes), list(range(3, 8_003)))
            self.assertEqual(service.Info(spec_pb2.InfoRequest()).ok.lastIndex, 8_002)
            call, indexes = service.Read(spec_pb2.ReadRequest(nextIndex=2)), []
            for reply in call:
                indexes += [entry.index for entry in reply.ok.entries]
                if indexes[-1] == 8_002:
                    break
            call.cancel()
            self.assertEqual(indexes, list(range(2, 8_003)))
            self.assertTrue(service.Discard(spec_pb2.DiscardRequest(firstIndex=5)).HasField("ok"))
            self.assertTrue(next(iter(service.Read(spec_pb2.ReadRequest(nextIndex=4)))).truncated)


class Secured(unittest.TestCase):
    """The same users, certificates and permissions as with Kafka's protocol."""

    @classmethod
    def setUpClass(cls):
        listeners = "SASL_SSL://127.0.0.1:0,MUTUAL://127.0.0.1:0"
        cls.broker = SecureLogway("logservice-secure", {"logservice.listen": listeners,
                                                        "connection.failed.authentication.delay.ms": "10"}).start()
        cls.addClassCleanup(cls.broker.kill)
        cls.sasl, cls.mutual = cls.broker.log_service.split(",")
        cls.broker.add_user("alice")
        cls.broker.logway("topic", "create", "secret")
        cls.broker.logway("topic", "create", "clicks")
        cls.broker.allow("alice", "--topic", "clicks", "--operation", "describe")

    def credentials(self, identity: str = "") -> grpc.ChannelCredentials:
        directory, pair = self.broker.authority.directory, {}
        if identity:
            self.broker.authority.issue(identity)
            pair = {"private_key": (directory / f"{identity}.key").read_bytes(),
                    "certificate_chain": (directory / f"{identity}.crt").read_bytes()}
        return grpc.ssl_channel_credentials(self.broker.authority.file.read_bytes(), **pair)

    def info(self, address: str, credentials, log: str, *metadata: tuple[str, str]):
        with connect(address, credentials) as channel:
            service = log_pb2_grpc.LogServiceStub(channel)
            return service.Info(log_pb2.InfoRequest(log=log), metadata=metadata, timeout=30)

    def refusal(self, *asked) -> grpc.StatusCode:
        with self.assertRaises(grpc.RpcError) as caught:
            self.info(*asked)
        return caught.exception.code()

    def appended(self, identity: str, log: str, session: bytes = b"") -> log_pb2.AppendOpened:
        """Opens a session or goes on with one, and appends a record."""
        opening = log_pb2.AppendRequest(open=log_pb2.OpenAppend(session=session))
        append = log_pb2.Append(sequence=1, log=log, records=[log_pb2.NewRecord(value=b"x")])
        with connect(self.mutual, self.credentials(identity)) as channel:
            service = log_pb2_grpc.LogServiceStub(channel)
            opened, appended = service.Append(iter([opening, log_pb2.AppendRequest(append=append)]), timeout=30)
            self.assertEqual(appended.appended.sequence, 1)
            return opened.opened

    def test_a_session_is_its_users_alone(self):
        self.broker.logway("topic", "create", "shared")
        for user in ("alice", "bob"):
            self.broker.allow(user, "--topic", "shared", "--operation", "write")
        session = self.appended("alice", "shared").session
        self.assertEqual(self.appended("alice", "shared", session).session, session)
        with self.assertRaises(grpc.RpcError) as caught:
            self.appended("bob", "shared", session)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
        self.assertIn("bob", caught.exception.details())

    def test_who_may_only_delete(self):
        self.broker.logway("topic", "create", "old")
        self.broker.allow("carol", "--topic", "old", "--operation", "delete")
        with connect(self.mutual, self.credentials("carol")) as channel:
            service = log_pb2_grpc.LogServiceStub(channel)
            self.assertEqual(service.Truncate(log_pb2.TruncateRequest(log="old"), timeout=30).start_offset, 0)
            # As in Kafka, who may delete may know of it.
            self.assertEqual(service.Info(log_pb2.InfoRequest(log="old"), timeout=30).log, "old")
            spec, named = spec_pb2_grpc.LogStub(channel), [("log", "old")]
            self.assertTrue(spec.Discard(spec_pb2.DiscardRequest(firstIndex=1), metadata=named).HasField("ok"))
            refused = {
                "read": lambda: list(service.Read(log_pb2.ReadRequest(log="old", until_end=True), timeout=30)),
                "append": lambda: self.appended("carol", "old"),
                "append by Akutan's": lambda: list(spec.Append(
                    iter([spec_pb2.AppendRequest(sequence=1, proposals=[b"x"])]), metadata=named, timeout=30)),
                "discard beyond the end": lambda: spec.Discard(
                    spec_pb2.DiscardRequest(firstIndex=500), metadata=named, timeout=30),
            }
            for what, call in refused.items():
                with self.subTest(what), self.assertRaises(grpc.RpcError) as caught:
                    call()
                self.assertEqual(caught.exception.code(), grpc.StatusCode.PERMISSION_DENIED)

    def test_a_password(self):
        def basic(password):
            return ("authorization", "Basic " + b64encode(f"alice:{password}".encode()).decode())
        tls = self.credentials()
        self.assertEqual(self.info(self.sasl, tls, "clicks", basic(PASSWORD)).log, "clicks")
        self.assertEqual(self.refusal(self.sasl, tls, "secret", basic(PASSWORD)), grpc.StatusCode.PERMISSION_DENIED)
        # Whether it exists is nobody's affair who may not know.
        self.assertEqual(self.refusal(self.sasl, tls, "nowhere", basic(PASSWORD)), grpc.StatusCode.PERMISSION_DENIED)
        for wrong in [(basic("wrong"),), (), (("authorization", "Bearer x"),), (("authorization", "Basic !"),)]:
            self.assertEqual(self.refusal(self.sasl, tls, "clicks", *wrong), grpc.StatusCode.UNAUTHENTICATED)

    def test_a_certificate(self):
        self.assertEqual(self.info(self.mutual, self.credentials("alice"), "clicks").log, "clicks")
        self.assertEqual(self.refusal(self.mutual, self.credentials("bob"), "clicks"), grpc.StatusCode.PERMISSION_DENIED)
        self.assertEqual(self.refusal(self.mutual, self.credentials(), "clicks"), grpc.StatusCode.UNAVAILABLE)

    def test_the_command_line(self):
        self.broker.allow("alice", "--topic", "clicks", "--operation", "read")
        words = ("consume", "clicks", "-e", "--grpc", self.sasl)
        self.assertEqual(self.broker.logway(*words, user="alice", listener="SASL_SSL"), "")
        self.broker.logway(*words, user="alice", listener="SASL_SSL", password="wrong", exit_code=1)

    def test_without_tls(self):
        self.assertEqual(self.refusal(self.sasl, None, "clicks"), grpc.StatusCode.UNAVAILABLE)

    def test_a_broker_that_sees_to_all_of_it(self):
        with SecureNode("logservice-secure-node", settings={"logservice.listen": "127.0.0.1:0"}) as node:
            node.logway("topic", "create", "clicks")
            tls = grpc.ssl_channel_credentials((node.files / "ca.crt").read_bytes())
            password = (node.files / "admin.password").read_text().strip()
            admin = ("authorization", "Basic " + b64encode(f"admin:{password}".encode()).decode())
            self.assertEqual(self.info(node.log_service, tls, "clicks", admin).log, "clicks")
            self.assertEqual(self.refusal(node.log_service, tls, "clicks"), grpc.StatusCode.UNAUTHENTICATED)
