// Graphile Worker with its batching options, the effect on connections of its own pool.
import { events, load, onlyTells, run, tables, transact } from "./common.mjs";

const { makeWorkerUtils, run: work } = await load("graphile-worker");

run({
  async setup(dsn, count) {
    const utils = await makeWorkerUtils({ connectionString: dsn });
    await utils.withPgClient((client) => client.query(tables));
    await utils.migrate();
    for (const some of events(count)) {
      await utils.addJobs(some.map((event) => ({ identifier: "book", payload: event })));
    }
    await utils.release();
  },
  async work(dsn, { concurrency, queue, delay }) {
    const taskList = {
      async book(event, helpers) {
        if (!onlyTells()) await helpers.withPgClient((client) => transact(client, event));
      },
    };
    const worker = {
      connectionString: dsn,
      concurrentJobs: concurrency,
      maxPoolSize: concurrency + 4,
      localQueue: { size: queue },
      completeJobBatchDelay: delay,
      failJobBatchDelay: delay,
    };
    const runner = await work({ preset: { worker }, taskList });
    await runner.promise;
  },
});
