import type { Kind, ObjectChange, RemoteObject } from "#connector.ts";
import { ObjectRefusedError, UnavailableError } from "#errors.ts";
import { jsonBody, textOf } from "#http/client.ts";
import type { Answer } from "#http/client.ts";
import type { Write } from "#http/directory/api.ts";
import type { Refusal } from "#http/directory/authorization.ts";
import { presentable } from "#redact.ts";
import { formatName } from "#text.ts";
import { pageOf } from "../list.ts";
import { gone, pathOf, resourceById } from "../lookup.ts";
import { idOf, isError, objectOf } from "../resource.ts";
import type { Resource } from "../schema.ts";
import type { Values } from "./attributes.ts";
import { pathOfKind } from "./read.ts";
import type { Reading } from "./read.ts";
import { member } from "./paths.ts";
import { creation, halves, memberOperations, membersAfter, operations, patchBody } from "./requests.ts";
import type { Operation } from "./requests.ts";

type Change<Action extends ObjectChange["action"]> = Extract<ObjectChange, { action: Action }>;

/** What a PUT changes. A server that does not show whether users are active may activate those of whom it does not say that either. */
function replacing(values: Values, { whole: { active } }: Change<"update">, before: Resource): Values {
  return typeof active !== "boolean" || member(before, "active") !== undefined ? values : { active, ...values };
}

/** Writes changes to a server, one request each where the server takes it in one. */
export class Writer {
  readonly #reading: Reading;
  /** Objects as they were read right before they are changed. */
  readonly #before = new Map<string, Resource>();
  /** How many members in a row were refused one by one, by the path of the group. */
  readonly #refusals = new Map<string, number>();

  constructor(reading: Reading) {
    this.#reading = reading;
  }

  /** An object as it is now; undefined: it is gone. @throws what `resourceById` throws */
  async current(kind: Kind, id: string, signal: AbortSignal): Promise<RemoteObject | undefined> {
    const resource = await this.#get(kind, id, signal);
    if (resource === undefined) return undefined;
    // Few are under way at a time; what was not changed then is of no use later.
    if (this.#before.size >= 100) this.#before.clear();
    this.#before.set(`${kind} ${id}`, resource);
    return this.#reading.mapping.remote(kind, resource);
  }

  /** @throws {ObjectRefusedError | RefusedError | UnavailableError} as `ObjectTarget.write` */
  write(change: ObjectChange, signal: AbortSignal): Promise<RemoteObject | undefined> {
    if (change.action === "create") return this.#create(change, signal);
    if (change.action === "update") return this.#update(change, signal);
    return change.action === "delete" ? this.#delete(change, signal) : this.#members(change, signal);
  }

  async #create(change: Change<"create">, signal: AbortSignal): Promise<RemoteObject> {
    const { kind, name, attributes } = change;
    const { server, mapping } = this.#reading;
    this.#assertTaken(change);
    const body = creation(kind, attributes, name, mapping);
    let created: Resource | undefined;
    try {
      created = await this.#send({ method: "POST", path: this.#list(kind), body, once: true, signal }, change);
    } catch (error) {
      if (!(error instanceof UnavailableError) || signal.aborted) throw error;
      const found = await this.#named(kind, name, signal).catch(() => []);
      // Nobody had the name when the target was read: it is what the request made.
      if (found[0] === undefined || found.length > 1 || !isSame(found[0], body)) throw error;
      [created] = found;
    }
    const found =
      created === undefined || idOf(created) === undefined ? await this.#named(kind, name, signal) : [created];
    const [first, second] = found;
    const remote = first && second === undefined ? mapping.remote(kind, first) : undefined;
    if (remote !== undefined) return { ...remote, name: remote.name === "" ? name : remote.name };
    throw new ObjectRefusedError(
      `${server.subject}: POST ${server.place(this.#list(kind)).href}: the server answered with success and without an id, and ${found.length === 0 ? `has no ${kind}` : `has several ${kind}s`} ${formatName(name)}`,
    );
  }

