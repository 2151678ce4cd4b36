import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { vi } from "vitest";
import { loadStarted, loadStatus } from "#wire/loads.ts";
import type { LoadStatus } from "#wire/loads.ts";
import { compactData } from "#wire/pinboards.ts";
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

/**
 * Clients of a service, who use all of it, each for themselves, until they are ended, and check what they are told. What fails with a
 * 503 they try again, as the answer says. Anything else fails the test.
 */
export class Clients {
  /** What was answered with an error. */
  readonly errors: string[] = [];
  readonly #url: string;
  readonly #session: string;
  /** When what worked last was asked, by its name. */
  readonly #worked = new Map<string, number>();
  readonly #over = new AbortController();

  constructor(url: string, session: string) {
    this.#url = url;
    this.#session = session;
  }

  /** Waits until everything that is asked from now on has worked once. */
  async working(): Promise<void> {
    const now = performance.now();
    const missing = (): string[] => asked.filter((what) => (this.#worked.get(what) ?? 0) < now);
    await vi.waitFor(() => assert.deepEqual(missing(), []), { interval: 50, timeout: 60_000 });
  }

  /**
   * Loads, one after the other, into a table with a key and one without.
   * @returns the numbers of those that are said to be loaded, by table
   */
  async load(): Promise<{ readonly plain: readonly number[]; readonly keyed: readonly number[] }> {
    const loaded = { plain: [] as number[], keyed: [] as number[] };
    for (let load = 1; !this.#over.signal.aborted; load++) {
      const table = load % 2 === 0 ? "plain" : "keyed";
      await this.#loadOnce(table, load);
      loaded[table].push(load);
      await delay(pause);
    }
    return loaded;
  }

  async #loadOnce(table: string, load: number): Promise<void> {
    const root = `${this.#url}/ts_dataservice/v1`;
    const session = this.#session;
    const rows = Array.from({ length: rowsPerLoad }, (_, row) => `${row},${load}\n`);
    const body = JSON.stringify({ target: { database: "d", table }, load_options: { max_ignored_rows: 1 } });
    const post = (what: string, path: string, options: CallOptions): Promise<Answer> =>
      this.#until(what, () => call(`${root}/public/loads${path}`, { method: "POST", session, ...options }), 202);
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
      const answer = await this.#until("status", () => call(`${root}/loads/${id}`, { session }), 200);
      status = loadStatus.parse(JSON.parse(answer.text));
    } while (status.internal_stage !== "DONE");
    // A commit that was accepted is done, however long it takes.
    assert.partialDeepStrictEqual(status, {
      status: { code: "OK" },
      rows_written: String(rowsPerLoad),
      ignored_row_count: "1",
    });
    const path = `${root}/public/loads/${id}/bad_records_file`;
    const rejected = await this.#until("rejected rows", () => call(path, { session }), 200);
    assert.equal(rejected.text, "wrong,row\n");
  }

  /** Adds users, one after the other, each with a preview before and a list after. @returns their names */
  async sync(): Promise<readonly string[]> {
    const path = `${this.#url}/tspublic/v1/user`;
    const session = this.#session;
    const names: string[] = [];
    for (let next = 1; !this.#over.signal.aborted; next++) {
      const name = `user ${String(next).padStart(4, "0")}`;
      const principals = JSON.stringify([user(name, ["people"]), group("people")]);
      const send = (what: string, more: Readonly<Record<string, string>>): Promise<Answer> =>
        this.#until(
          what,
          () => post(`${path}/sync`, { principals, removeDeleted: "false", ...more }, { session }),
          200,
        );
      const expected = result({ usersAdded: [name], ...(next === 1 ? { groupsAdded: ["people"] } : {}) });
      assert.deepEqual(JSON.parse((await send("preview", {})).text), expected);
      // Nothing is created twice, and who creates is told so, however often the primary changes meanwhile.
      assert.deepEqual(JSON.parse((await send("apply", { applyChanges: "true" })).text), expected);
      names.push(name);
      const listed = await this.#until("list", () => call(`${path}/list`, { session }), 200);
      const found = (JSON.parse(listed.text) as { name: string; principalTypeEnum: string }[])
        .filter(({ principalTypeEnum, name: each }) => principalTypeEnum === "LOCAL_USER" && each !== "admin")
        .map(({ name: each }) => each);
      assert.deepEqual(found.toSorted(), names);
      await delay(pause);
    }
    return names;
  }

  async login(): Promise<void> {
    const { name: username, password } = administrator;
    while (!this.#over.signal.aborted) {
      await this.#until("login", () => post(`${this.#url}/tspublic/v1/session/login`, { username, password }), 204);
      await delay(pause);
    }
  }

  /** Looks at a pinboard, which has whole loads only. */
  async query(): Promise<void> {
    const form = { id: pinboard, vizid: JSON.stringify([visualization(0)]), formattype: "COMPACT" };
    const path = `${this.#url}/tspublic/v1/pinboarddata`;
    while (!this.#over.signal.aborted) {
      const answer = await this.#until("query", () => post(path, form, { session: this.#session }), 200);
      const data = compactData.parse(JSON.parse(answer.text))[visualization(0)];
      assert.deepEqual(data?.data, [[0]]);
      await delay(pause);
    }
  }

  end(): void {
    this.#over.abort();
  }

  async #until(what: string, ask: () => Promise<Answer>, expected: number): Promise<Answer> {
    for (;;) {
      const began = performance.now();
      const answer = await ask();
      if (answer.status === expected) {
        this.#worked.set(what, began);
        return answer;
      }
      const error = `${what}: ${answer.status} ${answer.text}`;
      this.errors.push(error);
      assert.equal(answer.status, 503, error);
      await delay(100);
    }
  }
}
