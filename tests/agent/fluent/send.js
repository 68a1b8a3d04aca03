// Sends events in a mode of the forward protocol, each acknowledged: send.js PORT MODE COUNT [KEY [USER PASSWORD]].
const { FluentClient } = require("@fluent-org/logger");

const [port, eventMode, count, sharedKey, username, password] = process.argv.slice(2);

const client = new FluentClient("web", {
  eventMode,
  ack: { ackTimeout: 20000 },
  socket: { host: "127.0.0.1", port: Number(port), timeout: 20000, disableReconnect: true },
  ...(sharedKey && { security: { clientHostname: "client", sharedKey, username, password } }),
});

async function main() {
  await client.connect();
  const sent = [];
  for (let number = 0; number < Number(count); number += 1) {
    sent.push(client.emit("access", { message: `event ${number}`, number, mode: eventMode, nested: { list: [1, null, true] } }));
  }
  await Promise.all(sent);
  await client.disconnect();
}

// A client that was turned away waits for ever with nothing to wait for, and ends.
process.exitCode = 1;
main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
