import { mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { makeCertificate } from "../support/certificates.ts";
import { base, noOpenLdap, startOpenLdap } from "../support/ldap/openldap.ts";
import { rollcall } from "../support/rollcall/command.ts";
import { startRollcall } from "../support/rollcall/rollcall.ts";
import { loggedIn, startScripted } from "../support/scripted-server.ts";
import type { Behaviour, ScriptedServer } from "../support/scripted-server.ts";
import { call, login, post, startService } from "../support/rollcall/service.ts";
import { contentsOf, filesBelow, leakFinder } from "../support/leaks.ts";
import type { Leak } from "../support/leaks.ts";

/** A password with everything that is written otherwise somewhere: in JSON, in URLs, in forms, in HTML. */
const password = (name: string): string => `${name}: "Gr0ße\\"&+%/ <${name.length}>`;
const token = (name: string): string => `${name}-Zq8vXw3Lk5Rt7Yb2Nm4Pd6`;

/** One value for each place of the configuration that holds a secret; none is a part of another one. */
const secrets: Record<string, string> = {
  administrator: password("administrator"),
  defaultPassword: password("initial"),
  otherDefaultPassword: password("elsewhere"),
  target: password("target"),
  refusedTarget: password("refused"),
  untrustedTarget: password("untrusted"),
  ldap: password("directory"),
  refusedLdap: password("nobody-there"),
  scimBearer: token("scim-bearer"),
  scimBasic: password("scim-basic"),
  scimHeader: token("scim-header"),
  oauth: password("oauth"),
  metrics: token("metrics"),
  webhookSecret: token("webhook-signature"),
  webhookPath: token("webhook-path"),
  chatPath: token("chat-path"),
  heartbeatPath: token("heartbeat-path"),
  smtp: password("smtp"),
};

/** What clients send, and what servers hand out. */
const passing: Record<string, string> = {
  targetSession: token("target-session"),
  wrongLogin: password("wrong-login"),
  loginInQuery: token("login-in-query"),
  authorization: token("some-authorization"),
  oauthToken: token("oauth-access-token"),
};

/** In the configuration and in the data at once: it is written, so the search must find it. */
const canary = "canary-Kx7Wq2Vb9Tn4Zd5";

/** Files that hold a secret, and why; whoever reads one may as well change the data beside it. */
const allowed: readonly { readonly file: RegExp; readonly secrets: readonly string[]; readonly why: string }[] = [
  { file: /^service\.json(?:\.\d+)?$/, secrets: ["localSession"], why: "commands on this machine use it; mode 600" },
  { file: /^daemon\/control\.json/, secrets: ["controlToken"], why: "commands on this machine use it; mode 600" },
  {
    file: /^service\/uploads\//,
    secrets: ["defaultPassword"],
    why: "the body of a request while it is worked on; removed with it, and at every start",
  },
];

/**
 * Says everything back that it was sent, in all the places where a service, a SCIM server or an OAuth server says what is
 * wrong: the fields of a form, and the body and the headers as they are.
 */
function echo(status: number, server: () => ScriptedServer): Behaviour {
  return (response, request) => {
    const body = server().arrived.at(-1)?.body.toString().slice(0, 400) ?? "";
    const fields = [...new URLSearchParams(body)].map(([name, value]) => `${name}: ${value.slice(0, 100)}`);
    const headers = Object.entries(request.headers).map(([name, value]) => `${name}: ${String(value)}`);
    const said = [...fields, body, ...headers, request.url ?? ""];
    const all = said.join(" ");
    const document = { code: 10000, debug: JSON.stringify(said), error: all, error_description: all, detail: all };
    const schemas = ["urn:ietf:params:scim:api:messages:2.0:Error"];
    response.writeHead(status, { "content-type": "application/json", location: `/elsewhere?${body}` });
    response.end(JSON.stringify({ ...document, schemas, status: String(status), message: all }));
  };
}

let folder: string;
let data: string;
let config: string;
const closing: (() => Promise<unknown>)[] = [];

const skip = (await noOpenLdap()) !== undefined;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "rollcall-secrets-"));
  data = join(folder, "data");
  config = join(folder, "rollcall.yaml");
});

afterAll(async () => {
  for (const close of closing.reverse()) await close();
  await rm(folder, { recursive: true, force: true });
});

