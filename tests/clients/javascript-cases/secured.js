"use strict";
// Does with a client what tests/security/clients/matrix.py asks for: see there for the lines in and out.

const { createInterface } = require("node:readline");

const RECORDS = Array.from({ length: 10 }, (_, number) => String(number));
// Within this a client must have what it waits for.
const DEADLINE_MS = 20_000;

/**
 * `open(task, said)` gives `connect()`, `create(topic)`, `write(topic, values)`, `read(topic, group, count)` and
 * `remove(topic)`. What the client tells beside its errors goes to the list `said`.
 */
async function runTasks(name, version, open) {
  tell("client", name, version);
  for await (const line of createInterface({ input: process.stdin })) {
    const task = Object.fromEntries(line.split("\t").map((field) => splitOnce(field, "=")));
    tell(task.task, ...(await outcome(open, task)));
  }
  process.exit(0);
}

async function outcome(open, task) {
  const said = [];
  let timer;
  const tooLong = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done within ${DEADLINE_MS} ms`)), DEADLINE_MS);
  });
  try {
    await Promise.race([perform(open(task, said), task), tooLong]);
    return ["ok"];
  } catch (error) {
    console.error(error);
    return ["error", [...causes(error), ...new Set(said)].map(oneLine).join(" | ")];
  } finally {
    clearTimeout(timer);
  }
}

async function perform(client, { do: what, topic }) {
  if (what === "connect") return client.connect();
  if (what === "create") return client.create(topic);
  if (what === "write") return client.write(topic, RECORDS);
  if (what === "read") return client.read(topic, topic, 1);
  await client.create(topic);
  await client.write(topic, RECORDS);
  const values = await client.read(topic, topic, RECORDS.length);
  if (values.join() !== RECORDS.join()) throw new Error(`read ${values}`);
  return client.remove(topic);
}

/** Reads with a consumer of either library until there are so many values, or it fails. */
async function readWith(consumer, count, run) {
  const values = [];
  try {
    await new Promise((resolve, reject) => {
      const take = async ({ message }) => {
        values.push(message.value.toString());
        if (values.length >= count) resolve();
      };
      run(take, reject).catch(reject);
    });
  } finally {
    await consumer.disconnect();
  }
  return values;
}

/** What an error says, and what those say that it is made of. */
function causes(error) {
  const within = [error.errors ?? [], error.cause ?? []].flat();
  return [`${error.name}: ${error.message}`, ...within.flatMap(causes)];
}

const splitOnce = (text, at) => [text.slice(0, text.indexOf(at)), text.slice(text.indexOf(at) + 1)];

const oneLine = (text) => String(text).replace(/\s+/g, " ");

const tell = (...words) => console.log(words.join("\t"));

module.exports = { DEADLINE_MS, readWith, runTasks };
