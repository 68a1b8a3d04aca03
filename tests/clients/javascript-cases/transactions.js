"use strict";
// The transaction cases: a topic is copied to two others, with the offsets of the copied records in the same transaction.

const assert = require("node:assert/strict");
const { testCase, waitUntil } = require("./report");
const { FENCED, fresh, numbered } = require("./model");
const { Reader } = require("./reader");

// How long a reader waits for a record that must not come.
const WHETHER_MORE_MS = 500;

async function transactionCases(client) {
  /** Gives the case what it needs, and closes that. */
  const copies = (id, body) =>
    testCase(id, async () => {
      const [source, first, second] = ["source", "first", "second"].map(fresh);
      const topics = [first, second];
      for (const topic of [source, ...topics]) await client.createTopic(topic, 1);
      const producer = await client.openProducer({});
      await producer.send(source, 0, numbered(10));
      await producer.close();
      const group = fresh("copier");
      // The offsets are for its group.
      const member = await Reader.open(client, { group, topics: [source], autoCommit: false });
      const opened = [member];
      try {
        await member.first(source, 10);
        await body({
          async open(transactionalId) {
            const copier = await client.openTransactionalProducer(transactionalId);
            opened.push(copier);
            return copier;
          },
          /** Leaves a transaction open in which there is a record for each topic, and an offset. */
          async copy(copier, value, offset) {
            await copier.begin();
            for (const topic of topics) await copier.send(topic, 0, [{ key: null, value: Buffer.from(value) }]);
            await copier.sendOffset(member.consumer, group, source, 0, offset);
          },
          /** Each of the topics must have just these. */
          async has(isolation, ...values) {
            const reader = await Reader.open(client, { group: fresh("reader"), topics, isolation });
            try {
              await reader.untilAssigned(topics.length);
              for (const topic of topics) await reader.first(topic, values.length);
              await new Promise((resolve) => setTimeout(resolve, WHETHER_MORE_MS));
              for (const topic of topics) assert.deepEqual(reader.of(topic).map(({ value }) => String(value)), values);
            } finally {
              await reader.close();
            }
          },
          async hasCommitted(offset) {
            const found = async () => (await client.groupOffsets(group, source)).get(0)?.offset === offset;
            await waitUntil(found, () => `offset ${offset} to be committed`);
          },
        });
      } finally {
        await Promise.allSettled(opened.map((one) => one.close()));
      }
    });

  await copies("transaction-commit", async ({ open, copy, has, hasCommitted }) => {
    const copier = await open(fresh("copier"));
    await copy(copier, "one", 4);
    await has("all", "one");
    await has("committed");
    await copier.commit();
    await has("committed", "one");
    await hasCommitted(4);
    await copy(copier, "two", 7);
    await copier.commit();
    await has("committed", "one", "two");
    await hasCommitted(7);
  });

  await copies("transaction-abort", async ({ open, copy, has, hasCommitted }) => {
    const copier = await open(fresh("copier"));
    await copy(copier, "gone", 4);
    await copier.abort();
    await copy(copier, "kept", 2);
    await copier.commit();
    await has("committed", "kept");
    await has("all", "gone", "kept");
    await hasCommitted(2);
  });

  await copies("transaction-fence", async ({ open, copy, has, hasCommitted }) => {
    const transactionalId = fresh("copier");
    const zombie = await open(transactionalId);
    await copy(zombie, "zombie", 9);
    const successor = await open(transactionalId);
    await assert.rejects(zombie.commit(), ({ code }) => FENCED.includes(code));
    await copy(successor, "successor", 3);
    await successor.commit();
    await has("committed", "successor");
    await hasCommitted(3);
  });
}

module.exports = { transactionCases };
