import { expect, onTestFinished, test } from "vitest";
import { companyOfEachTest, people } from "../../support/rollcall/company.ts";
import { startGate } from "../../support/proxy.ts";
import { startService } from "../../support/rollcall/service.ts";
import { atTerminal, keys } from "../../support/rollcall/terminal.ts";

const company = companyOfEachTest((yaml) => `${yaml}    approval: required\n    limits: { deletes: 0 }\n`);
const { command } = company;
const json = async (...args: readonly string[]) => {
  const { code, stdout } = await command(...args, "--json");
  return { code, document: JSON.parse(stdout), run: JSON.parse(stdout).runs?.[0] };
};

test("from pending to applied, held, in part and back: exit codes, what is said, and what the audit log tells", async () => {
  const first = await command("apply");
  expect(first.code).toBe(3);
  const [, id = ""] =
    /nothing was applied: run (\S+) waits for approval until \S+Z\n {2}(?:rollcall|node \S+) approve --config \S+ \1\n {2}(?:rollcall|node \S+) reject --config \S+ \1\n$/.exec(
      first.stdout,
    ) ?? [];
  const again = await json("apply");
  expect(again).toMatchObject({ code: 3, run: { outcome: "pending", run: id } });

  for (const [wrong, words] of [
    ["20270101", /there is no run 20270101: `(?:rollcall|node \S+) runs --config \S+` lists the known runs/],
    ["", /there is no run/],
  ] as const)
    expect(await command("approve", wrong)).toMatchObject({ code: 1, stderr: expect.stringMatching(words) });
  expect(await command("approve", id, "--only", "changes")).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("expected some of creates, updates, suspends, reactivates, deletes."),
  });
  const nobody = await json("approve", id, "--except", "nobody");
  expect(nobody).toMatchObject({
    code: 1,
    run: {
      error: { message: "the plan does not change the user nobody: it can be neither left out nor applied alone" },
    },
  });
  expect(await command("undo", id)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining("applied nothing (it is pending)"),
  });

  const part = await json("approve", id.slice(0, -2), "--except", "zoe");
  expect(part).toMatchObject({
    code: 0,
    run: { outcome: "applied", run: id, plan: { counts: { users: { create: 2 } } } },
  });
  expect((await command("approve", id)).stderr).toContain(`the run ${id} cannot be approved: it is applied`);

  await company.write(
    "people.csv",
    people.replace("2,grace,Grace Hopper,grace@example.com,active", "2,grace,Grace Hopper,grace@example.com,left"),
  );
  const held = await command("apply");
  const [, heldId = ""] = /approve --config \S+ (\S+) --override deletes`$/m.exec(held.stderr) ?? [];
  expect(held).toMatchObject({ code: 3, stderr: expect.stringContaining("held by the limit on deletions") });
  expect(await command("approve", heldId)).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(
      /approve it despite them: `(?:rollcall|node \S+) approve --config \S+ \S+ --override deletes`\n/,
    ),
  });
  expect(await json("approve", heldId, "--override", "deletes")).toMatchObject({
    code: 0,
    run: { outcome: "applied" },
  });

  const back = await json("undo", heldId);
  expect(back).toMatchObject({
    code: 3,
    run: { error: { message: expect.stringContaining("held by the limit on deletions") } },
  });
  const rejected = await json("reject", back.run.run, "--reason", "she has left");
  expect(rejected).toMatchObject({
    code: 0,
    document: { run: { state: "rejected", decisions: [{ reason: "she has left" }] } },
  });
  expect((await command("reject", back.run.run)).code).toBe(1);

  const { stdout } = await command("audit");
  for (const words of [
    /approved run \S+ of staff\n +digest [0-9a-f]{64}\n +limits ignored: deletes/,
    "all but user zoe",
    "rejected run",
    "she has left",
    "requested the undo",
  ])
    expect(stdout).toMatch(words);
  expect(await command("audit", "verify")).toMatchObject({ code: 0 });
});

test("nobody else has to wait while a person is asked; what is asked is what is approved", async () => {
  await command("apply");
  const asked = atTerminal(["approve", "pending", "--only", "creates", "-c", company.config], { cwd: company.folder });
  await asked.answer("analytics: 3 users and 2 groups created. Apply this part of it (only create)? [y/N]", "");
  const { code, stdout } = await command("apply");
  expect(code, stdout).toBe(3);
  await asked.answer("", `y${keys.enter}`);
  expect(await asked.ended, asked.shown()).toBe(0);
  expect(asked.shown()).toContain("staff: applied and verified");
});

test("Ctrl-C while something is approved: nothing is applied, and it still waits", async () => {
  await using service = await startService();
  const gate = await startGate(service.url);
  onTestFinished(() => gate.close());
  const { name, password } = service.administrator;
  await company.configure((yaml) =>
    yaml.replace(
      "analytics: embedded",
      `analytics: { url: "${gate.url}", username: ${name}, password: "${password}" }`,
    ),
  );
  await command("apply");
  const stopped = gate.stopAt(/GET \S*\/user\/list /);
  const approving = company.begin("approve", "pending", "-v");
  await stopped;
  approving.process.kill("SIGINT");
  const { code, stderr } = await approving.ended;
  expect(code, stderr).toBe(1);
  expect(stderr).toContain("Cancelled. Nothing was applied.");
  gate.release();
  expect(await json("approve", "pending")).toMatchObject({ code: 0, run: { outcome: "applied" } });
});
