// What the Node peers share: the command line, the events, the business. They are run as
// `node NAME.mjs NODE_HOME setup DSN COUNT` or `node NAME.mjs NODE_HOME work DSN [--set name=value ...]`.
import { appendFileSync, openSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { crc32 } from "node:zlib";

const ACCOUNTS = 1000;
const CUSTOMERS = 1000;
const AMOUNTS = 900_000;
const DIGITS = 24;
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

/** Give the events to enqueue, some at a time; the same as harness/events.py writes. */
export function* events(count) {
  const template = text("../../harness/charge.json");
  const digits = (number) => String(number).padStart(DIGITS, "0");
  const zeros = digits(0);
  for (let first = 0; first < count; first += CHUNK) {
    const some = [];
    for (let number = first; number < Math.min(count, first + CHUNK); number += 1) {
      some.push(JSON.parse(template
        .replaceAll(`evt_${zeros}`, `evt_${digits(number)}`)
        .replaceAll(`ch_${zeros}`, `ch_${digits(number)}`)
        .replaceAll(`cus_${zeros}`, `cus_${digits(number % CUSTOMERS)}`)
        .replaceAll("100000", String(100_000 + (number % AMOUNTS)))));
    }
    yield some;
  }
}

const business = (process.env.BENCHMARK_EFFECT ?? "business") === "business";
const tally = openSync(process.env.BENCHMARK_TALLY ?? "/dev/null", "a");

/** Have the effect of one event: the three statements, prepared, on a client that is inside a transaction. */
export async function book(client, event) {
  const amount = event.data.object.amount;
  const account = crc32(event.id) % ACCOUNTS;
  const message = JSON.stringify({ account, amount });
  const values = [[amount, account], [event.id, account, amount], [event.id, message]];
  for (const [index, statement] of statements.entries()) {
    await client.query({ name: `book_${index}`, text: statement, values: values[index] });
  }
}

/** The statements with their values, for an interface that takes no names. */
export function* statementsOf(event) {
  const amount = event.data.object.amount;
  const account = crc32(event.id) % ACCOUNTS;
  yield [statements[0], [amount, account]];
  yield [statements[1], [event.id, account, amount]];
  yield [statements[2], [event.id, JSON.stringify({ account, amount })]];
}

/** Tell that a handler ran, where it is to do nothing else; whether that is so. */
export function onlyTells() {
  if (!business) appendFileSync(tally, ".");
  return !business;
}

/** Have the effect of *event* in a transaction of its own on *client*. */
export async function transact(client, event) {
  await client.query("BEGIN");
  try {
    await book(client, event);
    await client.query("COMMIT");
  } catch (error) {
    await client.query("ROLLBACK");
    throw error;
  }
}
