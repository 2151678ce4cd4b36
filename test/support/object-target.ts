import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { z } from "zod";
import { ObjectRefusedError, RefusedError, UnavailableError } from "#errors.ts";
import type {
  Attribute,
  Kind,
  ObjectChange,
  ObjectTarget,
  PrincipalValue,
  RemoteObject,
  RemoteRecord,
  TargetAbilities,
  TargetConnector,
} from "#connector.ts";

/*
 * A target that is written change by change, in memory or in a file, with the faults of the field as switches. It is also the
 * module of a connector of one's own: `connector: …/object-target.ts`.
 */

export const attributesOfObjects: readonly Attribute[] = [
  { name: "displayName", type: "text", identifies: true, isName: "group" },
  { name: "userName", type: "text", kind: "user", isName: "user", ignoresCase: true },
  { name: "title", type: "text", kind: "user" },
  { name: "phone", type: "text", kind: "user" },
  { name: "emails", type: "texts", kind: "user", identifies: true },
  { name: "costCentre", type: "text", kind: "user", onlyAtCreation: true },
  { name: "active", type: "boolean", kind: "user" },
];

export interface Faults {
  /** It stores user names in lower case, without blanks around values, and phone numbers as digits. */
  normalises?: boolean;
  /** It accepts updates, and makes none. */
  ignoresUpdates?: boolean;
  /** It drops this attribute. */
  forgets?: string;
  /** Whenever it writes an object, it makes these attributes of it. */
  derives?: (attributes: Readonly<Record<string, PrincipalValue>>) => Readonly<Record<string, PrincipalValue>>;
  /** It takes updates without saying what it has stored. */
  silent?: boolean;
  /** It refuses to create or change objects of these names. */
  refuses?: readonly string[];
  /** So many further reads list no object that is made from now on, and changed ones as they were. */
  lag?: number;
  /** Asked to create users of these names, it answers with others, who are there. */
  confuses?: Readonly<Record<string, string>>;
  /** It does not answer writes: what was sent has arrived (`after`), or has not. */
  unavailable?: { of: (change: ObjectChange) => boolean; after: boolean };
  /** It refuses every write. */
  forbidden?: boolean;
  /** Called once a change was taken: what it throws ends the run. */
  taken?: (change: ObjectChange) => void;
  /** It cannot be read. */
  unreadable?: boolean;
  /** Somebody changes something right before it is written. */
  meanwhile?: (change: ObjectChange) => void;
}

interface Stored {
  readonly kind: Kind;
  readonly id: string;
  name: string;
  version: number;
  attributes: Record<string, PrincipalValue>;
  members: { id: string; kind?: Kind | undefined }[];
}

interface Saved {
  readonly next: number;
  readonly objects: Stored[];
  readonly twice: string[];
}

export interface Written {
  readonly action: ObjectChange["action"];
  readonly name: string;
}

export class ObjectStore {
  readonly #file: string | undefined;
  #next = 1;
  #objects = new Map<string, Stored>();
  /** Everything that was accepted, in order. */
  readonly written: Written[] = [];
  /** Who was to be created although there was somebody of that name, whatever its case. */
  twice: string[] = [];
  faults: Faults = {};
  /** As a read found them that was not behind. */
  #listed: Stored[] = [];

  constructor(file?: string) {
    this.#file = file;
    this.load();
  }

