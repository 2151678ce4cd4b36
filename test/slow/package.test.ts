import { execFileSync, spawn } from "node:child_process";
import {
  chmod,
  cp,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  realpath,
  rm,
  stat,
  symlink,
  truncate,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { rollcall } from "../support/rollcall/command.ts";
import { watchOutput } from "../support/rollcall/rollcall.ts";
import type { Ended, Running } from "../support/rollcall/rollcall.ts";
import { debianPackages } from "../support/ldap/debian.ts";
import { Visit } from "../support/cookies.ts";
import { login } from "../support/rollcall/service.ts";
import { testsOfDeb, testsOfImage } from "./debian.ts";

/*
 * What is released, made once and used as by somebody who has nothing but that: the package in an empty prefix, the executable
 * on a machine without Node.js.
 */

const root = fileURLToPath(new URL("../../", import.meta.url));
const { version } = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as { version: string };
const architecture = process.arch === "arm64" ? "arm64" : "x64";
const password = "Admin-12345-secret";

let work: string;
/** What `npm run release` made. */
let released: string;
const executable = (): string => join(released, `rollcall-${version}-linux-${architecture}`);
const installed = (): string => join(work, "prefix/bin/rollcall");

beforeAll(async () => {
  work = await realpath(await mkdtemp(join(tmpdir(), "rollcall-package-")));
  released = await release("released");
  const archive = join(released, `rollcall-${version}.tgz`);
  tool("npm", ["install", "--global", "--prefix", join(work, "prefix"), "--prefer-offline", archive]);
});
afterAll(() => rm(work, { recursive: true, force: true }));

async function release(name: string): Promise<string> {
  const key = join(work, "key");
  if (!(await readdir(work)).includes("key"))
    tool("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-C", "release", "-f", key]);
  const folder = join(work, name);
  const args = [join(root, "packaging/release.ts"), "--to", folder, "--architecture", architecture];
  const binutils = await debianPackages("binutils", "/usr/bin/strip", ["binutils"]);
  const path = `${process.env["PATH"]}:${binutils.path("/usr/bin")}`;
  tool(process.execPath, args, { ...binutils.env, PATH: path, ROLLCALL_RELEASE_KEY: key });
  return folder;
}

function tool(program: string, args: readonly string[], env: NodeJS.ProcessEnv = process.env, cwd = work): string {
  return execFileSync(program, args, { cwd, env, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
}

/** How a person calls a program: with a home of their own, and with no Node.js but the one of a package. */
interface Way {
  readonly program: () => string;
  readonly env: () => NodeJS.ProcessEnv;
}
const ways: Readonly<Record<string, Way>> = {
  "the installed package": {
    program: installed,
    env: () => ({ PATH: `${join(root, "node_modules/.bin")}:/usr/bin:/bin`, ROLLCALL_CACHE: join(work, "cache") }),
  },
  "the executable": { program: executable, env: () => ({ PATH: "/nonexistent", ROLLCALL_CACHE: join(work, "cache") }) },
};

function start({ program, env }: Way, cwd: string, args: readonly string[], more: NodeJS.ProcessEnv = {}): Running {
  const child = spawn(program(), args, { cwd, env: { ...env(), ROLLCALL_ADMIN_PASSWORD: password, ...more } });
  const running = watchOutput(child);
  child.stdin.end();
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await running.ended;
  });
  return running;
}

function folderFor(name: string): Promise<string> {
  return mkdtemp(join(work, `${name}-`));
}

async function sampleIn(way: Way): Promise<string> {
  const folder = await folderFor("sample");
  expect(await start(way, folder, ["init", "--sample"]).ended).toMatchObject({ code: 0, stderr: "" });
  const file = join(folder, "rollcall.yaml");
  await writeFile(file, (await readFile(file, "utf8")).replace("127.0.0.1:8442", "127.0.0.1:0"));
  return folder;
}

function digestIn({ stdout }: Pick<Ended, "stdout">): unknown {
  return (JSON.parse(stdout) as { runs: { plan: { digest: string } }[] }).runs[0]?.plan.digest;
}

