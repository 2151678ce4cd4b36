import type { FastifyInstance, FastifyRequest } from "fastify";
import type { ListedPrincipal, Listing } from "#sync/explain/listing.ts";
import { mayDecide } from "./accounts.ts";
import { hiddenParts, visitorOf } from "./context.ts";
import type { AppOptions, Send } from "./context.ts";
import { placesOf } from "./layout.ts";
import { search } from "#console/pages/search.ts";

/** How many of a kind are found at most. */
const most = 6;

/** How long a search waits for targets that are being listed, in milliseconds: some may not answer. */
const patience = 400;

/** Adds the search over everything. */
export function addSearchPage(scope: FastifyInstance, options: AppOptions, send: Send): void {
  const { control, people } = options;
  scope.get("/search", async (request, reply) => {
    const { q } = request.query as { q?: unknown };
    const text = typeof q === "string" ? q.trim() : "";
    const visitor = visitorOf(request);
    const { coordinator } = control.daemon();
    const matches = (label: string): boolean => label.toLowerCase().includes(text.toLowerCase());
    const syncs = coordinator.syncs();
    const runnable = syncs
      .filter(({ sync, target }) => mayDecide(visitor, target) && (matches(sync) || matches(`run ${sync} now`)))
      .map(({ sync }) => sync);
    const runs = text === "" ? [] : coordinator.runs().filter((run) => run.id.startsWith(text) || run.sync === text);
    const page = search({
      now: Date.now(),
      text,
      places: placesOf(visitor, hiddenParts(options)).filter(({ label }) => matches(label)),
      runnable: runnable.slice(0, most),
      syncs:
        text === ""
          ? []
          : syncs
              .map(({ sync }) => sync)
              .filter(matches)
              .slice(0, most),
      runs: runs.slice(0, most),
      ...(await peopleCalled(request, text)),
    });
    return send(request, reply, { title: "Search", crumbs: [{ label: "Search" }] }, page);
  });

  /** The users and groups of the targets that the visitor may see, as far as these are listed. */
  async function peopleCalled(
    request: FastifyRequest,
    text: string,
  ): Promise<{ people: (ListedPrincipal & { target: string })[]; unlisted: string[]; failed: string[] }> {
    const { target: own } = visitorOf(request);
    if (text.length < 2) return { people: [], unlisted: [], failed: [] };
    const targets = people.targets().filter((each) => own === undefined || each === own);
    const find = async (listing: Listing): Promise<readonly ListedPrincipal[]> =>
      (await listing.search(text, undefined, { offset: 0, limit: most })).rows;
    // A target that cannot be listed is no reason to find nothing: its own page says why.
    const found = await Promise.all(
      targets.map((target) => people.list(target, undefined, find, patience).catch(() => null)),
    );
    return {
      people: targets
        .flatMap((target, index) => (found[index] ?? []).map((row) => Object.assign(row, { target })))
        .slice(0, 2 * most),
      unlisted: targets.filter((_, index) => found[index] === undefined),
      failed: targets.filter((_, index) => found[index] === null),
    };
  }
}
