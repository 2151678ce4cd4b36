import { identifier, literal } from "#duckdb/database.ts";
import type { Kind, PrincipalValue } from "./principal.ts";

/** An attribute of the users or groups of a target (decision 8). */
export interface Attribute {
  /** As rules, changes and messages name it: `displayName`, `name.givenName`. */
  readonly name: string;
  readonly type: "text" | "boolean" | "texts";
  /** The kind that has it. Absent: both. */
  readonly kind?: Kind | undefined;
  /** Every principal has it: a rule must give it, a text of the form of a name. */
  readonly required?: true | undefined;
  /** Given to principals that are created. After that, the target's value stays, whatever the source says. */
  readonly onlyAtCreation?: true | undefined;
  /** Texts that differ in case alone are the same: the target's stays. */
  readonly ignoresCase?: true | undefined;
  /**
   * The principals of this kind are called so: the attribute follows the rule `name`, and no rule of its own gives it. The target
   * knows them by an id, so that a new name is an ordinary change.
   */
  readonly isName?: Kind | undefined;
  /** It is one of the texts of this attribute: where rules give both, neither is empty beside the other. */
  readonly primaryOf?: string | undefined;
  /** A target may show it as the value of this attribute, where that has none of its own. */
  readonly besides?: string | undefined;
  /** All attributes with the same word here have one value together: the target holds no list there. */
  readonly onlyValueOf?: string | undefined;
  /** People know a principal by it, and look for it. */
  readonly identifies?: true | undefined;
  /** The attribute of an entry that it often is, for messages: `cn`. Absent: one of the same name. */
  readonly usual?: string | undefined;
}

/** What names an attribute: words of letters and digits, with dots between them. */
const form = /^[a-z][A-Za-z0-9]*(?:\.[a-z][A-Za-z0-9]*)*$/;

/** The keys of a principal, and of rules, that are no attributes. */
const taken: ReadonlySet<string> = new Set(["kind", "name", "groupNames", "groups", "include", "exclude"]);

/** As many as `assembled.kept` has bits for. */
const most = 31;

