import { monitorEventLoopDelay } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { compactData } from "#wire/pinboards.ts";
import { syncResult } from "#wire/administration.ts";
import { errorBody } from "#wire/errors.ts";
import { loadStarted, loadStatus } from "#wire/loads.ts";
import type { LoadStatus } from "#wire/loads.ts";
import {
  administrationRoutes,
  familyA,
  familyB,
  loadRoutes,
  localRoutes,
  ofCycle,
  pinboardRoutes,
} from "#wire/routes.ts";
import type { Route } from "#wire/routes.ts";
import { sqlResult } from "#wire/sql.ts";
import {
  createDirectory,
  differenceOf,
  digestOf,
  guest,
  isThere,
  joinerName,
  lasting,
  versionOf,
  withoutTimes,
} from "./directory.ts";
import type { Principal, State } from "./directory.ts";
import type { Observation, SharedTable } from "./judge.ts";
import type { ClientsRequest, Role, Told } from "./roles.ts";
import { connect, fileOf, formOf, now } from "./requests.ts";
import type { Answer, Ask, Report } from "./requests.ts";
import {
  database,
  isKeyed,
  loadIn,
  loadsOf,
  ownQuery,
  ownTable,
  pinboardId,
  replacedQuery,
  rowsOf,
  rowsPerLoad,
  sharedQuery,
  sumsOf,
  visualizationId,
  visualizations,
} from "./tables.ts";

const request = JSON.parse(process.argv[2] ?? "") as ClientsRequest;
const { url, session, users, password } = request;
const directory = createDirectory(users);
const over = new AbortController();
/** The newest version that may have been applied. */
let newest = 0;

let times: Record<string, number[]> = {};
let refusals: Record<string, number> = {};
let observations: Observation[] = [];
let wrong: string[] = [];
let requests = 0;

function send(): void {
  const late = Math.max(0, lateness.percentile(99) / 1e6 - 10);
  process.send?.({ times, refusals, observations, wrong, requests, late } satisfies Report);
  [times, refusals, observations, wrong, requests] = [{}, {}, [], [], 0];
}
const lateness = monitorEventLoopDelay({ resolution: 10 });
lateness.enable();

function took(what: string, milliseconds: number): void {
  (times[what] ??= []).push(milliseconds);
}

/** An answer that no state of the model gives. */
class WrongAnswer extends Error {}

function expectThat(condition: boolean, what: string, answer?: Answer): asserts condition {
  if (!condition)
    throw new WrongAnswer(answer === undefined ? what : `${what}: ${answer.status} ${answer.text.slice(0, 500)}`);
}

/** What may be refused because too much is going on, with what the service may say of it. */
const busy: Readonly<Record<string, RegExp>> = {
  query: /^visualization [^:]+: .*(?:memory|time|too large)/,
  SQL: /memory|time|too large/,
};

/** Was refused as the interface allows: the client does something else. */
class Refused extends Error {}

interface Me {
  readonly id: number;
  readonly address: string;
  ask(what: string, request: Ask, status: number): Promise<Answer>;
}

const ofA = ({ method, path }: Route, more: Omit<Ask, "method" | "path"> = {}): Ask => ({
  method,
  path: familyA + path,
  ...more,
});
const ofB = ({ method, path }: Route, more: Omit<Ask, "method" | "path"> = {}): Ask => ({
  method,
  path: familyB + path,
  ...more,
});

function createMe(id: number): Me & { close(): Promise<void> } {
  const address = `10.0.${id >> 8}.${id & 255}`;
  const connection = connect(url, { session, address });
  return {
    id,
    address,
    close: () => connection.close(),
    ask: async (what, request, status) => {
      const answer = await connection.ask(request);
      requests++;
      if (answer.status === status) {
        if (!partsOfLoads.has(what)) took(what, answer.ended - answer.began);
        return answer;
      }
      if (answer.status === 503 && busy[what]?.test(messageOf(answer)) === true) {
        refusals[`${what}: 503`] = (refusals[`${what}: 503`] ?? 0) + 1;
        throw new Refused();
      }
      throw new WrongAnswer(`${what}: ${answer.status} instead of ${status}: ${answer.text.slice(0, 500)}`);
    },
  };
}

