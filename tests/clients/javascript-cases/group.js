"use strict";
// The group cases.

const assert = require("node:assert/strict");
const { Skip, testCase, waitUntil } = require("./report");
const { fresh, numbered } = require("./model");
const { Reader } = require("./reader");

const FLOW_RECORDS = 100_000;
const CHUNK_RECORDS = 2_000;
const FLOW_DEADLINE_MS = 60_000;

async function groupCases(client) {
  const open = [];
  const join = async (group, topic, settings = {}) => {
    const reader = await Reader.open(client, { group, topics: [topic], ...settings });
    open.push(reader);
    return reader;
  };
  const leave = async (reader) => {
    open.splice(open.indexOf(reader), 1);
    await reader.close();
  };
  /** Whatever a failed case has left open would keep the process alive. */
  const groupCase = (id, body) =>
    testCase(id, async () => {
      try {
        await body();
      } finally {
        await Promise.allSettled(open.splice(0).map((reader) => reader.close()));
      }
    });
  const sendTo = async (topic, partitions, records) => {
    const producer = await client.openProducer({});
    for (let partition = 0; partition < partitions; partition += 1) await producer.send(topic, partition, records);
    await producer.close();
  };
  const committed = async (group, topic) => {
    const found = await client.groupOffsets(group, topic);
    return [...found.keys()].sort().map((partition) => found.get(partition).offset);
  };

  await groupCase("group-resume", async () => {
    const [topic, group] = [fresh("resume"), fresh("resume")];
    await client.createTopic(topic, 3);
    await sendTo(topic, 3, numbered(100));
    const first = await join(group, topic);
    await first.until(() => first.count === 300, "300 records");
    await leave(first);
    assert.deepEqual(await committed(group, topic), [100, 100, 100]);
    await sendTo(topic, 3, numbered(10));
    const second = await join(group, topic);
    await second.until(() => second.count >= 30, "30 records");
    await leave(second);
    for (let partition = 0; partition < 3; partition += 1) {
      const offsets = second.of(topic, partition).map(({ offset }) => Number(offset));
      assert.deepEqual(offsets, numbered(10, 100).map(({ key }) => Number(key)));
    }
  });

  /** Records flow while a second member joins and leaves. */
  async function flow(strategy) {
    const [topic, group] = [fresh("flow"), fresh("flow")];
    await client.createTopic(topic, 4);
    const producer = await client.openProducer({});
    let sent = 0;
    const sendUpTo = async (count) => {
      for (; sent < count; sent += CHUNK_RECORDS) {
        const chunk = numbered(CHUNK_RECORDS, sent);
        for (let partition = 0; partition < 4; partition += 1) {
          await producer.send(topic, partition, chunk.filter(({ key }) => Number(key) % 4 === partition));
        }
      }
    };
    const first = await join(group, topic, { strategy });
    await first.untilAssigned(4);
    await sendUpTo(20_000);
    const second = await join(group, topic, { strategy });
    await sendUpTo(60_000);
    await second.untilAssigned(2);
    await sendUpTo(80_000);
    await second.until(() => second.count > 0, "records");
    await leave(second);
    await sendUpTo(FLOW_RECORDS);
    await producer.close();
    const seen = () => {
      const keys = new Set();
      for (const reader of [first, second]) {
        for (const records of reader.records.values()) for (const { key } of records) keys.add(String(key));
      }
      return keys.size;
    };
    await first.until(() => first.count + second.count >= FLOW_RECORDS && seen() === FLOW_RECORDS, "all", FLOW_DEADLINE_MS);
    assert.ok(first.count > 0 && second.count > 0);
    const ends = [...(await client.listOffsets(topic)).entries()].sort().map(([, [, end]]) => end);
    assert.equal(ends.reduce((sum, end) => sum + end), FLOW_RECORDS);
    const right = async () => String(await committed(group, topic)) === String(ends);
    await waitUntil(right, () => `the committed offsets to be ${ends}`);
    return [first, second];
  }

  await groupCase("group-rebalance", () => flow(client.eagerStrategy));

  await groupCase("group-cooperative", async () => {
    if (!client.cooperativeStrategy) throw new Skip("no cooperative assignor");
    const [first, second] = await flow(client.cooperativeStrategy);
    const moved = new Set(first.lost.flat());
    assert.equal(moved.size, 2, `the first member lost ${JSON.stringify(first.lost)}`);
    for (const partition of moved) assert.ok(second.gained.flat().includes(partition));
  });

  await groupCase("group-static", async () => {
    if (!client.staticMembers) throw new Skip("no static members");
    const [topic, group] = [fresh("static"), fresh("static")];
    await client.createTopic(topic, 4);
    const stays = await join(group, topic, { instanceId: "stays" });
    await stays.untilAssigned(4);
    const restarts = await join(group, topic, { instanceId: "restarts" });
    await restarts.untilAssigned(2);
    await stays.untilAssigned(2);
    const [had, callbacks] = [[...restarts.assigned].sort(), stays.gained.length + stays.lost.length];
    await leave(restarts);
    const restarted = await join(group, topic, { instanceId: "restarts" });
    await restarted.untilAssigned(2);
    assert.deepEqual([...restarted.assigned].sort(), had);
    await sendTo(topic, 4, numbered(1));
    await stays.until(() => stays.count === 2, "a record of each partition");
    assert.equal(stays.gained.length + stays.lost.length, callbacks, "the other member saw a rebalance");
  });

  await groupCase("group-metadata", async () => {
    const [topic, group] = [fresh("metadata"), fresh("metadata")];
    await client.createTopic(topic, 1);
    await sendTo(topic, 1, numbered(10));
    const text = "read by host-1 at 12:00, ünïcode";
    const member = await join(group, topic, { autoCommit: false });
    await member.first(topic, 10);
    await member.consumer.commit(topic, 0, 7, text);
    // One of the libraries says that it has committed before it has.
    const found = async () => (await client.groupOffsets(group, topic)).get(0);
    await waitUntil(found, () => "an offset to be committed");
    assert.deepEqual(await found(), { offset: 7, metadata: text });
  });
}

module.exports = { groupCases };
