import { PassThrough } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { Refusal, orConflict } from "#control/answers.ts";
import { approveBody, read, rejectBody } from "#control/requests.ts";
import { actionOf, findRun } from "#control/routes.ts";
import type { Counts, Plan } from "#plan/change.ts";
import { planFormats, sectionsOf } from "#plan/render/shared.ts";
import type { Selection } from "#plan/selection.ts";
import { withParts } from "#plan/stored.ts";
import type { Excerpts, Filter } from "#plan/stored.ts";
import { objectionTo } from "#sync/coordinator/approvals.ts";
import { overriddenBy } from "#sync/coordinator/refusals.ts";
import type { Begun } from "#sync/coordinator/coordinator.ts";
import { may, refusalOf } from "#roles.ts";
import { isOpen } from "#state/record.ts";
import type { RunRecord } from "#state/record.ts";
import { filterWords, nothingShown, renderReport } from "#sync/report.ts";
import { checkMayDecide, mayDecide } from "./accounts.ts";
import type { Visitor } from "./accounts.ts";
import { actorOf, download, formOf, offsetOf, visitorOf } from "./context.ts";
import type { AppOptions, Send } from "./context.ts";
import { at, queryOf } from "./html.ts";
import { tokenField } from "./layout.ts";
import type { Frame } from "./layout.ts";
import { crumbsOf } from "./routes.ts";
import { approve, conflict, part, reject, undo } from "#console/pages/decide.ts";
import { plan } from "#console/pages/plan.ts";
import { renderHtml } from "#console/pages/report.ts";
import type { PlanPage } from "#console/pages/plan.ts";
import { filled, filterOf, selectionOf, toFilter, UnknownName, withoutUndefined } from "./selection.ts";
import type { ReadExcerpts } from "./selection.ts";

/** How many changes of a section are shown beside others, and how many where it is the only one. */
const pageSizes = { preview: 20, whole: 100 } as const;

/** Adds the pages of a run's plan, and those that decide about it. */
export function addPlanPages(scope: FastifyInstance, options: AppOptions, send: Send): void {
  const pages = new PlanPages(options, send);
  scope.get("/runs/:id/plan", (request, reply) => pages.plan(request, reply));
  scope.get("/runs/:id/report", (request, reply) => pages.report(request, reply));
  scope.get("/runs/:id/part", (request, reply) => pages.part(request, reply));
  scope.get("/runs/:id/approve", (request, reply) => pages.askToApprove(request, reply));
  scope.post("/runs/:id/approve", (request, reply) => pages.approve(request, reply));
  scope.get("/runs/:id/reject", (request, reply) => pages.askToReject(request, reply));
  scope.post("/runs/:id/reject", (request, reply) => pages.reject(request, reply));
  scope.get("/runs/:id/undo", (request, reply) => pages.askToUndo(request, reply));
  scope.post("/runs/:id/undo", (request, reply) => pages.undo(request, reply));
}

/** The pages of a run's plan: to look at it, and to decide about it. */
class PlanPages {
  readonly #control: AppOptions["control"];
  readonly #plans: AppOptions["plans"];
  readonly #send: Send;

  constructor({ control, plans }: AppOptions, send: Send) {
    this.#control = control;
    this.#plans = plans;
    this.#send = send;
  }

  async plan(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const run = this.#runOf(request);
    const { from, ...given } = filled(request.query);
    const filter = filterOf(given);
    const { counts } = run;
    const shown =
      counts === undefined
        ? undefined
        : await this.#excerpts(run, toFilter(filter), (found) => pageOf(found, counts, offsetOf(from)));
    const visitor = visitorOf(request);
    const page = plan({
      now: Date.now(),
      run,
      mayDecide: mayDecide(visitor, run.target),
      objection: objectionTo(run, actorOf(request)),
      noOverrides: noOverridesOf(visitor),
      filter,
      shown,
    });
    return this.#send(request, reply, { ...frame(run, "Plan"), live: request.url }, page);
  }