const partsOfLoads = new Set(["start", "upload", "commit", "status", "cancel", "bad records", "logout", "session"]);

function messageOf({ text }: Answer): string {
  try {
    return (JSON.parse(errorBody.parse(JSON.parse(text)).debug) as string[]).join("; ");
  } catch {
    return text;
  }
}

const accept = { accept: "application/json" };
const gzip = { ...accept, "accept-encoding": "gzip" };

async function list(me: Me): Promise<void> {
  const route = ofB(administrationRoutes.userList, { headers: me.id % 3 === 0 ? gzip : accept });
  const { text, began, ended } = await me.ask("user/list", route, 200);
  const version = versionOf(text);
  const state = directory.state(version);
  const found: number[] = [];
  const digest = digestOf(withoutTimes(text, (created, modified) => found.push(created, modified)));
  if (digest !== state.digest)
    throw new WrongAnswer(`user/list is no state, but nearly ${version}: ${firstOther(text, state)}`);
  const milliseconds = new Map<number, number>();
  for (const [index, { name, created, modified }] of state.principals.entries()) {
    for (const [of, is] of [
      [created, found[2 * index]],
      [modified, found[2 * index + 1]],
    ] as const) {
      const before = milliseconds.get(of) ?? is;
      expectThat(before === is && is !== undefined, `user/list at ${version}: ${name} has other times than the rest`);
      milliseconds.set(of, is);
    }
  }
  observations.push({ what: "directory", by: "user/list", versions: [version], began, ended });
  for (const [of, is] of milliseconds)
    if (of > version - 3) observations.push({ what: "time", version: of, milliseconds: is });
}

function firstOther(text: string, { principals }: State): string {
  const found = JSON.parse(text) as (Principal & { groupNames: string[] })[];
  for (const [index, each] of found.entries()) {
    const expected = principals[index];
    const isSame =
      each.name === expected?.name &&
      each.displayName === expected.displayName &&
      each.mail === expected.mail &&
      JSON.stringify(each.groupNames) === JSON.stringify(expected.groups);
    if (!isSame) return `${JSON.stringify(each)} instead of ${JSON.stringify(expected)}`;
  }
  return `${found.length} instead of ${principals.length} principals, or another form`;
}

/** Compares with what each state gives that may have been. @param expected the answer, given a version */
function observePreview(answer: Answer, before: number, expected: (version: number) => string): void {
  const found = JSON.stringify(syncResult.parse(JSON.parse(answer.text)));
  const versions: number[] = [];
  for (let version = Math.max(0, before - 1); version <= newest + 1; version++) {
    if (expected(version) === found) versions.push(version);
  }
  expectThat(versions.length > 0, `a preview since ${before} is that of no state`, answer);
  const { began, ended } = answer;
  observations.push({ what: "directory", by: "a preview", versions, began, ended });
}

const aPassword = "for those who are never created";

async function preview(me: Me): Promise<void> {
  const before = newest;
  const { users: known } = directory.state(before);
  const list = new Map([[guest.name, guest]]);
  for (const nth of [0, 1, 2]) {
    const cohort = before + 100 * Math.floor((Math.random() * users) / 100);
    const one = known.get(directory.userName((cohort + nth) % users));
    if (one !== undefined) list.set(one.name, lasting(one));
  }
  const form = formOf({
    principals: listOf([...list.values()]),
    applyChanges: "false",
    remoteDeleted: "false",
    defaultPassword: aPassword,
  });
  const answer = await me.ask("preview of a few", ofB(administrationRoutes.userSync, form), 200);
  observePreview(answer, before, (version) =>
    JSON.stringify(differenceOf([...list.values()], directory.state(version), false)),
  );
}

const listOf = (list: readonly Principal[]): string => `[${list.map(({ text }) => text).join(",")}]`;

/** The list of everybody of a version, without one and with a guest. */
interface Everybody {
  readonly version: number;
  readonly form: Omit<Ask, "method" | "path">;
  /** What it changes in a version. */
  expected(version: number): string;
}