async function writeConfiguration(): Promise<NodeJS.ProcessEnv> {
  const certificate = await makeCertificate({ dns: ["localhost"], ip: ["127.0.0.1"] });
  secrets["privateKey"] = certificate.key;
  const slapd = await startOpenLdap();
  closing.push(async () => slapd[Symbol.asyncDispose]());
  const elsewhere: ScriptedServer = await startScripted({
    "session/login": (response) => {
      response.writeHead(204, { "set-cookie": `JSESSIONID=${passing["targetSession"]}; Path=/; HttpOnly` }).end();
    },
    "user/list": [emptyList, echo(400, () => elsewhere)],
    "user/sync": echo(400, () => elsewhere),
  });
  const refusing: ScriptedServer = await startScripted({ "session/login": echo(400, () => refusing) });
  const untrusted = await startScripted({ "session/login": loggedIn }, certificate);
  const scim: ScriptedServer = await startScripted({
    "bearer/Users": echo(401, () => scim),
    "basic/Users": echo(500, () => scim),
    "header/Users": echo(403, () => scim),
    "oauth/Users": echo(400, () => scim),
    "oauth/token": [
      (response) => {
        const grant = { access_token: passing["oauthToken"], token_type: "Bearer", expires_in: 60 };
        response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(grant));
      },
      echo(400, () => scim),
    ],
  });
  const hooks: ScriptedServer = await startScripted(
    Object.fromEntries(
      ["webhookPath", "chatPath", "heartbeatPath"].map((each) => [`hooks/${secrets[each]}`, echo(400, () => hooks)]),
    ),
  );
  for (const server of [elsewhere, refusing, untrusted, scim, hooks]) closing.push(() => server.close());
  await writeFile(join(folder, "key.pem"), certificate.key, { mode: 0o600 });
  await writeFile(join(folder, "cert.pem"), certificate.cert);
  await writeFile(join(folder, "smtp-password"), secrets["smtp"] ?? "");
  await writePeople(30);
  const staff = { users: { name: "entry.login", displayName: "entry.name", description: "entry.note" } };
  const names = { users: { name: "entry.uid", displayName: "entry.cn" } };
  const scimNames = { users: { name: "entry.userName", displayName: "entry.userName" } };
  const sync = (from: string, to: string, rules: object): object => ({
    from: [from],
    to,
    schedule: "0 0 1 1 *",
    ...rules,
  });
  const source = (connector: string, options: object): object => ({ connector, ...options });
  const auth = (path: string, auth: object): object => source("scim", { url: `${scim.url}/${path}`, auth });
  const users = { base: `ou=people,${base}` };
  // JSON is YAML.
  const text = JSON.stringify({
    service: {
      listen: "127.0.0.1:0",
      data: "data",
      administrator: { name: "admin", password: "${env:SECRET_ADMINISTRATOR}" },
      tls: { cert: "cert.pem", key: "key.pem" },
    },
    metrics: { token: secrets["metrics"] },
    targets: {
      own: "embedded",
      elsewhere: { url: elsewhere.url, username: "rollcall", password: "${env:SECRET_TARGET}" },
      refused: { url: refusing.url, username: "rollcall", password: secrets["refusedTarget"] },
      untrusted: { url: untrusted.url, username: "rollcall", password: secrets["untrustedTarget"] },
      gone: { url: "https://127.0.0.1:1", username: "rollcall", password: "${env:SECRET_TARGET}" },
    },
    sources: {
      company: source("csv", { users: { file: "people.csv", id: "id" } }),
      corp: source("ldap", { url: slapd.url, bind: { dn: `cn=reader,${base}`, password: secrets["ldap"] }, users }),
      nobody: source("ldap", {
        url: "ldap://127.0.0.1:1",
        bind: { dn: `cn=reader,${base}`, password: secrets["refusedLdap"] },
        users,
      }),
      bearer: auth("bearer", { bearer: secrets["scimBearer"] }),
      basic: auth("basic", { basic: { username: "rollcall", password: secrets["scimBasic"] } }),
      header: auth("header", { headers: { "X-Api-Key": secrets["scimHeader"] } }),
      oauth: auth("oauth", {
        oauth: { tokenUrl: `${scim.url}/oauth/token`, clientId: "rollcall", clientSecret: secrets["oauth"] },
      }),
    },
    syncs: {
      staff: {
        ...sync("company", "own", staff),
        defaultPassword: "${env:SECRET_INITIAL}",
        heartbeat: `${hooks.url}/hooks/${secrets["heartbeatPath"]}`,
      },
      elsewhere: { ...sync("company", "elsewhere", staff), defaultPassword: secrets["otherDefaultPassword"] },
      refused: sync("company", "refused", staff),
      untrusted: sync("company", "untrusted", staff),
      gone: sync("company", "gone", staff),
      corp: sync("corp", "own", names),
      nobody: sync("nobody", "own", names),
      ...Object.fromEntries(["bearer", "basic", "header", "oauth"].map((each) => [each, sync(each, "own", scimNames)])),
    },
    notifications: {
      hook: {
        by: "webhook",
        url: `${hooks.url}/hooks/${secrets["webhookPath"]}?key=1`,
        secret: secrets["webhookSecret"],
        events: ["pending", "held", "failed", "applied"],
        names: true,
      },
      chat: { by: "chat", url: `${hooks.url}/hooks/${secrets["chatPath"]}`, events: ["held", "failed", "applied"] },
      mail: {
        by: "email",
        server: "smtp://127.0.0.1:1",
        username: "rollcall",
        password: "${file:smtp-password}",
        from: "rollcall@example.com",
        to: ["ops@example.com"],
        events: ["held", "failed"],
      },
    },
  });
  await writeFile(config, text, { mode: 0o600 });
  return {
    SECRET_ADMINISTRATOR: secrets["administrator"],
    SECRET_TARGET: secrets["target"],
    SECRET_INITIAL: secrets["defaultPassword"],
  };
}

