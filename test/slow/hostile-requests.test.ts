import { expect, test } from "vitest";
import { controlRoot, controlRoutes, familyA, familyB, loadRoutes, pinboardRoutes } from "#wire/routes.ts";
import { careful, startDaemon } from "../support/console.ts";
import { companyOfEachTest } from "../support/rollcall/company.ts";
import { stopRollcall } from "../support/rollcall/rollcall.ts";
import { call, post } from "../support/rollcall/service.ts";
import { startPostgres } from "../support/postgres.ts";

/** Whatever a client sends, the fault is its own: no answer is a 500, and the log has nothing unexpected. */

const company = companyOfEachTest();

/** Encoded for an address. */
const values: readonly string[] = [
  "a%00b",
  "%01%1b%7f",
  "%ed%a0%80",
  "-%",
  "'%22--%3B%5B%28%7B",
  "*".repeat(4_000),
  "__proto__",
];

/** JSON, or what looks like it. */
const texts: readonly string[] = [
  "[".repeat(20_000),
  `${"[".repeat(20_000)}${"]".repeat(20_000)}`,
  `${'{"a":'.repeat(8_000)}1${"}".repeat(8_000)}`,
  String.raw`"a\u0000b"`,
  String.raw`"\ud800"`,
  "\0[]",
  "[]\0",
  "\u0001[\u001f]",
  "[null]",
  "1e999",
  '{"__proto__": {"a": 1}}',
];

interface Sent {
  readonly path: string;
  readonly body?: string;
  readonly type?: string;
}

const form = "application/x-www-form-urlencoded";
const json = "application/json";
const userSync = `${familyB}/user/sync`;

/** @param value encoded */
function withValue(value: string, run: string, token: string): Sent[] {
  const plan = ["name", "group", "source", "cause", "action", "from"];
  const control = Object.values(controlRoutes).filter(({ path }) => /:/.test(path));
  const loads = Object.values(loadRoutes).filter(({ path }) => /:/.test(path));
  const pinboards = Object.values(pinboardRoutes).map(({ method, path }) => ({ method, path: familyB + path }));
  const query = `id=${value}&vizid=${value}&batchsize=${value}&offset=${value}`;
  return [
    ...plan.map((field) => ({ path: `/runs/${run}/plan?${field}=${value}` })),
    ...["name", "group"].map((field) => ({ path: `/runs/${run}/approve?${field}=${value}` })),
    ...["name", "source", "cause", "group", "attribute"].map((field) => ({
      path: `${controlRoot}/runs/${run}/changes?${field}=${value}`,
    })),
    ...["sync", "state", "before", "limit"].map((field) => ({ path: `/runs?${field}=${value}` })),
    ...["by", "sync", "run", "since", "before", "from"].map((field) => ({ path: `/audit?${field}=${value}` })),
    ...["doubt", "people/user", "people/group", "people/explain", "people/history", "loads/table"].map((page) => ({
      path: `/${page}?q=${value}&name=${value}&from=${value}&database=${value}&schema=${value}&table=${value}&kind=user`,
    })),
    ...["runs", "pinboards", "rules", "loads", "assets"].flatMap((page) => [
      { path: `/${page}/${value}` },
      { path: `/${page}/${value}/${value}` },
    ]),
    ...control.map(({ method, path }) => ({
      path: controlRoot + path.replace(/:(?:id|sync)/, value),
      ...(method === "GET" ? {} : { body: "{}", type: json }),
    })),
    ...loads.map(({ method, path }) => ({
      path: familyA + path.replace(":cycle_id", value),
      ...(method === "GET" ? {} : { body: value, type: form }),
    })),
    ...pinboards.map(({ method, path }) =>
      method === "GET" ? { path: `${path}?${query}` } : { path, body: query, type: form },
    ),
    ...["principals", "applyChanges", "defaultPassword"].map((field) => ({
      path: userSync,
      body: `principals=[]&remoteDeleted=false&${field}=${value}`,
      type: form,
    })),
    ...[`${familyB}/session/login`, `${familyA}/public/session`, "/sign-in"].map((path) => ({
      path,
      body: `username=${value}&password=${value}&rememberme=${value}&next=${value}&target=${value}`,
      type: form,
    })),
    ...["name", "group", "cause", "except", "reason", "digest", "override"].map((field) => ({
      path: `/runs/${run}/approve`,
      body: `token=${token}&digest=x&${field}=${value}`,
      type: form,
    })),
    { path: "/connections/check", body: `token=${token}&what=source&name=${value}`, type: form },
    { path: "/rules", body: `token=${token}&sync=staff&text=${value}&name=${value}`, type: form },
  ];
}

