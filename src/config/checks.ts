import { stat } from "node:fs/promises";
import { resolve } from "node:path";
import { codeOf, lookedIn } from "#files/disk.ts";
import { isLoopback } from "#http/listening.ts";
import type { Attributes } from "#principals/attributes.ts";
import { checkRules, tablesOf } from "#principals/compile.ts";
import type { RuleProblem } from "#principals/compile.ts";
import { checkExpectations, tablesOfExpectations } from "#principals/expectations.ts";
import type { Expectation } from "#principals/expectations.ts";
import { readTables } from "#principals/lookup.ts";
import type { TableReader } from "#principals/lookup.ts";
import type { Kind } from "#principals/principal.ts";
import type { KindRules, Rules } from "#principals/rules.ts";
import { nearest } from "#text.ts";
import { listen, origin, webAddress } from "#values.ts";
import type { Configuration } from "./configuration.ts";
import { keysOf } from "./document.ts";
import type { ConfigurationDocument } from "./document.ts";
import { ruleKeysOf } from "./syncs.ts";
import { connectedTargets } from "./targets.ts";
import type { Path, Problem } from "./problems.ts";
import { checkState } from "./state.ts";
import { reason } from "./substitution.ts";
import { alternatives } from "./validate.ts";

/**
 * Problems that involve several parts of the file or its surroundings: unknown names, addresses that expose passwords,
 * missing files. Reads the raw values, so that it also works when the schema found problems.
 */
export async function checkReferences(document: ConfigurationDocument, folder: string): Promise<Problem[]> {
  const connected = connectedTargets(document);
  const services = keysOf(document, ["targets"]).filter((name) => !connected.includes(name));
  const channels = keysOf(document, ["notifications"]);
  return [
    ...plainHttp(document),
    ...checkState(document),
    ...services.flatMap((name) => checkTarget(document, ["targets", name])),
    ...keysOf(document, ["syncs"]).flatMap((name) => checkSync(document, ["syncs", name])),
    ...channels.flatMap((name) => checkChannel(document, ["notifications", name])),
    ...signOnWithoutUrl(document),
    ...inboxesWithoutPort(document),
    ...sharedTargets(document),
    ...withoutCauses(document),
    ...nestedAlone(document),
    ...(await checkPaths(document, folder, "file", [
      ["service", "tls", "cert"],
      ["service", "tls", "key"],
      ["service", "tables"],
      ["service", "engine", "sslrootcert"],
      ["console", "oidc", "ca"],
      ...services.map((name): Path => ["targets", name, "ca"]),
      ...channels.map((name): Path => ["notifications", name, "ca"]),
    ])),
    ...(await checkPaths(document, folder, "folder", [["service", "pinboards"]])),
  ];
}

/** The provider sends people back to an address that it knows. */
function signOnWithoutUrl(document: ConfigurationDocument): Problem[] {
  if ((document.at(["console", "oidc"]) ?? null) === null) return [];
  if ((document.at(["console", "publicUrl"]) ?? null) !== null) return [];
  return [
    document.problem(
      ["console", "oidc"],
      "key",
      "needs `console.publicUrl`, the address at which browsers reach the console, such as https://rollcall.example.com",
    ),
  ];
}

/** A provider knows one address. The service has a fixed port, unless somebody wants another. */
function inboxesWithoutPort(document: ConfigurationDocument): Problem[] {
  const parsed = listen.safeParse(document.at(["control", "listen"]) ?? "127.0.0.1:0");
  if (document.at(["service"]) !== undefined || !parsed.success || parsed.data.port !== 0) return [];
  return keysOf(document, ["sources"])
    .filter((name) => document.at(["sources", name, "inbox"]) !== undefined)
    .map((name) =>
      document.problem(
        ["sources", name, "inbox"],
        "key",
        "needs a port of the daemon that stays the same; set control.listen, such as 127.0.0.1:8442",
      ),
    );
}

