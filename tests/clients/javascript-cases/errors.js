"use strict";
// What a client is told when it does something wrong.

const assert = require("node:assert/strict");
const { Skip, testCase } = require("./report");
const { Code, fresh, numbered } = require("./model");
const { Reader } = require("./reader");

async function errorCases(client) {
  await testCase("error-unknown-topic", () =>
    assert.rejects(client.deleteTopic(fresh("missing")), { code: Code.UNKNOWN_TOPIC_OR_PARTITION }),
  );

  await testCase("error-too-large", async () => {
    const topic = fresh("too-large");
    await client.createTopic(topic, 1);
    const producer = await client.openProducer({ requestBytesMax: 2_000_000 });
    const large = [{ key: null, value: Buffer.alloc(1_100_000, "x") }];
    await assert.rejects(producer.send(topic, 0, large), { code: Code.MESSAGE_TOO_LARGE });
    assert.equal(await producer.send(topic, 0, numbered(1)), 0);
    await producer.close();
  });

  await testCase("error-offset-out-of-range", async () => {
    if (!client.readAssigned) throw new Skip("always resets");
    const topic = fresh("out-of-range");
    await client.createTopic(topic, 1);
    await assert.rejects(client.readAssigned(topic, [0], 1, 1_000), { code: Code.OFFSET_OUT_OF_RANGE });
  });

  await testCase("error-topic-exists", async () => {
    const topic = fresh("taken");
    await client.createTopic(topic, 1);
    await assert.rejects(client.createTopic(topic, 1), { code: Code.TOPIC_ALREADY_EXISTS });
  });

  await testCase("error-invalid-config", async () => {
    const asked = client.createTopic(fresh("odd"), 1, { "no.such.setting": "1" });
    await assert.rejects(asked, (error) => {
      assert.equal(error.code, Code.INVALID_CONFIG, error);
      if (client.passesMessagesOn) assert.match(error.message, /no\.such\.setting/);
      return true;
    });
  });

  await testCase("error-wrong-epoch", () => {
    throw new Skip("no such call");
  });

  await testCase("error-unknown-group", () =>
    assert.rejects(client.deleteGroup(fresh("missing")), { code: Code.GROUP_ID_NOT_FOUND }),
  );

  await testCase("error-stale-member", async () => {
    if (!client.commitUnjoined) throw new Skip("no such call");
    const [topic, group] = [fresh("stale"), fresh("stale")];
    await client.createTopic(topic, 1);
    const member = await Reader.open(client, { group, topics: [topic] });
    try {
      await member.untilAssigned(1);
      await assert.rejects(client.commitUnjoined(group, topic, 0, 0), { code: Code.UNKNOWN_MEMBER_ID });
    } finally {
      await member.close();
    }
  });
}

module.exports = { errorCases };