/** What a trial of rules, which has a process of its own, says in the console. */
async function rulesTried(url: string): Promise<string> {
  const visit = new Visit();
  await visit.submit(await visit.follow(`${url}/sign-in`), { username: "admin", password });
  const { text: page } = await visit.follow(`${url}/rules`);
  const token = /name="token" value="([^"]+)"/.exec(page)?.[1] ?? "";
  const text = "syncs: { staff: { users: { name: entry.login, displayName: entry.display_name } } }";
  const begun = await visit.ask(`${url}/rules`, { token, sync: "staff", what: "all", text });
  const trial = new URL(begun.headers.get("location") ?? "", url).href;
  let said = "";
  await expect.poll(async () => (said = (await visit.follow(trial)).text), { timeout: 30_000 }).not.toContain(">Stop<");
  return said;
}

describe.each(Object.entries(ways))("%s", (_, way) => {
  const run = (cwd: string, ...args: readonly string[]): Promise<Ended> => start(way, cwd, args).ended;

  test("says its version, and commands as they can be called", async () => {
    const folder = await folderFor("empty");
    expect((await run(folder, "version")).stdout).toContain(`rollcall ${version} (Node.js ${process.versions.node}`);
    expect((await run(folder, "init", "--sample")).stdout).toContain(`  ${way.program()} start    #`);
  });

  test("plans what a checkout plans, applies it, runs, lets people sign in, and stops", async () => {
    const folder = await sampleIn(way);
    const planned = await run(folder, "plan", "--json");
    expect(planned.code).toBe(2);
    const checkout = await rollcall(["plan", "--json", "--config", join(root, "config/rollcall.yaml")], {
      cwd: folder,
      env: { ROLLCALL_ADMIN_PASSWORD: password },
    });
    expect(digestIn(planned)).toMatch(/^[0-9a-f]{64}$/);
    expect(digestIn(planned)).toBe(digestIn(checkout));
    expect(await run(folder, "apply", "--yes")).toMatchObject({ code: 0 });

    const daemon = start(way, folder, ["start"]);
    await daemon.wrote("no change");
    const { url } = JSON.parse(await readFile(join(folder, "data/service.json"), "utf8")) as { url: string };
    expect(await login(url, { name: "admin", password })).toMatch(/./);
    expect(await rulesTried(url)).toContain("What follows is about the run with the changed rules");
    // Whatever its pages load is in the package.
    const page = await (await fetch(`${url}/`)).text();
    const assets = [...page.matchAll(/(?:href|src)="([^"]+\.(?:css|js|svg)[^"]*)"/g)].map(([, path]) => path ?? "");
    expect(assets.length).toBeGreaterThan(2);
    for (const path of assets) expect((await fetch(new URL(path, `${url}/`))).status, path).toBe(200);
    // So are the documents of its version.
    expect(await (await fetch(`${url}/docs/`)).text()).toContain("On this page");
    expect(await run(folder, "sql", "SELECT count(*) FROM users", "--database", "directory")).toMatchObject({
      code: 0,
    });
    daemon.process.kill("SIGTERM");
    expect(await daemon.ended).toMatchObject({ code: 0 });
  });

  test("opens what 0.1 and 0.2 left", async () => {
    for (const release of ["0.1.0", "0.2.0"]) {
      const folder = await folderFor(release);
      const archive = join(root, `test/fixtures/${release}/data-folder.tar.gz`);
      tool("tar", ["--extract", "--no-same-owner", "--gzip", "--file", archive, "--directory", folder]);
      const runs = await run(folder, "runs", "--json", "--config", join(folder, "rollcall.yaml"));
      expect(runs).toMatchObject({ code: 0 });
      expect(runs.stdout).toContain("pending");
    }
  });

  test("takes a connector from anywhere, in TypeScript, with the errors of the program", async () => {
    const folder = await folderFor("connector");
    await writeFile(join(folder, "hr.ts"), connector);
    await writeFile(join(folder, "rollcall.yaml"), connectorConfiguration);
    const planned = await run(folder, "plan");
    expect(planned.stdout + planned.stderr).toContain("2 users created");
    const failed = await start(way, folder, ["plan", "--json"], { HR_PEOPLE: "0" }).ended;
    expect(failed.code).toBe(1);
    expect(JSON.parse(failed.stdout)).toMatchObject({
      runs: [{ error: { message: "nobody came", advice: "fix" } }],
    });
  });
});