/** Passwords and tokens cross a network unencrypted only if somebody allows it (0.1). The daemon's own API has no TLS. */
function plainHttp(document: ConfigurationDocument): Problem[] {
  const advice = {
    service: "set service.tls, or set service.allowPlainHttp: true if a proxy in front of Rollcall encrypts",
    control: "set control.allowPlainHttp: true if nobody can listen in on that network",
  };
  return Object.entries(advice).flatMap(([section, toDo]) => {
    const parsed = listen.safeParse(document.at([section, "listen"]));
    const isEncrypted = section === "service" && (document.at([section, "tls"]) ?? null) !== null;
    if (!parsed.success || isLoopback(parsed.data.host) || isEncrypted || isOn(document, [section, "allowPlainHttp"]))
      return [];
    const message = `plain HTTP on an address that other machines can reach; ${toDo}`;
    return [document.problem([section, "listen"], "value", message)];
  });
}

/** Whether a switch is on; a substitution is text. */
function isOn(document: ConfigurationDocument, path: Path): boolean {
  return String(document.at(path)).toLowerCase() === "true";
}

function checkTarget(document: ConfigurationDocument, path: Path): Problem[] {
  if (document.at(path) === "embedded" && document.at(["service"]) === undefined)
    return [document.problem(path, "value", "embedded means the service in this file, but the file has no service:")];
  const url = origin.safeParse(document.at([...path, "url"]));
  if (!url.success || !url.data.startsWith("http:") || isLoopback(new URL(url.data).hostname)) return [];
  return [
    document.problem([...path, "url"], "value", "the password would cross the network unencrypted; use an https URL"),
  ];
}

/** Where a sync names its sources. */
function sourcesOf(document: ConfigurationDocument, sync: Path): Path[] {
  const from = document.at([...sync, "from"]);
  return (Array.isArray(from) ? from : []).map((source: unknown, index): Path => {
    const within: Path = typeof source === "object" ? [index, "source"] : [index];
    return sync.concat("from", within);
  });
}

/** Whether every attribute of a sync's records is one text, by what its sources say. */
export function readsTexts(
  document: ConfigurationDocument,
  sources: Configuration["sources"],
): (sync: string) => boolean {
  return (sync) => {
    const names = sourcesOf(document, ["syncs", sync]).map((place) => document.at(place));
    return areTexts(names.map(String), sources);
  };
}

export function areTexts(names: readonly string[], sources: Configuration["sources"]): boolean {
  return (
    names.length > 0 &&
    names.every((name) => Object.hasOwn(sources, name) && sources[name]?.connector.onlyTexts === true)
  );
}

function checkSync(document: ConfigurationDocument, path: Path): Problem[] {
  const places = sourcesOf(document, path);
  const names = places.map((place) => document.at(place));
  return [
    ...places.flatMap((place, index) => {
      if (typeof names[index] === "string" && names.indexOf(names[index]) !== index)
        return [document.problem(place, "value", "named twice; remove one")];
      return checkName(document, place, "source", ["sources"]);
    }),
    ...checkName(document, [...path, "to"], "target", ["targets"]),
    ...(connectedTargets(document).includes(String(document.at([...path, "to"]))) ? ofServices(document, path) : []),
    ...plainAddress(document, [...path, "heartbeat"], "use an https URL"),
  ];
}

/** What only a service can do. */
function ofServices(document: ConfigurationDocument, sync: Path): Problem[] {
  const reasons = {
    defaultPassword: "the target takes no passwords; remove it",
    export: "the target has no tables; remove it",
  };
  return Object.entries(reasons).flatMap(([key, reason]) => {
    const path = [...sync, key];
    return document.at(path) === undefined ? [] : [document.problem(path, "key", reason)];
  });
}

function checkChannel(document: ConfigurationDocument, path: Path): Problem[] {
  const syncs = document.at([...path, "syncs"]);
  const names = (Array.isArray(syncs) ? syncs : []).map((_, index): Path => path.concat("syncs", index));
  const allowed = isOn(document, [...path, "allowPlain"]);
  const alone = (["username", "password"] as const).filter((key) => document.at([...path, key]) !== undefined);
  return [
    ...names.flatMap((name) => checkName(document, name, "sync", ["syncs"])),
    ...(allowed ? [] : plainAddress(document, [...path, "url"], "use an https URL, or allowPlain: true")),
    ...(document.at([...path, "by"]) === "email" && alone.length === 1
      ? alone.map((key) =>
          document.problem([...path, key], "value", `needs a ${key === "username" ? "password" : "username"} as well`),
        )
      : []),
  ];
}