let last: Everybody | undefined;

/** Made once for each version: all clients of the process send the same bytes. */
function everybody(version: number): Everybody {
  if (last?.version === version) return last;
  const left = directory.userName(7 % users);
  const list = [
    guest,
    ...directory.state(version).principals.filter(({ name, created }) => created >= 0 && name !== left),
  ];
  const answers = new Map<number, string>();
  last = {
    version,
    form: fileOf("principals", listOf(list), { applyChanges: "false", defaultPassword: aPassword }),
    expected: (other) => {
      const answer = answers.get(other) ?? JSON.stringify(differenceOf(list, directory.state(other), true));
      answers.set(other, answer);
      return answer;
    },
  };
  return last;
}

async function previewAll(me: Me): Promise<void> {
  const { version, form, expected } = everybody(newest);
  const answer = await me.ask("preview of all", ofB(administrationRoutes.userSync, form), 200);
  observePreview(answer, version, expected);
}

/** How a load goes. */
type Course = "loads" | "has a wrong row" | "is cancelled" | "is interrupted";

/** @returns when its commit was sent, and when it was known to be over */
async function loadRows(
  me: Me,
  what: string,
  target: { readonly table: string; readonly empty: boolean },
  rows: string,
  course: Course = "loads",
): Promise<{ began: number; ended: number; status: LoadStatus }> {
  const began = now();
  const body = JSON.stringify({
    target: { database, table: target.table },
    load_options: { empty_target: target.empty },
  });
  const started = await me.ask("start", ofA(loadRoutes.start, { body }), 202);
  const { cycle_id: id } = loadStarted.parse(JSON.parse(started.text));
  const upload = ofCycle(loadRoutes.upload, id);
  const half = rows.indexOf("\n", rows.length / 2) + 1;
  if (course === "is interrupted") {
    const signal = AbortSignal.timeout(Math.ceil(Math.random() * 20));
    await me.ask("upload", ofA(upload, { ...chunk(rows.slice(0, half), "1"), signal }), 202).catch((error: unknown) => {
      if (!signal.aborted) throw error;
    });
  }
  for (const [part, text] of [rows.slice(0, half), rows.slice(half)].entries()) {
    const wrongRow = course === "has a wrong row" && part === 1 ? "x,y\n" : "";
    await me.ask("upload", ofA(upload, chunk(text + wrongRow, String(part + 1))), 202);
  }
  const committed = now();
  await me.ask("commit", ofA(ofCycle(loadRoutes.commit, id), { headers: { "x-ts-chunks": "2" } }), 202);
  if (course === "is cancelled") await me.ask("cancel", ofA(ofCycle(loadRoutes.cancel, id)), 200);
  for (;;) {
    const { text, ended } = await me.ask("status", ofA(ofCycle(loadRoutes.status, id)), 200);
    const status = loadStatus.parse(JSON.parse(text));
    if (status.internal_stage !== "DONE") continue;
    if (course === "loads" || course === "is interrupted") took(what, ended - began);
    if (course === "has a wrong row") {
      const rejected = await me.ask("bad records", ofA(ofCycle(loadRoutes.badRecords, id)), 200);
      expectThat(rejected.text === "x,y\n", "the rejected rows are others", rejected);
    }
    const expected = {
      loads: ["OK"],
      "is interrupted": ["OK"],
      "has a wrong row": ["LOAD_FAILED"],
      "is cancelled": ["CANCELLED", "OK"],
    }[course];
    const written = status.status.code === "OK" ? rowsPerLoad : 0;
    const ignored = course === "has a wrong row" ? 1 : 0;
    expectThat(
      expected.includes(status.status.code) &&
        status.rows_written === String(written) &&
        (status.ignored_row_count === String(ignored) || status.status.code === "CANCELLED"),
      `a load that ${course}: ${JSON.stringify(status)}`,
    );
    return { began: committed, ended, status };
  }
}

const chunk = (rows: string, id: string): Pick<Ask, "headers" | "body"> => {
  const { headers, body } = fileOf("file", rows);
  return { headers: { ...headers, "x-ts-chunk-id": id }, body };
};

