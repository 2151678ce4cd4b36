import type { Kind } from "#daemon/people.ts";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { answerOf, Refusal } from "#control/answers.ts";
import { errorDocument, RollcallError } from "#errors.ts";
import type { ErrorDocument } from "#errors.ts";
import { offsetOf, untilLeft, visitorOf } from "./context.ts";
import type { AppOptions, Send } from "./context.ts";
import type { Frame } from "./layout.ts";
import { people } from "#console/pages/people.ts";
import { explanation, history, principal } from "#console/pages/principal.ts";

/** How many users and groups are on a page. */
const pageSize = 100;

/** Adds the pages of users and groups. They show, and change nothing. */
export function addPeoplePages(scope: FastifyInstance, { people: known }: AppOptions, send: Send): void {
  scope.get("/people", async (request, reply) => {
    const { text = "", kind: of, from, instead, ...query } = queryOf(request);
    const targets = targetsOf(request);
    const target = targetOf(request, query["target"] ?? targets[0]);
    const kind = of === "user" || of === "group" ? of : undefined;
    const offset = offsetOf(from);
    const { found, problem } = await listed(
      request,
      reply,
      known.list(target, instead, async (listing) => {
        const excerpt = await listing.search(text, kind, { offset, limit: pageSize });
        return { ...excerpt, listedAt: listing.listedAt, offset, pageSize };
      }),
    );
    const page = people({ now: Date.now(), target, targets, text, kind, url: request.url, found, problem });
    return send(request, reply, frame("People and groups"), page);
  });

  for (const kind of ["user", "group"] as const) {
    scope.get(`/people/${kind}`, async (request, reply) => {
      const { target, name } = subjectOf(request);
      const { nested: also, from, instead } = queryOf(request);
      const nested = also === "yes";
      const offset = offsetOf(from);
      const { found, problem } = await listed(
        request,
        reply,
        known.list(target, instead, async (listing) => {
          const details = await listing.find(kind, name);
          const members =
            details === undefined || kind === "user"
              ? undefined
              : { ...(await listing.members(name, { nested, offset, limit: pageSize })), nested, offset, pageSize };
          return { listedAt: listing.listedAt, details, members };
        }),
      );
      const page = principal({ now: Date.now(), target, kind, name, url: request.url, found, problem });
      if (found !== undefined && found.details === undefined) reply.code(404);
      return send(request, reply, frame(name), page);
    });
  }

  scope.get("/people/explain", async (request, reply) => {
    const { target, name } = subjectOf(request);
    const explanations = await known.explain(target, name, untilLeft(reply));
    return send(request, reply, frame(`${name} explained`), explanation({ target, name, explanations }));
  });

  scope.get("/people/history", async (request, reply) => {
    const { target, name } = subjectOf(request);
    const kind: Kind = queryOf(request)["kind"] === "group" ? "group" : "user";
    const page = history({ now: Date.now(), target, kind, name, history: await known.history(target, kind, name) });
    return send(request, reply, frame(`${name}, history`), page);
  });

  /** Whoever signed in with an account of one target sees the users and groups of that one. */
  function targetsOf(request: FastifyRequest): readonly string[] {
    const { target: only } = visitorOf(request);
    return known.targets().filter((target) => only === undefined || target === only);
  }

  function targetOf(request: FastifyRequest, target: string | undefined): string {
    if (target === undefined) throw new Refusal(404, "there is no sync, and so no target to look at");
    if (!targetsOf(request).includes(target)) throw new Refusal(404, `there is no target ${target}`);
    return target;
  }

  function subjectOf(request: FastifyRequest): { readonly target: string; readonly name: string } {
    const { target, name } = queryOf(request);
    if (name === undefined) throw new Refusal(400, "the address names nobody: it needs `name`");
    return { target: targetOf(request, target ?? targetsOf(request)[0]), name };
  }
}

/** What was read of a list. Why a target could not be listed belongs on the page: it may be a part of one that asks for it. */
async function listed<Found>(
  request: FastifyRequest,
  reply: FastifyReply,
  reading: Promise<Found | undefined>,
): Promise<{ readonly found?: Found | undefined; readonly problem?: ErrorDocument }> {
  try {
    return { found: await reading };
  } catch (error) {
    if (!(error instanceof RollcallError)) throw error;
    if (request.headers["hx-request"] === undefined) reply.code(answerOf(error).status);
    return { problem: errorDocument(error) };
  }
}

function frame(title: string): Omit<Frame, "version" | "visitor"> {
  return { title, section: "people" };
}

/** The fields that were filled in, each once. */
function queryOf({ query }: FastifyRequest): Readonly<Record<string, string | undefined>> {
  const entries = Object.entries(query as Record<string, unknown>);
  return Object.fromEntries(
    entries.filter((each): each is [string, string] => typeof each[1] === "string" && each[1] !== ""),
  );
}