  async report(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const run = this.#runOf(request);
    const { format: wanted, ...given } = filled(request.query);
    const format = planFormats.find((each) => each === wanted);
    const filter = toFilter(filterOf(given));
    if (format === undefined) throw new Refusal(404, `there is no such report: ${planFormats.join(", ")}`);
    const { digest, counts } = run;
    const stored = this.#storedOf(run);
    const runs = this.#control.daemon().coordinator.runs();
    const nothing = stored === undefined ? "the changes of this run are no longer stored" : "no change matches";
    const only = filterWords(filter);
    const report = new PassThrough();
    const write = (plan: Plan | undefined): Promise<void> => {
      const about = { run, runs, plan, only, nothing };
      return pipeline(format === "html" ? renderHtml(about) : renderReport(format, about), report);
    };
    const without: Plan | undefined =
      digest === undefined || counts === undefined
        ? undefined
        : { digest, counts, shown: nothingShown, changes: async function* () {} };
    const written =
      stored === undefined || without === undefined ? write(without) : this.#plans.read(stored, filter, write);
    written.catch((error: unknown) => report.destroy(error instanceof Error ? error : new Error(String(error))));
    const ending = { text: "txt", json: "json", markdown: "md", html: "html", csv: "csv" }[format];
    return download(reply, `run-${run.id}.${ending}`, contentTypes[format]).send(report);
  }

  async part(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const run = this.#decidable(request);
    return this.#send(request, reply, frame(run, "A part"), part(shared(request, run)));
  }

  async askToApprove(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const run = this.#decidable(request);
    if (!isOpen(run)) return this.#conflicted(request, reply, run, "There is nothing left to approve.");
    const given = queryOf(filled(request.query));
    let selection: Selection;
    try {
      selection = await selectionOf(this.#excerpts, run, given);
    } catch (error) {
      if (!(error instanceof UnknownName) || !given.has("part")) throw error;
      const page = part({ ...shared(request, run), given, problem: error.message });
      return this.#send(request, reply.code(400), frame(run, "A part"), page);
    }
    const counts = await this.#countsOf(run, { selection });
    const noOverrides = noOverridesOf(visitorOf(request));
    const page = approve({ ...shared(request, run), selection, counts, noOverrides });
    return this.#send(request, reply, frame(run, "Approve"), page);
  }

  async approve(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const run = this.#decidable(request);
    const form = formOf(request);
    const { except, ...others } = await selectionOf(this.#excerpts, run, form);
    const given = {
      ...others,
      digest: form.get("digest") ?? "",
      overrides: form.getAll("override"),
      reason: reasonOf(form),
      except: except?.length === 0 ? undefined : except,
    };
    const { digest, overrides, reason, ...selection } = read(approveBody, withoutUndefined(given), "body");
    checkMayDecide(visitorOf(request), run.target, actionOf({ overrides: overriddenBy(run, overrides) }));
    const { coordinator } = this.#control.daemon();
    const isPartial = Object.keys(selection).length > 0;
    const approval = { by: actorOf(request), digest, overrides, reason, ...(isPartial ? { selection } : {}) };
    return this.#decided(request, reply, run, async () =>
      this.#control.track(await orConflict(coordinator.approve(run.id, approval))),
    );
  }

  async askToReject(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const run = this.#decidable(request);
    if (!isOpen(run)) return this.#conflicted(request, reply, run, "There is nothing left to reject.");
    return this.#send(request, reply, frame(run, "Reject"), reject(shared(request, run)));
  }

  async reject(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const run = this.#decidable(request);
    const rejection = read(rejectBody, withoutUndefined({ reason: reasonOf(formOf(request)) }), "body");
    const { coordinator } = this.#control.daemon();
    return this.#decided(request, reply, run, () =>
      orConflict(coordinator.reject(run.id, { ...rejection, by: actorOf(request) })),
    );
  }

  async askToUndo(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const run = this.#decidable(request);
    return this.#send(request, reply, frame(run, "Undo"), undo(shared(request, run)));
  }

  async undo(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const run = this.#decidable(request);
    const { coordinator } = this.#control.daemon();
    const begin = async (): Promise<Begun> => orConflict(coordinator.undo(run.id, { by: actorOf(request) }));
    return this.#decided(request, reply, run, async () => this.#control.track(await begin()), "plan");
  }

  #runOf(request: FastifyRequest): RunRecord {
    const { id = "" } = request.params as { id?: string };
    return findRun(this.#control.daemon().coordinator, id);
  }