const connector = `
import { z } from "zod";
import { IncompleteReadError, inBatches } from "rollcall/connector";
import type { Connector, Entry } from "rollcall/connector";

const options = z.strictObject({ people: z.coerce.number() });
const person = (n: number): Entry =>
  ({ kind: "user", id: String(n), origin: \`person \${n}\`, attributes: { login: \`p\${n}\` }, keys: [], memberOf: [], members: [] });
const hr: Connector<z.infer<typeof options>> = {
  name: "hr",
  options,
  open: ({ people }) => ({
    async *read() {
      if (people === 0) throw new IncompleteReadError("nobody came");
      yield* inBatches([Array.from({ length: people }, (_, n) => person(n))]);
    },
  }),
};
export default hr;
`;

const connectorConfiguration = `
service: { listen: "127.0.0.1:0", data: data, administrator: { name: admin, password: "${password}" } }
targets: { own: embedded }
sources: { hr: { connector: ./hr.ts, people: "\${env:HR_PEOPLE:-2}" } }
syncs: { staff: { from: [hr], to: own, users: { name: entry.login, displayName: entry.login } } }
`;

describe("the package", () => {
  test("is small, has no tests, and nothing beside what runs", async () => {
    const archive = join(released, `rollcall-${version}.tgz`);
    expect((await stat(archive)).size).toBeLessThan(5_000_000);
    const files = tool("tar", ["--list", "--gzip", "--file", archive]).trim().split("\n");
    const tops = new Set(
      files.map((file) =>
        file
          .split("/")
          .slice(1, 3)
          .join("/")
          .replace(/^[^/]*\.\w+$/, "*"),
      ),
    );
    expect(files).toContain("package/dist/LICENSES");
    expect(files.filter((file) => /test|fixtures/.test(file))).toEqual([]);
    expect([...tops].filter((top) => !/^(?:bin|config|dist|packaging|site|src\/console|\*|LICENSE)/.test(top))).toEqual(
      [],
    );
  });

  test("says to an old Node.js what it needs", async () => {
    const folder = await folderFor("old");
    // The first long-term release whose npm still installs it.
    tool("npm", ["pack", "--pack-destination", folder, `node-linux-${architecture}@12.22.12`], process.env, folder);
    tool(
      "tar",
      ["--extract", "--gzip", "--file", join(folder, `node-linux-${architecture}-12.22.12.tgz`)],
      process.env,
      folder,
    );
    const old = join(folder, "package/bin/node");
    const said = await start({ program: () => old, env: () => ({}) }, folder, [await realpath(installed()), "plan"])
      .ended;
    expect(said).toMatchObject({ code: 1, stdout: "" });
    expect(said.stderr).toBe(
      `rollcall needs Node.js 24.12 or newer; ${old} is 12.22.12. Install a newer one (https://nodejs.org/en/download).\n`,
    );
  });

  test("has types, for a program of one's own that uses its client", async () => {
    const folder = await folderFor("program");
    await mkdir(join(folder, "node_modules"));
    await symlink(join(work, "prefix/lib/node_modules/rollcall"), join(folder, "node_modules/rollcall"));
    await symlink(join(work, "prefix/lib/node_modules/rollcall/node_modules/zod"), join(folder, "node_modules/zod"));
    await writeFile(join(folder, "package.json"), `{ "type": "module" }`);
    await writeFile(join(folder, "hr.ts"), connector);
    await writeFile(join(folder, "people.ts"), program);
    const compilerOptions = {
      strict: true,
      noEmit: true,
      target: "esnext",
      lib: ["esnext", "esnext.disposable"],
      module: "nodenext",
      types: ["node"],
      typeRoots: [join(root, "node_modules/@types")],
    };
    await writeFile(join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["hr.ts", "people.ts"] }));
    expect(tool(join(root, "node_modules/.bin/tsc"), ["--project", folder])).toBe("");

    const way = ways["the installed package"]!;
    const sample = await sampleIn(way);
    const daemon = start(way, sample, ["start"]);
    await daemon.wrote("applied and verified");
    const { url } = JSON.parse(await readFile(join(sample, "data/service.json"), "utf8")) as { url: string };
    expect(JSON.parse(tool(process.execPath, [join(folder, "people.ts"), folder, url, password]))).toEqual({
      principals: 236,
      loaded: 1,
    });
  });
});

