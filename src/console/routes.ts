import type { FastifyInstance, FastifyRequest } from "fastify";
import { EventStreams } from "#control/events.ts";
import { findRun, listRuns } from "#control/routes.ts";
import { read, runsPageQuery } from "#control/requests.ts";
import { standingsOf } from "#state/record.ts";
import type { RunRecord } from "#state/record.ts";
import { accountOf, mayDecide } from "./accounts.ts";
import { visitorOf } from "./context.ts";
import type { AppOptions, Send } from "./context.ts";
import { at } from "./html.ts";
import type { Crumb } from "./layout.ts";
import { overview } from "#console/pages/overview.ts";
import { run } from "#console/pages/run.ts";
import { listedBefore, runs } from "#console/pages/runs.ts";

/** How many loads the overview of a service alone shows. */
const loadsShown = 10;

/** How often open pages are told that something has changed, in milliseconds. */
const pace = 500;

/** Adds the pages that show something. */
export function addPages(scope: FastifyInstance, options: AppOptions, send: Send): void {
  const { control, loads } = options;
  const progress = follow(scope, options);

  scope.get("/", async (request, reply) => {
    const { coordinator } = control.daemon();
    const all = coordinator.runs();
    const syncs = standingsOf(coordinator.syncs(), all).map((standing) =>
      Object.assign(standing, { mayRun: mayDecide(visitorOf(request), standing.target) }),
    );
    const mine = syncs.length === 0 ? await loads?.of(request) : undefined;
    const alone = mine && {
      tables: (await mine.tables()).length,
      cycles: (await mine.cycles()).slice(0, loadsShown),
    };
    const frame = { title: "Overview", section: "overview", live: "/", liveBy: "both" } as const;
    return send(request, reply, frame, overview({ now: Date.now(), syncs, runs: all, loads: alone }));
  });

  scope.get("/runs", async (request, reply) => {
    const { coordinator } = control.daemon();
    const filter = given(request.query);
    const query = read(runsPageQuery, filter, "query");
    const found = listRuns(coordinator, { ...query, before: listedBefore(query) });
    const syncs = coordinator.syncs().map(({ sync }) => sync);
    const visitor = visitorOf(request);
    const runnable = coordinator
      .syncs()
      .filter(({ sync, target }) => mayDecide(visitor, target) && (filter["sync"] ?? sync) === sync)
      .map(({ sync }) => sync);
    const page = runs({ now: Date.now(), ...found, syncs, runnable, filter });
    return send(request, reply, { title: "Runs", section: "runs", live: request.url }, page);
  });

  scope.get("/runs/:id", async (request, reply) => {
    const { coordinator } = control.daemon();
    const found = runOf(request);
    const undoneBy = coordinator.runs().filter(({ undoes }) => undoes === found.id);
    const page = run({
      now: Date.now(),
      run: found,
      undoneBy,
      mayDecide: mayDecide(visitorOf(request), found.target),
      progress: progress.get(found.id),
      following: coordinator.runs().some(({ id, sync }) => sync === found.sync && id > found.id)
        ? undefined
        : { nextSlotAt: coordinator.syncs().find(({ sync }) => sync === found.sync)?.nextSlotAt },
    });
    const frame = {
      title: titleOf(found),
      section: "runs",
      live: at("/runs", found.id),
      crumbs: crumbsOf(found),
    } as const;
    return send(request, reply, frame, page);
  });

  function runOf(request: FastifyRequest): RunRecord {
    const { id = "" } = request.params as { id?: string };
    return findRun(control.daemon().coordinator, id);
  }
}

/** Where a page of a run is. @param what the page; absent: the run's own */
export function crumbsOf({ sync, id }: RunRecord, what?: string): readonly Crumb[] {
  const run: Crumb[] = what === undefined ? [{ label: id }] : [{ label: id, href: at("/runs", id) }, { label: what }];
  return [{ label: sync, href: `/runs?sync=${encodeURIComponent(sync)}` }, ...run];
}

function titleOf({ sync, id }: RunRecord): string {
  return `${sync}, run ${id}`;
}

/** The fields of a form that were filled in. */
function given(query: unknown): Record<string, string> {
  return Object.fromEntries(Object.entries(query as Record<string, string>).filter(([, value]) => value !== ""));
}

/**
 * Tells open pages when a run moves on: they fetch themselves again. Reading the daemon begins with the first page that
 * listens.
 * @returns how many records the stage under way of each run has got to
 */
function follow(
  scope: FastifyInstance,
  { control, connections, loads, accounts }: AppOptions,
): ReadonlyMap<string, number> {
  const streams = new EventStreams();
  const progress = new Map<string, number>();
  const timers = new Map<string, NodeJS.Timeout>();
  const unsubscribe: (() => unknown)[] = [];
  const publishSoon = (event: "changed" | "loads"): void => {
    if (timers.has(event)) return;
    const publish = (): void => {
      timers.delete(event);
      streams.publish(event, {});
      // While data arrives or is loaded, there is something new every moment.
      if (event === "loads" && loads?.isBusy() === true) publishSoon("loads");
    };
    timers.set(event, setTimeout(publish, pace));
  };
  const begin = (): void => {
    const runs = control.daemon().coordinator.subscribe((event) => {
      if (event.type === "stage") {
        if (event.records === undefined) progress.delete(event.id);
        else progress.set(event.id, event.records);
      } else if (event.type === "run") progress.delete(event.run.id);
      publishSoon("changed");
    });
    unsubscribe.push(
      runs,
      connections.subscribe(() => publishSoon("changed")),
    );
    if (loads !== undefined) unsubscribe.push(loads.subscribe(() => publishSoon("loads")));
  };
  scope.get("/events", { config: { forLoads: true } }, async (request, reply) => {
    if (unsubscribe.length === 0) begin();
    if (loads?.isBusy() === true) publishSoon("loads");
    const isAllowed = async (): Promise<boolean> => {
      const visitor = await accounts.find(request, false);
      return visitor !== undefined && (visitor.role !== undefined || visitor.mayLoad === true);
    };
    return reply
      .type("text/event-stream")
      .send(streams.open(undefined, { account: accountOf(visitorOf(request)), isAllowed }, request.raw.socket));
  });
  scope.addHook("preClose", (done) => {
    for (const timer of timers.values()) clearTimeout(timer);
    for (const end of unsubscribe) end();
    streams.close();
    done();
  });
  return progress;
}
