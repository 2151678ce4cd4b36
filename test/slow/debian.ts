import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { cp, mkdir, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, onTestFinished, test } from "vitest";
import { debianFiles, Machine, signal } from "../support/debian-machine.ts";
import type { RunOptions } from "../support/debian-machine.ts";
import { debianPackages, missing } from "../support/ldap/debian.ts";
import { runTool } from "../support/process.ts";
import { watchOutput } from "../support/rollcall/rollcall.ts";
import type { Running } from "../support/rollcall/rollcall.ts";
import { login } from "../support/rollcall/service.ts";

const root = fileURLToPath(new URL("../../", import.meta.url));
const password = "correct-horse";
const listening = /the service is listening on (http:\/\/[\d.]+:\d+)/;

/** What a test needs of the release: the folder that it is in, and one for its own files. */
export interface Released {
  readonly folder: string;
  readonly work: string;
  readonly version: string;
}

function urlOf(daemon: Running): string {
  return listening.exec(daemon.output())?.[1]?.replace("0.0.0.0", "127.0.0.1") ?? "";
}

/** Starts a program that is killed at the end of the test. */
function begin(machine: Machine, command: readonly string[], options: RunOptions): Running {
  const running = machine.start(command, options);
  onTestFinished(async () => {
    running.process.kill("SIGKILL");
    await running.ended;
  });
  return running;
}

async function stop(running: Running, name: NodeJS.Signals): Promise<void> {
  await signal(running, name);
  expect(await running.ended).toMatchObject({ code: 0 });
}

async function succeed(machine: Machine, command: readonly string[], options: RunOptions = {}): Promise<string> {
  const { code, stdout, stderr } = await machine.run(command, options);
  expect(code, `${command.join(" ")}: ${stdout}${stderr}`).toBe(0);
  return stdout + stderr;
}