/** An unencrypted address of another machine. */
function plainAddress(document: ConfigurationDocument, path: Path, advice: string): Problem[] {
  const url = webAddress.safeParse(document.at(path));
  if (!url.success || !url.data.startsWith("http:") || isLoopback(new URL(url.data).hostname)) return [];
  return [document.problem(path, "value", `requests would cross the network unencrypted; ${advice}`)];
}

function checkName(document: ConfigurationDocument, path: Path, kind: string, section: Path): Problem[] {
  const name = document.at(path);
  const names = keysOf(document, section);
  if (typeof name !== "string" || name === "" || names.includes(name) || document.broken(path)) return [];
  const origins = document.origins(path);
  const all = names.length === 0 ? "there are none" : `the ${kind}s are: ${names.join(", ")}`;
  const meant = nearest(name, names);
  const message =
    origins.length > 0
      ? `no ${kind} has the name from ${alternatives(origins)}; ${all}`
      : `no ${kind} is called ${name}; ${meant === undefined ? all : `did you mean ${JSON.stringify(meant)}?`}`;
  return [document.problem(path, "value", message)];
}

/** A sync that manages everything in a target deletes what other syncs write there. */
function sharedTargets(document: ConfigurationDocument): Problem[] {
  const syncs = keysOf(document, ["syncs"]);
  const target = (name: string): string =>
    JSON.stringify(document.at(["targets", String(document.at(["syncs", name, "to"]))]));
  return syncs.flatMap((name) => {
    const path = ["syncs", name, "manage"];
    if (document.at(path) !== "everything" || document.at(["syncs", name, "to"]) === undefined) return [];
    const other = syncs.find((one) => one !== name && target(one) === target(name));
    if (other === undefined) return [];
    return [
      document.problem(
        path,
        "value",
        `would delete what the sync ${other} writes to the same target; use manage: owned`,
      ),
    ];
  });
}

/** Drift is found by the causes, and so is what the last run gave, unlike a manual membership. */
function withoutCauses(document: ConfigurationDocument): Problem[] {
  return keysOf(document, ["syncs"]).flatMap((name) => {
    const sync = ["syncs", name];
    if (document.at([...sync, "causes"]) !== false) return [];
    const needing = [
      { path: [...sync, "drift"], without: "revert" },
      { path: [...sync, "memberships", "keepManual"], without: false },
    ];
    return needing
      .filter(({ path, without }) => ![undefined, without].includes(document.at(path) as string | boolean | undefined))
      .map(({ path }) => document.problem(path, "value", "needs causes; remove `causes: false`"));
  });
}

/** It says how the lists of groups are meant. */
function nestedAlone(document: ConfigurationDocument): Problem[] {
  return keysOf(document, ["syncs"]).flatMap((name) => {
    const path = ["syncs", name, "users"];
    const has = (key: string): boolean => document.at([...path, key]) !== undefined;
    if (!has("nested") || has("onlyMembersOf") || has("notMembersOf")) return [];
    return [document.problem([...path, "nested"], "key", "needs onlyMembersOf or notMembersOf beside it")];
  });
}

type PathKind = "file" | "folder";
const absent = "does not exist";

async function checkPaths(
  document: ConfigurationDocument,
  folder: string,
  kind: PathKind,
  paths: readonly Path[],
): Promise<Problem[]> {
  const problems = await Promise.all(
    paths.map(async (path) => {
      const file = document.at(path);
      if (typeof file !== "string" || file === "" || document.broken(path)) return [];
      const failure = await missing(resolve(folder, file), kind);
      if (failure === undefined) return [];
      const origins = document.origins(path);
      const message =
        origins.length > 0
          ? `the ${kind} ${failure} (the value comes from ${alternatives(origins)})`
          : `${file} ${failure}${failure === absent ? ` ${lookedIn(resolve(folder, file))}` : ""}`;
      return [document.problem(path, "value", message)];
    }),
  );
  return problems.flat();
}

/** Why a path is not a file, or a folder. Permissions are not checked: a plan does not need the TLS key. */
async function missing(path: string, kind: PathKind): Promise<string | undefined> {
  try {
    const is = await stat(path);
    const found = is.isDirectory() ? "folder" : is.isFile() ? "file" : "device or pipe";
    return found === kind ? undefined : `is a ${found}, not a ${kind}`;
  } catch (error) {
    return codeOf(error) === "ENOENT" ? absent : `cannot be read: ${reason(error)}`;
  }
}

