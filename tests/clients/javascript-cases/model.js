"use strict";
// What the cases and the clients' adapters speak of.

const { randomBytes } = require("node:crypto");

/** The error codes of Kafka's protocol that the cases provoke. */
const Code = {
  OFFSET_OUT_OF_RANGE: 1,
  UNKNOWN_TOPIC_OR_PARTITION: 3,
  MESSAGE_TOO_LARGE: 10,
  UNKNOWN_MEMBER_ID: 25,
  TOPIC_ALREADY_EXISTS: 36,
  INVALID_REPLICA_ASSIGNMENT: 39,
  INVALID_CONFIG: 40,
  INVALID_PRODUCER_EPOCH: 47,
  NON_EMPTY_GROUP: 68,
  GROUP_ID_NOT_FOUND: 69,
  PRODUCER_FENCED: 90,
};

/** Between two versions of the protocol the broker's word has changed for a producer that has a successor. */
const FENCED = [Code.INVALID_PRODUCER_EPOCH, Code.PRODUCER_FENCED];

/** The broker's refusal, as the client told of it. */
class Refused extends Error {
  constructor(code, message) {
    super(`${code} ${message}`);
    this.name = "Refused";
    this.code = code;
  }
}

/** What the broker answered is somewhere within the error, where depends on the call; or else the error itself. */
function refusal(error) {
  const within = [error.errors, error.groups, error.partitions, error.error, error.cause].flat();
  const found = within.filter((inner) => inner instanceof Object).map(refusal);
  const refused = found.find((inner) => inner instanceof Refused);
  const code = error.errorCode ?? error.code;
  return refused ?? (Number.isInteger(code) ? new Refused(code, error.message) : error);
}

async function refusing(promise) {
  try {
    return await promise;
  } catch (error) {
    throw refusal(error);
  }
}

/** A name that nothing had before, so that a suite can run again on the same broker. */
const fresh = (purpose) => `${purpose}-${randomBytes(4).toString("hex")}`;

const numbered = (count, start = 0) =>
  Array.from({ length: count }, (_, index) => ({
    key: Buffer.from(String(start + index)),
    value: Buffer.from(`value ${start + index}`),
  }));

/** How many Fetch requests the broker has answered; 0 of one that does not say where its metrics are. */
async function answeredFetches() {
  if (!process.env.METRICS) return 0;
  const page = await (await fetch(process.env.METRICS)).text();
  return Number(/^logway_request_seconds_count\{api="Fetch"\} (\d+)$/m.exec(page)[1]);
}

/** What must come back of a record: key, value and headers, as text that can be compared. */
function content({ key, value, headers }) {
  const text = (bytes) => (bytes == null ? null : Buffer.from(bytes).toString("base64"));
  const list = (one) => (Array.isArray(one) ? one : [one]);
  return JSON.stringify([
    text(key),
    text(value),
    Object.entries(headers ?? {}).map(([name, values]) => [name, list(values).map(text)]),
  ]);
}

module.exports = { Code, FENCED, Refused, refusal, refusing, answeredFetches, fresh, numbered, content };
