import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
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
import type { ConnectedSync, Connection } from "#console/pages/connections.ts";
import { runNow } from "#console/pages/run-now.ts";

/** Adds the pages of sources and targets, and the one that begins a run. */
export function addSyncPages(scope: FastifyInstance, options: AppOptions, send: Send): void {
  const pages = new SyncPages(options, send);
  scope.get("/syncs/:sync/run", (request, reply) => pages.askToRun(request, reply));
  scope.post("/syncs/:sync/run", (request, reply) => pages.run(request, reply));
  scope.get("/connections", (request, reply) => pages.connections(request, reply));
  scope.post("/connections/check", (request, reply) => pages.check(request, reply));
}

class SyncPages {
  readonly #control: AppOptions["control"];
  readonly #known: AppOptions["connections"];
  readonly #send: Send;

  constructor({ control, connections: known }: AppOptions, send: Send) {
    this.#control = control;
    this.#known = known;
    this.#send = send;
  }

  async askToRun(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const configured = this.#decidable(request);
    const standing = this.#standingOf(configured.sync);
    if (standing === undefined) throw new Refusal(404, `no sync is called ${configured.sync}`);
    const page = runNow({ ...configured, now: Date.now(), standing, token: tokenField(visitorOf(request)) });
    return this.#send(request, reply, { title: `Run ${configured.sync} now`, section: "runs" }, page);
  }

  async run(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { sync } = this.#decidable(request);
    const { coordinator } = this.#control.daemon();
    const begun = await orConflict(coordinator.begin({ sync, cause: "demand", by: actorOf(request) }));
    return reply.redirect(at("/runs", this.#control.track(begun).id), 303);
  }

  async connections(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const visitor = visitorOf(request);
    const page = connections({
      now: Date.now(),
      syncs: this.#syncsFor(visitor),
      others: this.#othersFor(visitor),
      token: tokenField(visitor),
    });
    const frame = { title: "Sources and targets", section: "connections", live: "/connections" } as const;
    return this.#send(request, reply, frame, page);
  }

  async check(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const form = formOf(request);
    const what = (["sync", "source", "target"] as const).find((each) => each === form.get("what"));
    const name = form.get("name") ?? "";
    if (what === undefined || !this.#namesOf(what).includes(name))
      throw new Refusal(404, `the configuration has no ${what ?? "such thing"} ${name}`);
    const visitor = visitorOf(request);
    checkMay(visitor, "decide");
    if (!this.#mayCheck(visitor, what, name))
      throw new Refusal(
        403,
        `${visitor.name} is a user of the target ${visitor.target}; the ${what} ${name} is not of it`,
      );
    this.#known.check(what, name, actorOf(request));
    return reply.redirect(`/connections#${anchorOf(what, name, form.get("within") ?? undefined)}`, 303);
  }

  #syncsFor(visitor: Visitor): ConnectedSync[] {
    const runs = this.#control.daemon().coordinator.runs();
    return this.#known.syncs().flatMap((each) => {
      const standing = this.#standingOf(each.sync);
      if (standing === undefined) return [];
      return [
        {
          ...each,
          standing,
          lastRead: runs.find((run) => run.sync === each.sync && hasReadEverything(run)),
          // They are checked with their sync.
          connections: each.sources.map(({ name }) => this.#source(visitor, name, false)),
          to: this.#target(visitor, each.target),
          check: this.#shownTo(visitor, "sync", each.sync),
          mayCheck: this.#mayCheck(visitor, "sync", each.sync),
        },
      ];
    });
  }

  /** The sources and targets of no sync. */
  #othersFor(visitor: Visitor): Connection[] {
    const alone = (what: "source" | "target"): readonly string[] =>
      this.#namesOf(what).filter((name) => this.#isAlone(what, name));
    return [
      ...alone("source").map((name) => this.#source(visitor, name, this.#mayCheck(visitor, "source", name))),
      ...alone("target").map((name) => this.#target(visitor, name)),
    ];
  }

  #source(visitor: Visitor, name: string, mayCheck: boolean): Connection {
    const { connector: kind = "" } = this.#known.sources().find((each) => each.name === name) ?? {};
    return { what: "source", name, kind, check: this.#shownTo(visitor, "source", name), mayCheck };
  }

  #target(visitor: Visitor, name: string): Connection {
    const found = this.#known.targets().find((each) => each.name === name);
    return {
      what: "target",
      name,
      kind: found === undefined ? "" : (found.address ?? "this service"),
      check: this.#shownTo(visitor, "target", name),
      mayCheck: this.#mayCheck(visitor, "target", name),
    };
  }

  #namesOf(what: Checked): readonly string[] {
    if (what === "sync") return this.#known.syncs().map(({ sync }) => sync);
    return (what === "source" ? this.#known.sources() : this.#known.targets()).map(({ name }) => name);
  }

  #standingOf(sync: string): Standing | undefined {
    const { coordinator } = this.#control.daemon();
    return standingsOf(
      coordinator.syncs().filter((each) => each.sync === sync),
      coordinator.runs(),
    )[0];
  }

  /** @throws {Refusal} 403, 404 */
  #decidable(request: FastifyRequest): ConfiguredSync {
    const { sync = "" } = request.params as { sync?: string };
    const configured = this.#known.syncs().find((each) => each.sync === sync);
    if (configured === undefined) throw new Refusal(404, `no sync is called ${sync}`);
    checkMayDecide(visitorOf(request), configured.target);
    return configured;
  }

  #isAlone(what: "source" | "target", name: string): boolean {
    return !this.#known
      .syncs()
      .some(({ sources, target }) =>
        what === "target" ? target === name : sources.some((source) => source.name === name),
      );
  }

  /** Whether somebody's account is of the target that something belongs to: what is in no sync belongs to all of them. */
  #isOfTheirs({ target }: Visitor, what: Checked, name: string): boolean {
    if (target === undefined) return true;
    if (what === "target") return target === name;
    if (what === "source") return this.#known.targets().length < 2;
    return this.#known.syncs().some((each) => each.sync === name && each.target === target);
  }

  #mayCheck(visitor: Visitor, what: Checked, name: string): boolean {
    return may(visitor.role, "decide") && this.#isOfTheirs(visitor, what, name);
  }

  #shownTo(visitor: Visitor, what: Checked, name: string): Connection["check"] {
    return this.#isOfTheirs(visitor, what, name) ? this.#known.checked(what, name) : undefined;
  }
}

/** Whether it says what the sources and the target had: an undo reads no sources, and one that failed may not have come to the target. */
function hasReadEverything({ sources, counts }: RunRecord): boolean {
  return sources !== undefined && counts !== undefined;
}