/** The loads in each client's own table. */
const loaded = new Map<number, number[]>();
/** How many loads each client has begun. */
const counts = new Map<string, number>();

function next(key: string): number {
  const number = (counts.get(key) ?? 0) + 1;
  counts.set(key, number);
  return number;
}

async function load(me: Me): Promise<void> {
  const number = next(`own ${me.id}`);
  const courses: readonly Course[] = [
    "loads",
    "loads",
    "is interrupted",
    "loads",
    "has a wrong row",
    "loads",
    "is cancelled",
  ];
  const course = courses[number % courses.length] ?? "loads";
  const empty = number % 16 === 0;
  const { status } = await loadRows(me, "load", { table: ownTable(me.id), empty }, rowsOf(me.id, number), course);
  const before = loaded.get(me.id) ?? [];
  if (status.status.code === "OK") loaded.set(me.id, empty || isKeyed(me.id) ? [number] : [...before, number]);
  // A session of the machine may ask either way.
  const rows = number % 4 === 0 ? await ownRowsInSql(me) : await rowsOfQuery(me, visualizations.own + me.id);
  const expected = JSON.stringify([sumsOf(loaded.get(me.id) ?? [])]);
  expectThat(JSON.stringify(rows) === expected, `${ownTable(me.id)} has ${JSON.stringify(rows)}, not ${expected}`);
}

async function ownRowsInSql(me: Me): Promise<readonly (readonly number[])[]> {
  return (await rowsOfSql(me, ownQuery(me.id))).rows;
}

async function rowsOfQuery(me: Me, number: number): Promise<readonly (readonly number[])[]> {
  return (await askQuery(me, number)).rows;
}

interface Rows {
  readonly rows: readonly (readonly number[])[];
  readonly began: number;
  readonly ended: number;
}

async function askQuery(me: Me, number: number): Promise<Rows> {
  const vizid = visualizationId(number);
  const answer = await me.ask("query", ofB(pinboardRoutes.data, formOf({ id: pinboardId, vizid })), 200);
  const found = compactData.parse(JSON.parse(answer.text))[vizid];
  expectThat(found !== undefined && found.rowCount === found.data.length, "not the visualization", answer);
  return { ...answer, rows: found.data as number[][] };
}

async function rowsOfSql(me: Me, sql: string): Promise<Rows> {
  const { method, path } = localRoutes.sql;
  const answer = await me.ask("SQL", { method, path, body: JSON.stringify({ database, sql }) }, 200);
  return { ...answer, rows: sqlResult.parse(JSON.parse(answer.text)).rows as number[][] };
}

async function loadInto(me: Me, table: SharedTable): Promise<void> {
  const number = next(`${table} ${me.id}`);
  const target = { table, empty: table === "replaced" };
  const { began, ended } = await loadRows(me, "load into a shared table", target, rowsOf(me.id, number));
  observations.push({ what: "load", table, client: me.id, load: number, began, ended });
}

function observeTable(table: SharedTable, { rows, began, ended }: Rows): void {
  if (table === "shared") {
    const loads = rows.map((row) => [row[0] ?? 0, loadsOf(row)] as const);
    observations.push({ what: "shared", loads, began, ended });
  } else {
    observations.push({ what: "replaced", load: loadIn(rows[0] ?? []), began, ended });
  }
}

const aTable = (): SharedTable => (Math.random() < 0.5 ? "shared" : "replaced");

async function query(me: Me): Promise<void> {
  const table = aTable();
  observeTable(table, await askQuery(me, visualizations[table]));
}

async function sql(me: Me): Promise<void> {
  const table = aTable();
  observeTable(table, await rowsOfSql(me, table === "shared" ? sharedQuery : replacedQuery));
}

const logins = new Map<number, number>();

/** Another address every twenty logins: as many fail as the model says, and an address may have 50 of these (0.8). */
function addressOf(me: Me): string {
  const number = logins.get(me.id) ?? 0;
  logins.set(me.id, number + 1);
  const block = Math.floor(number / 20);
  return `10.${1 + me.id}.${(block >> 8) & 255}.${block & 255}`;
}