/** The column of an attribute in every relation of principals: `display_name`. `attributeOfColumn` is the reverse. */
export function columnOfAttribute(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

const known = new Map<string, string>();

/** The attribute that a column has: what is stored needs no declaration to be read. */
export function attributeOfColumn(column: string): string {
  const found = known.get(column) ?? column.replaceAll(/_(.)/g, (_, letter: string) => letter.toUpperCase());
  known.set(column, found);
  return found;
}

/** The attributes that a target declares. */
export class Attributes {
  readonly all: readonly Attribute[];
  /** The same as SQL names them, in quotes. */
  readonly columns: readonly string[];
  /**
   * `active`, where the target has it: false is suspended. A user is active unless a rule says otherwise, and where the target
   * does not say.
   */
  readonly state: Attribute | undefined;

  /** What no rule gives is the target's own affair: it is neither compared nor written. */
  readonly #leavesOthers: boolean;

  /**
   * @param options.leavesOthers what no rule gives stays as the target has it. Default: it is cleared
   * @throws {TypeError} the declaration is a mistake: a name that cannot be one, or is there twice
   */
  constructor(all: readonly Attribute[], { leavesOthers = false } = {}) {
    this.#leavesOthers = leavesOthers;
    const names = all.map(({ name }) => name);
    const wrong = names.find((name, index) => !form.test(name) || taken.has(name) || names.indexOf(name) !== index);
    if (wrong !== undefined) throw new TypeError(`an attribute cannot be called ${wrong}`);
    if (all.length > most) throw new TypeError(`a target has at most ${most} attributes, not ${all.length}`);
    const named = all.find((each) => each.isName !== undefined && each.required === true);
    if (named !== undefined)
      throw new TypeError(`${named.name} is a name, which is never absent: it is not \`required\``);
    this.all = all;
    this.columns = all.map(columnOf);
    this.state = all.find(({ name, type }) => name === "active" && type === "boolean");
  }

  /** Those that rules give the principals of a kind: all that it has, but for its name. */
  of(kind: Kind): readonly Attribute[] {
    return this.having(kind).filter(({ isName }) => isName !== kind);
  }

  /** Those that a kind has, its name among them. */
  having(kind: Kind): readonly Attribute[] {
    return this.all.filter((each) => each.kind === undefined || each.kind === kind);
  }

  /** Those that a plan compares, where rules give these names by kind: names and the state always. */
  givenBy(names: Readonly<Record<Kind, ReadonlySet<string>>>): Attributes {
    if (!this.#leavesOthers) return this;
    const all = this.all.flatMap((attribute): Attribute[] => {
      // It is read for the other one, and stays as it is.
      if (attribute.besides !== undefined && names.user.has(attribute.besides) && !names.user.has(attribute.name))
        return [{ ...attribute, onlyAtCreation: true }];
      const kinds = (["user", "group"] as const).filter(
        (kind) =>
          (attribute.kind ?? kind) === kind &&
          (names[kind].has(attribute.name) || attribute.isName === kind || attribute === this.state),
      );
      return kinds.length === 0 ? [] : [kinds.length === 1 ? { ...attribute, kind: kinds[0] } : attribute];
    });
    return new Attributes(all, { leavesOthers: true });
  }

  /** SQL: those that people know principals by, as texts. @param from what the row is called, with a dot */
  identifying(from = ""): readonly string[] {
    return this.all.filter(({ identifies }) => identifies === true).map((attribute) => textOf(attribute, from));
  }

  /** SQL: the same by name, as a struct. */
  known(from = ""): string {
    return this.knownAs((attribute) => textOf(attribute, from));
  }

  /** SQL: the same of something else than a row of principals. */
  knownAs(value: (attribute: Attribute) => string): string {
    return structOf(this.all.flatMap((each) => (each.identifies === true ? [[each, value(each)] as const] : [])));
  }

  /** SQL: all attributes by name, as texts in a struct. */
  values(): string {
    return structOf(this.all.map((each) => [each, textOf(each)] as const));
  }

  /** The columns of every relation of principals, in this order. */
  get relation(): readonly string[] {
    return ["kind", "name", ...this.compared];
  }

  /** The columns that decide whether a principal differs: all but its identity. */
  get compared(): readonly string[] {
    return [...this.columns, "group_names"];
  }

  /**
   * `relation` as DDL, for `CREATE TABLE t (${ddl}, …)`. `kind` is `user` or `group`; an unset attribute is NULL, never empty;
   * `group_names` is sorted by code point and names no group twice.
   */
  get ddl(): string {
    const columns = this.all.map(
      (each) => `${ddlOf(each)}${each.required === true && each.kind === undefined ? " NOT NULL" : ""}`,
    );
    return ["kind VARCHAR NOT NULL", "name VARCHAR NOT NULL", ...columns, "group_names VARCHAR[] NOT NULL"].join(", ");
  }

  /** DDL of one side of a change: all of a principal but its kind. */
  get side(): string {
    return `STRUCT(${['"name" VARCHAR', ...this.all.map(ddlOf), "group_names VARCHAR[]"].join(", ")})`;
  }

  /** DDL of the further columns of `staged_entry`. Several texts are JSON there. */
  get staged(): string {
    return this.all.map((each) => `, ${each.type === "texts" ? `${columnOf(each)} VARCHAR` : ddlOf(each)}`).join("");
  }

  /** The bit of an attribute in `assembled.kept`. */
  bitOf(name: string): number {
    return 1 << this.all.findIndex((attribute) => attribute.name === name);
  }
}

/** SQL: a struct with a field for each attribute. */
function structOf(fields: readonly (readonly [Attribute, string])[]): string {
  return `{${fields.map(([{ name }, value]) => `${literal(name)}: ${value}`).join(", ")}}`;
}

/** DDL of the column of an attribute, which may be NULL. */
export function ddlOf(attribute: Attribute): string {
  return `${columnOf(attribute)} ${sqlTypes[attribute.type]}`;
}

const sqlTypes = { text: "VARCHAR", boolean: "BOOLEAN", texts: "VARCHAR[]" } as const;

/** The column of an attribute as SQL. */
export function columnOf({ name }: Attribute): string {
  return identifier(columnOfAttribute(name));
}

/** SQL: what a row has of an attribute, as a text. @param from what the row is called, with a dot */
export function textOf(attribute: Attribute, from = ""): string {
  const column = `${from}${columnOf(attribute)}`;
  return { text: column, boolean: `${column}::VARCHAR`, texts: `array_to_string(${column}, ', ')` }[attribute.type];
}

/** A value as SQL. */
export function sqlOf({ type }: Attribute, value: PrincipalValue | undefined): string {
  if (value === undefined) return `NULL::${sqlTypes[type]}`;
  const sql = typeof value === "object" ? `[${value.map(literal).join(", ")}]` : literal(String(value));
  return `${sql}::${sqlTypes[type]}`;
}

/** A value as a text, as `textOf` gives it. */
export function formatValue(value: PrincipalValue): string {
  return typeof value === "object" ? value.join(", ") : String(value);
}

/** What the interface's principals have (specification 2.7): the service declares it. */
export const serviceAttributes = new Attributes([
  { name: "displayName", type: "text", required: true, identifies: true, usual: "cn" },
  { name: "description", type: "text", usual: "title" },
  { name: "mail", type: "text", kind: "user", identifies: true },
]);
