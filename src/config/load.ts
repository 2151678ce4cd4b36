import { z } from "zod";
import type { Attributes } from "#principals/attributes.ts";
import type { TableReader } from "#principals/lookup.ts";
import { adviceOnRules } from "#principals/compile.ts";
import { build, buildRules } from "./build.ts";
import { checkReferences, checkSyncRules, readsTexts } from "./checks.ts";
import type { Configuration } from "./configuration.ts";
import { keysOf, readConfiguration } from "./document.ts";
import type { ConfigurationDocument, TextOptions } from "./document.ts";
import { refuse, renderProblems } from "./problems.ts";
import type { Problem } from "./problems.ts";
import * as schema from "./schema.ts";
import { settingsOf } from "./differences.ts";
import { checkSources } from "./sources.ts";
import type { ConnectorSupply } from "./sources.ts";
import { syncOf } from "./syncs.ts";
import type { Sync } from "./syncs.ts";
import { attributesOf, checkTargets, connectedTargets } from "./targets.ts";
import type { TargetSupply } from "./targets.ts";
import * as values from "#values.ts";
import { validate } from "./validate.ts";

export interface LoadOptions extends TextOptions, ConnectorSupply, TargetSupply {
  /** Reads the tables that rules look values up in. Absent: they are not checked. */
  readonly readTable?: TableReader;
}

/**
 * Reads, substitutes and validates a configuration file. Nothing is started, and no source or target is contacted.
 * @throws {InputError} with every problem of the file, each as `FILE:LINE:COLUMN: KEY: what is wrong; what to do`, in the
 *   order of the file. No problem shows a secret
 */
export async function loadConfiguration(file: string, options: LoadOptions): Promise<Configuration> {
  const { absolute, folder, text, document } = readConfiguration(file, options);
  const targets = await checkTargets(document, folder, options);
  const others = connectedTargets(document);
  const apart = keysOf(document, ["syncs"]).filter((name) => others.includes(targetOf(document, name)));
  const services = without(without(document.value, "targets", others), "syncs", apart);
  const validated = await validate(schema.file, services, [], document);
  const declaredOf = (sync: string): Attributes | undefined => {
    const to = targetOf(document, sync);
    return others.includes(to) ? targets.targets[to]?.declared : attributesOf(undefined);
  };
  const syncs = await checkSyncs(document, apart, declaredOf);
  const checked = await checkSources(document, folder, options);
  const problems = [
    ...document.problems,
    ...validated.problems,
    ...targets.problems,
    ...syncs.problems,
    ...checked.problems,
    ...(await checkReferences(document, folder)),
    ...(await checkSyncRules(document, folder, {
      onlyTexts: readsTexts(document, checked.sources),
      declaredOf,
      readTable: options.readTable,
    })),
  ];
  if (problems.length > 0 || validated.value === undefined) return refuse(file, problems, document.secrets);
  const whole = { ...validated.value, syncs: { ...validated.value.syncs, ...syncs.syncs } };
  return build(whole, {
    file: absolute,
    text,
    folder,
    sources: checked.sources,
    connected: targets.targets,
    names: { targets: keysOf(document, ["targets"]), syncs: keysOf(document, ["syncs"]) },
    readTable: options.readTable,
    secrets: document.secrets,
    warnings: renderProblems(file, [...document.shortSecrets, ...adviceOnSyncs(document, syncs.syncs, declaredOf)]),
    settings: settingsOf(document),
  });
}

/** Rules that are valid, and give some records what their target does not take. */
function adviceOnSyncs(
  document: ConfigurationDocument,
  syncs: Readonly<Record<string, Sync>>,
  declaredOf: (sync: string) => Attributes | undefined,
): Problem[] {
  return Object.entries(syncs).flatMap(([name, sync]) => {
    const declared = declaredOf(name) ?? attributesOf(undefined);
    return adviceOnRules(buildRules(sync, declared), declared).map(({ path, message }) =>
      document.problem(["syncs", name, ...path], "value", message),
    );
  });
}

/** The name of the target of a sync, as it is written; empty where that is no text. */
function targetOf(document: ConfigurationDocument, sync: string): string {
  const to = document.at(["syncs", sync, "to"]);
  return typeof to === "string" ? to : "";
}

/** The value of the file without some entries of a section. */
function without(value: unknown, section: string, names: readonly string[]): unknown {
  if (names.length === 0) return value;
  const file = value as Readonly<Record<string, object>>;
  const kept = Object.entries(file[section] ?? {}).filter(([name]) => !names.includes(name));
  return { ...file, [section]: Object.fromEntries(kept) };
}

/** Validates syncs by what their targets declare. Of a target whose connector is not known, nothing can be said. */
async function checkSyncs(
  document: ConfigurationDocument,
  names: readonly string[],
  declaredOf: (sync: string) => Attributes | undefined,
): Promise<{ readonly syncs: Readonly<Record<string, Sync>>; readonly problems: readonly Problem[] }> {
  const syncs: Record<string, Sync> = {};
  const all = Object.fromEntries(names.map((name) => [name, document.at(["syncs", name])]));
  const problems: Problem[] = [...(await validate(values.named(z.unknown()), all, ["syncs"], document)).problems];
  for (const name of names) {
    const declared = declaredOf(name);
    if (declared === undefined) continue;
    const validated = await validate(syncOf(declared), all[name], ["syncs", name], document);
    problems.push(...validated.problems);
    if (validated.value !== undefined) syncs[name] = validated.value;
  }
  return { syncs, problems };
}
