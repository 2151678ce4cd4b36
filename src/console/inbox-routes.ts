import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { checkMay } from "#control/access.ts";
import { Refusal } from "#control/answers.ts";
import { InputError } from "#errors.ts";
import { may } from "#roles.ts";
import { standingsOf } from "#state/record.ts";
import type { InboxSettings, InboxStatus } from "#state/inbox/status.ts";
import { actorOf, formOf, visitorOf } from "./context.ts";
import type { AppOptions, Send } from "./context.ts";
import { tokenField } from "./layout.ts";
import type { Visitor } from "./accounts.ts";
import { addedToken, heldByPushes, inbox, newToken, revokeToken } from "#console/pages/inbox.ts";
import type { TokenPage } from "#console/pages/inbox.ts";
import type { Html } from "./html.ts";

/** How many events of each source are on the page. */
const events = 10;

/** Adds the page of what providers push, and those of its tokens. */
export function addInboxPages(scope: FastifyInstance, options: AppOptions, send: Send): void {
  const pages = new InboxPages(options, send);
  scope.get("/inbox", (request, reply) => pages.show(request, reply));
  scope.get("/inbox/:source/token", (request, reply) => pages.askForName(request, reply));
  scope.post("/inbox/:source/token", (request, reply) => pages.add(request, reply));
  scope.get("/inbox/:source/revoke", (request, reply) => pages.askToRevoke(request, reply));
  scope.post("/inbox/:source/revoke", (request, reply) => pages.revoke(request, reply));
}

class InboxPages {
  readonly #options: Pick<AppOptions, "inboxes" | "control" | "connections" | "publicUrl">;
  readonly #send: Send;

  constructor(options: AppOptions, send: Send) {
    this.#options = options;
    this.#send = send;
  }

  async show(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { inboxes, control } = this.#options;
    const visitor = visitorOf(request);
    const { coordinator } = control.daemon();
    const mine = (await inboxes.status()).filter(({ source }) => this.#isSeenBy(visitor, source));
    const sources = [];
    for (const status of mine)
      sources.push({
        status,
        settings: this.#settingsOf(status.source),
        recent: await inboxes.recent(status.source, events),
        address: this.#addressOf(status.source),
        mayManage: may(visitor.role, "manage inboxes") && this.#isOnlyOf(visitor, status.source),
      });
    const names = new Set(mine.map(({ source }) => source));
    const readers = new Set(
      this.#syncs()
        .filter((each) => each.sources.some(({ name }) => names.has(name)))
        .map(({ sync }) => sync),
    );
    const held = standingsOf(coordinator.syncs(), coordinator.runs())
      .filter(({ sync, target }) => readers.has(sync) && (visitor.target === undefined || visitor.target === target))
      .flatMap(({ waiting }) => waiting.filter(heldByPushes));
    const frame = { title: "Inbox", section: "inbox", live: "/inbox", liveBy: "pushes" } as const;
    return this.#send(request, reply, frame, inbox({ now: Date.now(), sources, held }));
  }

  async askForName(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const source = this.#managed(request);
    return this.#about(request, reply, "Add a token", newToken(this.#page(request, source)));
  }

  /** Shows the new token: this is the only page that has it. */
  async add(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const source = this.#managed(request);
    const typed = formOf(request).get("name")?.trim() ?? "";
    try {
      const added = await this.#options.inboxes.add(source, typed === "" ? undefined : typed, actorOf(request));
      return this.#about(
        request,
        reply,
        "New token",
        addedToken({ source, address: this.#addressOf(source), ...added }),
      );
    } catch (error) {
      if (!(error instanceof InputError)) throw error;
      const page = { ...this.#page(request, source), name: typed, problem: error.message };
      return this.#about(request, reply.code(400), "Add a token", newToken(page));
    }
  }

  async askToRevoke(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const source = this.#managed(request);
    const { token } = request.query as { token?: unknown };
    const listed = (await this.#options.inboxes.list(source)).find(({ id }) => id === token);
    if (listed === undefined) throw new Refusal(404, `source ${source} has no such token; it may have been revoked`);
    const page = revokeToken({ ...this.#page(request, source), now: Date.now(), listed });
    return this.#about(request, reply, "Revoke a token", page);
  }

  async revoke(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const source = this.#managed(request);
    await this.#options.inboxes.revoke(source, formOf(request).get("id") ?? "", actorOf(request));
    return reply.redirect("/inbox", 303);
  }

  #about(request: FastifyRequest, reply: FastifyReply, title: string, page: Html): FastifyReply {
    return this.#send(request, reply, { title, section: "inbox" }, page);
  }

  #page(request: FastifyRequest, source: string): TokenPage {
    return { source, token: tokenField(visitorOf(request)) };
  }

  /** The source of the address. @throws {Refusal} 403, 404 */
  #managed(request: FastifyRequest): string {
    const { source = "" } = request.params as { source?: string };
    const visitor = visitorOf(request);
    checkMay(visitor, "manage inboxes");
    if (this.#options.inboxes.settingsOf(source) === undefined)
      throw new Refusal(404, `no source called ${source} has an inbox`);
    if (!this.#isOnlyOf(visitor, source))
      throw new Refusal(
        403,
        `${visitor.name} is a user of the target ${visitor.target}, and the source ${source} is also for others; sign in with an account of Rollcall`,
      );
    return source;
  }

  /** Without its tokens. */
  #settingsOf(source: string): Omit<InboxSettings, "tokens"> | undefined {
    const settings = this.#options.inboxes.settingsOf(source);
    if (settings === undefined) return undefined;
    const { tokens: _, ...rest } = settings;
    return rest;
  }

  #addressOf(source: string): string {
    return `${(this.#options.publicUrl ?? "").replace(/\/+$/, "")}/scim/v2/${encodeURIComponent(source)}`;
  }

  #syncs(): ReturnType<AppOptions["connections"]["syncs"]> {
    return this.#options.connections.syncs();
  }

  /** The targets of the syncs that read a source; all, where none does. */
  #targetsOf(source: string): string[] {
    const read = this.#syncs().filter(({ sources }) => sources.some(({ name }) => name === source));
    return read.length > 0
      ? read.map(({ target }) => target)
      : this.#options.connections.targets().map(({ name }) => name);
  }

  /** An account of one target sees what goes to that target. */
  #isSeenBy({ target }: Visitor, source: InboxStatus["source"]): boolean {
    return target === undefined || this.#targetsOf(source).includes(target);
  }

  #isOnlyOf({ target }: Visitor, source: string): boolean {
    return target === undefined || this.#targetsOf(source).every((each) => each === target);
  }
}
