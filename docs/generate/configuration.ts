import type { z } from "zod";

type Schema = z.core.JSONSchema.BaseSchema;

interface Row {
  readonly key: string;
  readonly schema: Schema;
  readonly required: boolean;
}

const durations = /\[smhd\]\$$/;
const sizes = /\[KMGT\]iB\$$/;

const introduction = `# Configuration reference

Every key of the configuration file, generated from the schemas that check it (\`npm run docs\`). \`config/schema.json\` gives editors the same.

- The file is YAML, checked as a whole before anything starts; unknown keys are errors.
- A section that is left out or empty has all of its defaults. A file that holds only \`service:\` is valid.
- \`\${env:NAME}\`, \`\${env:NAME:-default}\` and \`\${file:/path}\` can stand in any value. A variable that is not set and has no default is an error.
- To share keys between sections, write \`&name\` behind one section's key and \`<<: *name\` in the other, whose own keys come first.
- A *duration* is \`90s\`, \`15m\`, \`3h\` or \`7d\`; a *size* \`64KiB\`, \`512MiB\`, \`1GiB\` or \`2TiB\`; an *expression* is [CEL](../guide/rules.md).
- Relative paths start at the file's folder.
- The file may have 1 MiB, a secret's file 64 KiB, a rule 16 KiB. Pipes and devices are not read.
`;

/** The reference of a configuration file as Markdown, from its JSON Schema. */
export function configurationReference(schema: Schema): string {
  const parts = [introduction];
  for (const [key, section] of Object.entries(schema.properties ?? {})) parts.push(sectionOf(key, section as Schema));
  return `${parts.join("\n").trimEnd()}\n`;
}

function sectionOf(key: string, schema: Schema): string {
  const entries = objects(schema).find(({ additionalProperties }) => typeof additionalProperties === "object");
  const heading = entries === undefined ? key : `${key}.NAME`;
  const lines = [`## \`${heading}\``, "", ...descriptionOf(schema)];
  if (entries === undefined) return [...lines, ...table(rowsOf(schema, "")), ""].join("\n");
  const entry = entries.additionalProperties as Schema;
  const kinds = kindsOf(entry);
  if (kinds.length < 2) return [...lines, ...descriptionOf(entry), ...table(rowsOf(entry, "")), ""].join("\n");
  lines.push(...descriptionOf(entry));
  for (const { label, schema: kind } of kinds) {
    lines.push(`### \`${heading}\` with ${label}`, "", ...descriptionOf(kind), ...table(rowsOf(kind, "")), "");
  }
  return lines.join("\n");
}

function descriptionOf({ description }: Schema): string[] {
  return description === undefined ? [] : [description, ""];
}

/** The alternatives of an entry that a constant key tells apart: the connectors of a source, the kinds of a channel. */
function kindsOf(schema: Schema): { label: string; schema: Schema }[] {
  return objects(schema).flatMap((kind) => {
    for (const name of ["connector", "by"]) {
      const property = kind.properties?.[name] as Schema | undefined;
      if (property === undefined) continue;
      const value = alternatives(property).find((each) => each.const !== undefined)?.const;
      const label = value === undefined ? "a module of your own" : `\`${name}: ${String(value)}\``;
      return [{ label, schema: kind }];
    }
    return [];
  });
}

/** A row for every key, those of sections inside it with the section's name in front. */
function rowsOf(schema: Schema, prefix: string, optional = false): Row[] {
  const rows = new Map<string, Row>();
  const kinds = objects(schema);
  for (const { properties = {}, required = [] } of kinds) {
    for (const [name, property] of Object.entries(properties)) {
      const key = prefix + name;
      const child = property as Schema;
      const row = { key, schema: child, required: required.includes(name) && kinds.length === 1 && !optional };
      for (const each of [row, ...inner(child, key)]) if (!rows.has(each.key)) rows.set(each.key, each);
    }
  }
  return [...rows.values()];
}

/** The keys below a key: of a section, of each entry of a list, or of each of several named things. */
function inner(schema: Schema, key: string): Row[] {
  const choices = alternatives(schema);
  // Of several sections, such as the ways to log in, one is given: none of their keys is always required.
  const oneOf = choices.filter(({ properties }) => properties !== undefined).length > 1;
  return choices.flatMap((each) => {
    if (each.properties !== undefined) {
      return rowsOf(each, `${key}.`, oneOf);
    }
    if (each.items !== undefined) return rowsOf(each.items as Schema, `${key}[].`);
    if (typeof each.additionalProperties === "object") return rowsOf(each.additionalProperties, `${key}.NAME.`);
    return [];
  });
}

function table(rows: readonly Row[]): string[] {
  return [
    "| key | value | default | |",
    "| --- | --- | --- | --- |",
    ...rows.map(({ key, schema, required }) => {
      const usual = schema.default === undefined ? undefined : JSON.stringify(schema.default);
      const fallback = usual === undefined ? (required ? "required" : "") : usual === "{}" ? "" : `\`${usual}\``;
      return `| \`${key}\` | ${cell(valueOf(schema))} | ${cell(fallback)} | ${cell(schema.description ?? "")} |`;
    }),
  ];
}

/** Text for a cell. An asterisk outside of code would begin emphasis. */
function cell(text: string): string {
  const plain = text.replaceAll("|", "\\|").replaceAll("\n", " ");
  return plain.replaceAll(/`[^`]*`|\*/g, (part) => (part === "*" ? "\\*" : part));
}

function valueOf(schema: Schema): string {
  return [...new Set(alternatives(schema).map(kindOf))].join(", or ");
}

function kindOf(schema: Schema): string {
  const { type, pattern, minimum, maximum } = schema;
  if (schema.const !== undefined) return `\`${String(schema.const)}\``;
  if (schema.enum !== undefined) return schema.enum.map((value) => `\`${String(value)}\``).join(", ");
  if (type === "boolean") return "true or false";
  if (type === "integer" || type === "number") {
    const number = type === "integer" ? "whole number" : "number";
    if (maximum !== undefined && maximum < Number.MAX_SAFE_INTEGER) {
      return minimum === maximum ? `\`${minimum}\`` : `${number}, ${minimum ?? 0} to ${maximum}`;
    }
    return minimum === undefined ? number : `${number}, at least ${minimum}`;
  }
  if (type === "array") return `list: ${valueOf(schema.items as Schema)}`;
  if (schema.properties !== undefined) return "section";
  if (type === "object") return "names with values";
  if (pattern === undefined) return "text";
  if (durations.test(pattern)) return "duration";
  if (sizes.test(pattern)) return "size";
  return pattern.endsWith("%$") ? "percentage" : "text";
}

function objects(schema: Schema): Schema[] {
  return alternatives(schema).filter(({ type }) => type === "object");
}

/** What a value may be, but for null and a substitution, which may stand anywhere. */
function alternatives(schema: Schema): Schema[] {
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices === undefined) return [schema];
  return choices.filter(({ $ref, type }) => $ref === undefined && type !== "null").flatMap(alternatives);
}
