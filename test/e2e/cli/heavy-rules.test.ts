import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { companyOfEachTest } from "../../support/rollcall/company.ts";

const company = companyOfEachTest();
const { begin, command } = company;

const digits = "[0,1,2,3,4,5,6,7,8,9]";
/** As many steps as ten to the power of the depth. */
const nested = (depth: number): string =>
  Array.from("abcdefghij")
    .slice(0, depth)
    .reduce((inner, letter) => `${digits}.map(${letter}, ${inner})`, "1");
const doubled = `${"replace(".repeat(40)}entry.name${', "e", "ee")'.repeat(40)}`;

/** People enough that each of them being too much takes a while. */
async function manyPeople(): Promise<void> {
  const rows = Array.from({ length: 20_000 }, (_, id) => `${id},user${id},Eve ${id},,active,staff`);
  await company.write("people.csv", `id,login,name,mail,status,groups\n${rows.join("\n")}\n`);
}

test("rules and expectations that would never end quarantine their records, and say where and what to do", async () => {
  await company.configure((yaml) =>
    yaml
      .replace("mail: entry.mail", `mail: 'entry.login == "ada" ? string(size(${nested(10)})) : entry.mail'`)
      .replace("displayName: entry.name", `displayName: '${doubled}'`)
      .replace(
        "    from: [company]",
        `    expectations: [{ name: few, over: groups, expect: 'size(${nested(9)}) > 0' }]\n    from: [company]`,
      ),
  );
  const { stdout, code } = await command("plan");
  // Held by the limit for quarantined records.
  expect(code, stdout).toBe(3);
  const tooMany = "takes more than 500,000 steps; nest map, filter, all and exists less deeply";
  expect(stdout).toContain(`users.displayName: ${tooMany}`);
  expect(stdout).toContain(`users.mail: ${tooMany}`);
  expect(stdout).toMatch(/few[^]*takes more than 500,000 steps/);
});

test("a run of such rules holds nothing up: the service answers, and SIGTERM and Ctrl-C end it", async () => {
  await manyPeople();
  await company.configure((yaml) =>
    yaml.replace("mail: entry.mail", `mail: 'size(${nested(9)}) > 0 ? entry.mail : null'`),
  );
  const daemon = company.start();
  const listening = /the service is listening on (http:\/\/[\d.:]+)/;
  await daemon.wrote(listening);
  const [, url] = listening.exec(daemon.output()) ?? [];
  for (let answered = 0; answered < 20; answered++) expect((await fetch(`${url}/healthz`)).status).toBe(200);
  daemon.process.kill("SIGTERM");
  expect(await daemon.ended).toMatchObject({ code: 0, signal: null });
  const plan = begin("plan");
  const work = join(company.folder, "data/daemon/work");
  await expect.poll(() => readdir(work).catch(() => [])).not.toEqual([]);
  plan.process.kill("SIGINT");
  expect(await plan.ended).toMatchObject({ code: 1, signal: null, stderr: expect.stringContaining("Cancelled") });
});
