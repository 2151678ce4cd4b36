import { spawn } from "node:child_process";
import { cp, mkdir, mkdtemp, readFile, readdir, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { runTool } from "../../support/process.ts";
import { watchOutput } from "../../support/rollcall/rollcall.ts";
import type { Running } from "../../support/rollcall/rollcall.ts";

/**
 * What the unit for systemd says, done without it: the files that it names, at the paths that it names (in a folder that
 * stands for `/`), with the libraries that an installation without the development's has. The image is built in `test/slow`.
 */

const root = fileURLToPath(new URL("../../../", import.meta.url));
const read = (path: string): Promise<string> => readFile(join(root, path), "utf8");
const { engines, devDependencies } = JSON.parse(await read("package.json")) as {
  engines: { node: string };
  devDependencies: { node: string };
};
const versionOf = (text: string): string => /\d+(?:\.\d+)*/.exec(text)?.[0] ?? "";

/** Stands for `/`. */
let machine: string;
beforeEach(async () => {
  machine = await realpath(await mkdtemp(join(tmpdir(), "rollcall-machine-")));
});
afterEach(() => rm(machine, { recursive: true, force: true }));

/** A path of the machine, or a text with such paths, as it is here. */
const here = (text: string): string => text.replaceAll(/(?<=^|[ =:])\/(?=(?:opt|etc|var)\/)/g, `${machine}/`);

/** Makes the links to the libraries that are there without those of the development. */
async function installLibraries(program: string): Promise<void> {
  const { packages } = JSON.parse(await read("package-lock.json")) as {
    packages: Record<string, { dev?: true; devOptional?: true; optional?: true }>;
  };
  const needed = Object.entries(packages).filter(
    ([path, { dev, devOptional }]) => /^node_modules\/(?:@[^/]+\/)?[^/]+$/.test(path) && !dev && !devOptional,
  );
  const present = new Set(await readdir(join(root, "node_modules"), { recursive: false }));
  for (const [path, { optional }] of needed) {
    if (optional && !present.has(path.split("/")[1] ?? "")) continue;
    await mkdir(join(program, dirname(path)), { recursive: true });
    await symlink(join(root, path), join(program, path));
  }
}

/** Starts a command of the machine, which has no environment but its own; it is killed at the end of the test. */
function start([program = "", ...args]: readonly string[], cwd: string, env: NodeJS.ProcessEnv): Running {
  const node = program === "node" || program === "/usr/bin/node" ? process.execPath : program;
  const running = watchOutput(spawn(node, args.map(here), { cwd, env }));
  running.process.stdin.end();
  onTestFinished(async () => {
    running.process.kill("SIGKILL");
    await running.ended;
  });
  return running;
}

describe("the image", async () => {
  const dockerfile = await read("Dockerfile");

  test("has the Node.js that this is developed with, which is new enough", () => {
    const version = versionOf(/^ARG NODE=(.*)$/m.exec(dockerfile)?.[1] ?? "");
    expect(version).toBe(versionOf(devDependencies.node).split(".")[0]);
    expect(Number(version)).toBeGreaterThan(Number.parseFloat(versionOf(engines.node)));
  });

  test("is given what is copied into it, and nothing else", async () => {
    const given = (await read(".dockerignore")).split("\n").filter((line) => line !== "" && !line.startsWith("#"));
    const [copied = ""] = [...dockerfile.matchAll(/^COPY (?!--from)(.*) \S+$/gm)].map(([, paths]) => paths);
    expect(given).toEqual(["*", ...copied.split(" ").map((path) => `!${path}`)]);
  });
});

describe("the unit for systemd", async () => {
  const unit = await read("packaging/rollcall.service");
  const all = (key: string): readonly string[] =>
    [...unit.matchAll(new RegExp(`^${key}=(.*)$`, "gm"))].map(([, is]) => is ?? "");
  const one = (key: string): string => all(key)[0] ?? "";

  test("asks for a Node.js that is new enough", () => {
    expect(/with Node\.js (\S+) or newer/.exec(unit)?.[1]).toBe(versionOf(engines.node));
  });

  test("starts, reads the configuration again, writes nowhere but where it may, and ends", async () => {
    const program = here("/opt/rollcall");
    for (const path of ["package.json", "bin", "connectors", "src"])
      await cp(join(root, path), join(program, path), { recursive: true });
    await installLibraries(program);
    const before = await readdir(program, { recursive: true });
    for (const [folder, key] of [
      ["/var/lib", "StateDirectory"],
      ["/var/cache", "CacheDirectory"],
      ["/etc", "ConfigurationDirectory"],
    ] as const)
      await mkdir(here(join(folder, one(key))), { recursive: true });
    const data = JSON.stringify(here("/var/lib/rollcall"));
    expect([one("WorkingDirectory"), unit]).toEqual([
      join("/var/lib", one("StateDirectory")),
      expect.stringContaining(`service.data: ${one("WorkingDirectory")}`),
    ]);
    await writeFile(here("/etc/rollcall/rollcall.yaml"), `service: { listen: "127.0.0.1:0", data: ${data} }\n`);

    const env = Object.fromEntries(all("Environment").map((each) => here(each).split("=", 2)));
    expect(env["NODE_COMPILE_CACHE"]).toBe(here(join("/var/cache", one("CacheDirectory"))));
    const service = start(one("ExecStart").split(" "), here(one("WorkingDirectory")), env);
    await service.wrote("the service is listening");
    const [tool = "", ...args] = one("ExecReload").replace("$MAINPID", String(service.process.pid)).split(" ");
    await runTool(tool, args, "", process.env);
    await service.wrote("the configuration was reloaded");
    service.process.kill(one("KillSignal") as NodeJS.Signals);
    expect(await service.ended).toMatchObject({ code: 0 });
    expect(await readdir(program, { recursive: true })).toEqual(before);
    expect(await readdir(here("/var/cache/rollcall"))).not.toEqual([]);
  });
});