interface RuleChecking {
  /** Whether every attribute of a sync's records is one text. */
  readonly onlyTexts: (sync: string) => boolean;
  /** What the target of a sync declares; undefined: that is not known, and the sync is not checked. */
  readonly declaredOf: (sync: string) => Attributes | undefined;
  readonly readTable?: TableReader | undefined;
}

/**
 * What is wrong with the expressions of every sync, at its place in the expression if that is known.
 */
export async function checkSyncRules(
  document: ConfigurationDocument,
  folder: string,
  { onlyTexts, declaredOf, readTable }: RuleChecking,
): Promise<Problem[]> {
  const problems = keysOf(document, ["syncs"]).map(async (sync) => {
    const base = ["syncs", sync];
    const declared = declaredOf(sync);
    if (declared === undefined) return [];
    const rules: Rules = {
      join: texts(document, [...base, "join"], ["users", "groups"]),
      users: expressions(document, [...base, "users"], declared, "user"),
      groups: expressions(document, [...base, "groups"], declared, "group"),
      groupsFromRules: texts(
        document,
        [...base, "groupsFromRules"],
        declared.of("group").map(({ name }) => name),
      ),
    };
    const { places, expectations } = expectationsIn(document, [...base, "expectations"]);
    const files = [...tablesOf(rules, declared), ...tablesOfExpectations(expectations)];
    const tables = readTable && (await readTables(files, folder, readTable));
    const problems: (Omit<RuleProblem, "path"> & { path: Path })[] = [
      ...checkRules(rules, tables, onlyTexts(sync), declared),
      ...checkExpectations(expectations, tables, onlyTexts(sync), declared).map(({ index, ...problem }) =>
        Object.assign(problem, { path: [...(places[index] ?? []), "expect"] }),
      ),
    ];
    return problems.map(({ path, message, offset }) => {
      const place: Path = [...base, ...path];
      const origins = document.origins(place);
      // The message may quote the expression.
      if (origins.length > 0)
        return document.problem(place, "value", `the expression from ${alternatives(origins)} is not valid`);
      return document.problemWithin(place, offset, message);
    });
  });
  return (await Promise.all(problems)).flat();
}

/** The expectations whose expression is a text, and their places in the sync. The schema reports the others. */
function expectationsIn(
  document: ConfigurationDocument,
  base: Path,
): { readonly places: readonly Path[]; readonly expectations: readonly Pick<Expectation, "over" | "expect">[] } {
  const all = document.at(base);
  const found = (Array.isArray(all) ? all : []).flatMap((_, index) => {
    const { expect } = texts(document, [...base, index], ["expect"]);
    const over = document.at([...base, index, "over"]);
    if (over !== undefined && over !== "users" && over !== "groups") return [];
    return expect === undefined ? [] : ([{ place: ["expectations", index], expect, over }] as const);
  });
  return { places: found.map(({ place }) => place), expectations: found };
}

/** The rules of one kind whose expression is a text. The schema reports the others, and missing ones. */
function expressions(document: ConfigurationDocument, base: Path, attributes: Attributes, kind: Kind): KindRules {
  const known = ruleKeysOf(attributes, kind);
  const values = known.flatMap((rule) => {
    const { value, unique } = texts(document, [...base, rule], ["value", "unique"]);
    if (value === undefined) return [];
    return [[rule, rule === "name" && unique !== undefined ? { value, unique } : { value, absent: "keep" }]];
  });
  const required = attributes.of(kind).flatMap((each) => (each.required === true ? [[each.name, '"-"']] : []));
  return {
    name: '"-"',
    ...Object.fromEntries([...required, ...values]),
    ...texts(document, base, known),
  };
}

/** The keys of a mapping whose values are text. */
function texts(document: ConfigurationDocument, base: Path, keys: readonly string[]): Record<string, string> {
  const found = keys.flatMap((key) => {
    const path = [...base, key];
    const value = document.at(path);
    return typeof value === "string" && value !== "" && !document.broken(path) ? [[key, value]] : [];
  });
  return Object.fromEntries(found);
}
