import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { checkMay } from "#control/access.ts";
import { Refusal } from "#control/answers.ts";
import { UnavailableError } from "#errors.ts";
import { mayDecide } from "./accounts.ts";
import { formOf, visitorOf } from "./context.ts";
import type { AppOptions, Send } from "./context.ts";
import type { Trial } from "#daemon/trial.ts";
import { at } from "./html.ts";
import { rules } from "#console/pages/rules.ts";
import type { RulesPage } from "#console/pages/rules.ts";
import { filled } from "./selection.ts";

/** Adds the page that tries rules. It changes nothing, but reads what a run reads, and is for administrators. */
export function addRulesPages(scope: FastifyInstance, { trials }: AppOptions, send: Send): void {
  scope.get("/rules", async (request, reply) => {
    const { sync: wanted } = filled(request.query);
    const [first] = syncsOf(request);
    const sync = typeof wanted === "string" ? permitted(request, wanted) : first;
    return page(request, reply, sync === undefined ? {} : { sync, text: trials.rules(sync) });
  });

  scope.post("/rules", async (request, reply) => {
    const form = formOf(request);
    const sync = permitted(request, form.get("sync") ?? "");
    // Browsers send line ends as CRLF.
    const text = (form.get("text") ?? "").replaceAll("\r\n", "\n");
    const name = form.get("what") === "all" ? undefined : (form.get("name") ?? "").trim();
    if (name === "")
      return page(request, reply.code(400), {
        sync,
        text,
        problem: "Whom shall it explain? Give a name, a mail or an id.",
      });
    try {
      const { id } = trials.begin({ sync, text, name }, visitorOf(request).name);
      return await reply.redirect(`${at("/rules", id)}#result`, 303);
    } catch (error) {
      if (!(error instanceof UnavailableError)) throw error;
      return page(request, reply.code(503), { sync, text, name, problem: error.message });
    }
  });

  scope.get("/rules/:id", async (request, reply) => {
    const trial = trialOf(request);
    const { sync, text, name } = trial;
    return page(request, reply, { sync, text, name, trial });
  });

  scope.post("/rules/:id/stop", async (request, reply) => {
    const { id } = trialOf(request);
    trials.stop(id);
    return reply.redirect(`${at("/rules", id)}#result`, 303);
  });

  function page(
    request: FastifyRequest,
    reply: FastifyReply,
    given: Omit<RulesPage, "now" | "visitor" | "syncs">,
  ): FastifyReply {
    const visitor = visitorOf(request);
    const content = rules({ now: Date.now(), visitor, syncs: syncsOf(request), ...given });
    return send(request, reply, { title: "Rules", section: "rules" }, content);
  }

  /** The syncs whose runs they may decide about. @throws {Refusal} 403 for those who may only look */
  function syncsOf(request: FastifyRequest): string[] {
    const visitor = visitorOf(request);
    checkMay(visitor, "try rules");
    return trials.syncs().flatMap(({ sync, target }) => (mayDecide(visitor, target, "try rules") ? [sync] : []));
  }

  function permitted(request: FastifyRequest, sync: string): string {
    if (!syncsOf(request).includes(sync)) throw new Refusal(404, `there is no sync ${sync}`);
    return sync;
  }

  function trialOf(request: FastifyRequest): Trial {
    const { id = "" } = request.params as { id?: string };
    const syncs = syncsOf(request);
    const trial = trials.find(id);
    if (trial === undefined || !syncs.includes(trial.sync))
      throw new Refusal(404, "this trial is gone: trials are forgotten after a while, and when the process ends");
    return trial;
  }
}
