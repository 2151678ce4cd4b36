import type { Attribute, Kind, PrincipalValue, RemoteObject } from "#connector.ts";
import { idOf } from "../resource.ts";
import { coreSchemas, enterprise } from "../schema.ts";
import type { Resource } from "../schema.ts";
import { itemsOf, member, parsePath, placed, plannedList, primary, single, texts, whole } from "./paths.ts";
import type { Item, Path, PlannedList } from "./paths.ts";
import type { Profile } from "./profiles.ts";

/** A declared attribute, and where resources have it. */
export interface Field {
  readonly attribute: Attribute;
  readonly path: Path;
  /** list: all texts of a list. primary: its primary one. single: one value, which may be that of a type in a list. */
  readonly form: "single" | "list" | "primary";
}

const ofUsers = (name: string, more: Partial<Attribute> = {}): Attribute => ({
  name,
  type: "text",
  kind: "user",
  ...more,
});
const at = (attribute: Attribute, path: Path = pathOf(attribute.name), form: Field["form"] = "single"): Field => ({
  attribute,
  path,
  form,
});

function pathOf(name: string): Path {
  const [attribute = "", sub] = name.split(".");
  return { attribute, sub };
}

/** The attributes of RFC 7643, 4.1 to 4.3, that a sync may set. A password is none of them. */
const standard: readonly Field[] = [
  // The first one is what a plan calls somebody by, beside the name.
  at({ name: "displayName", type: "text", isName: "group", identifies: true, usual: "cn" }),
  at(ofUsers("userName", { isName: "user", ignoresCase: true })),
  at({ name: "externalId", type: "text" }),
  at(ofUsers("active", { type: "boolean" })),
  at(ofUsers("name.formatted")),
  at(ofUsers("name.givenName", { usual: "givenName" })),
  at(ofUsers("name.familyName", { usual: "sn" })),
  at(ofUsers("name.middleName")),
  ...["nickName", "profileUrl", "title", "userType", "preferredLanguage", "locale", "timezone"].map((name) =>
    at(ofUsers(name)),
  ),
  at(ofUsers("mail", { identifies: true, ignoresCase: true, primaryOf: "emails" }), { attribute: "emails" }, "primary"),
  at(ofUsers("emails", { type: "texts", usual: "mail" }), { attribute: "emails" }, "list"),
  at(ofUsers("phoneNumbers", { type: "texts", usual: "telephoneNumber" }), { attribute: "phoneNumbers" }, "list"),
  ...["employeeNumber", "costCenter", "organization", "division", "department"].map((name) =>
    at(ofUsers(name), { urn: enterprise, attribute: name }),
  ),
];

export const standardNames: ReadonlySet<string> = new Set(standard.map(({ attribute }) => attribute.name));

/** An attribute beyond the standard's, as a configuration has it. */
interface OwnAttribute extends Pick<Attribute, "type"> {
  readonly path: string;
  readonly kind: Kind;
  readonly onlyAtCreation: boolean;
}

/** The attributes of a target. @param own by the names that rules use */
export function fieldsOf(
  own: Readonly<Record<string, OwnAttribute>>,
  { lacks, multiValued }: Profile,
): readonly Field[] {
  const added = Object.entries(own).flatMap(([name, { path, type, kind, onlyAtCreation }]) => {
    const parsed = parsePath(path);
    if (parsed === undefined) return [];
    // The only address is the primary one.
    const isMail =
      parsed.urn === undefined && /^emails$/i.test(parsed.attribute) && (parsed.sub ?? "value") === "value";
    const besides = isMail && type === "text" && kind === "user" ? "mail" : undefined;
    const attribute: Attribute = { name, type, kind, besides, ...(onlyAtCreation && { onlyAtCreation }) };
    return [at(attribute, parsed, type === "texts" ? "list" : "single")];
  });
  const all = [...standard.filter(({ attribute }) => !lacks.includes(attribute.name)), ...added];
  return multiValued ? all : all.map(alone);
}

/** A field of a server that holds one value where the standard has a list. */
function alone(field: Field): Field {
  const { attribute, path, form } = field;
  const isOfList = form !== "single" || (path.type !== undefined && (path.sub ?? "value") === "value");
  return isOfList ? { ...field, attribute: { ...attribute, onlyValueOf: listKey(path) } } : field;
}

export type Values = Readonly<Record<string, PrincipalValue | null | undefined>>;

/** Turns resources into what a plan compares, and what is planned into resources and changes of them. */
export class Mapping {
  readonly fields: readonly Field[];
  /** The types of a list that an attribute of their own holds. */
  readonly #reserved = new Map<string, Set<string>>();

  constructor(fields: readonly Field[]) {
    this.fields = fields;
    for (const { path } of fields) {
      if (path.type === undefined) continue;
      const types = this.#reserved.get(listKey(path)) ?? new Set();
      this.#reserved.set(listKey(path), types.add(path.type.toLowerCase()));
    }
  }

  of(kind: Kind): readonly Field[] {
    return this.fields.filter(({ attribute }) => attribute.kind === undefined || attribute.kind === kind);
  }