/** Tests of the package for Debian, in an empty Debian 12. */
export async function testsOfDeb(released: () => Released): Promise<void> {
  const reason = await missing(debianFiles());
  const named = reason === undefined ? "" : ` (${reason})`;
  const service = "/etc/rollcall/rollcall.yaml";

  /** A new machine with Debian and the package in `/root`. */
  async function debian(name: string): Promise<Machine> {
    const { folder, work } = released();
    const machine = await Machine.over(await debianFiles(), join(work, name));
    onTestFinished(() => machine.end());
    const deb = (await readdir(folder)).find((file) => file.endsWith(".deb")) ?? "";
    await cp(join(folder, deb), machine.path("/root/rollcall.deb"));
    return machine;
  }
  /** The account of the package. */
  async function account(machine: Machine): Promise<RunOptions> {
    const user = Number(await succeed(machine, ["id", "--user", "rollcall"]));
    expect(user).toBeGreaterThan(0);
    return { user, cwd: "/var/lib/rollcall", env: { ROLLCALL_ADMIN_PASSWORD: password } };
  }
  const has = (machine: Machine, path: string): Promise<boolean> =>
    stat(machine.path(path)).then(
      () => true,
      () => false,
    );

  describe.skipIf(reason !== undefined)(`the package for Debian${named}`, () => {
    test("is installed, runs as its account, stops, is removed without its data, and purged with them", async () => {
      const machine = await debian("new");
      await succeed(machine, ["dpkg", "--install", "/root/rollcall.deb"]);
      const options = await account(machine);
      await writeFile(
        machine.path(service),
        (await readFile(machine.path(service), "utf8")).replace("127.0.0.1:8442", "127.0.0.1:0"),
      );
      const daemon = begin(machine, ["rollcall", "start", "--config", service], options);
      await daemon.wrote(listening);
      expect(await succeed(machine, ["rollcall", "health"], options)).toBe("ready\n");
      await daemon.wrote(/The password of admin is /);
      const [, generated = ""] = /The password of admin is (\S+)/.exec(daemon.output()) ?? [];
      expect(await login(urlOf(daemon), { name: "admin", password: generated })).toMatch(/./);
      await stop(daemon, "SIGTERM");
      expect((await stat(machine.path("/var/lib/rollcall/service"))).uid).toBe(options.user);
      for (const path of ["man/man1/rollcall-plan.1.gz", "bash-completion/completions/rollcall"])
        expect(await has(machine, `/usr/share/${path}`), path).toBe(true);

      const enabled = "/etc/systemd/system/multi-user.target.wants/rollcall.service";
      await succeed(machine, ["test", "-L", enabled]);
      await succeed(machine, ["dpkg", "--remove", "rollcall"]);
      expect([await has(machine, "/usr/lib/rollcall"), await has(machine, "/var/lib/rollcall/service")]).toEqual([
        false,
        true,
      ]);
      await succeed(machine, ["dpkg", "--purge", "rollcall"]);
      for (const path of ["/var/lib/rollcall", "/var/cache/rollcall", "/etc/rollcall"])
        expect(await has(machine, path), path).toBe(false);
      await succeed(machine, ["test", "!", "-L", enabled]);
    });

    test("takes over what 0.2 left that was installed by hand, plans, applies, and is upgraded", async () => {
      const machine = await debian("by-hand");
      const archive = join(root, "test/fixtures/0.2.0/data-folder.tar.gz");
      for (const path of ["/etc/rollcall", "/var/lib/private"]) await mkdir(machine.path(path), { recursive: true });
      const unpack = ["--extract", "--no-same-owner", "--gzip", "--file", archive, "--directory"];
      await runTool("tar", [...unpack, machine.path("/etc/rollcall")], "", process.env);
      await succeed(machine, ["mv", "/etc/rollcall/data", "/var/lib/private/rollcall"]);
      await succeed(machine, ["chown", "--recursive", "61234:61234", "/var/lib/private/rollcall"]);
      await succeed(machine, ["ln", "-s", "private/rollcall", "/var/lib/rollcall"]);
      const configuration = await readFile(machine.path(service), "utf8");
      await writeFile(machine.path(service), configuration.replace("data: data", "data: /var/lib/rollcall"));
      await cp(join(root, "packaging/rollcall.service"), machine.path("/etc/systemd/system/rollcall.service"));

      const install = ["dpkg", "--force-confold", "--install", "/root/rollcall.deb"];
      expect(await succeed(machine, install)).toContain("systemctl daemon-reload && systemctl restart rollcall");
      const options = await account(machine);
      expect((await stat(machine.path("/var/lib/rollcall/daemon/journal.json"))).uid).toBe(options.user);
      const runs = JSON.parse(await succeed(machine, ["rollcall", "runs", "--json"], options)) as {
        runs: { id: string; state: string }[];
      };
      const pending = runs.runs.find(({ state }) => state === "pending")?.id ?? "";
      expect(pending).not.toBe("");
      expect((await machine.run(["rollcall", "plan"], options)).code).toBe(2);
      expect(await succeed(machine, ["rollcall", "approve", pending], options)).toContain("3 users updated");
      const daemon = begin(machine, ["rollcall", "start", "--config", service], options);
      await daemon.wrote(listening);
      expect(await login(urlOf(daemon), { name: "admin", password })).toMatch(/./);
      await stop(daemon, "SIGTERM");

      // The same version again does what an upgrade does.
      await succeed(machine, install);
      expect(await succeed(machine, ["rollcall", "runs"], options)).toContain("applied");
    });

    test("is clean for lintian, and systemd understands its unit and finds it hardened", async () => {
      const machine = await debian("checked");
      const checked = await machine.run(["lintian", "--fail-on=warning", "--allow-root", "/root/rollcall.deb"]);
      expect(checked).toMatchObject({ code: 0, stdout: "" });
      await succeed(machine, ["dpkg", "--install", "/root/rollcall.deb"]);
      const unit = "/lib/systemd/system/rollcall.service";
      const verified = await machine.run(["systemd-analyze", "verify", "--man=no", unit]);
      // Before systemd 254, two keys are not known.
      const problems = verified.stderr.split("\n").filter((line) => line !== "" && !line.includes("'Restart"));
      expect([verified.code, problems]).toEqual([0, []]);
      const security = await succeed(machine, ["systemd-analyze", "security", "--offline=true", unit]);
      const [, score = "10"] = /Overall exposure level for rollcall.service: ([\d.]+)/.exec(security) ?? [];
      expect(Number(score)).toBeLessThan(2);
    });
  });
}

