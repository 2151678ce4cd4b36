import cookie from "@fastify/cookie";
import helmet from "@fastify/helmet";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { Host } from "#control/access.ts";
import { may, refusalOf } from "#roles.ts";
import { answerOf, Refusal } from "#control/answers.ts";
import { messageOf } from "#errors.ts";
import type { ConsoleSettings } from "#config/console.ts";
import { addAccountPages } from "./account-routes.ts";
import { checkToken, serviceAccounts, targetAccounts } from "./accounts.ts";
import type { TargetAccountsOptions, Visitor } from "./accounts.ts";
import { addAssets } from "./assets.ts";
import { addAuditPages } from "#console/pages/audit.ts";
import { addDocuments } from "./documents.ts";
import { addDoubtPages } from "#console/pages/doubt.ts";
import { formOf, hiddenParts } from "./context.ts";
import type { AppOptions, Send } from "./context.ts";
import { byItself, layout } from "./layout.ts";
import type { Frame } from "./layout.ts";
import { message } from "#console/pages/message.ts";
import { signedOut, signIn } from "#console/pages/sign-in.ts";
import type { SignInPage } from "#console/pages/sign-in.ts";
import { controlRoot, healthRoutes } from "#wire/routes.ts";
import { oidcPaths } from "./oidc-paths.ts";
import { addOidcRoutes } from "./oidc-routes.ts";
import { AllAccounts, OwnAccounts } from "./own-accounts.ts";
import type { OwnAccountsOptions } from "./own-accounts.ts";
import { addLoadPages } from "./load-routes.ts";
import { addInboxPages } from "./inbox-routes.ts";
import { addLeaversPage } from "#console/pages/leavers.ts";
import { addPeoplePage } from "#console/pages/people.ts";
import { addPrincipalPages } from "#console/pages/principal.ts";
import { addPinboardPages } from "./pinboard-routes.ts";
import { addPlanPages } from "./plan-routes.ts";
import { addPages } from "./routes.ts";
import { addProxied, below, rootOf } from "./proxied.ts";
import { addRulesPages } from "./rules-routes.ts";
import { addSearchPage } from "./search-routes.ts";
import { addSyncPages } from "./sync-routes.ts";

export interface ConsoleOptions extends Omit<AppOptions, "accounts" | "loads" | "pinboards" | "publicUrl" | "paths"> {
  readonly settings: ConsoleSettings;
  /** Where accounts are checked that no service on this listener has. */
  readonly targets: Omit<TargetAccountsOptions, "viewers" | "secure">;
  /** The accounts of Rollcall. */
  readonly own: Omit<OwnAccountsOptions, "oidc" | "secure">;
}

/** Nothing runs and nothing is loaded that does not come from here. */
const policy = {
  "default-src": ["'none'"],
  "script-src": ["'self'"],
  "style-src": ["'self'"],
  "img-src": ["'self'"],
  "font-src": ["'self'"],
  "connect-src": ["'self'"],
  "form-action": ["'self'"],
  "base-uri": ["'none'"],
  "frame-ancestors": ["'none'"],
};

/** Adds the pages to a server, with hooks, headers and errors of their own. */
export function addConsole(
  server: FastifyInstance,
  host: Host,
  { targets, settings, own, ...options }: ConsoleOptions,
): void {
  const { viewers, publicUrl = "", oidc } = settings;
  // Browsers come by https: to the service's own listener, or to a proxy in front of it.
  const secure = host.accounts?.secure === true || publicUrl.startsWith("https:");
  const foreign =
    host.accounts === undefined
      ? targetAccounts({ ...targets, viewers, secure })
      : serviceAccounts(host.accounts, { viewers, secure });
  const { loads, pinboards, paths = [] } = host;
  void server.register(async (app) => {
    // Its libraries take 3 MiB, which a console without a provider need not spend.
    const provider = oidc && new (await import("./oidc.ts")).Oidc(oidc, publicUrl);
    const accounts = new AllAccounts(new OwnAccounts({ ...own, oidc: provider, secure }), foreign);
    await openApp(app, { ...options, publicUrl: settings.publicUrl, accounts, loads, pinboards, paths });
  });
}

