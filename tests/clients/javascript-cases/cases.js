"use strict";
// The cases of tests/clients/cases.toml for clients in JavaScript, written once.
//
// A client's folder puts its library behind the calls that the cases make (createTopic, openProducer, openTransactionalProducer, openConsumer,
// listOffsets, groupOffsets …), in a module that ends with `runCases(client)`. What a broker refuses is rejected with
// `Refused`; a call that the library lacks is left out, and its cases are skipped.

const { summary } = require("./report");
const { produceCases } = require("./produce");
const { consumeCases } = require("./consume");
const { groupCases } = require("./group");
const { transactionCases } = require("./transactions");
const { adminCases } = require("./admin");
const { errorCases } = require("./errors");

async function runCases(client) {
  console.log(`client ${client.name} ${client.version}`);
  for (const cases of [produceCases, consumeCases, groupCases, transactionCases, adminCases, errorCases]) await cases(client);
  await client.close();
  process.exit(summary());
}

module.exports = { runCases };
