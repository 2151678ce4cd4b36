import { hash, randomUUID } from "node:crypto";
import { InputError, RefusedError } from "#errors.ts";
import { isObject } from "#values.ts";
import { selectionsOf } from "./attributes.ts";
import type { Selections } from "./attributes.ts";
import type { Graph } from "./graph.ts";
import type { Options } from "./options.ts";

/** What delta queries do not follow. */
const untracked = new Set(["signInActivity"]);

/** A tenant is opened anew for each run, and what follows it has to outlive that. By a digest of the options. */
const followed = new Map<string, Changes>();

/** What follows the changes of a tenant in this process. */
export function changesOf(options: Options): Changes {
  const key = hash("sha256", JSON.stringify(options));
  const changes = followed.get(key) ?? new Changes(selectionsOf(options, {}, ""));
  followed.set(key, changes);
  return changes;
}

/**
 * Follows Graph's delta queries from one look to the next: whether anything has changed, and not what. They forget
 * people who were deleted for good, so that they replace no read for ever: `fullReadEvery`.
 */
export class Changes {
  #version: string | undefined;
  /** What reads have asked for so far: other properties are not followed. */
  readonly #properties = { users: new Set<string>(), groups: new Set<string>(["members"]) };
  #isFollowed = true;
  /** Where each list goes on. */
  readonly #links = new Map<string, URL>();

  /** @param usual what is asked for where rules say nothing else */
  constructor(usual: Selections) {
    this.read(usual);
  }

  /** Tells what a read asks for. What is new among it has not been followed up to now. */
  read({ user, group }: Selections): void {
    const { users, groups } = this.#properties;
    const before = users.size + groups.size;
    for (const name of user.properties) users.add(name);
    for (const name of group.properties) groups.add(name);
    if (user.manager || user.properties.some((name) => untracked.has(name))) this.#isFollowed = false;
    if (users.size + groups.size > before) this.#forget();
  }

  /** @returns the same as at the last look, if nothing has changed since; undefined: the tenant does not say */
  async look(graph: Graph): Promise<string | undefined> {
    if (!this.#isFollowed) return undefined;
    try {
      const users = await this.#hasChanged(graph, "users");
      const groups = graph.options.groups !== false && (await this.#hasChanged(graph, "groups"));
      if (users || groups || this.#version === undefined) this.#version = randomUUID();
      return this.#version;
    } catch (error) {
      this.#forget();
      if (error instanceof RefusedError) return undefined;
      throw error;
    }
  }

  #forget(): void {
    this.#links.clear();
    this.#version = undefined;
  }

  async #hasChanged(graph: Graph, list: "users" | "groups"): Promise<boolean> {
    const names = [...this.#properties[list]].join(",");
    const from = graph.url(`${list}/delta`, { ...(names !== "" && { $select: names }), $deltatoken: "latest" });
    let isChanged = !this.#links.has(list);
    for (let url = this.#links.get(list) ?? from; ;) {
      const page = await this.#page(graph, url);
      if (page === undefined) {
        // What happened since the token is not known.
        isChanged = true;
        url = from;
        continue;
      }
      if (page.value.length > 0) isChanged = true;
      if (page.end !== undefined) {
        this.#links.set(list, graph.follow(page.end, url));
        return isChanged;
      }
      if (page.next === undefined) throw new InputError(`${graph.titleOf(url)}: the changes have no end`);
      url = graph.follow(page.next, url);
    }
  }

  /** @returns undefined: the token is too old, and Graph would list everything */
  async #page(graph: Graph, url: URL) {
    const isLatest = url.searchParams.get("$deltatoken") === "latest";
    const value = await graph.jsonIfAny(url, isLatest ? [] : [400, 410]);
    if (value === undefined) return undefined;
    if (!isObject(value) || !Array.isArray(value["value"]))
      throw new InputError(`${graph.titleOf(url)}: the answer is not a list of Graph`);
    const textIn = (name: string): string | undefined => {
      const text = value[name];
      return typeof text === "string" ? text : undefined;
    };
    return { value: value["value"], next: textIn("@odata.nextLink"), end: textIn("@odata.deltaLink") };
  }
}
