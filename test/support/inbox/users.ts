import type { Draw } from "./draw.ts";

/** Users as providers send them, and what must come of it. */

/** A user, without id, meta, schemas and groups. */
export type Attributes = Readonly<Record<string, unknown>>;

/** An operation of a PATCH, in one of the forms that providers use. */
export interface Change {
  readonly operation: object;
  readonly apply: (before: Attributes) => Attributes;
}

const core = "urn:ietf:params:scim:schemas:core:2.0:User";
const enterprise = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User";

interface Mail {
  readonly value: string;
  readonly type: string;
  readonly primary?: boolean;
}

const texts = ["a", 'Ä "b" \\ c', "True", "false", "7", "x".repeat(300), "<&>\t"] as const;
const types = ["work", "home"] as const;

function put(holder: Attributes, name: string, value: unknown): Attributes {
  const { [name]: _, ...others } = holder;
  return value === undefined ? others : { ...holder, [name]: value };
}

function putPart(holder: Attributes, name: string, part: string, value: unknown): Attributes {
  const changed = put((holder[name] ?? {}) as Attributes, part, value);
  return put(holder, name, Object.keys(changed).length === 0 ? undefined : changed);
}

function mailsOf({ emails = [] }: Attributes): readonly Mail[] {
  return emails as readonly Mail[];
}

function putMails(before: Attributes, mails: readonly Mail[]): Attributes {
  return put(before, "emails", mails.length === 0 ? undefined : mails);
}

/** A user of a POST or PUT, whole. @param active of a user who is there */
export function sentUser(
  draw: Draw,
  userName: string,
  active = true,
): { readonly body: object; readonly attributes: Attributes } {
  const mails = draw.some(types).map((type): Mail => ({ value: mailOf(draw), type }));
  const isActive = draw.chance(0.5) ? draw.chance(0.8) : undefined;
  const optional: Record<string, unknown> = {};
  for (const name of ["title", "displayName", "externalId", "shoeSize"])
    if (draw.chance(0.4)) optional[name] = draw.one(texts);
  if (draw.chance(0.5)) optional["name"] = { givenName: draw.one(texts), familyName: draw.one(texts) };
  if (draw.chance(0.3)) optional[enterprise] = { department: draw.one(texts), manager: { value: "9" } };
  const attributes = { ...putMails(optional, mails), userName, active: isActive ?? active };
  const withNull = draw.chance(0.3) ? { nickName: null, password: "hunter2", id: "mine", groups: [] } : {};
  const spelled = isActive === undefined ? {} : { active: draw.one([isActive, isActive ? "True" : "False"]) };
  const name = optional["name"] === undefined ? {} : { name: { ...optional["name"], middleName: null } };
  const body = { schemas: [core], ...optional, emails: mails, userName, ...name, ...spelled, ...withNull };
  return { body, attributes };
}

function mailOf(draw: Draw): string {
  return draw.one(["Ada@x.example", "ada@x.example", "grace@x.example", `${draw.below(1e9)}@x.example`]);
}

/** Some operations of a PATCH, each after the one before. */
export function changesOfUser(draw: Draw, userName: () => string): Change[] {
  const kinds = [text, text, active, part, mail, mails, extension, manager];
  const changes = Array.from({ length: 1 + draw.below(3) }, () => draw.one(kinds)(draw));
  return draw.chance(0.1) ? [...changes, named(draw, userName())] : changes;
}

/** One attribute, by a path or without one. */
function assigned(draw: Draw, path: string, value: unknown): object {
  const written = draw.one([path, path.startsWith("urn:") ? path : `${core}:${path}`]);
  const op = draw.one(["add", "replace", "Add", "Replace"]);
  if (draw.chance(0.3)) return { op, value: { [written]: value } };
  return { op, path: written, value };
}

function named(draw: Draw, userName: string): Change {
  return { operation: assigned(draw, "userName", userName), apply: (before) => put(before, "userName", userName) };
}

function text(draw: Draw): Change {
  const name = draw.one(["title", "displayName", "externalId", "nickName", "shoeSize"]);
  if (draw.chance(0.25)) {
    const operation = draw.one([
      { op: draw.one(["remove", "Remove"]), path: name },
      { op: "replace", path: name, value: null },
    ]);
    return { operation, apply: (before) => put(before, name, undefined) };
  }
  const value = draw.one(texts);
  const path = name === "shoeSize" || draw.chance(0.7) ? name : name.toUpperCase();
  return { operation: assigned(draw, path, value), apply: (before) => put(before, name, value) };
}