  /** @throws {Refusal} 403: the visitor may not decide about it */
  #decidable(request: FastifyRequest): RunRecord {
    const run = this.#runOf(request);
    checkMayDecide(visitorOf(request), run.target);
    return run;
  }

  /** The run whose stored changes stand for this run's: a plan that was found again is stored with the first. */
  #storedOf(run: RunRecord): RunRecord | undefined {
    if (run.kept) return run;
    const { coordinator } = this.#control.daemon();
    return coordinator.runs().find(({ id, kept }) => id === run.sameAs && kept);
  }

  readonly #excerpts: ReadExcerpts = async (run, filter, work) => {
    const stored = this.#storedOf(run);
    return stored === undefined ? undefined : this.#plans.excerpts(stored, filter, work);
  };

  async #countsOf(run: RunRecord, filter: Filter): Promise<Counts> {
    const stored = this.#storedOf(run);
    return stored === undefined
      ? nothingShown
      : this.#plans.read(stored, filter, async ({ shown, counts }) => shown ?? counts);
  }

  /** Goes to the run that was decided about, or to its plan; or says what came before the decision. */
  async #decided(
    request: FastifyRequest,
    reply: FastifyReply,
    run: RunRecord,
    decide: () => Promise<RunRecord>,
    ...page: readonly "plan"[]
  ): Promise<FastifyReply> {
    try {
      const ended = await decide();
      // An approval that is not the last one leaves a plan that waits.
      return reply.redirect(isOpen(ended) ? at("/runs", ended.id, "plan") : at("/runs", ended.id, ...page), 303);
    } catch (error) {
      if (!(error instanceof Refusal) || error.status !== 409) throw error;
      return await this.#conflicted(request, reply, findRun(this.#control.daemon().coordinator, run.id), error.message);
    }
  }

  async #conflicted(
    request: FastifyRequest,
    reply: FastifyReply,
    run: RunRecord,
    message: string,
  ): Promise<FastifyReply> {
    const { coordinator } = this.#control.daemon();
    const waiting = coordinator.runs().find((each) => each.sync === run.sync && each.id !== run.id && isOpen(each));
    const [before, after] = [this.#storedOf(run), waiting && this.#storedOf(waiting)];
    const comparable = before !== undefined && after !== undefined && run.digest !== waiting?.digest;
    const differences = comparable ? await this.#plans.compare(before, after) : undefined;
    const newer = waiting === undefined ? undefined : { run: waiting, differences };
    const page = conflict({ now: Date.now(), run, message, newer });
    return this.#send(request, reply.code(409), frame(run, "Not possible now"), page);
  }
}

const contentTypes = {
  text: "text/plain; charset=utf-8",
  markdown: "text/markdown; charset=utf-8",
  html: "text/html; charset=utf-8",
  csv: "text/csv; charset=utf-8",
  json: "application/json; charset=utf-8",
} as const;

/** The sections that match, each with some of its changes. */
async function pageOf(found: Excerpts, whole: Counts, from: number): Promise<NonNullable<PlanPage["shown"]>> {
  const shown = sectionsOf({ counts: whole, shown: withParts(whole, found.parts) });
  const pageSize = shown.length === 1 ? pageSizes.whole : undefined;
  const windows = shown.map(({ kind, action, count }) => ({
    kind,
    action,
    offset: pageSize === undefined ? 0 : Math.min(Math.max(0, from), Math.max(0, count - 1)),
    limit: pageSize ?? pageSizes.preview,
  }));
  const changes = await found.pages(windows);
  const sections = shown.map((section, nth) =>
    Object.assign(section, { changes: changes[nth] ?? [], offset: windows[nth]?.offset ?? 0, pageSize }),
  );
  const count = found.parts.reduce((sum, part) => sum + part.count, 0);
  return { count, sections, sources: await found.sources(), aspects: await found.aspects() };
}

function reasonOf(form: URLSearchParams): string | undefined {
  const reason = (form.get("reason") ?? "").trim();
  return reason === "" ? undefined : reason;
}

/** Why somebody may not override limits; undefined: they may. */
function noOverridesOf(visitor: Visitor): string | undefined {
  return may(visitor.role, "override") ? undefined : refusalOf(visitor, "override");
}

/** What every page that decides begins with. */
function shared(request: FastifyRequest, run: RunRecord): Pick<Parameters<typeof reject>[0], "now" | "run" | "token"> {
  return { now: Date.now(), run, token: tokenField(visitorOf(request)) };
}

function frame(run: RunRecord, what: string): Pick<Frame, "title" | "section" | "crumbs"> {
  return { title: `${what} · ${run.sync}, run ${run.id}`, section: "runs", crumbs: crumbsOf(run, what) };
}
