import { execFile } from "node:child_process";
import { mkdir, rename } from "node:fs/promises";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startRollcall } from "../support/rollcall/rollcall.ts";
import type { Ended } from "../support/rollcall/rollcall.ts";
import { makeCompany, people } from "../support/rollcall/company.ts";
import type { CompanyFolder } from "../support/rollcall/company.ts";

let company: CompanyFolder;
/** A folder whose name a shell would take apart. */
let folder: string;

beforeAll(async () => {
  company = await makeCompany((yaml) => `${yaml}    approval: required\n    limits: { deletes: 0 }\n`);
  folder = join(company.folder, "it's the $HOME company");
  await mkdir(folder);
  for (const name of ["people.csv", "groups.csv", "rollcall.yaml"])
    await rename(join(company.folder, name), join(folder, name));
});
afterAll(() => company.remove());

/** Runs a line as a person's shell would. */
function pasted(line: string, cwd = folder): Promise<Pick<Ended, "code" | "stdout" | "stderr">> {
  const env = { ...process.env, NO_COLOR: "1", PATH: `${dirname(process.execPath)}:${process.env["PATH"] ?? ""}` };
  return new Promise((resolve) => {
    execFile("/bin/sh", ["-c", line], { env, cwd }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr });
    });
  });
}

/** The commands in a text: on lines of their own, and in backticks. */
function commandsIn(text: string): string[] {
  const called = /^ *(?:you can +)?(node .*?rollcall\.js.*)$|`(node .*?rollcall\.js [^`]*)`/gm;
  return [...text.matchAll(called)].map(([, line, ticked]) => line ?? ticked ?? "");
}

test("what a message says to run can be run as it stands, with the configuration it is about", async () => {
  const rollcall = (...args: readonly string[]): Promise<Ended> =>
    startRollcall([...args, "--config", "rollcall.yaml"], { cwd: folder }).ended;
  const pending = await rollcall("apply");
  expect(pending.code).toBe(3);
  const [approve = "", reject = ""] = commandsIn(pending.stdout);
  expect([approve, reject]).toEqual([expect.stringContaining(" approve "), expect.stringContaining(" reject ")]);
  expect(await pasted(approve)).toMatchObject({ code: 0, stdout: expect.stringContaining("applied and verified") });
  const again = await pasted(reject);
  expect(again.code).toBe(1);
  const [waiting = ""] = commandsIn(again.stderr);
  expect(await pasted(waiting)).toMatchObject({ code: 0, stdout: "no run matches\n" });

  await company.write("it's the $HOME company/people.csv", people.replace(/^3,zoe.*\n/m, ""));
  const held = await startRollcall(["apply", "--config", join(folder, "rollcall.yaml")], { cwd: "/" }).ended;
  expect(held.code).toBe(3);
  const shown = await rollcall("show", "latest");
  const [override = "", ...others] = commandsIn(shown.stdout);
  expect(override).toContain("--override deletes");
  expect(others).toEqual([expect.stringContaining('--reason "…"')]);
  // It is pasted where it was printed: from another folder the configuration is named by its whole path.
  expect(await pasted(commandsIn(held.stderr)[0] ?? "", "/")).toMatchObject({ code: 0 });
  const applied = await rollcall("show", "latest");
  const [undo = ""] = commandsIn(applied.stdout);
  expect(undo).toContain(" undo ");
  expect((await pasted(undo)).code).toBe(3);
});
