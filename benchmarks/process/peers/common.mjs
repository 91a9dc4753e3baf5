// What the Node peers share: the command line, the events, the business. They are run as
// `node NAME.mjs NODE_HOME setup DSN COUNT` or `node NAME.mjs NODE_HOME work DSN [--set name=value ...]`.
import { appendFileSync, openSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { crc32 } from "node:zlib";

const ACCOUNTS = 1000;
const CHUNK = 1000;
const [home, command, dsn, ...rest] = process.argv.slice(2);
const required = createRequire(`${home}/package.json`);
const text = (path) => readFileSync(new URL(path, import.meta.url), "utf8");
const sqlOf = (path) => text(path).split("\n").filter((line) => !line.startsWith("--")).join("\n");

export const tables = sqlOf("../tables.sql");
const statements = sqlOf("../effect.sql").split(";").map((part) => part.trim()).filter(Boolean);

/** Import a package of the peers' own folder. */
export const load = async (name) => import(pathToFileURL(required.resolve(name)));

/** Do what the command line asks for. */
export async function run({ setup, work }) {
  if (command === "setup") {
    await setup(dsn, Number(rest[0]));
    process.exit(0);
  }
  const pairs = rest.filter((part) => part !== "--set").map((part) => part.split("="));
  await work(dsn, Object.fromEntries(pairs.map(([name, value]) => [name, Number(value)])));
}

/** Give the events to enqueue, some at a time, from the file in which the harness has written them, one a line. */
export function* events(count) {
  const lines = readFileSync(process.env.BENCHMARK_EVENTS, "utf8").split("\n", count);
  for (let first = 0; first < count; first += CHUNK) {
    yield lines.slice(first, first + CHUNK).map((line) => JSON.parse(line));
  }
}

const business = (process.env.BENCHMARK_EFFECT ?? "business") === "business";
const tally = openSync(process.env.BENCHMARK_TALLY ?? "/dev/null", "a");

/** Give the three statements that are the effect of *event*, each with its values. */
export function statementsOf(event) {
  const amount = event.data.object.amount;
  const account = crc32(event.id) % ACCOUNTS;
  const message = JSON.stringify({ account, amount });
  const values = [[amount, account], [event.id, account, amount], [event.id, message]];
  return statements.map((statement, index) => [statement, values[index]]);
}

/** Tell that a handler ran, where it is to do nothing else; whether that is so. */
export function onlyTells() {
  if (!business) appendFileSync(tally, ".");
  return !business;
}

/** Have the effect of *event* in a transaction of its own on *client*, with statements prepared by name. */
export async function transact(client, event) {
  await client.query("BEGIN");
  try {
    for (const [index, [statement, values]] of statementsOf(event).entries()) {
      await client.query({ name: `book_${index}`, text: statement, values });
    }
    await client.query("COMMIT");
  } catch (error) {
    await client.query("ROLLBACK");
    throw error;
  }
}
