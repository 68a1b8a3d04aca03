"use strict";
// Runs cases one after another and prints the lines that tests/clients/cases.toml describes.

const { Refused } = require("./model");

const DEADLINE_MS = 20_000;
let passed = 0;
let failed = 0;

class Skip extends Error {}

async function testCase(id, body) {
  const began = Date.now();
  try {
    await body();
    passed += 1;
    console.log(`case ${id} pass (${((Date.now() - began) / 1000).toFixed(2)} s)`);
  } catch (error) {
    if (error instanceof Skip) {
      console.log(`case ${id} skip: ${error.message}`);
      return;
    }
    failed += 1;
    const reason = `${error.name}: ${error.message}`.replace(/\s+/g, " ");
    console.log(`case ${id} fail: ${reason}\n${String(error.stack).replace(/^/gm, "    ")}`);
  }
}

function summary() {
  console.log(`${passed} passed, ${failed} failed`);
  return failed || !passed ? 1 : 0;
}

/** Asks until the condition holds; a refusal counts as "not yet", since Kafka applies changes after it has answered. */
async function waitUntil(condition, what, deadlineMs = DEADLINE_MS) {
  const deadline = Date.now() + deadlineMs;
  let last = "";
  for (;;) {
    try {
      if (await condition()) return;
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      last = ` (${error.message})`;
    }
    if (Date.now() > deadline) throw new Error(`waited ${deadlineMs / 1000} s for ${what()}${last}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

module.exports = { Skip, testCase, summary, waitUntil };
