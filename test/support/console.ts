import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { expect } from "vitest";
import type { RunRecord } from "#state/record.ts";
import type { TestBrowser, Window } from "./browser.ts";
import type { EachCompany } from "./rollcall/company.ts";
import type { Running } from "./rollcall/rollcall.ts";

/** Every plan waits for a person. */
export const careful = (yaml: string): string =>
  yaml.replace(
    "to: analytics",
    "to: analytics\n    approval: required\n    deletions: { after: 0 }\n    limits: { deletes: { count: 1 }, shrink: none }",
  );

/** A person whose name is an attack on whoever reads it. */
export const hostile = `5,evil,"<script>alert(1)</script> \u202Egnp",evil@example.com,active,staff\n`;
/** A daemon of a company with a console. */
export interface ConsoleDaemon {
  readonly url: string;
  readonly running: Running;
  runs(): Promise<RunRecord[]>;
  /** Begins a run. @returns its record once it waits or has ended */
  run(): Promise<RunRecord>;
  ended(id: string): Promise<RunRecord>;
}

/** @param said what its first run comes to */
export async function startDaemon(company: EachCompany, said: string | RegExp): Promise<ConsoleDaemon> {
  const running = company.start("--verbose");
  await running.wrote(said);
  let presence = { url: "", token: "", pid: 0 };
  // A process that was killed leaves its own.
  await expect
    .poll(async () => {
      presence = JSON.parse(
        await readFile(join(company.folder, "data/daemon/control.json"), "utf8"),
      ) as typeof presence;
      return presence.pid;
    })
    .toBe(running.process.pid);
  const request = async (path: string, method = "GET"): Promise<unknown> => {
    const headers = { authorization: `Bearer ${presence.token}`, "content-type": "application/json" };
    return (await fetch(`${presence.url}/control/v1${path}`, { method, headers })).json();
  };
  const ended = async (id: string): Promise<RunRecord> => {
    let run: RunRecord | undefined;
    await expect.poll(async () => (run = (await request(`/runs/${id}`)) as RunRecord).state).not.toBe("running");
    return run!;
  };
  return {
    url: presence.url,
    running,
    runs: async () => ((await request("/runs")) as { runs: RunRecord[] }).runs,
    run: async () => ended(((await request("/syncs/staff/run", "POST")) as { id: string }).id),
    ended,
  };
}

/** A window in which the administrator is signed in. */
export async function signedIn(
  browser: TestBrowser,
  url: string,
  options: Parameters<TestBrowser["window"]>[1] = {},
): Promise<Window> {
  const window = await browser.window(url, options);
  await window.page.goto("/");
  await window.signIn("admin", "administrator-secret");
  await window.page.waitForURL(/\/$/);
  return window;
}

/** Holds the next request to an address until the gate is opened; those after it go on. */
export async function holdFirst(
  page: Page,
  address: string,
): Promise<{ readonly reached: Promise<void>; open(): Promise<void> }> {
  const [reached, opened] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  await page.route(
    address,
    async (route) => {
      reached.resolve();
      await opened.promise;
      // The page may not wait for it any more.
      await route.continue().catch(() => undefined);
    },
    { times: 1 },
  );
  return {
    reached: reached.promise,
    open: async () => {
      opened.resolve();
      await page.unroute(address);
    },
  };
}

/** Takes an answer that was meant to be no out of the problems. */
export function forget(window: Window, status: number): void {
  const meant = new RegExp(`answer: ${status} |status of ${status} |failed with status ${status}`);
  const others = window.problems.filter((each) => !meant.test(each));
  expect(others.length).toBeLessThan(window.problems.length);
  window.problems.splice(0, window.problems.length, ...others);
}
