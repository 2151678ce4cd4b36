import { setTimeout as delay } from "node:timers/promises";
import { expect } from "vitest";
import { loadStarted, loadStatus } from "#wire/loads.ts";
import type { LoadStatus } from "#wire/loads.ts";
import { compactData } from "#wire/pinboards.ts";
import type { SyncResult } from "#wire/administration.ts";
import { multipart, multipartType } from "../../e2e/interface/loading.ts";
import { pinboard, pinboardOf, visualization } from "../../e2e/interface/pinboards.ts";
import { group, user } from "../../e2e/interface/principals.ts";
import { result } from "../../e2e/interface/syncing.ts";
import { administrator, call, post } from "./service.ts";
import type { Answer, CallOptions } from "./service.ts";

/** Between two of the same, in milliseconds: the machine should be busy with other things. */
const pause = 150;

/** How many rows a load has. */
export const rowsPerLoad = 1_500;

/** The tables, in PostgreSQL's SQL, and the pinboard that the clients use. */
export const tables = `
CREATE SCHEMA IF NOT EXISTS d;
CREATE TABLE IF NOT EXISTS d.plain (number bigint NOT NULL, load bigint NOT NULL);
CREATE TABLE IF NOT EXISTS d.keyed (number bigint PRIMARY KEY, load bigint NOT NULL);
`;
export const board = pinboardOf([
  `SELECT count(*) FROM (SELECT load FROM plain GROUP BY load HAVING count(*) <> ${rowsPerLoad}) AS torn`,
]);

/** What clients ask for. */
const asked = ["start", "upload", "commit", "status", "rejected rows", "preview", "apply", "list", "login", "query"];

/** Clients of a service, who use all of it, each for themselves, until they are ended, and check what they are told. */
export interface Clients {
  /** What was answered with an error. */
  readonly errors: readonly string[];
  /** Waits until everything that is asked from now on has worked once. */
  working(): Promise<void>;
  /**
   * Loads, one after the other, into a table with a key and one without.
   * @returns the numbers of those that are said to be loaded, by table
   */
  load(): Promise<{ readonly plain: readonly number[]; readonly keyed: readonly number[] }>;
  /** Adds users, one after the other, each with a preview before and a list after. @returns their names */
  sync(): Promise<readonly string[]>;
  login(): Promise<void>;
  /** Looks at a pinboard, which has whole loads only. */
  query(): Promise<void>;
  end(): void;
}

/** What fails with a 503 they try again, as the answer says. Anything else fails the test. */
export function clientsOf(url: string, session: string): Clients {
  const errors: string[] = [];
  /** When what worked last was asked, by its name. */
  const worked = new Map<string, number>();
  const over = new AbortController();

  async function until(what: string, ask: () => Promise<Answer>, expected: number): Promise<Answer> {
    for (;;) {
      const began = performance.now();
      const answer = await ask();
      if (answer.status === expected) {
        worked.set(what, began);
        return answer;
      }
      errors.push(`${what}: ${answer.status} ${answer.text}`);
      expect(answer.status, errors.at(-1)).toBe(503);
      await delay(100);
    }
  }

  return {
    errors,
    working: async () => {
      const now = performance.now();
      await expect.poll(() => asked.filter((what) => (worked.get(what) ?? 0) < now), { interval: 50 }).toEqual([]);
    },
    load: async () => {
      const root = `${url}/ts_dataservice/v1`;
      const loaded = { plain: [] as number[], keyed: [] as number[] };
      for (let load = 1; !over.signal.aborted; load++) {
        const table = load % 2 === 0 ? "plain" : "keyed";
        const rows = Array.from({ length: rowsPerLoad }, (_, row) => `${row},${load}\n`);
        const body = JSON.stringify({ target: { database: "d", table }, load_options: { max_ignored_rows: 1 } });
        const post = (what: string, path: string, options: CallOptions): Promise<Answer> =>
          until(what, () => call(`${root}/public/loads${path}`, { method: "POST", session, ...options }), 202);
        const started = await post("start", "", { body });
        const { cycle_id: id } = loadStarted.parse(JSON.parse(started.text));
        for (const chunk of [rows.slice(0, 1_000), [...rows.slice(1_000), "wrong,row\n"]]) {
          const headers = { "content-type": multipartType };
          await post("upload", `/${id}`, { headers, body: multipart({ data: chunk.join("") }) });
        }
        await post("commit", `/${id}/commit`, {});
        let status: LoadStatus;
        do {
          await delay(50);
          const answer = await until("status", () => call(`${root}/loads/${id}`, { session }), 200);
          status = loadStatus.parse(JSON.parse(answer.text));
        } while (status.internal_stage !== "DONE");
        // A commit that was accepted is done, however long it takes.
        expect(status).toMatchObject({
          status: { code: "OK" },
          rows_written: String(rowsPerLoad),
          ignored_row_count: "1",
        });
        loaded[table].push(load);
        const path = `${root}/public/loads/${id}/bad_records_file`;
        const rejected = await until("rejected rows", () => call(path, { session }), 200);
        expect(rejected.text).toBe("wrong,row\n");
        await delay(pause);
      }
      return loaded;
    },

    sync: async () => {
      const path = `${url}/tspublic/v1/user`;
      const names: string[] = [];
      for (let next = 1; !over.signal.aborted; next++) {
        const name = `user ${String(next).padStart(4, "0")}`;
        const principals = JSON.stringify([user(name, ["people"]), group("people")]);
        const send = (what: string, more: Readonly<Record<string, string>>): Promise<Answer> =>
          until(what, () => post(`${path}/sync`, { principals, removeDeleted: "false", ...more }, { session }), 200);
        const expected = result({ usersAdded: [name], ...(next === 1 ? { groupsAdded: ["people"] } : {}) });
        expect(JSON.parse((await send("preview", {})).text) as SyncResult).toEqual(expected);
        // Nothing is created twice, and who creates is told so, however often the primary changes meanwhile.
        expect(JSON.parse((await send("apply", { applyChanges: "true" })).text) as SyncResult).toEqual(expected);
        names.push(name);
        const listed = await until("list", () => call(`${path}/list`, { session }), 200);
        const found = (JSON.parse(listed.text) as { name: string; principalTypeEnum: string }[])
          .filter(({ principalTypeEnum, name: each }) => principalTypeEnum === "LOCAL_USER" && each !== "admin")
          .map(({ name: each }) => each);
        expect(found.toSorted()).toEqual(names);
        await delay(pause);
      }
      return names;
    },

    login: async () => {
      while (!over.signal.aborted) {
        const { name: username, password } = administrator;
        await until("login", () => post(`${url}/tspublic/v1/session/login`, { username, password }), 204);
        await delay(pause);
      }
    },

    query: async () => {
      while (!over.signal.aborted) {
        const form = { id: pinboard, vizid: JSON.stringify([visualization(0)]), formattype: "COMPACT" };
        const path = `${url}/tspublic/v1/pinboarddata`;
        const answer = await until("query", () => post(path, form, { session }), 200);
        const data = compactData.parse(JSON.parse(answer.text))[visualization(0)];
        expect(data?.data).toEqual([[0]]);
        await delay(pause);
      }
    },
    end: () => {
      over.abort();
    },
  };
}