  async #update(change: Change<"update">, signal: AbortSignal): Promise<RemoteObject | undefined> {
    const { kind, id, attributes, whole } = change;
    const { mapping, profile } = this.#reading;
    this.#assertTaken(change);
    const values = mapping.withWholeLists(kind, attributes, whole);
    if (this.#replaces()) this.#assertReplaceable(kind, change.name);
    const path = this.#path(kind, id);
    const before = await this.#beforeOf(change, signal);
    const request = { path, headers: this.#condition(change.version), signal };
    const answered = this.#replaces()
      ? await this.#send(
          { ...request, method: "PUT", body: asSent(mapping.changed(kind, replacing(values, change, before), before)) },
          change,
        )
      : await this.#send(
          {
            ...request,
            method: "PATCH",
            body: patchBody(operations(kind, values, before, mapping, profile), profile),
          },
          change,
        );
    // An answer about another object says nothing here.
    return answered !== undefined && idOf(answered) === id ? mapping.remote(kind, answered) : undefined;
  }

  async #beforeOf({ kind, id, name, attributes }: Change<"update">, signal: AbortSignal): Promise<Resource> {
    const key = `${kind} ${id}`;
    const known = this.#before.get(key);
    this.#before.delete(key);
    if (!this.#replaces() && !this.#reading.mapping.needsBefore(kind, attributes)) return {};
    const before = known ?? (await this.#get(kind, id, signal));
    if (before !== undefined) return before;
    throw new ObjectRefusedError(`${this.#reading.server.subject}: the ${kind} ${formatName(name)} is gone`, {
      status: 404,
    });
  }

  async #delete(change: Change<"delete">, signal: AbortSignal): Promise<undefined> {
    const { kind, id, version } = change;
    await this.#send(
      { method: "DELETE", path: this.#path(kind, id), headers: this.#condition(version), signal, mayBeGone: true },
      change,
    );
    return undefined;
  }

  async #members(change: Change<"members">, signal: AbortSignal): Promise<undefined> {
    const { group, add, remove } = change;
    const { profile } = this.#reading;
    const path = this.#path("group", group);
    if (this.#replaces()) {
      this.#assertReplaceable("group", change.name);
      const before = await this.#get("group", group, signal);
      if (before === undefined)
        throw new ObjectRefusedError(`${this.#reading.server.subject}: the group ${formatName(change.name)} is gone`, {
          status: 404,
        });
      const body = asSent({ ...before, members: membersAfter(before["members"], add, remove) });
      await this.#send({ method: "PUT", path, body, signal }, change);
      return undefined;
    }
    await this.#patchAll(memberOperations(add, remove, profile), { path, change, signal });
    return undefined;
  }

  /** Sends every request, whatever becomes of the others. @throws {ObjectRefusedError} the first of those that are refused */
  async #patchAll(requests: readonly (readonly Operation[])[], group: PatchedGroup): Promise<void> {
    let refused: ObjectRefusedError | undefined;
    for (const request of requests) {
      try {
        await this.#patchMembers(request, group);
      } catch (error) {
        if (!(error instanceof ObjectRefusedError)) throw error;
        refused ??= error;
      }
    }
    if (refused !== undefined) throw refused;
  }

  /** One request; where the server refuses it, its halves: one member who is gone must not keep the others out. */
  async #patchMembers(request: readonly Operation[], group: PatchedGroup): Promise<void> {
    const { path, change, signal } = group;
    const parts = halves(request);
    const body = patchBody(request, this.#reading.profile);
    const mayHaveNoTarget = request.some(({ op }) => op === "remove");
    try {
      const answered = await this.#send({ method: "PATCH", path, body, signal, mayHaveNoTarget }, change);
      // The removed member may be out already: a server that says so has applied nothing else of the request.
      if (answered !== noTarget) return void this.#refusals.delete(path);
    } catch (error) {
      const refusals = this.#refusals.get(path) ?? 0;
      if (parts.length === 0) this.#refusals.set(path, refusals + 1);
      const isOfSome = error instanceof ObjectRefusedError && ofSome.has(error.status) && parts.length > 0;
      if (
        !isOfSome ||
        refusals >= mostRefusals ||
        (error.status === 404 && (await this.#get("group", change.group, signal)) === undefined)
      )
        throw error;
    }
    await this.#patchAll(parts, group);
  }

  /** Whether objects are written whole. */
  #replaces(): boolean {
    const { profile, capabilities } = this.#reading;
    return profile.update === "put" || (profile.update === "auto" && capabilities.patches === false);
  }

  #condition(version: string | undefined): Readonly<Record<string, string>> {
    return version !== undefined && this.#reading.capabilities.hasVersions ? { "if-match": version } : {};
  }

  #path(kind: Kind, id: string): string {
    return pathOf({ path: this.#list(kind), id });
  }

  #list(kind: Kind): string {
    return pathOfKind(this.#reading, kind);
  }

  /** A PUT of a group needs its members, which some servers show only when asked for them; nothing else does. */
  async #get(kind: Kind, id: string, signal: AbortSignal): Promise<Resource | undefined> {
    const { server, profile } = this.#reading;
    const isShown = kind === "group" && profile.members !== "hidden";
    const get = (parameters: Readonly<Record<string, string>>): Promise<Resource | undefined> =>
      resourceById(server, { kind, path: this.#list(kind), id, parameters, isTyped: false, signal }, (status) =>
        gone.has(status) ? { value: undefined } : undefined,
      );
    if (!this.#replaces()) return get(isShown ? { excludedAttributes: "members" } : {});
    const found = await get({});
    if (!isShown || found === undefined || "members" in found) return found;
    const asked = await get({ attributes: "members" });
    return asked && { ...found, members: asked["members"] };
  }

  /** @throws {ObjectRefusedError} a PUT would take out members that the server does not show */
  #assertReplaceable(kind: Kind, name: string): void {
    const { server, profile } = this.#reading;
    if (kind !== "group" || profile.members !== "hidden") return;
    throw new ObjectRefusedError(
      `${server.subject}: the group ${formatName(name)} was not written: a PUT replaces its members, and the server does not show them (profile: members: hidden, update: put)`,
    );
  }

  /** The objects of a name, as the server finds them. */
  async #named(kind: Kind, name: string, signal: AbortSignal): Promise<readonly Resource[]> {
    const { server, mapping } = this.#reading;
    signal.throwIfAborted();
    const attribute = kind === "user" ? "userName" : "displayName";
    const found: Resource[] = [];
    const filter = `${attribute} eq ${JSON.stringify(name)}`;
    // What finds nothing is a 404 at some servers, and others have no filters.
    const empty = { empty: [400, 404, 501] };
    for await (const some of pageOf(server, { path: this.#list(kind), parameters: { filter } }, empty))
      found.push(...some.filter((each) => mapping.remote(kind, each)?.name.toLowerCase() === name.toLowerCase()));
    return found;
  }

  /** @throws {ObjectRefusedError} the server says that it does not take an attribute */
  #assertTaken({ kind, name, attributes }: Change<"create"> | Change<"update">): void {
    const { server, mapping, capabilities, profile } = this.#reading;
    const fail = (problem: string): never => {
      throw new ObjectRefusedError(`${server.subject}: the ${kind} ${formatName(name)} was not written: ${problem}`);
    };
    for (const field of mapping.of(kind)) {
      const value = attributes[field.attribute.name];
      if (value === undefined) continue;
      // To be active is what users are where nothing is said.
      const isChecked = profile.trustsSchemas && !(field.attribute.name === "active" && value === true);
      const objection = isChecked ? capabilities.objection(field, kind) : undefined;
      if (objection !== undefined) fail(`${field.attribute.name}: ${objection} (its /Schemas)`);
    }
  }

  /** One request. @returns the resource in the answer, where there is one */
  #send(request: Sending, change: ObjectChange): Promise<Resource | undefined> {
    const { server } = this.#reading;
    const { method, path, body, signal, once, headers, mayBeGone = false, mayHaveNoTarget = false } = request;
    const url = server.place(path);
    const subject = `${server.subject}: ${method} ${url.href}`;
    return server.write<Resource | undefined>({
      method,
      url,
      signal,
      once,
      headers: { ...headers },
      body: body === undefined ? undefined : jsonBody(body, "application/scim+json"),
      use: async (answer) => {
        const resource = withId(
          await resourceIn(answer),
          method === "POST" ? answer.headers["location"] : undefined,
          url,
        );
        if (resource === undefined || !isError(resource)) return resource;
        const said = [resource["scimType"], resource["detail"]].filter((part) => typeof part === "string").join(": ");
        throw new ObjectRefusedError(
          `${subject}: the status says success, and the answer is an error${said === "" ? "" : ` (${presentable(said, server.secrets())})`}`,
        );
      },
      refused: (refusal) => {
        if (mayBeGone && gone.has(refusal.status)) return { value: undefined };
        if (mayHaveNoTarget && member(refusal.body, "scimType") === "noTarget") return { value: noTarget };
        if (!isOfOne(refusal)) return undefined;
        const said = refusal.said === undefined ? "" : ` (${refusal.said})`;
        throw new ObjectRefusedError(
          `${subject} answered ${refusal.status}${said}: ${adviceOn(refusal, change, method)}`,
          {
            status: refusal.status,
          },
        );
      },
    });
  }
}

