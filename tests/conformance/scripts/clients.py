"""Quotas of clients, credentials, ACLs and tokens, and clients' own metrics."""

import uuid

from conformance.script import script
from conformance.side import NO_ID, Side

EXACT, DEFAULT, ANY = 0, 1, 2


@script
def quotas(side: Side):
    for version in side.versions("AlterClientQuotas"):
        client = side.unique(f"client-{version}")
        ours = [("client-id", client)]

        def ask(request: str, *entries: tuple[list, list], only: bool = False):
            listed = [
                {
                    "Entity": [dict(zip(("EntityType", "EntityName"), one)) for one in entity],
                    "Ops": [dict(zip(("Key", "Value", "Remove"), one)) for one in ops],
                }
                for entity, ops in entries
            ]
            side.ask("AlterClientQuotas", version, request, Entries=listed, ValidateOnly=only)

        rate = ("producer_byte_rate", float(1 << 40), False)
        ask("set", (ours, [rate]))
        ask("set, only asked", (ours, [("consumer_byte_rate", 1e12, False)]), only=True)
        ask("set and removed", (ours, [("request_percentage", 1e6, False), ("request_percentage", 0.0, True)]))
        ask("removed when it is not set", (ours, [("consumer_byte_rate", 0.0, True)]))
        ask("an unknown key", (ours, [("no_such", 1.0, False)]))
        ask("an unknown key removed", (ours, [("no_such", 1.0, True)]))
        for value in (0.0, -1.0, 0.5, 1.5, 1e300, float("nan"), float("inf")):
            ask(f"a rate of {value}", (ours, [("consumer_byte_rate", value, False)]), only=True)
            ask(f"a percentage of {value}", (ours, [("request_percentage", value, False)]), only=True)
        ask("no ops", (ours, []))
        ask("no entity", ([], [rate]))
        ask("an unknown type", ([("no-such", "x")], [rate]))
        ask("an empty type", ([("", "x")], [rate]))
        ask("an empty name", ([("client-id", "")], [rate]))
        ask("a user and a client", ([("user", client), ("client-id", client)], [rate]))
        ask("a type twice", ([("user", "a"), ("user", "b")], [rate]))
        ask("an ip and a user", ([("ip", "127.0.0.9"), ("user", "a")], [("connection_creation_rate", 5.0, False)]))
        ask("an ip", ([("ip", "127.0.0.9")], [("connection_creation_rate", 1e6, False)]))
        ask("an ip that is none", ([("ip", "300.1.2")], [("connection_creation_rate", 5.0, False)]), only=True)
        ask("an ip's fraction", ([("ip", "127.0.0.9")], [("connection_creation_rate", 5.5, False)]), only=True)
        ask("a rate of an ip", ([("ip", "127.0.0.9")], [rate]))
        ask("an entity twice", (ours, [rate]), (ours, [("consumer_byte_rate", 1e12, False)]))
        ask("one bad of two", (ours, [rate]), ([("no-such", "x")], [rate]))
        ask("none")
        side.settle()
    for version in side.versions("DescribeClientQuotas"):
        client = side.unique("client-1")

        def describe(request: str, *components: tuple[str, int, str | None], strict: bool = False):
            listed = [dict(zip(("EntityType", "MatchType", "Match"), one)) for one in components]
            side.ask("DescribeClientQuotas", version, request, Components=listed, Strict=strict)

        for strict in (False, True):
            how = ", strict" if strict else ""
            describe(f"a client{how}", ("client-id", EXACT, client), strict=strict)
            describe(f"an unknown client{how}", ("client-id", EXACT, "no-such"), strict=strict)
            describe(f"the default client{how}", ("client-id", DEFAULT, None), strict=strict)
            describe(f"any client{how}", ("client-id", ANY, None), strict=strict)
            describe(f"any user and client{how}", ("user", ANY, None), ("client-id", ANY, None), strict=strict)
            describe(f"any ip{how}", ("ip", ANY, None), strict=strict)
            describe(f"an ip and a user{how}", ("ip", ANY, None), ("user", ANY, None), strict=strict)
            describe(f"an unknown type{how}", ("no-such", ANY, None), strict=strict)
            describe(f"an empty type{how}", ("", ANY, None), strict=strict)
            describe(f"an exact match of null{how}", ("client-id", EXACT, None), strict=strict)
            describe(f"a default with a name{how}", ("client-id", DEFAULT, "x"), strict=strict)
            describe(f"any with a name{how}", ("client-id", ANY, "x"), strict=strict)
            describe(f"an unknown kind of match{how}", ("client-id", 9, "x"), strict=strict)
            describe(f"a type twice{how}", ("user", ANY, None), ("user", ANY, None), strict=strict)
        describe("nothing, strict", strict=True)
        describe("nothing")


