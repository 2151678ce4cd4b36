import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { generatePassword } from "#control/accounts.ts";
import type { Accounts } from "#control/accounts.ts";
import { Refusal } from "#control/answers.ts";
import { digestOf } from "#control/proof.ts";
import type { ListedToken } from "#control/sessions.ts";
import { InputError } from "#errors.ts";
import type { Account } from "#state/access.ts";
import type { Actor } from "#state/record.ts";
import { roles } from "#roles.ts";
import type { Role } from "#roles.ts";
import { checkMayManage } from "./accounts.ts";
import { actorOf, formOf, visitorOf } from "./context.ts";
import type { AppOptions, Send } from "./context.ts";
import { tokenField } from "./layout.ts";
import { accountPage, accountsPage, newPasswordPage, removalPage, revocationPage } from "#console/pages/accounts.ts";
import type { AccountPage, AccountsPage } from "#console/pages/accounts.ts";

/** What a page of accounts says of what was just done. */
type Done = Pick<AccountsPage, "problem" | "password"> & Pick<AccountPage, "secret" | "isChanged">;

/** Adds the page of one's own account, and that of all accounts. */
export function addAccountPages(scope: FastifyInstance, options: AppOptions, send: Send): void {
  addOwnPage(scope, options, send);
  addAllPage(scope, options, send);
}

function addOwnPage(scope: FastifyInstance, { accounts: all }: AppOptions, send: Send): void {
  const { accounts, sessions } = all.own.options;
  const show = async (request: FastifyRequest, reply: FastifyReply, done: Done = {}): Promise<FastifyReply> => {
    const visitor = visitorOf(request);
    const account = visitor.account === undefined ? undefined : await accounts.find(visitor.account);
    const tokens = account === undefined ? [] : await sessions.tokens(account.id);
    const page = accountPage({ now: Date.now(), visitor, tokens, token: tokenField(visitor), ...done });
    return send(request, reply, { title: "Your account" }, page);
  };
  /** Does something with one's own account; what cannot be done is said on the page. */
  const own =
    (work: (account: string, request: FastifyRequest) => Promise<Done>) =>
    async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
      const { account } = visitorOf(request);
      if (account === undefined)
        throw new Refusal(403, "only accounts of Rollcall and people of the OpenID provider have this");
      return show(request, reply, await orProblem(reply, () => work(account, request)));
    };

  scope.get("/account", (request, reply) => show(request, reply));
  scope.post(
    "/account/password",
    own(async (account, request) => {
      const form = formOf(request);
      const { address, token } = visitorOf(request);
      const [current, password] = [form.get("current") ?? "", form.get("password") ?? ""];
      if (password !== form.get("again")) throw new InputError("the two new passwords differ");
      await accounts.changeOwn(
        account,
        { current, password },
        { by: actorOf(request), address, kept: digestOf(token) },
      );
      return { isChanged: true };
    }),
  );
  scope.post(
    "/account/tokens",
    own(async (account, request) => {
      const owner = await accounts.find(account);
      if (owner === undefined) throw new InputError("the account was removed");
      return { secret: await sessions.createToken(owner, formOf(request).get("name") ?? "", actorOf(request)) };
    }),
  );
  scope.get("/account/tokens/:id/revoke", async (request, reply) => {
    const visitor = visitorOf(request);
    const of = tokenIn(request, visitor.account === undefined ? [] : await sessions.tokens(visitor.account));
    const page = revocationPage({ of, token: tokenField(visitor), back: "/account" });
    return send(request, reply, { title: "Revoke a token" }, page);
  });
  scope.post(
    "/account/tokens/revoke",
    own(async (account, request) => {
      await sessions.revoke(formOf(request).get("id") ?? "", actorOf(request), account);
      return {};
    }),
  );
}

