import { z } from "zod";
import type { Connector, TargetConnector } from "#connector.ts";
import { serviceAttributes } from "#principals/attributes.ts";
import { pinboard } from "./pinboards.ts";
import * as schema from "./schema.ts";

type Json = z.core.JSONSchema.BaseSchema;

/** The draft that editors support best. */
const options = { target: "draft-07", io: "input" } as const;
const substitution = { $ref: "#/definitions/substitution" };

/** The JSON Schema of a configuration file, for completion and hints in editors. It lacks what only Rollcall can check. */
export function jsonSchema(connectors: readonly Connector[], targets: readonly TargetConnector[]): Json {
  const file = substitutable(z.toJSONSchema(schema.file, options));
  const sources = file.properties?.["sources"];
  const named = sources === undefined ? undefined : objectForm(sources as Json);
  if (named !== undefined)
    named.additionalProperties = { anyOf: [...connectors.map((each) => builtIn(each, settings)), ownModule] };
  const targetForms = objectForm((file.properties?.["targets"] ?? {}) as Json);
  const services = targetForms?.additionalProperties as Json | undefined;
  if (targetForms !== undefined && services !== undefined)
    targetForms.additionalProperties = {
      ...services,
      anyOf: [...(services.anyOf ?? []), ...targets.map((each) => builtIn(each, {})), ownTarget],
    };
  const syncs = objectForm((file.properties?.["syncs"] ?? {}) as Json);
  const sync = (syncs?.additionalProperties as Json | undefined)?.properties ?? {};
  for (const rules of [sync["users"], sync["groups"]]) allowAttributes(rules as Json);
  return {
    ...file,
    title: "Rollcall configuration",
    definitions: {
      substitution: {
        type: "string",
        pattern: "\\$\\{(?:env|file):[^}]+\\}",
        description: "A value from outside: ${env:NAME}, ${env:NAME:-default} or ${file:/path}.",
      },
    },
  };
}

/** The same for the file of a pinboard. */
export function pinboardJsonSchema(): Json {
  return { ...z.toJSONSchema(pinboard, options), title: "Rollcall pinboard" };
}

const settings = substitutable(z.toJSONSchema(schema.sourceSettings, options)).properties ?? {};

/** The options of a built-in connector, and the key that names it. */
function builtIn(connector: Pick<Connector, "name" | "options">, settings: Json["properties"]): Json {
  const { $schema: _, ...own } = substitutable(z.toJSONSchema(connector.options, options));
  return {
    ...own,
    properties: { connector: { const: connector.name }, ...settings, ...own.properties },
    required: ["connector", ...(own.required ?? [])],
  };
}

const ownConnector: Json = {
  type: "string",
  pattern: "^\\.{0,2}/|\\.[cm]?[jt]s$",
  description: "The path of your own connector module.",
};
const ownModule: Json = {
  type: "object",
  properties: { connector: ownConnector, ...settings },
  required: ["connector"],
};
const ownTarget: Json = { type: "object", properties: { connector: ownConnector }, required: ["connector"] };

/** A rule for an attribute that only its target knows. */
const attributeRule: Json = {
  anyOf: [{ type: "string", minLength: 1 }, { type: "object" }],
  description: "An attribute that the target declares: a CEL expression, or { value, absent }.",
};

/** Which rules there are, and which there must be, is the target's to say; a schema knows those of the service alone. */
function allowAttributes(rules: Json): void {
  rules.additionalProperties = attributeRule;
  rules.required = rules.required?.filter((key) => serviceAttributes.all.every(({ name }) => name !== key));
}

/** The form with keys of a section that may also be empty. */
function objectForm(json: Json): Json | undefined {
  if (json.type === "object") return json;
  return json.anyOf?.find(({ type }) => type === "object");
}

/** Allows a substitution wherever its text would not be valid: for numbers, booleans, choices and patterns. */
function substitutable(json: Json): Json {
  const inner = (value: unknown): unknown =>
    typeof value === "object" && value !== null ? substitutable(value as Json) : value;
  const { description, default: usual, ...rest } = json;
  const annotations = { description, default: usual };
  const strict = rest.enum !== undefined || rest.const !== undefined || rest.pattern !== undefined;
  if (strict || ["number", "integer", "boolean"].includes(String(rest.type)))
    return { ...annotations, anyOf: [rest, substitution] };
  const result: Json = { ...annotations, ...rest };
  if (rest.properties !== undefined)
    result.properties = Object.fromEntries(
      Object.entries(rest.properties).map(([key, value]) => [key, inner(value) as Json]),
    );
  if (rest.additionalProperties !== undefined) result.additionalProperties = inner(rest.additionalProperties) as Json;
  if (rest.items !== undefined) result.items = inner(rest.items) as Json;
  for (const combination of ["anyOf", "oneOf", "allOf"] as const) {
    const parts = rest[combination];
    if (parts !== undefined) result[combination] = parts.map((part) => inner(part) as Json);
  }
  return result;
}
