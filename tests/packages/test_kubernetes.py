"""The manifests for Kubernetes: by its schemas, and by running what their containers are told to run. No cluster of Kubernetes is here."""

import json
import random
import shutil
import ssl
import subprocess
import unittest
import urllib.request
from pathlib import Path
from urllib.error import URLError

import kubernetes_validate
import yaml

from harness.broker import BrokerFailed
from harness.cluster_status import DEADLINE_S
from harness.logway import BINARY, Logway
from harness.seed import SEED
from harness.waiting import wait_until

MANIFESTS = Path(__file__).parents[2] / "packaging/kubernetes"
# The oldest that knows all that the manifests say, and the newest that the validator knows.
VERSIONS = ("1.29", "1.37")
SERVICE = "logway-nodes.default.svc"


def documents(text: str) -> list[dict]:
    return [document for document in yaml.safe_load_all(text) if document]


def cluster() -> list[dict]:
    return documents((MANIFESTS / "cluster/logway.yaml").read_text())


def stateful_set(manifests: list[dict]) -> dict:
    return next(document for document in manifests if document["kind"] == "StatefulSet")


def container(manifests: list[dict]) -> dict:
    [only] = stateful_set(manifests)["spec"]["template"]["spec"]["containers"]
    return only


def founding(manifests: list[dict]) -> list[dict]:
    """The manifests for the first node, as kustomize makes them of the cluster's."""
    [patch] = yaml.safe_load((MANIFESTS / "founding/kustomization.yaml").read_text())["patches"]
    document = stateful_set(manifests)
    for step in yaml.safe_load(patch["patch"]):
        *path, last = step["path"].strip("/").split("/")
        place = document
        for part in path:
            place = place[int(part) if isinstance(place, list) else part]
        key = int(last) if isinstance(place, list) else last
        if step["op"] == "test":
            assert place[key] == step["value"], step
        elif step["op"] == "replace":
            place[key] = step["value"]
        else:
            assert step["op"] == "remove", step
            del place[key]
    return manifests


