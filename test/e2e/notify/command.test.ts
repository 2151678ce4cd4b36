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
notifications:\n  hook: { by: webhook, url: "${web.url}/a/hook", secret: 0123456789abcdef, names: true, events: [held, failed, recovered, applied] }\n`,
  );
});
afterEach(() => web.close());

interface Told {
  readonly event: string;
  readonly names: readonly string[];
}
const notices = (): Told[] => web.to("a/hook").flatMap(({ body }) => JSON.parse(String(body)).notices as Told[]);
const events = (): string[] => notices().map(({ event }) => event);

test("an apply by itself tells what a daemon would, once; what does not go out is said, and goes with the next", async () => {
  expect((await command("apply", "--no-notify")).code).toBe(0);
  expect(web.arrived).toEqual([]);

  await company.write("people.csv", people.replace("Grace Hopper", "Admiral Hopper"));
  isDown = true;
  expect(await command("apply")).toMatchObject({
    code: 0,
    stderr: expect.stringContaining("channel hook: a notification has not been sent yet"),
  });
  const outbox = join(company.folder, "data", "daemon", "outbox", "letters", "hook");
  expect(await readdir(outbox)).toHaveLength(1);
  expect(web.to("beat/once")).toHaveLength(1);

  isDown = false;
  const refused = events().length;
  const told = (): string[] => events().slice(refused);
  await company.write("people.csv", people.replace("zoe,Zoë Ünal,,active", "zoe,Zoë Ünal,,left"));
  expect((await command("plan")).code).toBe(3);
  expect(told()).toEqual([]);
  expect(await command("apply")).toMatchObject({ code: 3 });
  expect((await command("apply")).code).toBe(3);
  expect(told().toSorted()).toEqual(["applied", "held"]);
  expect(notices().find(({ event }) => event === "held")?.names).toEqual(["- user zoe", "~ user grace"]);
  expect(await readdir(outbox)).toEqual([]);

  await company.write("people.csv", "id,login\n");
  expect((await command("apply")).code).toBe(1);
  expect(told().at(-1)).toBe("failed");

  await company.write("people.csv", people);
  expect(await command("apply")).toMatchObject({ code: 0, stderr: "" });
  expect(told()).toHaveLength(4);
  expect(told().at(-1)).toBe("recovered");
  expect(web.to("beat/once")).toHaveLength(2);
});
