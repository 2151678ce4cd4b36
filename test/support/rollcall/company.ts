import { cp, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeEach, expect } from "vitest";
import { rollcall } from "./command.ts";
import { startRollcall } from "./rollcall.ts";
import type { Ended, Running } from "./rollcall.ts";

export const people = `id,login,name,mail,status,groups
1,ada,Ada Lovelace,ada@example.com,active,staff;engines
2,grace,Grace Hopper,grace@example.com,active,staff
3,zoe,Zoë Ünal,,active,staff
4,left,Long Gone,left@example.com,left,staff
`;

const groups = `id,name,within
staff,Staff,
engines,Engines,staff
`;

/** A small company in a folder of its own, with a configuration that serves and syncs it. */
export interface CompanyFolder {
  readonly folder: string;
  readonly config: string;
  /** Replaces a file of the folder. */
  write(name: string, text: string): Promise<void>;
  remove(): Promise<void>;
}

/** Makes the folder; `configuration` changes the text of the configuration. */
export async function makeCompany(configuration: (yaml: string) => string = (yaml) => yaml): Promise<CompanyFolder> {
  const folder = await mkdtemp(join(tmpdir(), "rollcall-company-"));
  const write = (name: string, text: string): Promise<void> => writeFile(join(folder, name), text);
  await write("people.csv", people);
  await write("groups.csv", groups);
  await write("rollcall.yaml", configuration(yaml));
  return {
    folder,
    config: join(folder, "rollcall.yaml"),
    write,
    remove: () => rm(folder, { recursive: true, force: true }),
  };
}

const yaml = `service:
  listen: 127.0.0.1:0
  data: data
  administrator: { name: admin, password: administrator-secret }
targets:
  analytics: embedded
sources:
  company:
    connector: csv
    users: { file: people.csv, id: id, memberOf: { column: groups } }
    groups: { file: groups.csv, id: id, memberOf: { column: within } }
syncs:
  staff:
    from: [company]
    to: analytics
    schedule: "0 0 1 1 *"
    users:
      include: entry.status == "active"
      name: entry.login
      displayName: entry.name
      mail: entry.mail
    groups:
      name: entry.id
      displayName: entry.name
    defaultPassword: initial-user-secret
`;

/** The company of the current test, and the programs that run on its configuration. */
export interface EachCompany extends Omit<CompanyFolder, "remove"> {
  /** The environment of the commands that this test starts from now on. */
  env: NodeJS.ProcessEnv;
  /** Changes the text of the configuration. */
  configure(change: (yaml: string) => string): Promise<void>;
  /** Starts a command; it is killed at the end of the test if it still runs. */
  begin(...args: readonly string[]): Running;
  /** Starts `rollcall start`: the service and the daemon, unless the arguments say otherwise. */
  start(...args: readonly string[]): Running;
  /** Runs a command to its end. */
  command(...args: readonly string[]): Promise<Ended>;
  /** Applies the sync `other` as if `staff` were no sync of the configuration: what it writes to the target is by hand, for `staff`. */
  applyOther(): Promise<Ended>;
  /**
   * Applies the sync as set-up for a test about something else. If another test of the file has already applied the same
   * files, its data folder is copied instead.
   */
  applied(): Promise<void>;
  /** Runs a command that must succeed. @returns its only run, from its JSON */
  run(...args: readonly string[]): Promise<ReturnType<typeof JSON.parse>>;
}

/**
 * Gives every test of the file a company of its own, removed after the test.
 * @param configuration changes the text of the configuration
 * @param env the environment of its commands at first
 */
export function companyOfEachTest(configuration?: (yaml: string) => string, env: NodeJS.ProcessEnv = {}): EachCompany {
  let company: CompanyFolder;
  let begun: Running[];
  /** What the last command of this test that failed has written. */
  let failure: string;
  /** The files at each apply of this test; undefined once it has done anything else. */
  let behind: readonly string[] | undefined;
  const known = new Map<string, string>();
  beforeEach(async ({ onTestFailed }) => {
    begun = [];
    behind = [];
    failure = "";
    // A test that expects a code says only which one came.
    onTestFailed(() => void process.stderr.write(failure));
    self.env = env;
    company = await makeCompany(configuration);
  });
  afterEach(async () => {
    for (const each of begun) each.process.kill("SIGKILL");
    await Promise.all(begun.map(({ ended }) => ended));
    await company.remove();
  });
  afterAll(async () => {
    for (const folder of known.values()) await rm(folder, { recursive: true, force: true });
  });
  const self: EachCompany = {
    env,
    get folder() {
      return company.folder;
    },
    get config() {
      return company.config;
    },
    write: (name, text) => company.write(name, text),
    configure: async (change) => company.write("rollcall.yaml", change(await readFile(company.config, "utf8"))),
    begin: (...args) => {
      const each = startRollcall([...args, "--config", company.config], { env: self.env });
      begun.push(each);
      behind = undefined;
      return each;
    },
    start: (...args) => self.begin("start", ...args),
    command: async (...args) => {
      behind = undefined;
      const ended = await rollcall([...args, "--config", company.config], { env: self.env });
      const { code, stdout, stderr } = ended;
      if (code !== 0) failure = `rollcall ${args.join(" ")} ended with ${code}:\n${stdout}${stderr}\n`;
      return ended;
    },
    applyOther: async () => {
      const before = await readFile(company.config, "utf8");
      await company.write("rollcall.yaml", before.replace("  staff:\n", "  theirs:\n"));
      const ended = await self.command("apply", "other");
      await company.write("rollcall.yaml", before);
      return ended;
    },
    applied: async () => {
      if (behind === undefined) throw new Error("applied() comes before every other command");
      const all = [...behind, await textsIn(company.folder)];
      const key = JSON.stringify([all, self.env]);
      const before = known.get(key);
      if (before === undefined) {
        const { code, stdout, stderr } = await self.command("apply");
        expect(code, stdout + stderr).toBe(0);
        const copy = await mkdtemp(join(tmpdir(), "rollcall-applied-"));
        known.set(key, copy);
        await cp(company.folder, copy, { recursive: true });
      } else {
        await cp(before, company.folder, { recursive: true });
      }
      behind = all;
    },
    run: async (...args) => {
      const { stdout, stderr } = await self.command(...args, "--json");
      const [run] = JSON.parse(stdout).runs;
      expect(run.error, stderr).toBeUndefined();
      return run;
    },
  };
  return self;
}

/** The files that a test has written, without the data folder. */
async function textsIn(folder: string): Promise<string> {
  const files = (await readdir(folder, { withFileTypes: true })).filter((each) => each.isFile());
  const names = files.map(({ name }) => name).sort();
  return JSON.stringify(
    await Promise.all(names.map(async (name) => [name, await readFile(join(folder, name), "utf8")])),
  );
}
