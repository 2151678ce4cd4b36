import { afterEach, beforeEach, expect, test } from "vitest";
import { companyOfEachTest } from "../../support/rollcall/company.ts";
import { startMailServer } from "../../support/mail.ts";
import type { MailServer } from "../../support/mail.ts";
import { answer, startScripted } from "../../support/scripted-server.ts";
import type { ScriptedServer } from "../../support/scripted-server.ts";

const password = "m4il-passw0rd";
const company = companyOfEachTest(undefined, { MAIL_PASSWORD: password });
const { command } = company;
let mail: MailServer;
let web: ScriptedServer;

beforeEach(async () => {
  mail = await startMailServer({ login: { user: "rollcall", password } });
  web = await startScripted({ "hooks/T0PSECRET": answer(204), "hooks/gone": answer(404, "no_service") });
  await company.configure(
    (yaml) => `${yaml}notifications:
  mail: { by: email, server: smtp://127.0.0.1:${mail.port}, username: rollcall, password: "\${env:MAIL_PASSWORD}", from: rollcall@example.com, to: [ops@example.com] }
  hook: { by: webhook, url: "${web.url}/hooks/T0PSECRET", secret: 0123456789abcdef, events: [applied], digest: 1h }
  gone: { by: chat, url: "${web.url}/hooks/gone" }
`,
  );
});
afterEach(async () => {
  await mail.close();
  await web.close();
});

test("notify test sends by every channel, whatever it is for, and says who took it", async () => {
  const all = await command("notify", "test");
  expect(all.code).toBe(1);
  expect(all.stdout.split("\n")).toEqual([
    `mail (email): accepted by 127.0.0.1:${mail.port} for ops@example.com (250 OK: queued as 4F9C2E)`,
    `hook (webhook): accepted by ${web.url} (204)`,
    `gone (chat): not accepted: ${web.url} answered 404 (no_service); look at the address and what the receiver expects`,
    "",
  ]);
  expect(mail.arrived[0]).toMatchObject({ subject: "Rollcall: a test", user: "rollcall" });
  expect(JSON.parse(String(web.arrived[0]?.body))).toMatchObject({
    version: 1,
    test: true,
    notices: [{ event: "test" }],
  });

  const one = await command("notify", "test", "hook", "--json");
  expect(one.code).toBe(0);
  expect(JSON.parse(one.stdout)).toEqual({
    tested: [{ channel: "hook", by: "webhook", accepted: `${web.url} (204)` }],
  });
  expect(mail.arrived).toHaveLength(1);

  const none = await command("notify", "test", "pager");
  expect(none).toMatchObject({ code: 1, stdout: "" });
  expect(none.stderr).toContain("no channel is called pager: the configuration has mail, hook, gone");
});

test("check logs in to mail servers and posts nothing; what is wrong is said without a secret", async () => {
  const good = await command("check", "--json");
  expect(good.code).toBe(0);
  expect(JSON.parse(good.stdout).checked.filter(({ what }: { what: string }) => what === "channel")).toMatchObject([
    { name: "mail", reached: [`reached 127.0.0.1:${mail.port}, logged in as rollcall`] },
    { name: "hook", reached: [expect.stringContaining("not tried")] },
    { name: "gone", reached: [expect.stringContaining("not tried")] },
  ]);
  company.env = { MAIL_PASSWORD: "wr0ng-passw0rd" };
  const bad = await command("check");
  expect(bad.code).toBe(1);
  expect(bad.stdout).toMatch(/channel mail: .*the login as rollcall was refused .*: check username and password\n/);
  expect(bad.stdout + bad.stderr).not.toMatch(/wr0ng|T0PSECRET/);
  expect(mail.arrived).toHaveLength(0);
  expect(web.arrived).toHaveLength(0);
});