/** Logs in as somebody of the directory, looks at what that one may and may not, and logs out. */
async function member(me: Me): Promise<void> {
  const before = newest;
  const isJoiner = Math.random() < 0.5;
  const joined = Math.max(1, before - Math.floor(Math.random() * 8));
  const username = isJoiner ? joinerName(joined) : directory.userName(Math.floor(Math.random() * users));
  const address = addressOf(me);
  const anonymous = connect(url, { address });
  const observe = (answer: Answer, by: string, is: boolean): void => {
    if (!isJoiner) {
      expectThat(is, `${by} of ${username}`, answer);
      return;
    }
    const versions: number[] = [];
    for (let version = Math.max(0, before - 1); version <= newest + 1; version++)
      if (isThere(joined, version) === is) versions.push(version);
    const { began, ended } = answer;
    observations.push({ what: "directory", by: `${by} of ${username}: ${answer.status}`, versions, began, ended });
  };
  try {
    const opened = await anonymous.ask(ofB(administrationRoutes.login, formOf({ username, password })));
    requests++;
    took("login", opened.ended - opened.began);
    expectThat(opened.status === 204 || opened.status === 401, "login", opened);
    observe(opened, "login", opened.status === 204);
    if (opened.session === undefined) return;
    const own = connect(url, { session: opened.session, address });
    try {
      for (let look = 0; look < 5; look++) {
        const looked = await own.ask(ofB(pinboardRoutes.headers));
        requests++;
        expectThat(looked.status === 200 || looked.status === 401, "listvizheaders", looked);
        observe(looked, "a session", looked.status === 200);
        if (looked.status === 401) return;
        took("session check", looked.ended - looked.began);
      }
      const refused = await own.ask(ofB(administrationRoutes.userList));
      requests++;
      expectThat(
        refused.status === 403 || (isJoiner && refused.status === 401),
        "user/list without privilege",
        refused,
      );
      const out = await own.ask(ofB(administrationRoutes.logout));
      requests++;
      expectThat(out.status === 204 || (isJoiner && out.status === 401), "logout", out);
      const ended = await own.ask(ofB(pinboardRoutes.headers));
      requests++;
      expectThat(ended.status === 401, "a session that was logged out", ended);
    } finally {
      await own.close();
    }
  } finally {
    await anonymous.close();
  }
}

/** How long the service may be trusted to remember failures: five minutes, less what a busy machine delays. */
const window = 240_000;

/** Guesses from one address as the interface counts them: ten of a name, fifty in all (0.8). */
async function guess(me: Me): Promise<void> {
  const round = next(`guess ${me.id}`);
  const address = `11.${me.id}.${(round >> 8) & 255}.${round & 255}`;
  const anonymous = connect(url, { address });
  const began = now();
  const attempt = async (username: string, isAllowed: boolean): Promise<void> => {
    if (over.signal.aborted || now() - began > window) return;
    const answer = await anonymous.ask(ofB(administrationRoutes.login, formOf({ username, password: "a guess" })));
    requests++;
    if (now() - began > window) return;
    expectThat(answer.status === (isAllowed ? 401 : 429), `guess ${username} from ${address}`, answer);
    took(isAllowed ? "wrong login" : "refused login", answer.ended - answer.began);
    if (isAllowed) return;
    refusals["login: 429"] = (refusals["login: 429"] ?? 0) + 1;
    expectThat(answer.retryAfter > 0 && answer.retryAfter <= 300, "Retry-After", answer);
  };
  try {
    for (let name = 0; name < 5; name++) {
      // Nobody has such a name, and every address another one: names are counted everywhere.
      const username = `nobody-${me.id}-${round}-${name}`;
      for (let nth = 0; nth < 10; nth++) await attempt(username, true);
      await attempt(username, false);
    }
    await attempt(`nobody-${me.id}-${round}-last`, false);
  } finally {
    await anonymous.close();
  }
}

