import type { FastifyReply, FastifyRequest } from "fastify";
import { z } from "zod";
import { controlRoutes } from "#wire/routes.ts";
import type { Route } from "#wire/routes.ts";
import { permit } from "./access.ts";
import type { InboxAccess } from "./inboxes.ts";
import { read } from "./requests.ts";

type Add = (route: Route, handle: (request: FastifyRequest, reply: FastifyReply) => unknown) => void;

const addBody = z.strictObject({ name: z.string({ error: "expected a name" }).exactOptional() });
const revokeBody = z.strictObject({ token: z.string({ error: "expected the name of a token, or its id" }) });

/** Adds the routes of inboxes for people; providers have their own. */
export function addInboxManagement(add: Add, inboxes: InboxAccess): void {
  add(controlRoutes.inboxes, async () => ({ inboxes: await inboxes.status() }));
  add(controlRoutes.addInboxToken, async (request, reply) => {
    permit(request, "manage inboxes");
    const { name } = read(addBody, request.body, "body");
    reply.code(201);
    return inboxes.add(sourceOf(request), name, request.actor);
  });
  add(controlRoutes.revokeInboxToken, async (request) => {
    permit(request, "manage inboxes");
    const { token } = read(revokeBody, request.body, "body");
    return inboxes.revoke(sourceOf(request), token, request.actor);
  });
}

function sourceOf(request: FastifyRequest): string {
  return (request.params as { readonly source: string }).source;
}