async function openApp(app: FastifyInstance, options: AppOptions): Promise<void> {
  const { version, log, control, loads } = options;
  if (!app.hasRequestDecorator("cookies")) await app.register(cookie);
  await app.register(helmet, {
    contentSecurityPolicy: { useDefaults: false, directives: policy },
    // With `no-referrer` browsers would not say in `Origin` where a form comes from.
    referrerPolicy: { policy: "same-origin" },
    // The TLS server in front decides that for the whole host.
    strictTransportSecurity: false,
  });
  parseForms(app);
  app.decorateRequest("visitor");

  addProxied(app, options.publicUrl);
  addHeads(app);
  const root = rootOf(options.publicUrl);
  const send: Send = (request, reply, frame, main) =>
    reply.type("text/html; charset=utf-8").send(
      below(
        root,
        layout(
          {
            ...frame,
            version,
            visitor: request.visitor,
            hidden: hiddenParts(options),
            daemon: daemonOf(request.visitor, control),
          },
          main,
        ).toString(),
      ),
    );

  app.addHook("onRequest", async (request, reply) => {
    reply.header("cache-control", "no-store");
    const { id } = request.params as { id?: string };
    if (id !== undefined && request.routeOptions.config.forLoads === true) {
      const answered = await loads?.passOn(request, reply, id);
      if (answered !== undefined) return answered;
    }
    const { contentType } = request.exchange;
    if (contentType !== undefined) request.raw.headers["content-type"] = contentType;
    if (control.isStopping() && !isReading(request)) throw new Refusal(503, "the daemon is stopping");
    return undefined;
  });
  showErrors(app, log, send);
  addAssets(app);
  addDocuments(app, { root });
  const pages = addSession(app, options, send);
  await app.register(async (scope) => {
    protect(scope, options, send);
    addPages(scope, options, send);
    addPlanPages(scope, options, send);
    addAuditPages(scope, options, send);
    addDoubtPages(scope, options, send);
    addPeoplePage(scope, options, send);
    addLeaversPage(scope, options, send);
    addInboxPages(scope, options, send);
    addPrincipalPages(scope, options, send);
    addPinboardPages(scope, options, send);
    addRulesPages(scope, options, send);
    addSyncPages(scope, options, send);
    addSearchPage(scope, options, send);
    addLoadPages(scope, options, send);
    addAccountPages(scope, options, send);
  });
  // Below its own pages, everything that is asked for is one of them.
  for (const section of new Set([...pages].map((page) => page.split("/", 2).join("/"))))
    if (section !== "/")
      app.get(`${section}/*`, () => {
        throw new Refusal(404, "there is no such page");
      });
  addUnknown(app, options.paths);
}

/** Answers with a page that says what is wrong. */
function showErrors(app: FastifyInstance, log: AppOptions["log"], send: Send): void {
  app.setErrorHandler((error, request, reply) => {
    const { status, headers, document, unexpected } = answerOf(error);
    if (unexpected)
      log.error({ err: error }, `console: ${request.method} ${request.routeOptions.url}: ${messageOf(error)}`);
    const { message: text, problems } = document.error;
    const title = titles.get(status) ?? "That did not work";
    return send(request, reply.code(status).headers(headers), { title }, message({ title, message: text, problems }));
  });
}

/** Whether it changes nothing. */
function isReading({ method }: FastifyRequest): boolean {
  return method === "GET" || method === "HEAD";
}

function parseForms(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser(
    "application/x-www-form-urlencoded",
    { parseAs: "string" },
    async (_: unknown, text: string) => new URLSearchParams(text),
  );
  // A form with a file is read by its route, as it arrives.
  app.addContentTypeParser("multipart/form-data", (_request, _body, parsed) => {
    parsed(null);
  });
}

/** Answers HEAD wherever there is a page or a file: Node sends no body then. */
function addHeads(app: FastifyInstance): void {
  app.addHook("onRoute", function (this: FastifyInstance, route) {
    if (route.method !== "GET" || route.url === "/events") return;
    this.route({ ...route, method: "HEAD" });
  });
}

