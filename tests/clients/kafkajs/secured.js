"use strict";
// kafkajs where TLS and passwords are asked for.

const { readFileSync } = require("node:fs");
const { Kafka, logLevel } = require("kafkajs");
const { version } = require("kafkajs/package.json");
const { readWith, runTasks } = require("../javascript-cases/secured");

function open(task, said) {
  const kafka = new Kafka({
    brokers: [task.bootstrap],
    ssl: task.ca && {
      ca: readFileSync(task.ca),
      cert: task.certificate && readFileSync(task.certificate),
      key: task.key && readFileSync(task.key),
    },
    sasl: sasl(task),
    // By default it tries five times, for ten seconds.
    retry: { retries: 1 },
    logLevel: logLevel.ERROR,
    logCreator: () => ({ log }) => said.push([log.message, log.error].filter(Boolean).join(": ")),
  });
  return {
    connect: () => using(kafka.admin(), (admin) => admin.listTopics()),
    create: (topic) =>
      using(kafka.admin(), (admin) => admin.createTopics({ waitForLeaders: false, topics: [{ topic, numPartitions: 1 }] })),
    remove: (topic) => using(kafka.admin(), (admin) => admin.deleteTopics({ topics: [topic] })),
    write: (topic, values) =>
      using(kafka.producer(), (producer) => producer.send({ topic, messages: values.map((value) => ({ value })) })),
    read: (topic, groupId, count) => {
      const consumer = kafka.consumer({ groupId });
      return readWith(consumer, count, async (eachMessage, reject) => {
        consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error));
        await consumer.connect();
        await consumer.subscribe({ topics: [topic], fromBeginning: true });
        await consumer.run({ eachMessage });
      });
    },
  };
}

function sasl({ mechanism, user, password, token }) {
  if (token) return { mechanism: "oauthbearer", oauthBearerProvider: async () => ({ value: token }) };
  return mechanism && { mechanism: mechanism.toLowerCase(), username: user, password };
}

async function using(client, use) {
  try {
    await client.connect();
    return await use(client);
  } finally {
    await client.disconnect();
  }
}

runTasks("kafkajs", version, open);
