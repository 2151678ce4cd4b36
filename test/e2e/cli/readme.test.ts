import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { rollcall } from "../../support/rollcall/command.ts";

const root = new URL("../../../", import.meta.url);

test("README and the guide show what plan prints for the sample company", async () => {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-readme-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  await cp(fileURLToPath(new URL("config", root)), join(folder, "config"), { recursive: true });
  const run = (...args: readonly string[]) => rollcall(args, { cwd: folder });
  expect((await run("apply", "--yes")).code).toBe(0);

  const people = join(folder, "config/sample/people.csv");
  const lines = (await readFile(people, "utf8")).split("\n");
  const changed = lines
    .filter((line) => !line.includes(",thoekstra,"))
    .map((line) =>
      line.includes(",jmaas,")
        ? line
            .replace("jolijn.maas@", "jolijn.bakker@")
            .replace("Jolijn Maas", "Jolijn Bakker")
            .replace(",3200,", ",3110,")
        : line,
    );
  const newcomer =
    "100990,nkaya,Nur,Kaya,Nur Kaya,nur.kaya@noordkade.example,Berth Planner,1310,Rotterdam,employee,active,2026-11-01";
  await writeFile(people, changed.toSpliced(1, 0, newcomer).join("\n"));
  const { code, stdout } = await run("plan");
  expect(code).toBe(2);
  for (const page of ["README.md", "docs/guide/plans.md"]) {
    const text = await readFile(new URL(page, root), "utf8");
    const shown = /^```text\n\$.*rollcall.* plan\n(?<plan>[\s\S]*?)^```$/m.exec(text);
    const plan = shown?.groups?.["plan"];
    expect(plan?.replace("`npm run rollcall -- apply", "`rollcall apply"), page).toBe(
      stdout.replace(/`node \S+ apply/, "`rollcall apply"),
    );
  }
});
