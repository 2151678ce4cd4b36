import { expect, test } from "vitest";
import { rollcall } from "../support/rollcall/command.ts";
import { companyOfEachTest, people } from "../support/rollcall/company.ts";
import { startRollcall } from "../support/rollcall/rollcall.ts";

let yaml: string;
const company = companyOfEachTest((text) => (yaml = text));

/** `plan --compare` from the configuration of the company to another one. */
async function compare(edit: (yaml: string) => string, ...rest: string[]) {
  return rollcall(await comparison(edit, ...rest));
}

async function comparison(edit: (yaml: string) => string, ...rest: string[]): Promise<string[]> {
  await company.write("new.yaml", edit(yaml));
  return ["plan", "--config", `${company.folder}/new.yaml`, "--compare", company.config, ...rest];
}

test("who enters, who leaves and what changes with another configuration, whatever the target has", async () => {
  const edit = (yaml: string): string =>
    yaml
      .replace('entry.status == "active"', 'entry.login != "grace"')
      .replace("mail: entry.mail", "mail: upper(entry.mail)");
  const { code, stdout } = await compare(edit, "--json");
  expect(code).toBe(2);
  const [comparison] = JSON.parse(stdout).comparisons;
  expect(comparison.sync).toBe("staff");
  expect(comparison.plan.changes).toMatchObject([
    { action: "create", name: "left" },
    { action: "update", name: "ada", attributes: [{ from: "ada@example.com", to: "ADA@EXAMPLE.COM" }] },
    { action: "delete", name: "grace" },
  ]);
  const text = await compare(edit);
  expect(text.stdout).toMatch(/^staff: rollcall\.yaml → new\.yaml/);
  expect(text.stdout).toMatch(/Leaving users \(1\)\n.*grace/);
  expect(text.stdout).toMatch(/Entering users \(1\)\n.*left/);
  await company.command("apply");
  const after = await compare(edit, "--json");
  expect(JSON.parse(after.stdout).comparisons[0].plan.changes).toEqual(comparison.plan.changes);
  expect((await compare((same) => same)).code).toBe(0);
});

test("a source that both read is read once: it cannot be another one for each", async () => {
  await company.write(
    "growing.ts",
    `import { z } from ${JSON.stringify(import.meta.resolve("zod"))};
    let reads = 0;
    export default {
      name: "growing",
      options: z.strictObject({ from: z.int().optional() }),
      open: () => ({ async *read() {
        reads += 1;
        const entry = (id) => ({ kind: "user", id, origin: id, attributes: { login: id, name: id, status: "active" }, keys: [id], memberOf: [], members: [] });
        yield [entry("always")];
        yield [entry("read-" + reads)];
      } }),
    };`,
  );
  yaml = yaml.replace(/connector: csv[^]*?(?=^syncs)/m, "connector: ./growing.ts\n");
  await company.write("rollcall.yaml", yaml);
  expect((await compare((same) => same)).code).toBe(0);
  // With other options it is another source.
  const other = await comparison((text) => text.replace("./growing.ts", "./growing.ts\n    from: 1"), "--json");
  // In a process of its own: the connector counts the reads of its process.
  const { stdout } = await startRollcall(other).ended;
  expect(JSON.parse(stdout).comparisons[0].plan.changes).toMatchObject([
    { action: "create", name: "read-2" },
    { action: "delete", name: "read-1" },
  ]);
});

test("a record with characters that other programs take for line ends is compared like any other", async () => {
  const odd = "Eve\u2028of\u2029two";
  await company.write("people.csv", `${people}5,eve,"${odd}",eve@example.com,active,staff\n`);
  const { code, stdout } = await compare(
    (text) => text.replace("mail: entry.mail", "mail: upper(entry.mail)"),
    "--json",
  );
  expect(code).toBe(2);
  expect(stdout).toContain("EVE@EXAMPLE.COM");
  expect((await compare((same) => same)).code).toBe(0);
});

test("what cannot be compared is said", async () => {
  const { code, stderr } = await compare((text) => text.replace("  staff:\n", "  other:\n"));
  expect(code).toBe(1);
  expect(stderr).toContain("has no sync called other");
  await company.write("people.csv", `${people}5,eve,Eve\n`);
  const broken = await compare((text) => text, "--json");
  expect(broken.code).toBe(1);
  expect(JSON.parse(broken.stdout).comparisons[0].error.message).toMatch(/people\.csv:6/);
});
