import { expect, test } from "vitest";
import { runSql } from "#client/sql.ts";
import { answer, startScripted } from "../../support/scripted-server.ts";

test("SQL that a full disk or too little memory has ended says why", async () => {
  const error = (text: string): string => JSON.stringify({ error: text });
  const statuses = { 507: "No space left on device", 503: "it took too much memory" };
  for (const [status, reason] of Object.entries(statuses)) {
    const server = await startScripted({ "local/sql": answer(Number(status), error(reason)) });
    const options = { name: "embedded", url: server.url, prefix: "", credentials: { session: "s" } };
    await expect(runSql(options, { sql: "INSERT INTO t VALUES (1)" }, AbortSignal.timeout(60_000))).rejects.toThrow(
      `the SQL did not end: ${reason}. What was not complete is undone; look at the tables before you run it again`,
    );
    expect(server.arrived).toHaveLength(1);
    await server.close();
  }
});