/**
 * What browsers ask for and nobody has: a page says so. Other clients are answered as if the console did not exist.
 * @param paths what the paths of the service begin with
 */
function addUnknown(app: FastifyInstance, paths: readonly string[]): void {
  const others = [...paths, controlRoot, ...Object.values(healthRoutes).map(({ path }) => path)];
  app.get("/*", (request, reply) => {
    const isBrowser = request.headers.accept?.includes("text/html") === true;
    if (!isBrowser || others.some((path) => request.url.startsWith(path))) {
      for (const header of Object.keys(reply.getHeaders())) reply.removeHeader(header);
      return reply.callNotFound();
    }
    throw new Refusal(404, "there is no such page");
  });
}

/** How the daemon is, for those who may look at its runs. */
function daemonOf(visitor: Visitor | undefined, control: AppOptions["control"]): Frame["daemon"] {
  if (visitor === undefined || !may(visitor.role, "look")) return undefined;
  let daemon;
  try {
    daemon = control.daemon();
  } catch {
    // It is starting: the page says so.
    return undefined;
  }
  const { coordinator } = daemon;
  const [last] = coordinator.runs();
  return {
    isStopping: control.isStopping(),
    running: coordinator.syncs().filter(({ running }) => running !== undefined).length,
    lastActivity: last?.endedAt ?? last?.startedAt,
  };
}

const titles: ReadonlyMap<number, string> = new Map([
  [403, "Not allowed"],
  [404, "Not found"],
  [409, "Not possible now"],
  [429, "Too many attempts"],
  [503, "Not available now"],
]);

/** What answers GET and is nowhere to go to. */
const notPages: ReadonlySet<string> = new Set([
  "/sign-in",
  oidcPaths.begin,
  oidcPaths.back,
  "/assets/:file",
  "/events",
]);

/** Sign in and out. Called before the pages are added. @returns the paths of all pages, once they are added */
function addSession(app: FastifyInstance, { accounts, log }: AppOptions, send: Send): ReadonlySet<string> {
  const pages = new Set<string>();
  const { oidc } = accounts.own.options;
  app.addHook("onRoute", ({ method, url }) => {
    if (method === "GET" && !notPages.has(url)) pages.add(url);
  });
  const page = async (
    request: FastifyRequest,
    reply: FastifyReply,
    more: Omit<SignInPage, "choices" | "provider">,
  ): Promise<FastifyReply> => {
    const provider = oidc && { name: oidc.name, problem: await oidc.problem() };
    const choices = await accounts.choices();
    return send(request, reply, { title: "Sign in" }, signIn({ choices, provider, ...more }));
  };

  app.get("/sign-in", async (request, reply) => {
    const { next, unsent } = request.query as { next?: unknown; unsent?: unknown };
    if ((await accounts.find(request, true)) !== undefined) return reply.redirect(ownPath(next, pages), 303);
    return page(request, reply, { next: ownPath(next, pages), problem: unsent === undefined ? undefined : "ended" });
  });
  app.post("/sign-in", async (request, reply) => {
    const form = formOf(request);
    const [username, password] = [form.get("username") ?? "", form.get("password") ?? ""];
    const [of, next] = [form.get("of") ?? "", ownPath(form.get("next"), pages)];
    const retry = { next, username, of };
    const result = await accounts.signIn(request, reply, { username, password, of }).catch((error: unknown) => {
      const { status, document } = answerOf(error);
      if (status === 500) throw error;
      reply.code(status);
      return { outcome: "failed", message: document.error.message } as const;
    });
    switch (result.outcome) {
      case "opened":
        return reply.redirect(next, 303);
      case "failed":
        return page(request, reply, { ...retry, problem: result });
      case "throttled":
        reply.code(429).header("retry-after", result.retryAfter);
        return page(request, reply, { ...retry, problem: result });
      case "wrong":
      case "disabled":
        return page(request, reply.code(401), { ...retry, problem: result.outcome });
      default:
        return result satisfies never;
    }
  });
  if (oidc !== undefined)
    addOidcRoutes(app, {
      accounts,
      oidc,
      log,
      ownPath: (path) => ownPath(path, pages),
      show: (request, reply, title, content) => send(request, reply, { title }, content),
      failed: (request, reply, next, message) => page(request, reply, { next, problem: { message } }),
    });
  return pages;
}

