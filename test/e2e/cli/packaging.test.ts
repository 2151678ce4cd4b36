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
 * What the image and the unit for systemd say, done without either: the files that they name, at the paths that they name
 * (in a folder that stands for `/`), with the libraries that an installation without the development's has.
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
  const lines = (await read("Dockerfile")).replaceAll("\\\n", " ").split("\n");
  /** What is said of an instruction, each time. */
  const all = (instruction: string): readonly string[] =>
    lines.filter((line) => line.startsWith(`${instruction} `)).map((line) => line.slice(instruction.length + 1));
  const listed = (text: string): string[] => JSON.parse(/\[.*\]$/.exec(text)?.[0] ?? "[]") as string[];
  const [workdir = ""] = all("WORKDIR");
  const copied = all("COPY").map((text) => text.split(" "));

  test("has the Node.js that this is developed with, which is new enough", () => {
    const version = versionOf(all("FROM")[0] ?? "");
    expect(version).toBe(versionOf(devDependencies.node).split(".")[0]);
    expect(Number(version)).toBeGreaterThan(Number.parseFloat(versionOf(engines.node)));
  });

  test("is given what is copied into it, and nothing else", async () => {
    const given = (await read(".dockerignore")).split("\n").filter((line) => line !== "" && !line.startsWith("#"));
    expect(given[0]).toBe("*");
    expect(given.slice(1).sort()).toEqual(
      copied.flatMap((paths) => paths.slice(0, -1).map((path) => `!${path}`)).sort(),
    );
  });

  test("starts, is healthy when the service is ready, writes nowhere but where it may, and stops on the signal", async () => {
    const program = here(workdir);
    for (const paths of copied) {
      const to = paths.at(-1) ?? "";
      for (const from of paths.slice(0, -1))
        await cp(join(root, from), to.endsWith("/") ? join(program, to, from) : join(program, to), { recursive: true });
    }
    await installLibraries(program);
    const env = Object.fromEntries(
      all("ENV").flatMap((text) =>
        text.split(" ").map((each) => [each.split("=", 1)[0] ?? "", here(each.slice(each.indexOf("=") + 1))]),
      ),
    );
    const folders = all("RUN").flatMap((text) => /mkdir -p ([^&]*)/.exec(text)?.[1]?.trim().split(" ") ?? []);
    for (const folder of folders) await mkdir(here(folder), { recursive: true });
    expect(folders).toContain(all("VOLUME")[0]);
    const before = await readdir(program, { recursive: true });
    const data = JSON.stringify(here("/var/lib/rollcall"));
    const configuration = `service: { listen: "0.0.0.0:0", allowPlainHttp: true, data: ${data} }\n`;
    await writeFile(env["ROLLCALL_CONFIG"] ?? "", configuration);

    const check = (): Running => start(listed(all("HEALTHCHECK")[0] ?? ""), program, env);
    expect((await check().ended).code).toBe(1);
    const container = start([...listed(all("ENTRYPOINT")[0] ?? ""), ...listed(all("CMD")[0] ?? "")], program, env);
    await container.wrote("the service is listening");
    expect(await check().ended).toMatchObject({ code: 0, stdout: "ready\n" });
    container.process.kill(all("STOPSIGNAL")[0] as NodeJS.Signals);
    expect(await container.ended).toMatchObject({ code: 0 });
    expect(await readdir(program, { recursive: true })).toEqual(before);
    expect(await readdir(here("/var/cache/rollcall"))).not.toEqual([]);
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