  /** A resource as a plan compares it; undefined: it has no id. */
  remote(kind: Kind, resource: Resource): RemoteObject | undefined {
    const id = idOf(resource);
    if (id === undefined) return undefined;
    const attributes: Record<string, PrincipalValue> = {};
    for (const { attribute, path, form } of this.of(kind)) {
      const value =
        form === "single"
          ? single(resource, path, attribute.type === "boolean" ? "boolean" : "text")
          : form === "list"
            ? texts(whole(resource, path), this.#reservedOf(path))
            : single({ [path.attribute]: primary(whole(resource, path)) }, path, "text");
      if (value !== undefined) attributes[attribute.name] = value;
    }
    const name = resource[kind === "user" ? "userName" : "displayName"];
    const version = member(resource["meta"], "version");
    return {
      kind,
      id,
      name: typeof name === "string" || typeof name === "number" ? String(name) : "",
      version: typeof version === "string" && version !== "" ? version : undefined,
      attributes,
    };
  }

  /**
   * The attributes of a resource that change, each with its new value; null: it goes. Those of a list are one.
   * @param before the resource as it is, for what is beside the planned values of a list
   */
  changes(kind: Kind, values: Values, before: Resource): readonly { readonly path: Path; readonly value: unknown }[] {
    const changed = this.of(kind).filter(({ attribute }) => values[attribute.name] !== undefined);
    const lists = new Map<string, { readonly path: Path; readonly fields: Field[] }>();
    const plain: { path: Path; value: unknown }[] = [];
    for (const field of changed) {
      const { path, form, attribute } = field;
      if (form === "single" && path.type === undefined) {
        plain.push({ path, value: values[attribute.name] });
      } else {
        const list = lists.get(listKey(path)) ?? { path: { urn: path.urn, attribute: path.attribute }, fields: [] };
        list.fields.push(field);
        lists.set(listKey(path), list);
      }
    }
    for (const { path, fields } of lists.values()) {
      const old = whole(before, path);
      const items = plannedList(old, this.#planned(path, fields, values));
      plain.push({ path, value: items.length === 0 ? null : asList(path, items, old) });
    }
    return plain;
  }

  /** Whether these changes need the resource as it is. */
  needsBefore(kind: Kind, values: Values): boolean {
    return this.#listed(kind, values).length > 0;
  }

  /** These changes, with what else is planned of the lists that they change: two attributes may have been one item. */
  withWholeLists(kind: Kind, values: Values, planned: Values): Values {
    const lists = new Set(this.#listed(kind, values).map(({ path }) => listKey(path)));
    const beside = this.#listed(kind, planned).filter(({ path }) => lists.has(listKey(path)));
    return { ...Object.fromEntries(beside.map(({ attribute: { name } }) => [name, planned[name]])), ...values };
  }

  /** The attributes of these values that are in lists. */
  #listed(kind: Kind, values: Values): readonly Field[] {
    return this.of(kind).filter(
      ({ attribute, path, form }) =>
        values[attribute.name] !== undefined && (form !== "single" || path.type !== undefined),
    );
  }

  /** A resource with these changes, and the schemas that it then needs. */
  changed(kind: Kind, values: Values, before: Resource): Resource {
    let resource = before;
    for (const { path, value } of this.changes(kind, values, before)) resource = placed(resource, path, value);
    const urns = Object.keys(resource).filter((key) => /^urn:/i.test(key));
    const listed = itemsOf(before["schemas"]).map(({ value }) => String(value));
    return { ...resource, schemas: [...new Set([coreSchemas[kind], ...listed, ...urns])] };
  }

  #planned(path: Path, fields: readonly Field[], values: Values): PlannedList {
    const of = (form: Field["form"]) => fields.find((field) => field.form === form)?.attribute.name;
    const [list, first] = [of("list"), of("primary")];
    const listed = list === undefined ? undefined : values[list];
    const chosen = first === undefined ? undefined : values[first];
    return {
      values: typeof listed === "string" || typeof listed === "boolean" ? [String(listed)] : listed,
      primary: chosen === undefined || chosen === null ? chosen : String(chosen),
      typed: fields.flatMap((field) => {
        const value = values[field.attribute.name];
        if (field.form !== "single" || value === undefined) return [];
        return [{ path: field.path, value: value === null ? null : String(value) }];
      }),
      reserved: this.#reservedOf(path),
      hasPrimary: path.urn === undefined && /^(?:emails|phoneNumbers)$/i.test(path.attribute),
    };
  }

  #reservedOf(path: Path): ReadonlySet<string> {
    return this.#reserved.get(listKey(path)) ?? new Set();
  }
}

function listKey({ urn, attribute }: Path): string {
  return `${urn ?? ""}:${attribute}`.toLowerCase();
}

/** The lists of the standard hold objects, those of extensions texts unless the server has them otherwise. */
function asList(path: Path, items: readonly Item[], before: unknown): readonly unknown[] {
  const hasObjects = [before].flat().some((item) => typeof item === "object" && item !== null);
  return path.urn === undefined || hasObjects ? items : items.map((item) => member(item, "value"));
}