class Pod(Logway):
    """What a container is told to run, on loopback: the pod's name becomes an address of its own."""

    def __init__(self, ordinal: int, network: str, token: Path):
        super().__init__(f"pod-{ordinal}")
        self.address, self.token = f"{network}.{ordinal + 1}", token
        self.arguments: list[str] = []

    def told(self, arguments: list[str]):
        """The arguments of the next start."""
        replaced = {
            f"$(POD_NAME).{SERVICE.replace('default', '$(POD_NAMESPACE)')}": self.address,
            "$(POD_NAMESPACE)": "default",
            "0.0.0.0": self.address,
            "/data/": f"{self.data_dir}/",
            "/join/token": str(self.token),
        }
        for before, after in replaced.items():
            arguments = [argument.replace(before, after) for argument in arguments]
        self.arguments = arguments

    def command(self) -> list[str]:
        return [BINARY, *self.arguments]

    def cli(self, *arguments: str) -> str:
        profiles = self.data_dir / "logway/secure/profiles.toml"
        command = [BINARY, "--profile-file", profiles, "--profile", "admin", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
        assert done.stdout, done.stderr
        return done.stdout

    def probe(self, path: str) -> int:
        """As the kubelet asks: by TLS, whoever's certificate that is."""
        unverified = ssl._create_unverified_context()
        try:
            with urllib.request.urlopen(f"https://{self.address}:9644{path}", context=unverified, timeout=3) as answer:
                return answer.status
        except URLError as error:
            return getattr(error, "code", 0)


class Kubernetes(unittest.TestCase):
    def test_the_manifests_are_as_the_schemas_say(self):
        for manifests in (cluster(), founding(cluster())):
            for document in manifests:
                for version in VERSIONS:
                    kubernetes_validate.validate(document, version, strict=True)

    def test_kustomize_makes_the_same_of_them(self):
        if not shutil.which("kubectl"):
            self.skipTest("there is no kubectl")
        by_name = lambda manifests: sorted(manifests, key=lambda it: (it["kind"], it["metadata"]["name"]))
        for name, expected in (("cluster", cluster()), ("founding", founding(cluster()))):
            made = subprocess.run(["kubectl", "kustomize", MANIFESTS / name], capture_output=True, text=True, check=True)
            self.assertEqual(by_name(documents(made.stdout)), by_name(expected))

    def test_the_parts_fit_together(self):
        manifests = cluster()
        kinds = {(it["kind"], it["metadata"]["name"]): it["spec"] for it in manifests}
        pods = kinds["StatefulSet", "logway"]
        labels = pods["template"]["metadata"]["labels"]
        selectors = [spec["selector"] for (kind, _), spec in kinds.items() if kind == "Service"]
        selectors += [kinds["PodDisruptionBudget", "logway"]["selector"]["matchLabels"], pods["selector"]["matchLabels"]]
        self.assertTrue(all(selector == labels for selector in selectors), selectors)
        self.assertTrue(kinds["Service", pods["serviceName"]]["publishNotReadyAddresses"])
        ports = {port["name"] for port in container(manifests)["ports"]}
        for (kind, name), spec in kinds.items():
            if kind == "Service":
                self.assertLessEqual({port["targetPort"] for port in spec["ports"]}, ports, name)
        mounts = {mount["name"] for mount in container(manifests)["volumeMounts"]}
        volumes = {volume["name"] for volume in pods["template"]["spec"]["volumes"]}
        volumes |= {claim["metadata"]["name"] for claim in pods["volumeClaimTemplates"]}
        self.assertEqual(mounts, volumes)

    def test_what_the_containers_are_told_to_run_founds_a_cluster_that_grows_and_tells_when_it_is_in_sync(self):
        network = f"127.{random.Random(SEED).randrange(32, 250)}.{random.Random(SEED + 1).randrange(250)}"
        token = Pod(9, network, Path()).directory / "token"
        pods = [Pod(ordinal, network, token) for ordinal in range(3)]
        for pod in pods:
            self.addCleanup(pod.kill)
        first, probe = pods[0], container(cluster())["readinessProbe"]["httpGet"]
        first.told(container(founding(cluster()))["args"])
        first.start()
        self.assertEqual(first.probe(probe["path"]), 200)
        token.write_text(first.cli("cluster", "token", "create", "--uses", "2"))
        for pod in reversed(pods):
            pod.told(container(cluster())["args"])
        for pod in pods[1:]:
            pod.start()
        # The template has changed, so that the first one is restarted.
        first.stop()
        first.start()
        token.unlink()
        status = lambda: json.loads(first.cli("cluster", "status", "--format", "json"))
        wait_until(lambda: sum(bool(node["voter"]) for node in status()["nodes"]) == 3, "all vote", deadline_s=DEADLINE_S)
        self.assertEqual({(node["host"], node["port"]) for node in status()["nodes"]}, {(pod.address, 9092) for pod in pods})
        first.cli("topic", "create", "kept", "-p", "6", "-r", "3")
        all_in_sync = lambda: [pod.probe(probe["path"]) for pod in pods] == [200] * 3
        wait_until(all_in_sync, "all are in sync", deadline_s=DEADLINE_S)
        # A restart without the token, which is no secret any more: not ready before it is in sync.
        pods[2].kill()
        first.cli("topic", "create", "later", "-p", "1", "-r", "2")
        pods[2].start()
        wait_until(all_in_sync, "all are in sync again", deadline_s=DEADLINE_S)
        # A disk that is lost does not make a second cluster: without a token the node ends.
        pods[1].kill()
        shutil.rmtree(pods[1].data_dir)
        with self.assertRaisesRegex(BrokerFailed, f"cannot read the join token in {token}: No such file"):
            pods[1].start()
        self.assertEqual(pods[1].process.returncode, 1)


if __name__ == "__main__":
    unittest.main()