const mistakes: readonly ((me: Me) => Promise<void>)[] = [
  async (me) => {
    const principals = listOf([guest]).replace("Team 0", "No such group");
    const form = formOf({ principals, remoteDeleted: "false", defaultPassword: aPassword });
    const answer = await me.ask("refused preview", ofB(administrationRoutes.userSync, form), 400);
    expectThat(messageOf(answer).startsWith("principals[0].groupNames: "), "the problem is another one", answer);
  },
  async (me) => {
    await me.ask("refused request", ofB(administrationRoutes.userSync, formOf({ applyChanges: "false" })), 415);
  },
  async (me) => {
    const form = formOf({ id: pinboardId.replaceAll("0", "7") });
    await me.ask("refused request", ofB(pinboardRoutes.data, form), 400);
  },
  async (me) => {
    await me.ask("refused request", ofA(loadRoutes.start, { body: "{}" }), 400);
  },
  async (me) => {
    const unknown = ofCycle(loadRoutes.commit, "00000000-0000-4000-8000-000000000000");
    const answer = await me.ask("refused request", ofA(unknown), 500);
    expectThat(answer.text.startsWith("Commit load cycle failed."), "the text is another one", answer);
  },
  async (me) => {
    const body = JSON.stringify({ target: { database, table: "missing" } });
    const { text } = await me.ask("start", ofA(loadRoutes.start, { body }), 202);
    const { cycle_id: id } = loadStarted.parse(JSON.parse(text));
    const refused = await me.ask("refused request", ofA(ofCycle(loadRoutes.upload, id), chunk("1\n", "1")), 400);
    expectThat(refused.text === "Unable to find table. Cannot load data.", "the text is another one", refused);
    await me.ask("cancel", ofA(ofCycle(loadRoutes.cancel, id)), 200);
  },
];

async function mistake(me: Me): Promise<void> {
  await mistakes[next(`mistake ${me.id}`) % mistakes.length]?.(me);
}

/** Asks for what takes a while, and is gone before it is answered. */
async function hangUp(me: Me): Promise<void> {
  const costly = formOf({ id: pinboardId, vizid: visualizationId(visualizations.costly) });
  const all: readonly (() => Ask)[] = [
    () => ofB(administrationRoutes.userList, { headers: gzip }),
    () => ofB(pinboardRoutes.data, costly),
    () => ofB(administrationRoutes.userSync, everybody(newest).form),
  ];
  const asked = all[next(`hang up ${me.id}`) % all.length]?.();
  if (asked === undefined) return;
  const connection = connect(url, { session, address: me.address });
  const signal = AbortSignal.timeout(Math.ceil(Math.random() * 300));
  try {
    requests++;
    const answer = await connection.ask({ ...asked, signal });
    expectThat(answer.status === 200 || answer.status === 503, "before the client hung up", answer);
  } catch (error) {
    if (!signal.aborted) throw error;
    took("hang-up", 0);
  } finally {
    await connection.close().catch(() => undefined);
  }
}

const acts: Readonly<Record<Role, (me: Me) => Promise<void>>> = {
  list,
  preview,
  previewAll,
  load,
  loadShared: (me) => loadInto(me, "shared"),
  loadReplaced: (me) => loadInto(me, "replaced"),
  query,
  sql,
  member,
  guess,
  mistake,
  hangUp,
};

async function run({ id, roles: own }: ClientsRequest["clients"][number]): Promise<void> {
  const me = createMe(id);
  for (let turn = 0; !over.signal.aborted; turn++) {
    const role = own[turn % own.length] ?? "list";
    try {
      await acts[role](me);
    } catch (error) {
      if (error instanceof Refused) {
        await sleep(100);
        continue;
      }
      wrong.push(
        `client ${id}, ${role}: ${error instanceof WrongAnswer ? error.message : String((error as Error).stack)}`,
      );
      // What it knows of its table may be wrong from now on.
      break;
    }
  }
  await me.close();
}

const told = Promise.withResolvers<void>();
process.on("message", (message: Told) => {
  if (message === "end") over.abort();
  else newest = message.version;
  told.resolve();
});
// It is ready.
send();
await told.promise;
const reporting = setInterval(send, 500);
await Promise.all(request.clients.map(run));
clearInterval(reporting);
send();
process.disconnect?.();