function active(draw: Draw): Change {
  const value = draw.chance(0.5);
  const written = draw.one([value, String(value), value ? "True" : "False", [value ? "True" : "False"]]);
  return { operation: assigned(draw, "active", written), apply: (before) => put(before, "active", value) };
}

function part(draw: Draw): Change {
  const name = draw.one(["givenName", "familyName"]);
  if (draw.chance(0.2))
    return {
      operation: { op: "Remove", path: `name.${name}` },
      apply: (before) => putPart(before, "name", name, undefined),
    };
  const value = draw.one(texts);
  const operation = draw.chance(0.3)
    ? { op: "replace", value: { name: { [name]: value } } }
    : assigned(draw, `name.${name}`, value);
  return { operation, apply: (before) => putPart(before, "name", name, value) };
}

/** `emails[type eq "work"].value`. */
function mail(draw: Draw): Change {
  const type = draw.one(types);
  const path = `emails[type eq "${type}"]`;
  if (draw.chance(0.25))
    return {
      operation: { op: "remove", path },
      apply: (before) =>
        putMails(
          before,
          mailsOf(before).filter((each) => each.type !== type),
        ),
    };
  const value = mailOf(draw);
  return {
    operation: { op: draw.one(["Add", "replace"]), path: `${path}.value`, value },
    apply: (before) => {
      const held = mailsOf(before);
      const isThere = held.some((each) => each.type === type);
      return putMails(
        before,
        isThere ? held.map((each) => (each.type === type ? { ...each, value } : each)) : [...held, { type, value }],
      );
    },
  };
}

/** The whole list, or one more address. */
function mails(draw: Draw): Change {
  const fresh = { value: `${draw.below(1e9)}@y.example`, type: draw.one(types) };
  if (draw.chance(0.5))
    return {
      operation: { op: "add", path: "emails", value: draw.one([[fresh], fresh]) },
      apply: (before) => putMails(before, [...mailsOf(before), fresh]),
    };
  const primary = { value: mailOf(draw), type: "work", primary: true };
  return {
    operation: { op: "Replace", path: "emails", value: [primary, fresh] },
    apply: (before) => putMails(before, [primary, fresh]),
  };
}

function extension(draw: Draw): Change {
  const value = draw.one(texts);
  if (draw.chance(0.2))
    return {
      operation: { op: "remove", path: `${enterprise}:department` },
      apply: (before) => putPart(before, enterprise, "department", undefined),
    };
  const operation = draw.chance(0.3)
    ? { op: "add", value: { [enterprise]: { department: value } } }
    : assigned(draw, `${enterprise}:department`, value);
  return { operation, apply: (before) => putPart(before, enterprise, "department", value) };
}

function manager(draw: Draw): Change {
  const value = String(draw.below(5));
  const written = draw.one([value, { value }]);
  return {
    operation: { op: "Replace", path: `${enterprise}:manager`, value: written },
    apply: (before) => putPart(before, enterprise, "manager", { value }),
  };
}

/** Operations that cannot be done: a request with one of them changes nothing. */
export const badChanges: readonly object[] = [
  { op: "set", path: "title", value: "x" },
  { op: "replace", path: "emails[", value: "x" },
  { op: "replace", path: "emails[type is work].value", value: "x" },
  { op: "remove" },
  { op: "remove", value: { title: "x" } },
  { op: "replace", path: "active", value: "perhaps" },
  { op: "replace", value: { active: 7 } },
  { op: "remove", path: "active" },
  { op: "remove", path: "userName" },
  { op: "replace", path: "userName", value: "" },
  { op: "replace", path: "id", value: "other" },
  { op: "replace", path: "password", value: "hunter2" },
  { op: "add", path: "groups", value: [{ value: "g" }] },
  { op: "add", path: "members", value: [{ value: "1" }] },
  { op: "replace", value: "inactive" },
  { op: "replace", path: "externalId", value: 7 },
  { path: "title", value: "x" },
];
