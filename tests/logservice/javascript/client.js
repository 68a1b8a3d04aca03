// Appends numbers and reads them again, over breaks of its own and of the brokers.
//
//   client.js HOST:PORT[,HOST:PORT...] LOG COUNT
//
// When half is acknowledged it prints "half"; the last append waits for a line on stdin. At the end it prints "done".
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import grpc from "@grpc/grpc-js";
import { LogService } from "./service.js";

const PER_APPEND = 20;
const WINDOW = 500;
const WAIT_MS = 60_000;
const RETRY_MS = 100;
const { UNAVAILABLE, CANCELLED, UNKNOWN, INTERNAL } = grpc.status;
// What another try may help against.
const PASSING = new Set([UNAVAILABLE, CANCELLED, UNKNOWN, INTERNAL]);

const [addresses, log, wanted] = [process.argv[2].split(","), process.argv[3], process.argv[4]];
const count = Number(wanted);
const last = count / PER_APPEND;
// Over all connections: the last append that was acknowledged, and how far the session is then.
let connections = 0;
let session = Buffer.alloc(0);
let acked = 0;
let position = 0;
let hasGone = false;

async function within(promise) {
  const ended = new AbortController();
  const late = sleep(WAIT_MS, null, { signal: ended.signal }).then(() => {
    throw new Error(`no reply in ${WAIT_MS} ms`);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    late.catch(() => {});
    ended.abort();
  }
}

// Connects to the next of the brokers, and passes over what another try may help against.
async function connected(run) {
  const address = addresses[connections % addresses.length];
  connections += 1;
  const service = new LogService(address, grpc.credentials.createInsecure(), { "grpc.use_local_subchannel_pool": 1 });
  try {
    return await run(service);
  } catch (error) {
    if (!PASSING.has(error.code)) {
      throw error;
    }
  } finally {
    service.close();
  }
}

// Gives each reply of a stream to `take` until that returns false or the stream ends.
async function receive(call, take) {
  // The iterator reports errors too; the one of the cancelled call has no other listener.
  call.on("error", () => {});
  const replies = call[Symbol.asyncIterator]();
  try {
    for (;;) {
      const { done, value } = await within(replies.next());
      if (done || !(await take(value))) {
        return;
      }
    }
  } finally {
    call.cancel();
  }
}

// Breaks the stream off at each third of the way.
async function appendAll() {
  for (let part = 1; acked < last; ) {
    const breakAt = Math.floor((part * last) / 3);
    await connected((service) => append(service, breakAt));
    if (acked >= breakAt) {
      part += 1;
    } else {
      await sleep(RETRY_MS);
    }
  }
}

// Appends until so many are acknowledged or the stream breaks.
async function append(service, breakAt) {
  const call = service.append();
  const positions = position > 0 ? [{ log, partition: 0, records: position }] : [];
  call.write({ open: { session, positions } });
  let sent = acked;
  await receive(call, async (reply) => {
    take(reply);
    for (; sent < last && sent < acked + WINDOW; sent += 1) {
      if (sent + 1 === last && !(await mayFinish())) {
        break;
      }
      call.write(nth(sent + 1));
    }
    return acked < breakAt;
  });
}

function take(reply) {
  if (reply.opened) {
    session = reply.opened.session;
    return;
  }
  if (reply.appended?.sequence !== acked + 1) {
    throw new Error(`${JSON.stringify(reply)} where ${acked + 1} comes next`);
  }
  acked += 1;
  position = reply.appended.sessionRecords;
  if (acked === Math.floor(last / 2)) {
    console.log("half");
  }
}

// Whether the last append may be sent: when all others are acknowledged, and the line has come.
async function mayFinish() {
  if (!hasGone && acked + 1 === last) {
    await once(process.stdin, "data");
    process.stdin.destroy();
    hasGone = true;
  }
  return hasGone;
}

// The n-th append, with the records from (n - 1) * PER_APPEND on.
function nth(sequence) {
  const records = [];
  for (let number = (sequence - 1) * PER_APPEND; number < sequence * PER_APPEND; number += 1) {
    records.push({ value: Buffer.from(String(number)) });
  }
  return { append: { sequence, log, partition: 0, records } };
}

// Reads a third at a time, each on a connection of its own, and goes on where a broken one was.
async function readAll() {
  let next = 0;
  while (next < count) {
    const request = { log, offset: next, recordsMax: Math.floor(count / 3) };
    await connected((service) => receive(service.read(request), ({ records }) => {
      for (const { offset, value } of records) {
        if (offset !== next || value.toString() !== String(next)) {
          throw new Error(`${offset}: ${value} where ${next} comes next`);
        }
        next += 1;
      }
      return next < count;
    }));
    await sleep(RETRY_MS);
  }
}

async function checkEnd() {
  const info = (service) => within(new Promise((resolve, reject) => {
    service.info({ log }, (error, reply) => (error ? reject(error) : resolve(reply)));
  }));
  for (const ends = Date.now() + WAIT_MS; Date.now() < ends; await sleep(RETRY_MS)) {
    const end = (await connected(info))?.partitions[0].endOffset;
    if (end === count) {
      return;
    }
    if (end !== undefined) {
      throw new Error(`the log ends at ${end} and not at ${count}`);
    }
  }
  throw new Error("nobody tells where the log ends");
}

await appendAll();
await readAll();
await checkEnd();
console.log("done");