interface Inspected {
  readonly Docker: {
    readonly config: {
      readonly User: string;
      readonly Env: readonly string[];
      readonly Entrypoint: readonly string[];
      readonly Cmd: readonly string[];
      readonly Volumes: Readonly<Record<string, object>>;
      readonly WorkingDir: string;
      readonly StopSignal: string;
      readonly Healthcheck: { readonly Test: readonly string[] };
    };
  };
}

/** Tests of the image, built without a daemon and without a registry, and run with what it says of itself. */
export async function testsOfImage(released: () => Released): Promise<void> {
  const builder = debianPackages("buildah", "/usr/bin/buildah", ["buildah"]);
  const reason = (await missing(builder)) ?? (await missing(debianFiles()));
  const named = reason === undefined ? "" : ` (${reason})`;

  /** buildah, with a store and settings of its own. */
  async function buildahIn(folder: string): Promise<(...args: readonly string[]) => Promise<string>> {
    const { path, env } = await builder;
    await mkdir(folder, { recursive: true });
    const at = (name: string): string => join(folder, name);
    await writeFile(at("policy.json"), JSON.stringify({ default: [{ type: "insecureAcceptAnything" }] }));
    await writeFile(at("registries.conf"), "");
    const [store, run] = [at("store"), at("run")].map((path) => JSON.stringify(path));
    await writeFile(at("storage.conf"), `[storage]\ndriver = "overlay"\ngraphroot = ${store}\nrunroot = ${run}\n`);
    const settings = ["--registries-conf", at("registries.conf")];
    // What a build runs for each step has no environment to find the unpacked libraries with, but the loader's cache.
    const folders = (env["LD_LIBRARY_PATH"] ?? "").split(":").filter((each) => each !== "" && existsSync(each));
    await runTool("/sbin/ldconfig", ["-X", "-C", at("ld.so.cache"), ...folders], "", process.env);
    const script = 'mount --bind "$1" /etc/ld.so.cache; shift; exec "$@"';
    const found = ["unshare", "--mount", "sh", "-ec", script, "sh", at("ld.so.cache")];
    return async (...args) => {
      const [program, ...rest] = [...(args[0] === "build" ? found : []), path("/usr/bin/buildah")];
      const child = spawn(program, [...rest, ...settings, ...args], {
        env: { ...env, TMPDIR: folder, CONTAINERS_STORAGE_CONF: at("storage.conf"), BUILDAH_ISOLATION: "chroot" },
      });
      const running = watchOutput(child);
      child.stdin.end();
      const { code, stdout, stderr } = await running.ended;
      expect(code, `buildah ${args.join(" ")}: ${stdout.slice(-2_000)}${stderr.slice(-4_000)}`).toBe(0);
      return stdout.trim();
    };
  }

  describe.skipIf(reason !== undefined)(`the image${named}`, () => {
    test("is built of the package, runs as its user on its volume, is healthy, and stops on its signal", async () => {
      const { folder, work, version } = released();
      const place = join(work, "image");
      const buildah = await buildahIn(place);
      const policy = ["--signature-policy", join(place, "policy.json")];
      onTestFinished(async () => {
        await buildah("umount", "--all");
      });
      // Stand for the images of a registry: Debian, and Debian with Node.js.
      const base = await buildah("from", "scratch");
      const files = await buildah("mount", base);
      await runTool("cp", ["--archive", `${await debianFiles()}/.`, files], "", process.env);
      await buildah("commit", ...policy, base, "localhost/base");
      await addNode(files);
      await buildah("commit", ...policy, base, "localhost/node");

      const context = join(place, "context");
      await mkdir(context);
      for (const file of ["Dockerfile", "package-lock.json"]) await cp(join(root, file), join(context, file));
      await cp(join(folder, `rollcall-${version}.tgz`), join(context, `rollcall-${version}.tgz`));
      const bases = ["--build-arg", "BASE=localhost/base", "--build-arg", "NODE=localhost/node"];
      const cache = (await runTool("npm", ["config", "get", "cache"], "", process.env)).trim();
      const build = ["build", ...policy, "--isolation=chroot", "--format=docker", `--volume=${cache}:/npm-cache`];
      await buildah(...build, ...bases, "--tag=rollcall", context);

      const { config } = (JSON.parse(await buildah("inspect", "--type=image", "rollcall")) as Inspected).Docker;
      expect(config.User).toBe("1000:1000");
      const container = new Machine(await buildah("mount", await buildah("from", ...policy, "rollcall")));
      await withContainer(container, config, place);
    });
  });
}