const emptyList: Behaviour = (response) => {
  response.writeHead(200, { "content-type": "application/json" }).end("[]");
};

/** The canary is what one of them is called. */
function writePeople(count: number): Promise<void> {
  const rows = Array.from({ length: count }, (_, index) => `${index},u${index},${index === 0 ? canary : "User"},note`);
  return writeFile(join(folder, "people.csv"), `id,login,name,note\n${rows.join("\n")}\n`);
}

/** Hands out every file again and again until it is told to end, since some are there for a moment only. */
function watchFiles(look: (file: string, bytes: Buffer) => void): { end(): Promise<void> } {
  const over = new AbortController();
  const watching = (async () => {
    while (!over.signal.aborted) {
      for (const file of await filesBelow(data).catch(() => [])) {
        const bytes = await readFile(join(data, file)).catch(() => undefined);
        if (bytes !== undefined) look(file, bytes);
      }
      await delay(100);
    }
  })();
  return {
    end: async () => {
      over.abort();
      await watching;
    },
  };
}

test("no secret is written anywhere, whatever happens to a run", { skip }, async () => {
  const env = await writeConfiguration();
  const pieces = new Map<string, (string | Buffer)[]>();
  const keep = (place: string, content: string | Buffer): void => {
    pieces.set(place, [...(pieces.get(place) ?? []), content]);
  };
  const early = leakFinder(secrets);
  const transient: Leak[] = [];
  const files = watchFiles((file, bytes) => transient.push(...early(file, bytes)));

  const daemon = startRollcall(["start", "--verbose", "--config", config], { cwd: folder, env });
  let output = "";
  for (const stream of ["stdout", "stderr"] as const)
    daemon.process[stream].on("data", (text: string) => {
      output += text;
    });
  // Every sync has been tried once.
  const names = [
    "staff",
    "elsewhere",
    "refused",
    "untrusted",
    "gone",
    "corp",
    "nobody",
    "bearer",
    "basic",
    "header",
    "oauth",
  ];
  for (const name of names) {
    await daemon.wrote(
      new RegExp(`"level":"(?:info|warn|error)"[^\\n]*"sync":"${name}"[^\\n]*"msg":"sync ${name}: (?!plan")`),
    );
  }
  const presence = JSON.parse(await readFile(join(data, "service.json"), "utf8")) as { url: string; session: string };
  passing["localSession"] = presence.session;
  const control = await readFile(join(data, "daemon", "control.json"), "utf8").catch(() => "{}");
  const { token: controlToken } = JSON.parse(control) as { token?: string };
  if (controlToken !== undefined) passing["controlToken"] = controlToken;
  for (const file of ["service.json", "daemon/control.json"]) {
    const mode = await stat(join(data, file)).then(
      (found) => found.mode & 0o777,
      () => 0o600,
    );
    expect(mode, file).toBe(0o600);
  }

  const { url } = presence;
  const administrator = { name: "admin", password: secrets["administrator"] ?? "" };
  const session = await login(url, administrator);
  passing["ownSession"] = session;
  const bearer = { authorization: `Bearer ${secrets["metrics"]}` };
  for (const path of [
    "/metrics",
    "/readyz",
    "/healthz",
    "/control/v1/status",
    "/control/v1/syncs",
    "/control/v1/runs",
  ]) {
    keep(`GET ${path}`, (await call(`${url}${path}`, { session })).text);
    keep(`GET ${path}`, (await call(`${url}${path}`, { headers: bearer })).text);
    keep(
      `GET ${path}`,
      (await call(`${url}${path}`, { headers: { authorization: `Bearer ${passing["authorization"]}` } })).text,
    );
  }
  const root = `${url}/tspublic/v1`;
  keep(
    "a failed login",
    (await post(`${root}/session/login`, { username: "admin", password: passing["wrongLogin"] ?? "" })).text,
  );
  keep(
    "a login in a query",
    (await post(`${root}/session/login?username=admin&password=${passing["loginInQuery"]}`, {})).text,
  );
  keep("user/list", (await call(`${root}/user/list`, { session })).text);

  // Two thirds of everybody leave: held.
  await writePeople(10);
  // Side by side, as much of their time is waiting.
  const lanes = [
    [
      ["apply", "staff", "--yes"],
      ["apply", "staff", "--json", "--verbose"],
      ["apply", "elsewhere", "--yes", "--verbose"],
      ["runs", "--json"],
      ["history", "u1", "--json"],
      ["audit", "verify", "--json"],
      ["notify", "test", "--verbose"],
      ["notify", "test", "--json"],
    ],
    [
      ["validate", "--verbose"],
      ["status"],
      ["status", "--json", "--verbose"],
      ["check", "--verbose"],
      ["check", "--json"],
      ["explain", "u1", "--sync", "elsewhere", "--json"],
      ["load", join(folder, "people.csv"), "--table", "none.none", "--json", "--verbose"],
    ],
    [
      ["plan", "--json", "--verbose"],
      ["plan", "nobody", "--verbose"],
      ["drill", "--json", "--verbose", "--only", "wrong-tenant,wrong-filter,breaks-off"],
      ["export", "staff", "--to", join(folder, "exported"), "--json"],
      ["sql", "SELECT 1", "--json", "--verbose"],
    ],
  ];
  const runCommands = async (commands: readonly (readonly string[])[]): Promise<void> => {
    for (const command of commands) {
      const running = startRollcall([...command, "--config", config], { cwd: folder, env });
      keep(
        `the command line of ${command.join(" ")}`,
        await readFile(`/proc/${running.process.pid}/cmdline`).catch(() => ""),
      );
      const { stdout, stderr } = await running.ended;
      keep(`rollcall ${command.join(" ")}`, stdout + stderr);
    }
  };
  await Promise.all(lanes.map(runCommands));
  keep("cmdline", await readFile(`/proc/${daemon.process.pid}/cmdline`));
  keep("comm", await readFile(`/proc/${daemon.process.pid}/comm`));
  daemon.process.kill("SIGTERM");
  const { code } = await daemon.ended;
  keep("the log of the daemon", output);
  await files.end();

  // A configuration that is wrong in many places, with secrets in all of them.
  const broken = (await readFile(config, "utf8"))
    .replaceAll('"connector":"', '"connector":"no-')
    .replaceAll('"dn"', '"nd"');
  await writeFile(join(folder, "broken.yaml"), broken);
  const refused = await rollcall(["check", "--config", join(folder, "broken.yaml"), "--json"], { cwd: folder, env });
  keep("a wrong configuration", refused.stdout + refused.stderr);

  const find = leakFinder({ ...secrets, ...passing, canary });
  const leaks: Leak[] = [...transient];
  for (const [place, contents] of pieces) for (const content of contents) leaks.push(...find(place, content));
  for (const file of await filesBelow(data))
    for (const content of await contentsOf(join(data, file))) leaks.push(...find(file, content));
  for (const file of await filesBelow(join(folder, "exported")).catch(() => []))
    leaks.push(...find(`exported/${file}`, await readFile(join(folder, "exported", file))));

  expect(code).toBe(0);
  expect(refused.code).toBe(1);
  // It was looked in the right places: what is no secret and was written there is found there.
  const canaries = new Set(leaks.filter(({ secret }) => secret === "canary").map(({ place }) => place));
  const wanted = ["user/list", "the log of the daemon", "service/service.duckdb", "exported/users.csv"];
  expect(wanted.filter((place) => !canaries.has(place))).toEqual([]);
  const found = leaks.filter(
    ({ secret, place }) =>
      secret !== "canary" && !allowed.some((each) => each.file.test(place) && each.secrets.includes(secret)),
  );
  expect([...new Set(found.map(({ secret, place, form }) => `${secret} ${form}, in ${place}`))]).toEqual([]);
});

test("a generated password is said once, on standard error, and in no file", async () => {
  const given = join(folder, "generated");
  const service = await startService({ data: given, service: { administrator: { name: "admin" } } });
  await service.running.wrote("The password of admin is ");
  const { stdout, stderr } = await service.stop();
  const generated = /The password of admin is (\S+)/.exec(stderr)?.[1] ?? "";
  expect(generated.length).toBeGreaterThan(12);
  expect(stderr.split(generated)).toHaveLength(2);
  const find = leakFinder({ generated });
  expect(find("standard output", stdout)).toEqual([]);
  expect(find("standard error", stderr)).not.toEqual([]);
  for (const file of await filesBelow(given))
    for (const content of await contentsOf(join(given, file))) expect(find(file, content)).toEqual([]);
});
