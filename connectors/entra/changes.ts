import { randomUUID } from "node:crypto";
import type { ReadContext } from "#connector.ts";
import { InputError, RefusedError } from "#errors.ts";
import { isObject, selectionsOf } from "./attributes.ts";
import type { Selection } from "./attributes.ts";
import type { Graph } from "./graph.ts";

/** Changes to these are no changes to the user, as Graph tracks them. */
const untracked = new Set(["signInActivity"]);

/**
 * Follows Graph's delta queries from one look to the next: whether anything has changed, and not what. They forget
 * people who were deleted for good, so that they replace no read for ever: `fullReadEvery`.
 */
export class Changes {
  #version: string | undefined;
  /** Where each list goes on. */
  readonly #links = new Map<string, URL>();

  /** @returns the same as at the last look, if nothing has changed since; undefined: the tenant does not say */
  async look(graph: Graph, context: ReadContext): Promise<string | undefined> {
    const { user, group } = selectionsOf(graph.options, context, graph.api.subject);
    if (user.manager || user.properties.some((name) => untracked.has(name))) return undefined;
    const isGroups = graph.options.groups !== false;
    try {
      const users = await this.#hasChanged(graph, "users", user);
      const groups = isGroups && (await this.#hasChanged(graph, "groups", group));
      if (users || groups || this.#version === undefined) this.#version = randomUUID();
      return this.#version;
    } catch (error) {
      if (!(error instanceof RefusedError)) throw error;
      this.#links.clear();
      this.#version = undefined;
      return undefined;
    }
  }

  async #hasChanged(graph: Graph, list: "users" | "groups", { properties }: Selection): Promise<boolean> {
    const names = list === "groups" ? [...properties, "members"] : properties;
    const from = graph.url(`${list}/delta`, { $select: names.join(","), $deltatoken: "latest" });
    let isChanged = !this.#links.has(list);
    for (let url = this.#links.get(list) ?? from; ;) {
      const { value, isLost } = await this.#page(graph, url);
      if (isLost) {
        // The token has ended: what happened since is not known.
        isChanged = true;
        url = from;
        continue;
      }
      if (!isObject(value) || !Array.isArray(value["value"]))
        throw new InputError(`${graph.api.titleOf(url)}: the answer is not a list of Graph`);
      if (value["value"].length > 0) isChanged = true;
      const [next, end] = [value["@odata.nextLink"], value["@odata.deltaLink"]];
      if (typeof end === "string") {
        this.#links.set(list, graph.api.follow(end, url));
        return isChanged;
      }
      if (typeof next !== "string") throw new InputError(`${graph.api.titleOf(url)}: the changes have no end`);
      url = graph.api.follow(next, url);
    }
  }

  /** `isLost`: the token is too old, and all would be listed again. */
  async #page(graph: Graph, url: URL): Promise<{ readonly value: unknown; readonly isLost: boolean }> {
    const lost = { value: { value: undefined, headers: { lost: "true" } } };
    const { value, headers } = await graph.api.json(url, {
      refused: ({ status }) =>
        (status === 410 || status === 400) && url.searchParams.get("$deltatoken") !== "latest" ? lost : undefined,
    });
    return { value, isLost: headers["lost"] !== undefined };
  }
}