/** Puts Node.js and npm of this machine into the files of another. */
async function addNode(files: string): Promise<void> {
  const npm = (await runTool("sh", ["-c", 'realpath "$(command -v npm)"'], "", process.env)).trim();
  await cp(process.execPath, join(files, "usr/local/bin/node"), { dereference: true });
  await cp(join(npm, "../.."), join(files, "usr/local/lib/node_modules/npm"), { recursive: true });
  await runTool(
    "ln",
    ["-s", "../lib/node_modules/npm/bin/npm-cli.js", join(files, "usr/local/bin/npm")],
    "",
    process.env,
  );
  const registry = (await runTool("npm", ["config", "get", "registry"], "", process.env)).trim();
  const settings = ["cache=/npm-cache", "prefer-offline=true", `registry=${registry}`];
  const authorities = process.env["NODE_EXTRA_CA_CERTS"];
  if (authorities !== undefined) {
    await cp(authorities, join(files, "etc/authorities.crt"), { dereference: true });
    settings.push("cafile=/etc/authorities.crt");
  }
  await mkdir(join(files, "usr/local/etc"), { recursive: true });
  await writeFile(join(files, "usr/local/etc/npmrc"), `${settings.join("\n")}\n`);
}

async function withContainer(container: Machine, config: Inspected["Docker"]["config"], place: string): Promise<void> {
  const mounted = (name: string): string => join(place, name);
  for (const name of ["etc", "volume", "cache"]) await mkdir(mounted(name));
  const yaml = [
    "service: { listen: '0.0.0.0:0', allowPlainHttp: true, data: /var/lib/rollcall,",
    `  administrator: { name: admin, password: "${password}-1" } }`,
  ];
  await writeFile(join(mounted("etc"), "rollcall.yaml"), yaml.join("\n"));
  const [volume = ""] = Object.keys(config.Volumes);
  // An engine gives a new volume the owner and mode of the folder that it covers.
  const { uid, gid, mode } = await stat(container.path(volume));
  expect([uid, gid, mode & 0o777]).toEqual([1000, 1000, 0o755]);
  for (const name of ["volume", "cache"]) await runTool("chown", ["1000:1000", mounted(name)], "", process.env);
  const options: RunOptions = {
    user: 1000,
    cwd: config.WorkingDir,
    env: Object.fromEntries(config.Env.map((each) => each.split("=", 2) as [string, string])),
    readOnlyBut: {
      "/etc/rollcall": mounted("etc"),
      [volume]: mounted("volume"),
      "/var/cache/rollcall": mounted("cache"),
    },
  };
  const [kind, ...check] = config.Healthcheck.Test;
  expect(kind).toBe("CMD");
  expect((await container.run(check, options)).code).toBe(1);
  const service = begin(container, [...config.Entrypoint, ...config.Cmd], options);
  await service.wrote(listening);
  expect(await container.run(check, options)).toMatchObject({ code: 0, stdout: "ready\n" });
  expect(await login(urlOf(service), { name: "admin", password: `${password}-1` })).toMatch(/./);
  await stop(service, config.StopSignal as NodeJS.Signals);
  expect((await readdir(mounted("volume"))).length).toBeGreaterThan(0);
  expect((await readdir(mounted("cache"))).length).toBeGreaterThan(0);
}