function addAllPage(scope: FastifyInstance, { accounts: all, connections }: AppOptions, send: Send): void {
  const { accounts, sessions } = all.own.options;
  const permit = (request: FastifyRequest): void => {
    const targets = connections.targets().map(({ name }) => name);
    checkMayManage(visitorOf(request), targets);
  };
  const show = async (request: FastifyRequest, reply: FastifyReply, done: Done = {}): Promise<FastifyReply> => {
    const visitor = visitorOf(request);
    const given = {
      now: Date.now(),
      visitor,
      token: tokenField(visitor),
      accounts: await accounts.list(),
      tokens: await sessions.tokens(),
    };
    return send(request, reply, { title: "Accounts", section: "accounts" }, accountsPage({ ...given, ...done }));
  };
  const change =
    (work: (request: FastifyRequest, form: URLSearchParams) => Promise<Done>) =>
    async (request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> => {
      permit(request);
      const done = await orProblem(reply, () => work(request, formOf(request)));
      // A password is shown once; everything else may be asked for again.
      if (Object.keys(done).length === 0) return reply.redirect("/accounts", 303);
      return show(request, reply, done);
    };

  scope.get("/accounts", (request, reply) => {
    permit(request);
    return show(request, reply);
  });
  scope.post(
    "/accounts",
    change(async (request, form) => {
      const [name, typed] = [form.get("name") ?? "", form.get("password") ?? ""];
      const password = typed === "" ? generatePassword() : typed;
      await accounts.add({ name, role: roleIn(form), password }, actorOf(request));
      return typed === "" ? { password: { of: name, is: password } } : {};
    }),
  );
  const questions = { remove: ["Remove", removalPage], password: ["New password for", newPasswordPage] } as const;
  for (const [what, [title, page]] of Object.entries(questions))
    scope.get(`/accounts/:id/${what}`, async (request, reply) => {
      permit(request);
      const { id = "" } = request.params as { id?: string };
      const account = (await accounts.list()).find((each) => each.id === id);
      if (account === undefined) throw new Refusal(404, "there is no such account; it was removed meanwhile");
      const frame = { title: `${title} ${account.name}`, section: "accounts" } as const;
      return send(request, reply, frame, page({ account, token: tokenField(visitorOf(request)) }));
    });
  scope.get("/accounts/tokens/:id/revoke", async (request, reply) => {
    permit(request);
    const of = tokenIn(request, await sessions.tokens());
    const page = revocationPage({ of, token: tokenField(visitorOf(request)), back: "/accounts" });
    return send(request, reply, { title: "Revoke a token", section: "accounts" }, page);
  });
  scope.post(
    "/accounts/:id",
    change(async (request, form) => {
      const { id = "" } = request.params as { id?: string };
      const by = actorOf(request);
      const what = form.get("what");
      if (id === visitorOf(request).account && what !== "password")
        throw new InputError("you cannot take your own role or account away; another administrator can");
      const account = await accounts.find(id);
      if (account === undefined) throw new InputError("the account was removed meanwhile");
      return changeAccount(accounts, account, form, by);
    }),
  );
  scope.post(
    "/accounts/tokens/revoke",
    change(async (request, form) => {
      await sessions.revoke(form.get("id") ?? "", actorOf(request));
      return {};
    }),
  );
}

/** @throws {Refusal} 404: it is not among these */
function tokenIn(request: FastifyRequest, tokens: readonly ListedToken[]): ListedToken {
  const { id } = request.params as { id?: string };
  const found = tokens.find((each) => each.id === id);
  if (found === undefined) throw new Refusal(404, "there is no such token; it was revoked meanwhile, or has expired");
  return found;
}

/** @throws {InputError} the form asks for something else */
async function changeAccount(accounts: Accounts, account: Account, form: URLSearchParams, by: Actor): Promise<Done> {
  const what = form.get("what");
  switch (what) {
    case "role":
      await accounts.change(account.id, { role: roleIn(form) }, by);
      return {};
    case "disable":
    case "enable":
      await accounts.change(account.id, { disabled: what === "disable" }, by);
      return {};
    case "password": {
      const password = generatePassword();
      await accounts.change(account.id, { password }, by);
      return { password: { of: account.name, is: password } };
    }
    case "remove":
      await accounts.remove(account.id, by);
      return {};
    case null:
    default:
      throw new InputError("expected role, disable, enable, password or remove");
  }
}

async function orProblem(reply: FastifyReply, work: () => Promise<Done>): Promise<Done> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof InputError)) throw error;
    reply.code(400);
    return { problem: error.message };
  }
}

/** @throws {InputError} */
function roleIn(form: URLSearchParams): Role {
  const role = roles.find((each) => each === form.get("role"));
  if (role === undefined) throw new InputError(`expected one of the roles ${roles.join(", ")}`);
  return role;
}