interface Sending extends Pick<Write<unknown>, "method" | "once" | "headers"> {
  readonly path: string;
  readonly body?: object | undefined;
  readonly signal: AbortSignal;
  /** A missing object counts as success. */
  readonly mayBeGone?: boolean | undefined;
  /** A missing member counts as an answer: `noTarget`. */
  readonly mayHaveNoTarget?: boolean | undefined;
}

/** Instead of a resource: what an operation names is not there (RFC 7644, 3.12). */
const noTarget: Resource = {};

/** A group whose members change. */
interface PatchedGroup {
  readonly path: string;
  readonly change: Change<"members">;
  readonly signal: AbortSignal;
}

/** The refusals of a request with several members that may be of one of them, or of their number. */
const ofSome: ReadonlySet<number | undefined> = new Set([400, 404, 409, 413, 422]);

/** So many members that are refused one by one, and none that is taken between them: it is the group that is full, or closed. */
const mostRefusals = 8;

/** What a PUT has of a resource: not what the server writes itself. */
function asSent(resource: Resource): Resource {
  const { meta: _, groups: __, ...rest } = resource;
  return rest;
}

/** Whether a resource that was found is the one that was sent. */
function isSame(found: Resource, sent: Resource): boolean {
  return (
    sent["externalId"] === undefined || found["externalId"] === undefined || found["externalId"] === sent["externalId"]
  );
}

