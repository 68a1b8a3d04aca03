"use strict";
// The administration cases.

const assert = require("node:assert/strict");
const { Skip, testCase, waitUntil } = require("./report");
const { Code, fresh, numbered } = require("./model");
const { Reader } = require("./reader");

const UNKNOWN_BROKER = 4711;

async function adminCases(client) {
  const need = (...calls) => {
    if (!calls.every((call) => client[call])) throw new Skip("no such call");
  };
  const topicOf = async (purpose, partitions = 1, configs = {}) => {
    const topic = fresh(purpose);
    await client.createTopic(topic, partitions, configs);
    return topic;
  };
  const send = async (topic, partition, records, settings = {}) => {
    const producer = await client.openProducer(settings);
    await producer.send(topic, partition, records);
    await producer.close();
  };
  const withMember = async (group, topic, partitions, body) => {
    const member = await Reader.open(client, { group, topics: [topic] });
    try {
      await member.untilAssigned(partitions);
      await body(member);
    } finally {
      await member.close();
    }
  };
  /** A group that has read ten records of each partition, and left. */
  const groupThatRead = async (topic, partitions) => {
    const group = fresh("read");
    for (let partition = 0; partition < partitions; partition += 1) await send(topic, partition, numbered(10));
    await withMember(group, topic, partitions, (member) => member.until(() => member.count >= 10 * partitions, "all"));
    return group;
  };

  await testCase("admin-topics", async () => {
    const topic = await topicOf("listed", 3);
    assert.ok((await client.topics()).includes(topic));
    assert.deepEqual(await client.partitions(topic), [0, 1, 2]);
    await client.deleteTopic(topic);
    await waitUntil(async () => !(await client.topics()).includes(topic), () => `${topic} to be gone`);
  });

  await testCase("admin-partitions", async () => {
    need("addPartitions");
    const topic = await topicOf("grown");
    await client.addPartitions(topic, 4);
    await waitUntil(async () => (await client.partitions(topic)).length === 4, () => `${topic} to have 4 partitions`);
    await send(topic, 3, numbered(5));
    const sent = async () => String((await client.listOffsets(topic)).get(3)) === "0,5";
    await waitUntil(sent, () => "five records in the new partition");
  });

  await testCase("admin-topic-configs", async () => {
    need("topicConfigs");
    const topic = await topicOf("configured", 1, { "retention.ms": "3600000" });
    const retention = async () => String((await client.topicConfigs(topic)).get("retention.ms"));
    assert.equal(await retention(), "3600000,false");
    assert.deepEqual((await client.topicConfigs(topic)).get("segment.bytes"), ["1073741824", true]);
    await client.setTopicConfigs(topic, { "retention.ms": "7200000" });
    await waitUntil(async () => (await retention()) === "7200000,false", () => "the setting to be changed");
    await client.setTopicConfigs(topic, {});
    await waitUntil(async () => (await retention()) === "604800000,true", () => "the setting to be reset");
  });

  await testCase("admin-broker-configs", async () => {
    need("brokerConfigs");
    const configs = await client.brokerConfigs((await client.cluster()).controller);
    assert.equal(configs.get("num.partitions"), "1");
    assert.equal(configs.get("message.max.bytes"), "1048588");
  });

  await testCase("admin-cluster", async () => {
    need("cluster");
    const { id, brokers, controller } = await client.cluster();
    assert.match(id, /^[A-Za-z0-9_-]{22}$/);
    assert.deepEqual(brokers, [[controller, process.env.BOOTSTRAP]]);
  });

  await testCase("admin-list-offsets", async () => {
    const topic = await topicOf("offsets", 2);
    await send(topic, 1, numbered(10));
    assert.deepEqual([...(await client.listOffsets(topic)).entries()].sort(), [[0, [0, 0]], [1, [0, 10]]]);
    await client.deleteRecords(topic, 1, 4);
    assert.deepEqual((await client.listOffsets(topic)).get(1), [4, 10]);
  });

  await testCase("admin-delete-records", async () => {
    const topic = await topicOf("truncated");
    await send(topic, 0, numbered(100));
    await client.deleteRecords(topic, 0, 60);
    await withMember(fresh("truncated"), topic, 1, async (member) => {
      assert.equal(String((await member.first(topic, 1))[0].key), "60");
    });
    await assert.rejects(client.deleteRecords(topic, 0, 101), { code: Code.OFFSET_OUT_OF_RANGE });
  });

  await testCase("admin-groups", async () => {
    const [topic, group] = [await topicOf("described", 2), fresh("described")];
    await withMember(group, topic, 2, async () => {
      assert.ok((await client.groups()).includes(group));
      const described = await client.describeGroup(group);
      assert.equal(described.state, "Stable");
      assert.equal(described.members.length, 1);
      assert.match(described.members[0].host, /127\.0\.0\.1/);
      assert.deepEqual(described.members[0].partitions, [`${topic}/0`, `${topic}/1`]);
    });
  });

  await testCase("admin-delete-groups", async () => {
    const topic = await topicOf("deleted");
    const group = await groupThatRead(topic, 1);
    await client.deleteGroup(group);
    assert.ok(!(await client.groups()).includes(group));
    await withMember(group, topic, 1, () =>
      assert.rejects(client.deleteGroup(group), { code: Code.NON_EMPTY_GROUP }),
    );
  });

  await testCase("admin-group-offsets", async () => {
    const topic = await topicOf("group-offsets", 2);
    const group = await groupThatRead(topic, 2);
    assert.deepEqual((await client.groupOffsets(group, topic)).get(1).offset, 10);
    await (client.setGroupOffset ?? client.commitUnjoined)(group, topic, 1, 8);
    assert.equal((await client.groupOffsets(group, topic)).get(1).offset, 8);
    await withMember(group, topic, 2, async (member) => {
      assert.equal(Number((await member.first(topic, 2, 1))[0].offset), 8);
    });
  });

  await testCase("admin-delete-offsets", () => need("deleteGroupOffset"));
  await testCase("admin-log-dirs", () => need("logDirs"));
  await testCase("admin-quotas", () => need("quotas"));

  await testCase("admin-reassignments", async () => {
    need("reassign");
    const topic = await topicOf("reassigned");
    const { controller } = await client.cluster();
    await client.reassign(topic, 0, [controller]);
    await assert.rejects(client.reassign(topic, 0, [UNKNOWN_BROKER]), { code: Code.INVALID_REPLICA_ASSIGNMENT });
    await waitUntil(async () => (await client.reassignments()).length === 0, () => "no reassignment to be listed");
  });

  await testCase("admin-elect-leaders", () => need("electLeaders"));
  await testCase("admin-producers", () => need("producers"));
}

module.exports = { adminCases };
