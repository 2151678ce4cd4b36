import { z } from "zod";
import type { BuiltInTargetConnector, TargetConnector } from "#connector.ts";
import { Attributes, serviceAttributes } from "#principals/attributes.ts";
import * as values from "#values.ts";
import type { ConnectedTarget, TargetConfiguration } from "./configuration.ts";
import { keysOf } from "./document.ts";
import type { ConfigurationDocument } from "./document.ts";
import type { Problem } from "./problems.ts";
import { findConnector, strict } from "./sources.ts";
import { validate } from "./validate.ts";

/** The connectors of targets that a configuration may name, besides `service`. */
export interface TargetSupply {
  /** The built-in ones. */
  readonly targetConnectors?: readonly BuiltInTargetConnector[] | undefined;
  /** Loads a user's own: `path` as written, `folder` that of the file. Absent: not supported. */
  readonly loadTargetConnector?: ((path: string, folder: string) => Promise<TargetConnector>) | undefined;
}

interface CheckedTargets {
  readonly targets: Readonly<Record<string, ConnectedTarget>>;
  readonly problems: readonly Problem[];
}

/** The attributes that a target declares (decision 8). */
export function attributesOf(target: TargetConfiguration | undefined): Attributes {
  return isConnected(target) ? target.declared : serviceAttributes;
}

/** Whether a target is written through a connector, and no service. */
export function isConnected(target: TargetConfiguration | undefined): target is ConnectedTarget {
  return typeof target === "object" && "connector" in target;
}

/** The names of the targets that have a connector, and are no service: the file's schema knows nothing of them. */
export function connectedTargets(document: ConfigurationDocument): readonly string[] {
  return keysOf(document, ["targets"]).filter((name) => {
    const word = document.at(["targets", name, "connector"]);
    return word !== undefined && word !== "service";
  });
}

/** Finds the connector of every target that has one, and validates the options beside `connector:` with its schema. */
export async function checkTargets(
  document: ConfigurationDocument,
  folder: string,
  { targetConnectors = [], loadTargetConnector: load }: TargetSupply,
): Promise<CheckedTargets> {
  const targets: Record<string, ConnectedTarget> = {};
  const names = connectedTargets(document);
  const all = Object.fromEntries(names.map((name) => [name, document.at(["targets", name])]));
  const form = values.named(
    z.looseObject({ connector: values.text("the kind of target, or the path of a module like ./app.ts") }),
  );
  const problems: Problem[] = [...(await validate(form, all, ["targets"], document)).problems];
  const connectors = [{ name: "service", load: unreachable }, ...targetConnectors];
  for (const name of names) {
    const path = ["targets", name];
    const { connector: word, ...rest } = all[name] as { readonly connector: unknown };
    if (typeof word !== "string" || word === "" || document.broken([...path, "connector"])) continue;
    const connector = await findConnector(word, document, [...path, "connector"], folder, { connectors, load });
    if ("message" in connector) {
      problems.push(connector);
      continue;
    }
    const validated = await validate(strict(connector.options), rest, path, document);
    problems.push(...validated.problems);
    const options = validated.value;
    // Also where nothing is reported here: a substitution that failed is reported once, by the document.
    if (options === undefined) continue;
    targets[name] = {
      connector,
      options,
      declared: new Attributes(connector.declare(options), { leavesOthers: true }),
    };
  }
  return { targets, problems };
}

function unreachable(): never {
  throw new Error("the file's schema checks the targets that are services");
}
