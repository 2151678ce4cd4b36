import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { machine, mebibytes, median, seconds, table, wholeNumber } from "./measure.ts";
import type { Figure } from "./results.ts";

const rollcall = fileURLToPath(new URL("../../bin/rollcall.js", import.meta.url));

/** What the rules below read of a user. */
const attributes = 5;

/**
 * `npm run bench -- causes [--n 100000] [--rounds 3]`: `rollcall plan` with causes and without, in turn, after a third of so
 * many users have moved to another organizational unit and one in a hundred has left; and how large the files are that
 * causes are found by.
 */
export async function causes(args: readonly string[]): Promise<Figure[]> {
  const { values } = parseArgs({
    args: [...args],
    options: { n: { type: "string", default: "100000" }, rounds: { type: "string", default: "3" } },
  });
  const [users, rounds] = [wholeNumber(values.n), wholeNumber(values.rounds)];
  const folder = await mkdtemp(join(tmpdir(), "rollcall-bench-"));
  try {
    await writeFile(
      join(folder, "people.csv"),
      people(users, () => "Sales"),
    );
    await configure(folder, "rollcall.yaml", true);
    await configure(folder, "without.yaml", false);
    await run(folder, "rollcall.yaml", ["apply", "--yes"]);
    const size = await sizeOf(join(folder, "data", "daemon", "baselines"));
    await writeFile(
      join(folder, "people.csv"),
      people(users, (n) => (n % 100 === 0 ? undefined : "Revenue")),
    );
    const samples: Record<"with" | "without", number[]> = { with: [], without: [] };
    for (let round = 0; round < rounds; round++) {
      samples.with.push(await run(folder, "rollcall.yaml", ["plan"]));
      samples.without.push(await run(folder, "without.yaml", ["plan"]));
      console.error(`with: ${seconds(samples.with.at(-1))}, without: ${seconds(samples.without.at(-1))}`);
    }
    const [slow, plain] = [median(samples.with), median(samples.without)];
    const each = (size / users / attributes).toFixed(1);
    console.log(`${machine()}.\n`);
    console.log(
      table(
        ["users", "plan with causes", "without", "ratio", "stored for causes", "bytes a record and attribute"],
        [[users.toLocaleString("en"), seconds(slow), seconds(plain), (slow / plain).toFixed(2), mebibytes(size), each]],
      ),
    );
    const limit = { by: "without causes", value: plain };
    return [
      { what: `${users.toLocaleString("en")} users: plan with causes`, value: slow, unit: "ms", limit, goal: 1.15 },
      { what: "stored for a record and attribute", value: size / users / attributes, unit: "bytes", goal: 40 },
    ];
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** @param unit of the third of the users that move; undefined for who is gone */
function people(users: number, unit: (n: number) => string | undefined): string {
  const rows = Array.from({ length: users }, (_, n) => {
    const ou = n % 3 === 0 ? unit(n / 3) : "Research";
    if (ou === undefined) return "";
    const dn = `"cn=Ada Lovelace ${n},ou=${ou},ou=people,dc=example,dc=com"`;
    return `e${n},u${n},Ada Lovelace ${n},ada.lovelace.${n}@example.com,active,${dn}\n`;
  });
  return `employee,login,name,mail,status,dn\n${rows.join("")}`;
}

async function configure(folder: string, file: string, isOn: boolean): Promise<void> {
  const configuration = {
    service: {
      listen: "127.0.0.1:0",
      data: "data",
      administrator: { name: "admin", password: "a-password-for-a-bench" },
    },
    targets: { here: "embedded" },
    sources: { company: { connector: "csv", users: { file: "people.csv", id: "employee" } } },
    syncs: {
      all: {
        from: ["company"],
        to: "here",
        causes: isOn,
        users: {
          include: 'entry.status == "active"',
          name: "entry.login",
          displayName: "entry.name",
          mail: "entry.mail",
          description: "entry.dn",
        },
      },
    },
  };
  // JSON is YAML.
  await writeFile(join(folder, file), JSON.stringify(configuration));
}

/** @returns milliseconds */
async function run(folder: string, config: string, command: readonly string[]): Promise<number> {
  const started = performance.now();
  const child = spawn(process.execPath, [rollcall, ...command, "--config", join(folder, config)], {
    stdio: ["ignore", "ignore", "inherit"],
  });
  await once(child, "exit");
  // 2: there is something to change.
  if (child.exitCode !== 0 && child.exitCode !== 2)
    throw new Error(`rollcall ${command.join(" ")} ended with ${child.exitCode ?? child.signalCode}`);
  return performance.now() - started;
}

/** The bytes of the files in a folder and those below. */
async function sizeOf(folder: string): Promise<number> {
  const files = await readdir(folder, { recursive: true });
  const sizes = await Promise.all(files.map((file) => stat(join(folder, file))));
  return sizes.filter((each) => each.isFile()).reduce((sum, each) => sum + each.size, 0);
}