/** What an answer holds. There may be nothing, or what is not JSON: the status says what was done. */
async function resourceIn(answer: Answer): Promise<Resource | undefined> {
  const text = await textOf(answer, 16 * 1024 * 1024);
  if (text.trim() === "") return undefined;
  try {
    return objectOf(JSON.parse(text));
  } catch {
    return undefined;
  }
}

/** The id of a new resource is in its body, or at least in its location (RFC 7644, 3.3). */
function withId(
  resource: Resource | undefined,
  location: string | string[] | undefined,
  list: URL,
): Resource | undefined {
  if (typeof location !== "string" || (resource !== undefined && idOf(resource) !== undefined)) return resource;
  const [path, last] = [list.pathname.split("/").at(-1), URL.parse(location, list)?.pathname.split("/").slice(-2)];
  const id = last?.[0] === path ? last?.[1] : undefined;
  return id === undefined || id === "" || id.includes("%") ? resource : { ...resource, id };
}

/** Whether a refusal is of one object, and not of everything. */
function isOfOne({ status }: Refusal): boolean {
  return [400, 403, 404, 405, 409, 410, 411, 412, 413, 414, 415, 422, 428, 501].includes(status);
}

function adviceOn({ status, said = "" }: Refusal, change: ObjectChange, method: string): string {
  const what =
    change.action === "members"
      ? `the group ${formatName(change.name)}`
      : `the ${change.kind} ${formatName(change.name)}`;
  switch (status) {
    case 403:
      return `${what} may not be changed with these credentials: check the token's rights, and who owns it`;
    case 404:
    case 410:
      return change.action === "create"
        ? "there is no such list; check the url"
        : `${what} is gone, or one of its members`;
    case 409:
      return change.action === "create"
        ? `${what} is there already, perhaps deactivated, or under another name: look for its userName and externalId in the application`
        : `another object has one of the values of ${what}`;
    case 412:
      return `${what} has changed since it was read; the next run plans it again`;
    case 413:
      return "the request is too large; set profile: { membersPerPatch } lower";
    case 405:
    case 501:
      return method === "PATCH"
        ? "the server seems to have no PATCH; if so, set profile: { update: put }"
        : `the server has no ${method} of ${change.action === "members" ? "group" : change.kind}s`;
    default:
      return /mutability/i.test(said)
        ? `an attribute of ${what} is read-only on the server`
        : change.action === "members"
          ? `the server does not take these members of ${what}: one may be gone, or the group full`
          : `the server does not take the values of ${what}`;
  }
}