const program = `
import { readFile } from "node:fs/promises";
import { Readable } from "node:stream";
import { Client, Loads, requireLoaded } from "rollcall/client";
import type { ClientOptions, Loaded } from "rollcall/client";

const [folder = "", url = "", password = ""] = process.argv.slice(2);
const options: ClientOptions = { name: "analytics", url, prefix: "", credentials: { username: "admin", password } };
const signal = AbortSignal.timeout(60_000);
const client = new Client(options);
await client.list(\`\${folder}/principals.json\`, signal);
await client.logout(signal);
const principals = JSON.parse(await readFile(\`\${folder}/principals.json\`, "utf8")) as unknown[];
const sources = [{ name: "one row", stream: Readable.from(["new,New,\\n"]) }];
const loaded: Loaded = await new Loads(options).load({ into: { database: "directory", table: "groups" }, sources }, { signal });
console.log(JSON.stringify({ principals: principals.length, loaded: requireLoaded(loaded, "groups").written }));
`;

await testsOfDeb(() => ({ folder: released, work, version }));
await testsOfImage(() => ({ folder: released, work, version }));

describe("the release", () => {
  test("is the same when it is made again", async () => {
    const again = await release("again");
    const sums = await readFile(join(released, "SHA256SUMS"), "utf8");
    expect(await readFile(join(again, "SHA256SUMS"), "utf8")).toBe(sums);
    expect(sums.split("\n").length).toBe(6);
    expect(await readFile(join(again, "SHA256SUMS.sig"))).toEqual(await readFile(join(released, "SHA256SUMS.sig")));
  });

  test("has sums and a signature that can be checked, a bill of materials, and notes", async () => {
    expect(tool("sha256sum", ["--check", "SHA256SUMS"], process.env, released)).toContain(
      `rollcall-${version}.tgz: OK`,
    );
    const signers = join(work, "allowed_signers");
    await writeFile(signers, `rollcall ${await readFile(join(work, "key.pub"), "utf8")}`);
    const verify = ["-Y", "verify", "-f", signers, "-I", "rollcall", "-n", "rollcall-release", "-s", "SHA256SUMS.sig"];
    const input = await readFile(join(released, "SHA256SUMS"));
    expect(execFileSync("ssh-keygen", verify, { cwd: released, input, encoding: "utf8" })).toContain("Good");
    const bill = JSON.parse(await readFile(join(released, `rollcall-${version}.cdx.json`), "utf8")) as {
      components: { name: string }[];
    };
    const names = bill.components.map(({ name }) => name);
    expect(names).toEqual(expect.arrayContaining(["pg", "undici", "zod", "@duckdb/node-bindings-linux-arm64"]));
    expect(names).not.toContain("vitest");
    expect(await readFile(join(released, "NOTES.md"), "utf8")).toMatch(/^# Rollcall \d/);
  });
});

describe("the executable's cache", () => {
  test("is private, made once by however many start, and made again when it is damaged", async () => {
    const cache = join(await folderFor("cache"), "new");
    const way: Way = { program: executable, env: () => ({ ROLLCALL_CACHE: cache }) };
    const versions = await Promise.all([1, 2].map(() => start(way, work, ["version"]).ended));
    expect(versions.map(({ code, stderr }) => [code, stderr])).toEqual([
      [0, ""],
      [0, ""],
    ]);
    const [folder = "", ...others] = (await readdir(cache)).filter((name) => name !== "compile");
    expect(others).toEqual([]);
    expect([(await stat(cache)).mode & 0o777, (await stat(join(cache, folder))).mode & 0o777]).toEqual([0o700, 0o700]);
    const main = join(cache, folder, "dist/main.js");
    await truncate(main, 10);
    expect(await start(way, work, ["version"]).ended).toMatchObject({ code: 0, stderr: "" });
    expect((await stat(main)).size).toBeGreaterThan(10);
  });

  test("is refused where others can write it or nothing can be written", async () => {
    const cache = await folderFor("cache");
    const way: Way = { program: executable, env: () => ({ ROLLCALL_CACHE: cache }) };
    await chmod(cache, 0o777);
    const open = await start(way, work, ["version"]).ended;
    expect(open).toMatchObject({
      code: 1,
      stdout: "",
      stderr: expect.stringContaining(`cannot run from ${cache}: other accounts can write there`),
    });
    const file = join(cache, "file");
    await cp(join(root, "LICENSE"), file);
    const blocked = await start({ ...way, env: () => ({ ROLLCALL_CACHE: join(file, "below") }) }, work, ["version"])
      .ended;
    expect(blocked).toMatchObject({ code: 1, stdout: "", stderr: expect.stringContaining("ROLLCALL_CACHE") });
  });
});
