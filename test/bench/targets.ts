import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { configurationOf } from "../support/scim-target/configuration.ts";
import { servers } from "../support/scim-target/limits.ts";
import { ScimApplication } from "../support/scim-target/server.ts";
import { runCommand } from "./command.ts";
import { machine, mebibytes, seconds, table, wholeNumber } from "./measure.ts";
import type { Figure } from "./results.ts";

/** A run beside what it cannot do without: a request for each object that is created or changed, and for each full list of members. */
interface Sample {
  readonly what: string;
  readonly changes: number;
  readonly reads: number;
  readonly writes: number;
  readonly least: number;
  readonly milliseconds: number;
  readonly peak: number;
}

/**
 * `npm run bench -- targets [--users 10000] [--groups 200] [--profile generic]`: syncs to an application with SCIM, from CSV files, with
 * `rollcall apply`: the first sync, one in which a hundredth of the people change and as many change groups, and one without a
 * change. Linux only.
 */
export async function targets(args: readonly string[]): Promise<Figure[]> {
  const { values } = parseArgs({
    args: [...args],
    options: {
      users: { type: "string", default: "10000" },
      groups: { type: "string", default: "200" },
      profile: { type: "string", default: "generic" },
    },
  });
  const [users, groups] = [wholeNumber(values.users), wholeNumber(values.groups)];
  const limits = servers[values.profile];
  if (limits === undefined) throw new Error(`no profile ${values.profile}`);
  const application = await ScimApplication.start({ ...limits, burst: 0 });
  const folder = await mkdtemp(join(tmpdir(), "rollcall-bench-"));
  try {
    const config = join(folder, "rollcall.yaml");
    await writeFile(config, configuration(application, values.profile));
    const changed = Math.max(1, Math.round(users / 100));
    const samples: Sample[] = [];
    const measure = async (what: string, changes: number, least: number): Promise<void> => {
      application.requests.length = 0;
      const { milliseconds, peak } = await runCommand(config, ["apply", "--yes"]);
      const writes = application.writes().length;
      samples.push({ what, changes, least, writes, reads: application.requests.length - writes, milliseconds, peak });
      console.error(`${what}: ${writes} writes, ${seconds(milliseconds)}`);
    };
    await writeFile(join(folder, "people.csv"), people(users, groups, 0));
    const chunks = groups * Math.ceil(users / groups / limits.membersPerPatch);
    await measure("the first sync", users + groups, users + groups + chunks);
    await writeFile(join(folder, "people.csv"), people(users, groups, changed));
    // Each of them also changes from one group into the next.
    await measure("a hundredth changes", 2 * changed, changed + Math.min(groups, 2 * changed));
    await measure("no change", 0, 0);
    console.log(`${machine()}, ${users.toLocaleString("en")} users, ${groups} groups, profile ${values.profile}.\n`);
    console.log(
      table(["a run", "changes", "reads", "writes", "least writes", "time", "peak memory"], samples.map(row)),
    );
    return samples.flatMap(({ what, writes, least, milliseconds, peak }): Figure[] => {
      const limit = { by: "one a change", value: least };
      const counted: Figure = { what: `${what}: requests that write`, value: writes, unit: "count", limit };
      return [...(least === 0 ? [] : [counted]), { what, value: milliseconds, unit: "ms", memory: peak }];
    });
  } finally {
    await application.close();
    await rm(folder, { recursive: true, force: true });
  }
}

function row({ what, changes, reads, writes, least, milliseconds, peak }: Sample): string[] {
  return [what, `${changes}`, `${reads}`, `${writes}`, `${least}`, seconds(milliseconds), mebibytes(peak)];
}

/** @param changed so many of them have another title, and are in the next group */
function people(users: number, groups: number, changed: number): string {
  const lines = Array.from({ length: users }, (_, index) => {
    const isChanged = index < changed;
    return `user${index},${isChanged ? "Boss" : "Clerk"},team${(index + (isChanged ? 1 : 0)) % groups}`;
  });
  return ["login,title,team", ...lines, ""].join("\n");
}

function configuration({ url, token }: ScimApplication, profile: string): string {
  const users = [
    "name: entry.login",
    "displayName: entry.login",
    "title: entry.title",
    "name.givenName: entry.login",
    `name.familyName: '"Example"'`,
    `emails: '[entry.login + "@example.com"]'`,
    "groups: entry.team",
  ];
  return configurationOf({ url, token, profile }, { id: "login", users, floor: 100_000 });
}
