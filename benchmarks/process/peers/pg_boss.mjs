// pg-boss; with `transactional 1` its newer mode, in which a batch's effects and its completion are one transaction.
import { events, load, onlyTells, run, statementsOf, tables, transact } from "./common.mjs";

const { PgBoss } = await load("pg-boss");
const { default: pg } = await load("pg");
const QUEUE = "events";

async function started(dsn, more) {
  const boss = new PgBoss({ connectionString: dsn, ...more });
  boss.on("error", (error) => console.error(error));
  await boss.start();
  return boss;
}

run({
  async setup(dsn, count) {
    const boss = await started(dsn, {});
    await boss.getDb().executeSql(tables);
    await boss.createQueue(QUEUE);
    for (const some of events(count)) await boss.insert(QUEUE, some.map((data) => ({ data })));
    await boss.stop();
  },
  async work(dsn, { batch, concurrency, pool, transactional }) {
    const boss = await started(dsn, { max: 2 * concurrency + 8 });
    const effects = new pg.Pool({ connectionString: dsn, max: pool });
    const options = {
      batchSize: batch,
      localConcurrency: concurrency,
      burstWhenBatchFull: true,
      pollingIntervalSeconds: 0.5,
    };
    const one = async ({ data }) => {
      const client = await effects.connect();
      try {
        await transact(client, data);
      } finally {
        client.release();
      }
    };
    if (transactional) {
      await boss.work(QUEUE, { ...options, transactional: true }, async (jobs, tx) => {
        for (const { data } of jobs) {
          if (onlyTells()) continue;
          for (const [text, values] of statementsOf(data)) await tx.executeSql(text, values);
        }
      });
      return;
    }
    await boss.work(QUEUE, { ...options, perJobResults: true }, (jobs) =>
      Promise.all(jobs.map(async (job) => {
        if (!onlyTells()) await one(job);
        return { id: job.id, status: "completed" };
      })));
  },
});
