import { expect, test } from "vitest";
import { companyOfEachTest } from "../../support/rollcall/company.ts";
import { stopRollcall } from "../../support/rollcall/rollcall.ts";

const company = companyOfEachTest();

test("health is 0 while the service is ready, and 1 with a reason when there is none", async () => {
  const before = await company.command("health");
  expect(before).toMatchObject({ code: 1, stdout: "" });
  expect(before.stderr).toContain("neither a service nor a daemon is running");
  const service = company.begin("start", "--only", "service");
  await service.wrote("the service is listening");
  expect(await company.command("health")).toMatchObject({ code: 0, stdout: "ready\n", stderr: "" });
  service.process.kill("SIGKILL");
  await service.ended;
  const after = await company.command("health");
  expect(after.code).toBe(1);
  expect(after.stderr).toContain("/readyz does not answer");
});

test("health of a daemon that runs alone is what that says of itself", async () => {
  await company.configure((yaml) =>
    yaml
      .replace(/^service:[^]*?(?=^targets:)/m, "")
      .replace("embedded", '{ url: "http://127.0.0.1:1", username: u, password: p }'),
  );
  const daemon = company.begin("start");
  await daemon.wrote("the daemon is listening");
  expect(await company.command("health")).toMatchObject({ code: 0, stdout: "ready\n" });
  await stopRollcall(daemon);
  expect((await company.command("health")).stderr).toContain("neither a service nor a daemon is running");
});