/** What every page needs: a session, of somebody who may look; and to change something, the token of its forms. */
function protect(scope: FastifyInstance, { accounts, publicUrl }: AppOptions, send: Send): void {
  const root = rootOf(publicUrl);
  scope.addHook("onRequest", async (request, reply) => {
    const visitor = await accounts.find(request, isUse(request));
    if (visitor === undefined) {
      // A part of a page would show the sign-in in the middle of it.
      if (request.headers["hx-request"] !== undefined) return reply.code(401).header("hx-refresh", "true").send();
      return reply.redirect(`/sign-in${afterwards(request, root)}`, 303);
    }
    request.visitor = visitor;
    return undefined;
  });
  scope.addHook("preHandler", async (request, reply) => {
    const { visitor } = request;
    const { url, config } = request.routeOptions;
    if (visitor === undefined) throw new Refusal(401, "you are not signed in");
    if (!isReading(request) && config.takesFile !== true) checkToken(visitor, formOf(request).get("token"));
    if (config.forLoads === true && visitor.mayLoad === true) return undefined;
    if (url === "/" && visitor.role === undefined && visitor.mayLoad === true) return reply.redirect("/loads", 303);
    if (visitor.role === undefined && url !== "/sign-out")
      throw new Refusal(
        403,
        visitor.account === undefined
          ? `the account ${visitor.name} lacks the administration privilege, and \`console.viewers\` is false`
          : refusalOf(visitor, "look"),
      );
    return undefined;
  });
  scope.post("/sign-out", async (request, reply) => {
    const away = request.visitor && (await accounts.signOut(request.visitor, request, reply));
    const { oidc } = accounts.own.options;
    if (away === undefined || oidc === undefined) return reply.redirect("/sign-in", 303);
    // Not as a redirect: browsers let a form lead only where the policy allows, and nobody knows where the provider sends people on to.
    request.visitor = undefined;
    reply.header("refresh", `0; url=${away}`);
    return send(request, reply, { title: "Signed out" }, signedOut(oidc.name, away));
  });
}

/** Whether a person asks, not an open page that brings itself up to date: that must not keep its session for ever. */
function isUse({ headers, routeOptions }: FastifyRequest): boolean {
  return headers[byItself] === undefined && routeOptions.url !== "/events";
}

/** Where to go after signing in: the page that was asked for, or the one with the form that was sent. */
function afterwards(request: FastifyRequest, root: string): string {
  const { url, headers } = request;
  if (isReading(request)) return url === "/" ? "" : `?${new URLSearchParams({ next: url }).toString()}`;
  if (url === "/sign-out") return "";
  const { referer = "" } = headers;
  const form = URL.canParse(referer) ? new URL(referer) : undefined;
  const shown = form?.pathname ?? "";
  const path = shown.startsWith(`${root}/`) ? shown.slice(root.length) : shown;
  const next = form === undefined ? url : path + form.search;
  return `?${new URLSearchParams({ next, unsent: "yes" }).toString()}`;
}

/**
 * Where a link may lead after signing in: a page of this console. A path that only begins like one may be another host for a
 * browser (`/..//example.com`).
 */
export function ownPath(path: unknown, pages: Iterable<string>): string {
  const base = "http://console.invalid";
  if (typeof path !== "string" || !path.startsWith("/") || !URL.canParse(path, base)) return "/";
  const { origin, pathname, search } = new URL(path, base);
  const steps = pathname.split("/");
  const isPage = [...pages].some((page) => {
    const expected = page.split("/");
    const fits = (step: string, at: number): boolean =>
      step.startsWith(":") ? (steps[at] ?? "") !== "" : step === steps[at];
    return expected.length === steps.length && expected.every(fits);
  });
  return origin === base && isPage ? pathname + search : "/";
}
