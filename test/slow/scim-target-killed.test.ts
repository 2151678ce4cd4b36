import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, test } from "vitest";
import { everyThird } from "../support/random.ts";
import { configurationOf } from "../support/scim-target/configuration.ts";
import { servers } from "../support/scim-target/limits.ts";
import { ScimApplication } from "../support/scim-target/server.ts";
import { heldBy } from "../support/scim-target/synced.ts";

const program = fileURLToPath(new URL("../../bin/rollcall.js", import.meta.url));
let folder: string;
let application: ScimApplication;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "rollcall-killed-"));
  const limits = servers["generic"];
  if (limits === undefined) throw new Error("no server");
  application = await ScimApplication.start(limits);
  const users = ["name: entry.login", "title: entry.title", `groups: 'has(entry.teams) ? entry.teams.split(";") : []'`];
  const sync = { id: "number", users, floor: 100, more: "deletions: { suspend: now }" };
  await writeFile(join(folder, "rollcall.yaml"), configurationOf(application, sync));
});
afterEach(async () => {
  await application.close();
  await rm(folder, { recursive: true, force: true });
});

/** Applies; the process is killed at the change with this number. @returns whether it was */
async function apply(at: number, fault: "before" | "after"): Promise<boolean> {
  const child = spawn(process.execPath, [program, "apply", "--yes"], {
    cwd: folder,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let said = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (text: string) => (said += text));
  const ended = once(child, "close");
  let count = 0;
  let isKilled = false;
  application.fault = ({ method }) => {
    if (method === "GET" || count++ !== at) return isKilled ? "before" : undefined;
    isKilled = child.kill("SIGKILL");
    return fault;
  };
  const [code] = (await ended) as [number | null];
  application.fault = () => undefined;
  if (!isKilled) expect(code, said).toBe(0);
  return isKilled;
}

const never = -1;
const people = (...lines: string[]): Promise<void> =>
  writeFile(join(folder, "people.csv"), ["number,login,title,teams", ...lines, ""].join("\n"));

// The first sync has seven changes, the second one six.
const points = Array.from({ length: 7 }, (_, at) =>
  (["before", "after"] as const).map((fault) => ({ at, fault })),
).flat();

test.each(everyThird(points))(
  "killed at change $at, $fault it is made, nothing is lost or there twice",
  async (point) => {
    const [first, second] = [
      ["1,ada,Boss,all;engines", "2,bob,Clerk,all", "3,cy,Clerk,all"],
      ["1,ada.k,Queen,all", "3,cy,Clerk,all;engines", "4,dan,Clerk,all"],
    ];
    await people(...first);
    await apply(point.at, point.fault);
    await apply(never, "before");
    expect(heldBy(application)).toEqual({
      ada: { title: "Boss", teams: ["all", "engines"] },
      bob: { title: "Clerk", teams: ["all"] },
      cy: { title: "Clerk", teams: ["all"] },
    });
    const [ada] = [...application.users].find(([, { userName }]) => userName === "ada") ?? [];
    await people(...second);
    await apply(point.at, point.fault);
    await apply(never, "before");
    expect(heldBy(application)).toEqual({
      "ada.k": { title: "Queen", teams: ["all"] },
      cy: { title: "Clerk", teams: ["all", "engines"] },
      dan: { title: "Clerk", teams: ["all"] },
    });
    expect(application.users.get(ada ?? "")?.["userName"]).toBe("ada.k");
    expect(application.created.toSorted()).toEqual(["ada", "all", "bob", "cy", "dan", "engines"]);
  },
);
