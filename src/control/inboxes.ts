import { hash, randomBytes, timingSafeEqual } from "node:crypto";
import { InputError, messageOf } from "#errors.ts";
import type { Actor } from "#state/record.ts";
import type { InboxToken } from "#state/inbox/tokens.ts";
import { inboxStatus, listedInboxTokens, recentPushes } from "#state/inbox/status.ts";
import type { Admit, InboxSettings, InboxStatus, ListedInboxToken, RecentPushes } from "#state/inbox/status.ts";
import type { AuditLog, Store } from "#state/store.ts";
import type { Throttle } from "#throttle.ts";

/** What the inboxes need of the daemon. */
export interface InboxesContext extends Pick<Store, "inboxes" | "throttle"> {
  readonly audit: Pick<AuditLog, "append">;
  /** The inboxes of the configuration, by source. */
  readonly settings: () => Readonly<Record<string, InboxSettings>>;
  readonly warn: (message: string) => void;
  /** In epoch milliseconds; default: the clock. */
  readonly now?: () => number;
}

/** As many wrong tokens from an address, and how long then none is answered with anything but 429; in milliseconds. */
const guesses = { attempts: 20, window: 300_000, lockout: 60_000 } as const;

/** How long tokens are known without looking again, in milliseconds: other processes may have revoked one. */
const trust = 500;

/** How often the use of a token is noted, in milliseconds. */
const noteEvery = 60_000;

/** Tokens of the configuration are noted in the store when they are used: these rows let nobody in. */
const configured = "configuration-";

const longestName = 80;

interface Known {
  readonly at: number;
  readonly tokens: readonly (Pick<InboxToken, "id"> & { readonly digest: Buffer })[];
}

/** Who may push to which source. Every change of that is in the audit log. */
export class InboxAccess {
  readonly #context: InboxesContext;
  readonly #throttle: Throttle;
  /** By source and token: how many requests it may send at once, and since when. */
  readonly #rates = new Map<string, { readonly left: number; readonly at: number }>();
  readonly #known = new Map<string, Known>();
  /** By source and token: when its use was noted. */
  readonly #noted = new Map<string, number>();

  constructor(context: InboxesContext) {
    this.#context = context;
    this.#throttle = context.throttle({ ...guesses, isKnown: () => false });
  }

  /** Undefined: no source of that name is pushed to. */
  readonly settingsOf = (source: string): InboxSettings | undefined => {
    const all = this.#context.settings();
    return Object.hasOwn(all, source) ? all[source] : undefined;
  };

