import { afterEach, beforeEach, expect, test } from "vitest";
import { type CompanyFolder, makeCompany } from "../../servers/company.ts";
import { rollcall, startRollcall } from "../../servers/rollcall.ts";

let company: CompanyFolder;
beforeEach(async () => {
  company = await makeCompany();
});
afterEach(() => company.remove());

test("health is 0 while the service is ready, and 1 with a reason when there is none", async () => {
  const args = ["health", "--config", company.config];
  const before = await rollcall(args);
  expect(before).toMatchObject({ code: 1, stdout: "" });
  expect(before.stderr).toContain("no service is running");
  const service = startRollcall(["start", "--only", "service", "--config", company.config]);
  await service.wrote("the service is listening");
  expect(await rollcall(args)).toMatchObject({ code: 0, stdout: "ready\n", stderr: "" });
  service.process.kill("SIGKILL");
  await service.ended;
  const after = await rollcall(args);
  expect(after.code).toBe(1);
  expect(after.stderr).toContain("/readyz does not answer");
});
