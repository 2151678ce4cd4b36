import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { companyOfEachTest, people } from "../../support/rollcall/company.ts";
import { answer, startScripted } from "../../support/scripted-server.ts";
import type { ScriptedServer } from "../../support/scripted-server.ts";

/** What commands tell where no daemon runs, as with cron. */

let web: ScriptedServer;
const company = companyOfEachTest();
const { command } = company;
/** Whether the channel takes anything. */
let isDown = false;
beforeEach(async () => {
  isDown = false;
  web = await startScripted({
    "a/hook": (response, request) => answer(isDown ? 503 : 204)(response, request),
    "beat/once": answer(200),
  });
  await company.configure(
    (yaml) => `${yaml}    limits: { deletes: 0 }\n    heartbeat: ${web.url}/beat/once
notifications:\n  hook: { by: webhook, url: "${web.url}/a/hook", secret: 0123456789abcdef, events: [held, failed, recovered, applied] }\n`,
  );
});
afterEach(() => web.close());

const events = (): string[] =>
  web.to("a/hook").flatMap(({ body }) => JSON.parse(String(body)).notices.map(({ event }: { event: string }) => event));

test("an apply by itself tells what a daemon would: applied, held once, failed, recovered; and its heartbeat", async () => {
  expect(await command("apply")).toMatchObject({ code: 0, stderr: "" });
  expect(events()).toEqual(["applied"]);
  expect(web.to("beat/once")).toHaveLength(1);

  await company.write("people.csv", people.replace("zoe,Zoë Ünal,,active", "zoe,Zoë Ünal,,left"));
  expect((await command("plan")).code).toBe(3);
  expect((await command("apply")).code).toBe(3);
  expect((await command("apply")).code).toBe(3);
  expect(events()).toEqual(["applied", "held"]);

  await company.write("people.csv", "id,login\n");
  expect((await command("apply")).code).toBe(1);
  expect(events()).toEqual(["applied", "held", "failed"]);

  await company.write("people.csv", people);
  expect((await command("apply")).code).toBe(0);
  expect(events()).toEqual(["applied", "held", "failed", "recovered"]);
  expect(web.to("beat/once")).toHaveLength(2);
});

test("what does not go out is said and kept for the next one; with --no-notify nobody is told", async () => {
  expect((await command("apply", "--no-notify")).code).toBe(0);
  expect(web.arrived).toEqual([]);

  await company.write("people.csv", people.replace("Grace Hopper", "Admiral Hopper"));
  isDown = true;
  const kept = await command("apply");
  expect(kept).toMatchObject({
    code: 0,
    stderr: expect.stringContaining("channel hook: a notification has not been sent yet"),
  });
  const outbox = join(company.folder, "data", "daemon", "outbox", "letters", "hook");
  expect(await readdir(outbox)).toHaveLength(1);

  isDown = false;
  const before = events().length;
  expect(await command("apply")).toMatchObject({ code: 0, stderr: "" });
  expect(events().slice(before)).toEqual(["applied"]);
  expect(await readdir(outbox)).toEqual([]);
});
