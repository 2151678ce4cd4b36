import type { Kind } from "./principal.ts";
import type { Attribute, Attributes as Declared } from "./attributes.ts";
import { Environment, EvaluationError } from "@marcbachmann/cel-js";
import { messageOf } from "#errors.ts";
import { nfc, quote } from "#text.ts";
import { spendValue } from "./budget.ts";
import { registerComparisons } from "./comparison.ts";
import { isUnreadable } from "./entry.ts";
import type { Entry, SourceGroups } from "./entry.ts";
import { asText, registerFunctions } from "./functions.ts";
import { lookupKey, LookupRow } from "./lookup.ts";
import type { LookupTables } from "./lookup.ts";
import { registerMeter } from "./metering.ts";

export type Attributes = Entry["attributes"];

/** `memberOf(entry)` gives the groups that an entry is directly in, `nestedMemberOf(entry)` also those around these. */
export type GroupFunction = "memberOf" | "nestedMemberOf";
export const groupFunctions: Readonly<Record<GroupFunction, "direct" | "nested">> = {
  memberOf: "direct",
  nestedMemberOf: "nested",
};

/**
 * `entry` as CEL sees it. The library tells types by their constructor, and reads the fields of a `Map` through `get`:
 * this is where a missing attribute becomes null.
 */
export class EntryRecord extends Map<string, unknown> {
  attributes: Attributes = {};
  groups?: SourceGroups | undefined;
  /** By the name that was asked for: was it ever set? */
  readonly found = new Map<string, boolean>();

  override get(name: unknown): unknown {
    if (typeof name !== "string") throw new EvaluationError('the name of an attribute is a text: entry["…"]');
    const value = this.read(name);
    spendValue(value);
    return value;
  }

  /** Without counting it. */
  read(name: string): unknown {
    const value = attributeOf(this.attributes, name);
    if (this.found.get(name) !== true) this.found.set(name, value !== undefined);
    if (typeof value === "string") return nfc(value);
    if (isUnreadable(value)) throw new EvaluationError(`entry.${name} ${value.unreadable}`);
    if (typeof value === "number") return Number.isSafeInteger(value) ? BigInt(value) : value;
    if (Array.isArray(value)) return value.map((each) => nfc(String(each)));
    return value ?? null;
  }

  override keys(): never {
    throw new EvaluationError("entry is no list; name the attribute: entry.NAME");
  }

  groupsBy(name: GroupFunction): readonly string[] {
    if (this.groups === undefined) throw new EvaluationError(`${name}(entry) is not known here`);
    const names = this.groups[groupFunctions[name]];
    if (names === undefined)
      throw new EvaluationError(
        `${name}(entry): the groups are unknown: a reference to a group is ambiguous, or a group has no name`,
      );
    spendValue(names);
    return names;
  }
}

/** The value of an attribute. Names of attributes are the same when they look the same. */
export function attributeOf(attributes: Attributes, name: string): Attributes[string] | undefined {
  if (Object.hasOwn(attributes, name)) return attributes[name];
  if (/^[\0-\x7F]*$/.test(name)) return undefined;
  const spelling = Object.keys(attributes).find((key) => nfc(key) === nfc(name));
  return spelling === undefined ? undefined : attributes[spelling];
}

/** What `lookup` reads while an expression is evaluated. */
let lookupTables: LookupTables | undefined;

export function readTablesFrom(tables: LookupTables | undefined): void {
  lookupTables = tables;
}

function lookUp(file: string, value: unknown): LookupRow {
  const table = lookupTables?.get(file);
  if (table === undefined || table instanceof Error) throw new EvaluationError(`the table ${quote(file)} was not read`);
  const key = asText("lookup", value);
  try {
    return new LookupRow(table.columns, key === null ? undefined : table.rows.get(lookupKey(key)));
  } catch (error) {
    throw new EvaluationError(`lookup: ${messageOf(error)}`);
  }
}

/** All users, or all groups: they can be counted, and nothing else. */
export class Counted {
  readonly size: number;

  constructor(size: number) {
    this.size = size;
  }
}

const ofPrincipals = {
  groups: "list<string>",
  nestedGroups: "list<string>",
  inSource: "bool",
  entry: "Entry",
};

/** What expressions can name, with its type. */
export type Vocabulary = Readonly<Record<string, string>>;

/** What expressions can name, by what they are about: an entry, a single text, a user or a group of the target, how many there are, or a name that is taken. */
const vocabularies = {
  entry: { entry: "Entry" },
  value: { entry: "Entry", value: "string" },
  counts: { users: "Counted", groups: "Counted" },
  naming: { name: "string", n: "int" },
} as const satisfies Record<string, Vocabulary>;
/** What an expression is about. */
export type Subject = keyof typeof vocabularies | "users" | "groups";

/** Those about principals, by the attributes that the target declares. */
const ofTargets = new WeakMap<Declared, Readonly<Record<"users" | "groups", Vocabulary>>>();

export function vocabularyOf(subject: Subject, declared: Declared): Vocabulary {
  if (subject !== "users" && subject !== "groups") return vocabularies[subject];
  const known = ofTargets.get(declared) ?? {
    users: { name: "string", ...variablesOf(declared, "user"), ...ofPrincipals },
    groups: {
      name: "string",
      ...variablesOf(declared, "group"),
      ...ofPrincipals,
      members: "list<string>",
      nestedMembers: "list<string>",
    },
  };
  ofTargets.set(declared, known);
  return known[subject];
}

function variablesOf(declared: Declared, kind: Kind): Vocabulary {
  return Object.fromEntries(
    declared.of(kind).map((attribute) => {
      const { type, required } = attribute;
      return [variableOf(attribute), type === "texts" ? "list<string>" : required === true ? "string" : "dyn"];
    }),
  );
}

/** What expressions call an attribute: `name_givenName`, since a dot reads a field. */
export function variableOf({ name }: Attribute): string {
  return name.replaceAll(".", "_");
}

function createEnvironment(variables: Vocabulary): Environment {
  const environment = new Environment({ homogeneousAggregateLiterals: false })
    .registerType("Entry", EntryRecord)
    .registerType("Counted", Counted)
    // What `now()` and `has` become, see `own`.
    .registerVariable("Now", "google.protobuf.Timestamp")
    .registerType("Row", LookupRow)
    .registerFunction("Has(dyn): bool", (value) => value !== null && !(value instanceof LookupRow && value.isMissing), {
      async: false,
    })
    .registerFunction("lookup(string, dyn): Row", lookUp, { async: false })
    .registerFunction("Counted.size(): int", ({ size }: Counted) => BigInt(size), { async: false })
    .registerFunction("size(Counted): int", ({ size }: Counted) => BigInt(size), { async: false })
    .registerOperator("string + int", (text: string, number: bigint) => `${text}${number}`)
    .registerOperator("int + string", (number: bigint, text: string) => `${number}${text}`);
  for (const name of Object.keys(groupFunctions) as GroupFunction[])
    environment.registerFunction(`${name}(Entry): list<string>`, (record: EntryRecord) => record.groupsBy(name), {
      async: false,
    });
  for (const [name, type] of Object.entries(variables)) environment.registerVariable(name, type);
  registerFunctions(environment);
  registerComparisons(environment);
  registerMeter(environment);
  return environment;
}

/** Made when an expression is about that: each takes milliseconds, and few configurations need all. */
const environments = new WeakMap<Vocabulary, Environment>();

export function environmentOf(vocabulary: Vocabulary): Environment {
  const made = environments.get(vocabulary) ?? createEnvironment(vocabulary);
  environments.set(vocabulary, made);
  return made;
}