  load(): void {
    if (this.#file === undefined || !existsSync(this.#file)) return;
    const { next, objects, twice } = JSON.parse(readFileSync(this.#file, "utf8")) as Saved;
    this.#next = next;
    this.twice = twice;
    this.#objects = new Map(objects.map((each) => [each.id, each]));
  }

  save(): void {
    if (this.#file === undefined) return;
    writeFileSync(
      `${this.#file}.new`,
      JSON.stringify({ next: this.#next, objects: this.all(), twice: this.twice } satisfies Saved),
    );
    renameSync(`${this.#file}.new`, this.#file);
  }

  all(): Stored[] {
    return [...this.#objects.values()];
  }

  /** What a list has. */
  listed(): Stored[] {
    const { lag = 0 } = this.faults;
    if (lag === 0) this.#listed = structuredClone(this.all());
    else this.faults.lag = lag - 1;
    return this.#listed;
  }

  /** By kind and name. */
  find(kind: Kind, name: string): Stored | undefined {
    return this.all().find((each) => each.kind === kind && each.name === name);
  }

  /** What a person would see: names with attributes, and groups with the names of their members. */
  people(): Record<string, Record<string, PrincipalValue>> {
    const users = this.all().filter(({ kind }) => kind === "user");
    return Object.fromEntries(users.toSorted(byName).map(({ name, attributes }) => [name, attributes]));
  }

  groups(): Record<string, string[]> {
    const groups = this.all().filter(({ kind }) => kind === "group");
    const nameOf = (id: string): string => this.#objects.get(id)?.name ?? id;
    return Object.fromEntries(
      groups
        .toSorted(byName)
        .map(({ name, members }): [string, string[]] => [name, members.map(({ id }) => nameOf(id)).toSorted()]),
    );
  }

  /** Somebody adds an object by hand. */
  add(kind: Kind, name: string, attributes: Record<string, PrincipalValue> = {}, members: string[] = []): string {
    const id = `${kind}-${this.#next++}`;
    const own: Record<string, PrincipalValue> =
      kind === "user" ? { userName: name, active: true } : { displayName: name };
    this.#objects.set(id, {
      kind,
      id,
      name,
      version: 1,
      attributes: { ...own, ...attributes },
      members: members.map((each) => ({ id: each })),
    });
    return id;
  }

  /** Somebody changes an object by hand. */
  change(kind: Kind, name: string, attributes: Record<string, PrincipalValue>): void {
    const found = this.find(kind, name);
    if (found === undefined) throw new Error(`there is no ${kind} ${name}`);
    Object.assign(found.attributes, attributes);
    found.version++;
    found.name = nameIn(found);
  }

  remove(kind: Kind, name: string): void {
    const found = this.find(kind, name);
    if (found !== undefined) this.#delete(found.id);
  }

  #delete(id: string): void {
    this.#objects.delete(id);
    for (const each of this.#objects.values()) each.members = each.members.filter((member) => member.id !== id);
  }

  get(id: string): Stored | undefined {
    return this.#objects.get(id);
  }

  /** @returns the object as it is stored */
  write(change: ObjectChange): RemoteObject | undefined {
    const { faults } = this;
    if (faults.forbidden === true) throw new RefusedError("the token may not write", { status: 403 });
    faults.meanwhile?.(change);
    if (faults.refuses?.includes(change.name) === true)
      throw new ObjectRefusedError("the value is not allowed", { status: 400 });
    const isLost = faults.unavailable?.of(change) === true;
    if (isLost && faults.unavailable?.after === false) throw new UnavailableError("the target does not answer");
    const stored = this.#write(change);
    this.written.push({ action: change.action, name: change.name });
    this.save();
    faults.taken?.(change);
    if (isLost) throw new UnavailableError("the connection ended");
    return stored;
  }

  #write(change: ObjectChange): RemoteObject | undefined {
    if (change.action === "create") {
      const other = this.find("user", this.faults.confuses?.[change.name] ?? "");
      if (other !== undefined) return remoteOf(other);
      const attributes = this.#stored(change.attributes);
      Object.assign(attributes, this.faults.derives?.(attributes));
      const name = nameIn({ kind: change.kind, name: change.name, attributes });
      if (this.all().some((each) => each.kind === change.kind && each.name.toLowerCase() === name.toLowerCase())) {
        this.twice.push(name);
        // Groups may well have one name.
        if (change.kind === "user") throw new ObjectRefusedError(`${name} exists already`, { status: 409 });
      }
      const id = `${change.kind}-${this.#next++}`;
      const object: Stored = { kind: change.kind, id, name, version: 1, attributes, members: [] };
      this.#objects.set(id, object);
      return remoteOf(object);
    }
    const found = this.#objects.get(change.action === "members" ? change.group : change.id);
    if (change.action === "delete") {
      if (found !== undefined) this.#delete(found.id);
      return undefined;
    }
    if (found === undefined) throw new ObjectRefusedError("it does not exist", { status: 404 });
    if (change.action === "members") {
      const gone = new Set([...change.remove, ...change.add].map(({ id }) => id));
      const there = change.add.filter(({ id }) => this.#objects.has(id));
      found.members = [...found.members.filter(({ id }) => !gone.has(id)), ...there];
      found.version++;
      return undefined;
    }
    if (change.version !== undefined && change.version !== String(found.version))
      throw new ObjectRefusedError("it has changed since it was read", { status: 412 });
    if (this.faults.ignoresUpdates !== true) {
      for (const [name, value] of Object.entries(change.attributes)) if (value === null) delete found.attributes[name];
      const given = Object.entries(change.attributes).filter(
        (each): each is [string, PrincipalValue] => each[1] !== null,
      );
      Object.assign(found.attributes, this.#stored(Object.fromEntries(given)));
      Object.assign(found.attributes, this.faults.derives?.(found.attributes));
      found.name = nameIn(found);
      found.version++;
    }
    return this.faults.silent === true ? undefined : remoteOf(found);
  }

  #stored(attributes: Readonly<Record<string, PrincipalValue>>): Record<string, PrincipalValue> {
    const { normalises = false, forgets } = this.faults;
    const kept = Object.entries(attributes).filter(([name]) => name !== forgets);
    const stored = ([name, value]: [string, PrincipalValue]): [string, PrincipalValue] => {
      if (!normalises || typeof value !== "string") return [name, value];
      if (name === "userName") return [name, value.toLowerCase()];
      return [name, name === "phone" ? `+${value.replaceAll(/\D/g, "")}` : value.trim()];
    };
    return Object.fromEntries(kept.map(stored));
  }
}

function byName(a: Stored, b: Stored): number {
  return a.name < b.name ? -1 : 1;
}

/** What an object is called by the attribute that is its name. */
function nameIn({ kind, name, attributes }: Pick<Stored, "kind" | "name" | "attributes">): string {
  return String(attributes[kind === "user" ? "userName" : "displayName"] ?? name);
}

function remoteOf({ kind, id, name, version, attributes }: Stored): RemoteObject {
  return { kind, id, name, version: String(version), attributes: { ...attributes } };
}

export const usualAbilities: TargetAbilities = {
  membersPerChange: 3,
  concurrency: 4,
  readsMembers: true,
  nestsGroups: false,
  deletes: { user: true, group: true },
  renames: { user: true, group: true },
};

export function objectTarget(store: ObjectStore, abilities: Partial<TargetAbilities> = {}, name = "app"): ObjectTarget {
  const able = { ...usualAbilities, ...abilities };
  return {
    takes: "changes",
    name,
    abilities: able,
    async *read() {
      store.load();
      if (store.faults.unreadable === true) throw new UnavailableError("the target does not answer");
      const objects = store.listed();
      const records: RemoteRecord[] = objects.map(remoteOf);
      for (const { kind, id: group, members } of objects)
        if (kind === "group" && able.readsMembers)
          for (const member of members) records.push({ kind: "membership", group, member });
      for (let from = 0; from < records.length; from += 100) yield records.slice(from, from + 100);
    },
    current: async (_kind, id) => {
      const found = store.get(id);
      return found === undefined ? undefined : remoteOf(found);
    },
    write: async (change) => store.write(change),
    check: async () => ["objects in memory"],
    close: async () => {},
  };
}

/** Kills the process at a write: `3 before`, `3 after`. */
function killing(point: string | undefined): Faults {
  if (point === undefined) return {};
  const [at, when] = point.split(" ");
  let count = 0;
  const kill = (): void => {
    if (count++ === Number(at)) process.kill(process.pid, "SIGKILL");
  };
  return when === "before" ? { meanwhile: kill } : { taken: kill };
}

const options = z.strictObject({
  file: z.string().describe("The file with the objects."),
  readsMembers: z.boolean().default(true).describe("Whether it says who is in a group."),
});

/** The objects are in a file: they outlive the process. */
const connector: TargetConnector<z.infer<typeof options>> = {
  name: "objects",
  options,
  declare: () => attributesOfObjects,
  place: ({ file }) => `objects ${file}`,
  open: ({ file, readsMembers }, { name }) => {
    const store = new ObjectStore(file);
    store.faults = killing(process.env["ROLLCALL_TEST_KILL"]);
    return objectTarget(store, { readsMembers }, name);
  },
};

export default connector;
