// The log service by grpc-js: appends that are broken off and come back, and a read.
//
//   client.js HOST:PORT LOG COUNT
import { fileURLToPath } from "node:url";
import grpc from "@grpc/grpc-js";
import loader from "@grpc/proto-loader";

const PER_APPEND = 20;
const WINDOW = 500;

const protos = fileURLToPath(new URL("../../../crates/logservice/proto", import.meta.url));
const definition = loader.loadSync("logway/log/v1/log.proto", { includeDirs: [protos], longs: Number, defaults: true });
const { LogService } = grpc.loadPackageDefinition(definition).logway.log.v1;
const [address, log, wanted] = process.argv.slice(2);
const count = Number(wanted);
const service = new LogService(address, grpc.credentials.createInsecure());

function nth(sequence) {
  const records = [];
  for (let number = (sequence - 1) * PER_APPEND; number < sequence * PER_APPEND; number += 1) {
    records.push({ value: Buffer.from(String(number)) });
  }
  return { append: { sequence, log, records } };
}

// Appends up to `last`, or until `breakAt` is acknowledged, and goes on from what the session has had.
function appendUntil(session, last, breakAt) {
  return new Promise((resolve, reject) => {
    const call = service.append();
    let { token, acked, position } = session;
    let sent = acked;
    const positions = position > 0 ? [{ log, partition: 0, records: position }] : [];
    call.on("error", reject);
    call.on("data", (reply) => {
      if (reply.opened) {
        token = reply.opened.session;
      } else if (reply.appended?.sequence === acked + 1) {
        acked += 1;
        position = reply.appended.sessionRecords;
      } else {
        reject(new Error(`${JSON.stringify(reply)} where ${acked + 1} comes next`));
      }
      for (; sent < last && sent < acked + WINDOW; sent += 1) {
        call.write(nth(sent + 1));
      }
      if (acked === breakAt) {
        call.removeListener("error", reject);
        call.on("error", () => {});
        call.cancel();
        resolve({ token, acked, position });
      }
    });
    call.write({ open: { session: token, positions } });
  });
}

async function readAll() {
  let next = 0;
  for await (const reply of service.read({ log, untilEnd: true })) {
    for (const { offset, value } of reply.records) {
      if (offset !== next || value.toString() !== String(next)) {
        throw new Error(`${offset}: ${value} where ${next} comes next`);
      }
      next += 1;
    }
  }
  if (next !== count) {
    throw new Error(`${next} records and not ${count}`);
  }
}

const last = count / PER_APPEND;
let session = { token: Buffer.alloc(0), acked: 0, position: 0 };
for (const breakAt of [Math.floor(last / 3), Math.floor((2 * last) / 3), last]) {
  session = await appendUntil(session, last, breakAt);
}
await readAll();
service.close();
console.log("done");