function withText(text: string, run: string): Sent[] {
  const user = { name: "x", displayName: "x", principalTypeEnum: "LOCAL_USER", password: "x" };
  const lists = [
    text,
    `[${text}]`,
    ...["name", "displayName", "description", "mail", "principalTypeEnum", "password", "groupNames"].map((field) =>
      JSON.stringify([{ ...user, [field]: "§" }]).replace('"§"', text),
    ),
  ];
  return [
    ...["approve", "undo"].map((verb) => ({
      path: `${controlRoot}/runs/${run}/${verb}`,
      body: text,
      type: json,
    })),
    { path: `${controlRoot}/syncs/staff/run`, body: text, type: json },
    { path: `${controlRoot}/syncs/staff/run`, body: `{"for": [${text}]}`, type: json },
    { path: familyA + loadRoutes.start.path, body: text },
    { path: familyA + loadRoutes.start.path, body: `{"target": {"database": ${text}, "table": ${text}}}` },
    { path: "/local/sql", body: text, type: json },
    ...lists.map((principals) => ({
      path: userSync,
      body: new URLSearchParams({ principals }).toString(),
      type: form,
    })),
  ];
}

/** Fields that are too large, and too many. */
function large(run: string, token: string): Sent[] {
  return ["name", "group", "cause", "except", "reason"].flatMap((field) =>
    [`${field}=${"a*".repeat(200_000)}`, `${field}=a&`.repeat(20_000), `${field}=${"a*".repeat(50)}&`.repeat(300)].map(
      (fields) => ({ path: `/runs/${run}/approve`, body: `token=${token}&digest=x&${fields}`, type: form }),
    ),
  );
}

/** What went wrong: answers, and lines of the log. */
async function faultsOf(configure: (yaml: string) => string): Promise<string[]> {
  await company.configure((yaml) => configure(careful(yaml)));
  const { url, running, runs } = await startDaemon(company, "waits for approval");
  const signed = await post(`${url}/sign-in`, { username: "admin", password: "administrator-secret" });
  const cookie = String(signed.headers["set-cookie"]).split(";", 1)[0] ?? "";
  const [{ id } = { id: "" }] = await runs();
  const token = /name="token" value="([^"]+)"/.exec((await call(url, { headers: { cookie } })).text)?.[1] ?? "";
  expect(token).not.toBe("");
  const all = [
    ...values.flatMap((value) => withValue(value, id, token)),
    ...texts.flatMap((text) => withText(text, id)),
    ...large(id, token),
  ];
  const faults: string[] = [];
  const send = async ({ path, body, type }: Sent): Promise<void> => {
    const headers = { cookie, ...(type === undefined ? {} : { "content-type": type }) };
    const { status, text } = await call(url + path, {
      headers,
      ...(body === undefined ? {} : { method: "POST", body }),
    });
    // The interface has these for cycles that there are not.
    if (status >= 500 && !/^(?:Commit load cycle failed|Node does not exist)/.test(text))
      faults.push(`${status} ${path.slice(0, 120)} ${(body ?? "").slice(0, 120)}: ${text.slice(0, 300)}`);
  };
  while (all.length > 0) await Promise.all(all.splice(0, 20).map(send));
  const logged = running.output().match(/^.*(?:Warning:|"err":).*$/gm) ?? [];
  await stopRollcall(running);
  return [...faults, ...logged];
}

test("nothing that a client sends is a 500, with the service's own engine", async () => {
  expect(await faultsOf((yaml) => yaml)).toEqual([]);
});

test("nothing that a client sends is a 500, with PostgreSQL", async () => {
  const server = await startPostgres();
  try {
    const url = await server.createDatabase();
    const engine = `service:\n  engine: { postgres: "${url}" }\n`;
    expect(await faultsOf((yaml) => yaml.replace("service:\n", engine))).toEqual([]);
  } finally {
    await server.stop();
  }
});
