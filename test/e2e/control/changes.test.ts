import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { serviceAttributes } from "#principals/attributes.ts";
import { storedChanges } from "#plan/stored.ts";
import { literal } from "#duckdb/database.ts";
import { createPlan } from "#plan/diff.ts";
import { startControl } from "../../support/control.ts";
import type { ControlServer } from "../../support/control.ts";
import { openManualCoordinator } from "../../support/coordinator.ts";
import { pendingRun } from "../../support/runs.ts";
import { openMemory } from "../../support/duckdb.ts";

const run = "20261121-100000-000001";
const unkept = "20261121-100000-000002";
const many = 50_000;

let folder: string;
let server: ControlServer;
/** How many readings of changes are open. */
let open = 0;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "rollcall-changes-"));
  const { connection, close } = await openMemory();
  for (const table of ["actual", "desired"]) await connection.run(`CREATE TABLE ${table} (${serviceAttributes.ddl})`);
  await connection.run(`
    INSERT INTO actual VALUES ('user', 'gone', 'Gone "1"', NULL, NULL, ['All']), ('user', 'kept', 'Before', NULL, 'a@x', []);
    INSERT INTO desired VALUES ('user', 'kept', 'After', NULL, 'a@x', []), ('group', 'zoë', 'Zoë', NULL, NULL, []);
    INSERT INTO desired SELECT 'user', 'u' || i, 'User ' || i, NULL, NULL, [] FROM range(${many}) r(i)`);
  const { digest, counts } = await createPlan(connection, serviceAttributes);
  const file = join(folder, "changes.parquet");
  const sources = "CASE WHEN kind = 'group' THEN ['projects'] WHEN action = 'update' THEN ['hr', 'projects'] END";
  await connection.run(`COPY (SELECT *, ${sources} AS sources FROM change_sides) TO ${literal(file)} (FORMAT parquet)`);
  close();
  const kept = pendingRun(run, { digest, counts });
  server = await startControl(openManualCoordinator([kept, pendingRun(unkept, { kept: false })]), {
    changes: async function* changes(record, filter) {
      open += 1;
      try {
        yield* storedChanges(record, { file, spill: join(folder, "spill") }, filter);
      } finally {
        open -= 1;
      }
    },
  });
});
afterAll(async () => {
  await server.stop();
  await rm(folder, { recursive: true });
});

async function changes(query: string, accept = "application/json"): Promise<{ type: string | null; text: string }> {
  const answer = await server.request(`/control/v1/runs/${run}/changes${query}`, { headers: { accept } });
  expect(answer.status).toBe(200);
  return { type: answer.headers.get("content-type"), text: await answer.text() };
}

const update = {
  action: "update",
  kind: "user",
  name: "kept",
  attributes: [{ attribute: "displayName", from: "Before", to: "After" }],
  groupsAdded: [],
  groupsRemoved: [],
};

test("the changes of a run as one array, filtered by kind, action, name and attribute", async () => {
  const { type, text } = await changes("?action=update");
  expect(type).toMatch(/^application\/json/);
  expect(JSON.parse(text)).toEqual([update]);
  const names = async (query: string): Promise<string[]> =>
    (JSON.parse((await changes(query)).text) as { name: string }[]).map(({ name }) => name);
  expect(await names("?kind=group")).toEqual(["zoë"]);
  expect(await names("?action=update&action=delete")).toEqual(["kept", "gone"]);
  expect(await names("?name=k*&name=zo%C3%AB")).toEqual(["zoë", "kept"]);
  expect(await names("?source=projects")).toEqual(["zoë", "kept"]);
  expect(await names("?source=hr&source=nobody")).toEqual(["kept"]);
  expect(await names("?attribute=mail")).toEqual([]);
  expect(await names("?attribute=groups")).toEqual(["gone"]);
  expect(await names("?attribute=mail&name=nobody")).toEqual([]);
});

test("or a line for each; none are no line", async () => {
  const { type, text } = await changes("?name=kept", "application/x-ndjson");
  expect(type).toMatch(/^application\/x-ndjson/);
  expect(text).toBe(`${JSON.stringify(update)}\n`);
  expect((await changes("?name=nobody", "application/x-ndjson")).text).toBe("");
});

test("however many they are; who goes away in between leaves nothing open", async () => {
  const { text } = await changes("", "application/x-ndjson");
  expect(text.split("\n").length).toBe(many + 4);
  expect((JSON.parse((await changes("")).text) as unknown[]).length).toBe(many + 3);
  const answer = await server.request(`/control/v1/runs/${run}/changes`);
  const reader = answer.body!.getReader();
  await reader.read();
  expect(open).toBe(1);
  await reader.cancel();
  await expect.poll(() => open).toBe(0);
});

test("what is wrong is said: a filter, a run without changes that are kept", async () => {
  const wrong = await server.request(`/control/v1/runs/${run}/changes?action=`);
  const { error } = (await wrong.json()) as { error: { problems: string[] } };
  expect(error.problems).toEqual(["action[0]: expected create, update, suspend, reactivate or delete"]);
  for (const [path, status, message] of [
    [`${run}/changes?kind=robot`, 400, "the query of the request is wrong"],
    [
      `${run}/changes?attribute=shoe&attribute=mail`,
      400,
      'this plan has no attribute "shoe": expected one of displayName, description, mail, groups',
    ],
    [`${unkept}/changes`, 404, `no changes are stored of run ${unkept}: it had none, or it is too old`],
    ["nothing/changes", 404, "there is no run nothing"],
  ] as const) {
    const answer = await server.request(`/control/v1/runs/${path}`);
    const { error } = (await answer.json()) as { error: { message: string } };
    expect([answer.status, error.message]).toEqual([status, message]);
  }
});
