import type { FastifyReply, FastifyRequest } from "fastify";
import { z } from "zod";
import { roles } from "#roles.ts";
import { actorFor } from "#state/access.ts";
import { controlRoot, controlRoutes } from "#wire/routes.ts";
import type { Route } from "#wire/routes.ts";
import { bearerOf, permit, unauthorised } from "./access.ts";
import { listed } from "./accounts.ts";
import type { Accounts } from "./accounts.ts";
import { Refusal } from "./answers.ts";
import { emptyBody, read } from "./requests.ts";
import type { Sessions } from "./sessions.ts";

type Add = (route: Route, handle: (request: FastifyRequest, reply: FastifyReply) => unknown) => void;

const text = z.string({ error: "expected a text" });
const role = z.enum(roles, { error: `expected one of ${roles.join(", ")}` });
const addBody = z.strictObject({ name: text, role, password: text });
const changeBody = z.strictObject({
  role: role.exactOptional(),
  disabled: z.boolean({ error: "expected true or false" }).exactOptional(),
  password: text.exactOptional(),
});
const proveBody = z.strictObject({ token: text, challenge: text });
const logInBody = z.strictObject({ name: text, password: text, token: text });

/** Whether a request needs no proof: signing in is how one gets one, and before it is sent, the daemon proves itself. */
export function isOpenRoute({ routeOptions: { url } }: FastifyRequest): boolean {
  return [controlRoutes.logIn, controlRoutes.prove].some(({ path }) => url === controlRoot + path);
}

/** Adds the routes of accounts and access tokens. */
export function addAccountRoutes(
  add: Add,
  { accounts, sessions }: { readonly accounts: Accounts; readonly sessions: Sessions },
): void {
  add(controlRoutes.caller, ({ actor, role: own }) => ({ ...actor, role: own }));
  add(controlRoutes.accounts, async (request) => {
    permit(request, "manage accounts");
    return { accounts: listed(await accounts.context.access.read()) };
  });
  add(controlRoutes.addAccount, async (request, reply) => {
    permit(request, "manage accounts");
    await accounts.add(read(addBody, request.body, "body"), request.actor);
    reply.code(201);
    return {};
  });
  add(controlRoutes.changeAccount, async (request) => {
    permit(request, "manage accounts");
    await accounts.change(paramOf(request, "account"), read(changeBody, request.body, "body"), request.actor);
    return {};
  });
  add(controlRoutes.removeAccount, async (request) => {
    permit(request, "manage accounts");
    read(emptyBody, request.body, "body");
    await accounts.remove(paramOf(request, "account"), request.actor);
    return {};
  });
  add(controlRoutes.tokens, async (request) => {
    permit(request, "manage accounts");
    return { tokens: await sessions.tokens() };
  });
  add(controlRoutes.revokeToken, async (request) => {
    permit(request, "manage accounts");
    read(emptyBody, request.body, "body");
    return { revoked: await sessions.revoke(paramOf(request, "token"), request.actor) };
  });
  add(controlRoutes.logIn, async (request, reply) => {
    const { token, ...credentials } = read(logInBody, request.body, "body");
    const { address } = request.exchange;
    const result = await accounts.signIn(credentials, address);
    if (result.outcome === "throttled")
      throw new Refusal(429, `too many sign-ins have failed; try again in ${result.retryAfter} s`, {
        headers: { "retry-after": String(result.retryAfter) },
      });
    if (result.outcome === "disabled")
      throw new Refusal(403, "the account is disabled; an administrator can enable it");
    if (result.outcome === "wrong") throw unauthorised("the name or the password is wrong");
    const { account } = result;
    await accounts.signedIn(account, address);
    const secret = await sessions.createToken(account, token, actorFor(account, address));
    reply.code(201);
    return { token: secret, name: account.name, role: account.role };
  });
  add(controlRoutes.prove, async (request) => {
    const { token, challenge } = read(proveBody, request.body, "body");
    const proof = await sessions.prove(token, challenge);
    if (proof === undefined) throw unauthorised("the access token has expired or was revoked");
    return { proof };
  });
  add(controlRoutes.logOut, async (request) => {
    read(emptyBody, request.body, "body");
    const found = await sessions.findToken(bearerOf(request) ?? "");
    if (found === undefined) throw new Refusal(400, "the request has no access token that could be revoked");
    await sessions.revoke(found.proof.id, request.actor);
    return {};
  });
}

function paramOf(request: FastifyRequest, name: "account" | "token"): string {
  return (request.params as Readonly<Record<string, string>>)[name] ?? "";
}
