import type { FastifyInstance, FastifyRequest } from "fastify";
import { checkMay } from "#control/access.ts";
import { orConflict, Refusal } from "#control/answers.ts";
import { may } from "#roles.ts";
import type { RunRecord, Standing } from "#state/record.ts";
import { standingsOf } from "#state/record.ts";
import { checkMayDecide } from "./accounts.ts";
import type { Visitor } from "./accounts.ts";
import { actorOf, formOf, visitorOf } from "./context.ts";
import type { AppOptions, Send } from "./context.ts";
import type { Checked, ConfiguredSync } from "#daemon/connections.ts";
import { at } from "./html.ts";
import { tokenField } from "./layout.ts";
import { anchorOf, connections } from "#console/pages/connections.ts";
import type { Connection } from "#console/pages/connections.ts";
import { runNow } from "#console/pages/run-now.ts";

/** Adds the pages of sources and targets, and the one that begins a run. */
export function addSyncPages(scope: FastifyInstance, { control, connections: known }: AppOptions, send: Send): void {
  scope.get("/syncs/:sync/run", async (request, reply) => {
    const configured = decidable(request);
    const standing = standingOf(configured.sync);
    if (standing === undefined) throw new Refusal(404, `no sync is called ${configured.sync}`);
    const page = runNow({ ...configured, now: Date.now(), standing, token: tokenField(visitorOf(request)) });
    return send(request, reply, { title: `Run ${configured.sync} now`, section: "runs" }, page);
  });

  scope.post("/syncs/:sync/run", async (request, reply) => {
    const { sync } = decidable(request);
    const { coordinator } = control.daemon();
    const { id } = control.track(await orConflict(coordinator.begin({ sync, cause: "demand", by: actorOf(request) })));
    return reply.redirect(at("/runs", id), 303);
  });

  scope.get("/connections", async (request, reply) => {
    const visitor = visitorOf(request);
    const all = control.daemon().coordinator.runs();
    const kinds = new Map(known.sources().map(({ name, connector }) => [name, connector]));
    const addresses = new Map(known.targets().map(({ name, address = "this service" }) => [name, address]));
    const source = (name: string, mayCheck: boolean): Connection => ({
      what: "source",
      name,
      kind: kinds.get(name) ?? "",
      check: shownTo(visitor, "source", name),
      mayCheck,
    });
    const target = (name: string): Connection => ({
      what: "target",
      name,
      kind: addresses.get(name) ?? "",
      check: shownTo(visitor, "target", name),
      mayCheck: mayCheck(visitor, "target", name),
    });
    const syncs = known.syncs().flatMap((each) => {
      const standing = standingOf(each.sync);
      return standing === undefined
        ? []
        : [
            {
              ...each,
              standing,
              lastRead: all.find((run) => run.sync === each.sync && hasReadEverything(run)),
              // They are checked with their sync.
              connections: each.sources.map(({ name }) => source(name, false)),
              to: target(each.target),
              check: shownTo(visitor, "sync", each.sync),
              mayCheck: mayCheck(visitor, "sync", each.sync),
            },
          ];
    });
    const others = [
      ...[...kinds.keys()]
        .filter((name) => isAlone("source", name))
        .map((name) => source(name, mayCheck(visitor, "source", name))),
      ...[...addresses.keys()].filter((name) => isAlone("target", name)).map(target),
    ];
    const page = connections({ now: Date.now(), syncs, others, token: tokenField(visitor) });
    return send(request, reply, { title: "Sources and targets", section: "connections", live: "/connections" }, page);
  });

  scope.post("/connections/check", async (request, reply) => {
    const form = formOf(request);
    const what = (["sync", "source", "target"] as const).find((each) => each === form.get("what"));
    const name = form.get("name") ?? "";
    if (what === undefined || !namesOf(what).includes(name))
      throw new Refusal(404, `the configuration has no ${what ?? "such thing"} ${name}`);
    const visitor = visitorOf(request);
    checkMay(visitor, "decide");
    if (!mayCheck(visitor, what, name))
      throw new Refusal(
        403,
        `${visitor.name} is a user of the target ${visitor.target}; the ${what} ${name} is not of it`,
      );
    known.check(what, name, actorOf(request));
    return reply.redirect(`/connections#${anchorOf(what, name)}`, 303);
  });

  function namesOf(what: Checked): readonly string[] {
    if (what === "sync") return known.syncs().map(({ sync }) => sync);
    return (what === "source" ? known.sources() : known.targets()).map(({ name }) => name);
  }

  function standingOf(sync: string): Standing | undefined {
    const { coordinator } = control.daemon();
    return standingsOf(
      coordinator.syncs().filter((each) => each.sync === sync),
      coordinator.runs(),
    )[0];
  }

  /** @throws {Refusal} 403, 404 */
  function decidable(request: FastifyRequest): ConfiguredSync {
    const { sync = "" } = request.params as { sync?: string };
    const configured = known.syncs().find((each) => each.sync === sync);
    if (configured === undefined) throw new Refusal(404, `no sync is called ${sync}`);
    checkMayDecide(visitorOf(request), configured.target);
    return configured;
  }

  function isAlone(what: "source" | "target", name: string): boolean {
    return !known
      .syncs()
      .some(({ sources, target }) =>
        what === "target" ? target === name : sources.some((source) => source.name === name),
      );
  }

  /** Whether somebody's account is of the target that something belongs to: what is in no sync belongs to all of them. */
  function isOfTheirs({ target }: Visitor, what: Checked, name: string): boolean {
    if (target === undefined) return true;
    if (what === "target") return target === name;
    if (what === "source") return known.targets().length < 2;
    return known.syncs().some((each) => each.sync === name && each.target === target);
  }

  function mayCheck(visitor: Visitor, what: Checked, name: string): boolean {
    return may(visitor.role, "decide") && isOfTheirs(visitor, what, name);
  }

  function shownTo(visitor: Visitor, what: Checked, name: string): Connection["check"] {
    return isOfTheirs(visitor, what, name) ? known.checked(what, name) : undefined;
  }
}

/** Whether it says what the sources and the target had: an undo reads no sources, and one that failed may not have come to the target. */
function hasReadEverything({ sources, counts }: RunRecord): boolean {
  return sources !== undefined && counts !== undefined;
}
