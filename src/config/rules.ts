import { stringify } from "yaml";
import { z } from "zod";
import { InputError } from "#errors.ts";
import { redactor } from "#redact.ts";
import { compileRules, tablesOf } from "#principals/compile.ts";
import { isCredential } from "#principals/credentials.ts";
import { tablesOfExpectations } from "#principals/expectations.ts";
import { readTables } from "#principals/lookup.ts";
import type { TableReader } from "#principals/lookup.ts";
import { buildRules } from "./build.ts";
import { areTexts, checkReferences, checkSyncRules } from "./checks.ts";
import type { Configuration, SyncConfiguration } from "./configuration.ts";
import { ConfigurationDocument, keysOf } from "./document.ts";
import type { Fill } from "./document.ts";
import { refuse } from "./problems.ts";
import type { Path, Problem } from "./problems.ts";
import { unfilled } from "./substitution.ts";
import type { Attributes } from "#principals/attributes.ts";
import { attributesOf } from "./targets.ts";
import { rulesOf } from "./syncs.ts";
import { alternatives, validate } from "./validate.ts";

/*
 * The rules of a sync as a text that may be shown to, and changed by, somebody who may not read the configuration or the
 * machine's files.
 */

/** What the text is called in messages. */
const called = "rules";

/** The longest text, in characters. */
const longest = 256 * 1024;

const ruleKeys = Object.keys(rulesOf(attributesOf(undefined)).shape);

/**
 * The rules of a sync as they stand in its configuration, as YAML that has its place there. Substitutions are shown as they
 * are written, secrets as `***`, comments not at all.
 */
export function rulesText({ text, secrets }: Configuration, sync: string): string {
  const document = new ConfigurationDocument(text, undefined);
  const shown = shownTexts(document, secrets);
  const copy = (value: unknown, path: Path): unknown => {
    if (typeof value === "string") return shown(path) ?? value;
    if (Array.isArray(value)) return value.map((each: unknown, index) => copy(each, [...path, index]));
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, copy(each, [...path, key])]));
  };
  const base = ["syncs", sync];
  const present = ruleKeys.filter((key) => document.at([...base, key]) !== undefined);
  const rules = Object.fromEntries(
    present.map((key) => [key, copy(document.at([...base, key]), [...base, key])] as const),
  );
  return redactor(secrets)(stringify({ syncs: { [sync]: rules } }, { lineWidth: 0, singleQuote: true }));
}

/** What stands for each text of the running configuration where it is shown; undefined: there is none at that path. */
function shownTexts(raw: ConfigurationDocument, secrets: readonly string[]): (path: Path) => string | undefined {
  const redact = redactor(secrets);
  return (path) => {
    const text = raw.at(path);
    if (typeof text !== "string") return undefined;
    return raw.secret(path) ? "***" : redact(text);
  };
}

/**
 * The configuration with other rules for one of its syncs. Nothing else can be changed by the text, and what it says reads
 * nothing that the configuration does not read already: a text with a substitution stands only where the configuration has
 * the very same, and `lookup` reads the tables that the sync already reads.
 * @param text as `rulesText` gives it, changed
 * @throws {InputError} with every problem of the text, as `rules:LINE:COLUMN: KEY: what is wrong; what to do`
 */
export async function changeRules(
  configuration: Configuration,
  sync: string,
  text: string,
  environment: NodeJS.ProcessEnv = process.env,
): Promise<Configuration> {
  const { folder, secrets } = configuration;
  const own = configuration.syncs[sync];
  if (own === undefined) throw new InputError(`no sync is called ${sync}`);
  const declared = attributesOf(configuration.targets[own.to]);
  if (text.length > longest) throw new InputError(`the rules are longer than ${longest / 1024} KiB`);
  const document = new ConfigurationDocument(text, fillFrom(configuration, environment));
  const fail = (problems: readonly Problem[]): never =>
    refuse(called, [...document.problems, ...problems], [...secrets, ...document.secrets], "the rules have");
  if (!document.readable) return fail([]);
  // Before anything is looked at that others than rules name.
  const others = otherKeys(document, sync);
  if (others.length > 0) return fail(others);
  const schema = z.strictObject({ syncs: z.strictObject({ [sync]: rulesOf(declared) }) });
  const validated = await validate(schema, document.value ?? {}, [], document);
  const readTable = ownTables(configuration, own, declared);
  const problems = [
    ...validated.problems,
    ...(await checkReferences(document, folder)),
    ...(await checkSyncRules(document, folder, {
      onlyTexts: () => areTexts(own.from, configuration.sources),
      declaredOf: () => declared,
      readTable,
    })),
  ];
  const changed = validated.value?.syncs[sync];
  if (problems.length + document.problems.length > 0 || changed === undefined) return fail(problems);
  const rules = buildRules(changed, declared);
  const secretReads = await readsOfCredentials(document, sync, {
    before: own.rules,
    after: rules,
    declared,
    folder,
    readTable,
  });
  if (secretReads.length > 0) return fail(secretReads);
  return { ...configuration, readTable, syncs: { ...configuration.syncs, [sync]: { ...own, rules } } };
}