  /** Whether a source is pushed to. */
  readonly isConfigured = (): boolean => Object.keys(this.#context.settings()).length > 0;

  /** What was pushed to a source lately. @param limit of the events */
  async recent(source: string, limit: number): Promise<RecentPushes> {
    return this.#context.inboxes.read(source, (inbox) => recentPushes(inbox, limit, this.#now()));
  }

  /** How every inbox stands. */
  async status(): Promise<InboxStatus[]> {
    const all: InboxStatus[] = [];
    for (const [source, settings] of Object.entries(this.#context.settings()))
      all.push(await this.#context.inboxes.read(source, (inbox) => inboxStatus(inbox, source, settings, this.#now())));
    return all;
  }

  /** Whose token it is, and whether it may send one more request now. A right one is never refused for what others guess. */
  readonly admit: Admit = async (source, given, address) => {
    const settings = this.settingsOf(source);
    const token = settings === undefined || given === undefined ? undefined : await this.#find(source, settings, given);
    if (settings === undefined || token === undefined) {
      const end = await this.#throttle.begin(source, address);
      if (typeof end !== "function") return { status: 429, retryAfter: end.retryAfter };
      await end("failed");
      return { status: 401 };
    }
    if (!this.#take(`${source} ${token}`, settings.requestsPerSecond)) return { status: 429, retryAfter: 1 };
    this.#note(source, settings, token);
    return { token };
  };

  /**
   * Makes a token. It is shown once: only its digest is stored.
   * @param name what people call it; absent: the next free `token N`
   * @throws {InputError} the source is no inbox, or the name does not do
   */
  async add(
    source: string,
    name: string | undefined,
    by: Actor,
  ): Promise<{ readonly name: string; readonly token: string }> {
    this.#refuseOthers(source);
    const taken = new Set((await this.list(source)).map((each) => each.name));
    const free = (number: number): string => (taken.has(`token ${number}`) ? free(number + 1) : `token ${number}`);
    const called = name?.trim() ?? free(taken.size + 1);
    if (called === "" || called.length > longestName || /\p{Cc}/u.test(called))
      throw new InputError(`expected a name of 1 to ${longestName} characters, none of them a control character`);
    if (taken.has(called)) throw new InputError(`source ${source} has a token ${called} already`);
    const token = `rollcall_inbox_${randomBytes(32).toString("base64url")}`;
    await this.#context.audit.append({ event: "inbox token", by, change: "added", source, token: called });
    const row = {
      id: randomBytes(6).toString("hex"),
      digest: hash("sha256", token),
      name: called,
      created: this.#now(),
    };
    await this.#context.inboxes.changeTokens(source, (tokens) => tokens.add(row));
    this.#known.delete(source);
    return { name: called, token };
  }

  /** @param key its name, or the beginning of its id @throws {InputError} none, or several, are called so */
  async revoke(source: string, key: string, by: Actor): Promise<{ readonly name: string }> {
    this.#refuseOthers(source);
    const all = await this.list(source);
    const named = all.filter(({ name }) => name === key);
    const [found, another] = named.length > 0 ? named : all.filter(({ id }) => key !== "" && id.startsWith(key));
    if (found === undefined || another !== undefined)
      throw new InputError(`source ${source} has ${found === undefined ? "no token" : "several tokens"} ${key}`);
    if (isOfConfiguration(found))
      throw new InputError(`${found.name} is in the configuration: remove it there, and reload`);
    await this.#context.audit.append({ event: "inbox token", by, change: "revoked", source, token: found.name });
    await this.#context.inboxes.changeTokens(source, (tokens) => tokens.remove(found.id));
    this.#known.delete(source);
    return { name: found.name };
  }

  async list(source: string): Promise<ListedInboxToken[]> {
    return this.#context.inboxes.read(source, listedInboxTokens);
  }

  async #find(source: string, settings: InboxSettings, given: string): Promise<string | undefined> {
    const digest = hash("sha256", given, "buffer");
    const all = [...(await this.#tokens(source)), ...settings.tokens.map(configuredToken)];
    return all.find((each) => timingSafeEqual(each.digest, digest))?.id;
  }

  async #tokens(source: string): Promise<Known["tokens"]> {
    const now = this.#now();
    const known = this.#known.get(source);
    if (known !== undefined && now - known.at >= 0 && now - known.at < trust) return known.tokens;
    const stored = await this.#context.inboxes.read(source, (inbox) => inbox.tokens());
    const tokens = stored
      .filter((each) => !isOfConfiguration(each))
      .map(({ id, digest }) => ({ id, digest: Buffer.from(digest, "hex") }));
    this.#known.set(source, { at: now, tokens });
    return tokens;
  }

  /** Notes that a token is used, now and then, and while the request goes on. */
  #note(source: string, { tokens: given }: InboxSettings, token: string): void {
    const now = this.#now();
    const key = `${source} ${token}`;
    if (now - (this.#noted.get(key) ?? -Infinity) < noteEvery) return;
    this.#noted.set(key, now);
    const place = given.findIndex((each) => configuredToken(each).id === token);
    const name = `token ${place + 1} of the configuration`;
    void (async () => {
      const stored = await this.#context.inboxes.read(source, (inbox) => inbox.tokens());
      const isNew = place >= 0 && !stored.some(({ id }) => id === token);
      await this.#context.inboxes.changeTokens(source, async (tokens) => {
        if (isNew) await tokens.add({ id: token, digest: hash("sha256", given[place] ?? ""), name, created: now });
        await tokens.use(token, now);
      });
    })().catch((error: unknown) =>
      this.#context.warn(`inbox ${source}: the use of a token was not noted: ${messageOf(error)}`),
    );
  }

  /** Counts a request: as many as come in a second may come at once. @returns false: it is one too many */
  #take(key: string, most: number): boolean {
    const at = performance.now();
    const before = this.#rates.get(key) ?? { left: most, at };
    const left = Math.min(most, before.left + ((at - before.at) * most) / 1_000);
    this.#rates.set(key, { left: left < 1 ? left : left - 1, at });
    return left >= 1;
  }

  #refuseOthers(source: string): void {
    if (this.settingsOf(source) === undefined)
      throw new InputError(`no source called ${source} has an inbox: write \`inbox:\` below it in the configuration`);
  }

  #now(): number {
    return this.#context.now?.() ?? Date.now();
  }
}

/** Whether a token is one of the configuration: it is revoked there. */
export function isOfConfiguration({ id }: Pick<InboxToken, "id">): boolean {
  return id.startsWith(configured);
}

function configuredToken(token: string): Known["tokens"][number] {
  const digest = hash("sha256", token);
  return { id: `${configured}${digest.slice(0, 12)}`, digest: Buffer.from(digest, "hex") };
}
