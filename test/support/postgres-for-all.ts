import { startPostgres } from "./postgres.ts";

/** For a whole project of vitest: the services that its tests start store everything in PostgreSQL. @returns what ends it */
export default async function setup(): Promise<() => Promise<void>> {
  const server = await startPostgres();
  process.env["ROLLCALL_TEST_POSTGRES_PORT"] = String(server.port);
  return () => server.stop();
}