/** Fills in what the running configuration has at the same place, where the text is the same; nothing else. */
function fillFrom({ text, folder, secrets }: Configuration, environment: NodeJS.ProcessEnv): Fill {
  const running = new ConfigurationDocument(text, { folder, environment });
  const shown = shownTexts(new ConfigurationDocument(text, undefined), secrets);
  return (written, path) => {
    const value = running.at(path);
    if (typeof value === "string" && shown(path) === written) {
      const origins = running.origins(path);
      return {
        text: value,
        origins,
        secrets: origins.length > 0 ? [value] : [],
        whole: running.substituted(path),
        problems: [],
      };
    }
    return unfilled(
      written,
      "reads the environment or a file, which a trial cannot; leave the value as the configuration has it, or write $${ for the text ${",
    );
  };
}

/** Everything that is no rule of the sync. */
function otherKeys(document: ConfigurationDocument, sync: string): Problem[] {
  const only = `only the rules of ${sync} can be tried: ${alternatives(ruleKeys).replace(" or ", " and ")}; remove it`;
  const other = (path: Path, allowed: readonly string[]): Problem[] =>
    keysOf(document, path)
      .filter((key) => !allowed.includes(key))
      .map((key) =>
        document.problem([...path, key], "key", ruleKeys.includes(key) ? `put it below syncs.${sync}` : only),
      );
  return [...other([], ["syncs"]), ...other(["syncs"], [sync]), ...other(["syncs", sync], ruleKeys)];
}

/** Reads the tables that a sync already reads, and no other file. */
function ownTables(
  { readTable }: Configuration,
  { rules, expectations }: SyncConfiguration,
  declared: Attributes,
): TableReader | undefined {
  if (readTable === undefined) return undefined;
  const own = [...tablesOf(rules, declared), ...tablesOfExpectations(expectations)];
  const tables = own.length === 0 ? "it reads none" : `those are ${own.join(", ")}`;
  return async (file, folder) => {
    if (!own.includes(file)) throw new InputError(`a trial reads only the tables that the sync reads; ${tables}`);
    return readTable(file, folder);
  };
}

/** The rules that read a password and did not do so before. */
async function readsOfCredentials(
  document: ConfigurationDocument,
  sync: string,
  {
    before,
    after,
    ...reading
  }: {
    readonly before: SyncConfiguration["rules"];
    readonly after: SyncConfiguration["rules"];
    readonly declared: Attributes;
    readonly folder: string;
    readonly readTable: TableReader | undefined;
  },
): Promise<Problem[]> {
  const known = await readBy(before, reading);
  const read = await readBy(after, reading);
  return (["users", "groups"] as const).flatMap((kind) => {
    const already = new Set([...known[kind].values()].flatMap((names) => names ?? []));
    return [...read[kind]].flatMap(([rule, names = []]) =>
      names
        .filter((name) => isCredential(name) && !already.has(name))
        .map((name) => {
          const path = rule === "join" ? ["syncs", sync, "join", kind] : ["syncs", sync, kind, rule];
          return document.problem(path, "value", `entry.${name} is a password, which trials do not read`);
        }),
    );
  });
}

async function readBy(
  rules: SyncConfiguration["rules"],
  {
    declared,
    folder,
    readTable,
  }: {
    readonly declared: Attributes;
    readonly folder: string;
    readonly readTable: TableReader | undefined;
  },
): Promise<ReturnType<ReturnType<typeof compileRules>["reads"]>> {
  const tables = readTable && (await readTables(tablesOf(rules, declared), folder, readTable));
  return compileRules(rules, undefined, tables, undefined, undefined, declared).reads();
}
