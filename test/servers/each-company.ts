import { readFile } from "node:fs/promises";
import { afterEach, beforeEach, expect } from "vitest";
import { makeCompany } from "./company.ts";
import type { CompanyFolder } from "./company.ts";
import { startRollcall } from "./rollcall.ts";
import type { Ended, Running } from "./rollcall.ts";

/** The company of the test that runs, and what is started on its configuration. */
export interface EachCompany extends Omit<CompanyFolder, "remove"> {
  /** What commands find in their environment from now on, in this test. */
  env: NodeJS.ProcessEnv;
  /** Changes the text of the configuration. */
  configure(change: (yaml: string) => string): Promise<void>;
  /** Begins a command; what is left of it is killed at the end of the test. */
  begin(...args: readonly string[]): Running;
  /** Runs a command to its end. */
  command(...args: readonly string[]): Promise<Ended>;
  /** The one run of a command that must not fail, as its JSON has it. */
  run(...args: readonly string[]): Promise<ReturnType<typeof JSON.parse>>;
}

/**
 * Gives every test of the file a company of its own, which goes with the test.
 * @param configuration changes the text of the configuration
 * @param env what its commands find in their environment at first
 */
export function companyOfEachTest(configuration?: (yaml: string) => string, env: NodeJS.ProcessEnv = {}): EachCompany {
  let company: CompanyFolder;
  let begun: Running[];
  beforeEach(async () => {
    begun = [];
    self.env = env;
    company = await makeCompany(configuration);
  });
  afterEach(async () => {
    for (const each of begun) each.process.kill("SIGKILL");
    await Promise.all(begun.map(({ ended }) => ended));
    await company.remove();
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
      const [name = "", ...rest] = args;
      const each = startRollcall([name, "--config", company.config, ...rest], { env: self.env });
      begun.push(each);
      return each;
    },
    command: (...args) => self.begin(...args).ended,
    run: async (...args) => {
      const { stdout, stderr } = await self.command(...args, "--json");
      const [run] = JSON.parse(stdout).runs;
      expect(run.error, stderr).toBeUndefined();
      return run;
    },
  };
  return self;
}