@script
def credentials(side: Side):
    for version in side.versions("AlterUserScramCredentials"):
        new = {"Name": "scram", "Mechanism": 1, "Iterations": 4096, "Salt": b"salt", "SaltedPassword": b"p" * 32}
        gone = {"Name": "scram", "Mechanism": 1}

        def alter(request, upsertions=(), deletions=()):
            side.ask("AlterUserScramCredentials", version, request, Deletions=list(deletions),
                     Upsertions=list(upsertions))

        alter("nothing")
        alter("a new one", [new])
        alter("another mechanism", [new | {"Mechanism": 2, "Iterations": 16384, "SaltedPassword": b"p" * 64}])
        # What was made is not described: Kafka may not know it yet, and tells mechanisms in any order.
        alter("too few iterations", [new | {"Iterations": 4095}])
        alter("too many iterations", [new | {"Iterations": 16385}])
        alter("no name", [new | {"Name": ""}])
        alter("an unknown mechanism", [new | {"Mechanism": 3}])
        alter("one twice", [new, new])
        alter("one to be made and deleted", [new], [gone])
        alter("one that is gone", [], [gone])
        alter("one that never was", [], [gone | {"Name": "no-such"}])
        alter("the other mechanism", [], [gone | {"Mechanism": 2}])
    # Kafka tells of what was deleted until its broker has followed the controller.
    side.settle()
    for version in side.versions("DescribeUserScramCredentials"):
        for request, users in {"all": None, "none": [], "one": ["a"], "two alike": ["a", "a"], "empty": [""]}.items():
            listed = users if not users else [{"Name": name} for name in users]
            side.ask("DescribeUserScramCredentials", version, request, Users=listed)


@script
def acls(side: Side):
    any_acl = {
        "ResourceTypeFilter": 1,
        "ResourceNameFilter": None,
        "PatternTypeFilter": 1,
        "PrincipalFilter": None,
        "HostFilter": None,
        "Operation": 1,
        "PermissionType": 1,
    }
    made = {
        "ResourceType": 2,
        "ResourceName": "t",
        "ResourcePatternType": 3,
        "Principal": "User:a",
        "Host": "*",
        "Operation": 3,
        "PermissionType": 3,
    }
    for version in side.versions("DescribeAcls"):
        side.ask("DescribeAcls", version, "any", **any_acl)
        side.ask("DescribeAcls", version, "an unknown type", **any_acl | {"ResourceTypeFilter": 99})
    for version in side.versions("CreateAcls"):
        side.ask("CreateAcls", version, "one", Creations=[made])
        side.ask("CreateAcls", version, "two", Creations=[made, made | {"Principal": "no principal"}])
        side.ask("CreateAcls", version, "none", Creations=[])
    for version in side.versions("DeleteAcls"):
        side.ask("DeleteAcls", version, "any", Filters=[any_acl])
        side.ask("DeleteAcls", version, "two", Filters=[any_acl, any_acl])
        side.ask("DeleteAcls", version, "none", Filters=[])


@script
def tokens(side: Side):
    for version in side.versions("CreateDelegationToken"):
        side.ask("CreateDelegationToken", version, "one", MaxLifetimeMs=-1)
        renewer = {"PrincipalType": "User", "PrincipalName": "a"}
        side.ask("CreateDelegationToken", version, "with a renewer", MaxLifetimeMs=1_000, Renewers=[renewer])
        if version >= 3:
            for kind, name in (("Group", "a"), ("", "a"), ("Group", ""), ("Group", None), (None, "a"), (None, None)):
                owner = {"OwnerPrincipalType": kind, "OwnerPrincipalName": name}
                side.ask("CreateDelegationToken", version, f"for {name!r} of type {kind!r}", MaxLifetimeMs=-1, **owner)
    for version in side.versions("RenewDelegationToken"):
        side.ask("RenewDelegationToken", version, "one", Hmac=b"x", RenewPeriodMs=-1)
    for version in side.versions("ExpireDelegationToken"):
        side.ask("ExpireDelegationToken", version, "one", Hmac=b"x", ExpiryTimePeriodMs=-1)
    for version in side.versions("DescribeDelegationToken"):
        side.ask("DescribeDelegationToken", version, "all", Owners=None)
        side.ask("DescribeDelegationToken", version, "none", Owners=[])


@script
def telemetry(side: Side):
    """What a client is to push, and what becomes of it (KIP-714)."""
    known = uuid.UUID("12345678-1234-4234-8234-123456789012")
    for version in side.versions("GetTelemetrySubscriptions"):
        side.ask("GetTelemetrySubscriptions", version, "a new client", ClientInstanceId=NO_ID)
        first = side.ask("GetTelemetrySubscriptions", version, "a known client", ClientInstanceId=known)
        side.ask("GetTelemetrySubscriptions", version, "a known client again, at once", ClientInstanceId=known)
    subscription = first["SubscriptionId"]
    for version in side.versions("PushTelemetry"):
        for request, values in {
            "a wrong subscription": {"SubscriptionId": subscription + 1},
            "an unknown codec": {"CompressionType": 9},
            "a client of no id": {"ClientInstanceId": NO_ID},
            "nothing": {},
            "at once again": {},
            "what is no metric": {"Metrics": b"\xff\xff"},
            "the last": {"Terminating": True},
            "after the last": {"Terminating": True},
            "after the last, again": {},
            "a second time after the last": {},
            "the last, of a wrong subscription": {"SubscriptionId": subscription + 1, "Terminating": True},
            "after one that was refused": {},
            "after that": {"Terminating": True},
        }.items():
            asked = {"ClientInstanceId": known, "SubscriptionId": subscription} | values
            side.ask("PushTelemetry", version, request, **asked)
