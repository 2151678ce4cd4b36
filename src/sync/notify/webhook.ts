import { createHmac } from "node:crypto";
import { readFile } from "node:fs/promises";
import type { Socket } from "node:net";
import { hostname } from "node:os";
import type { Dispatcher } from "undici";
import { messageOf } from "#errors.ts";
import { retryAfter } from "#http/retries.ts";
import { breakageOf } from "#http/trouble.ts";
import { createConnector } from "#http/trust.ts";
import { Client } from "#http/undici.ts";
import { formatDuration, visible } from "#text.ts";
import type { Attempt, Sender } from "./delivery.ts";
import type { ChatChannel, WebhookChannel } from "./options.ts";
import type { Letter } from "./notice.ts";
import { chatText } from "./text.ts";

/** The shape of what is posted. Fields may be added to it; anything else is another version. */
const version = 1;

/** Posts notices as JSON, signed, so that the receiver knows who sent them, and when. */
export function webhookSender(channel: WebhookChannel, timeouts?: PostTimeouts): Sender {
  const { url, secret, ca } = channel;
  return {
    send: (letter, signal) => {
      const body = bodyOf(letter);
      const seconds = Math.floor(Date.now() / 1000);
      const headers = {
        "content-type": "application/json",
        "x-rollcall-delivery": letter.id,
        "x-rollcall-signature": `t=${seconds},v1=${signatureOf(secret, seconds, body)}`,
      };
      return request({ method: "POST", url, headers, body, secrets: [secret], ...caOf(ca) }, signal, timeouts);
    },
    check: () => untried(url),
  };
}

/** Posts `{"text": "…"}`, which most chats understand. */
export function chatSender({ url, ca }: ChatChannel, timeouts?: PostTimeouts): Sender {
  return {
    send: (letter, signal) => {
      const body = JSON.stringify({ text: chatText(letter, hostname()) });
      const headers = { "content-type": "application/json" };
      return request({ method: "POST", url, headers, body, ...caOf(ca) }, signal, timeouts);
    },
    check: () => untried(url),
  };
}

/** HMAC-SHA256 in hexadecimal over the moment, a dot and the body: neither can be changed or sent again much later. */
function signatureOf(secret: string, seconds: number, body: string): string {
  return createHmac("sha256", secret).update(`${seconds}.${body}`).digest("hex");
}

function bodyOf({ id, notices, more, test }: Letter): string {
  return JSON.stringify({ version, delivery: id, host: hostname(), ...(test === true ? { test } : {}), notices, more });
}

function caOf(ca: string | undefined): { readonly ca?: string } {
  return ca === undefined ? {} : { ca };
}

/** Nothing can be asked of such an address without posting to it. */
function untried(url: string): Promise<{ readonly accepted: string }> {
  return Promise.resolve({ accepted: `${new URL(url).origin}, not tried: rollcall notify test sends something there` });
}

/** A request to an address that only who sends and who receives may know, but for its host. */
export interface Request {
  readonly method: "GET" | "POST";
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** A file in PEM form that the server's certificate is checked against. */
  readonly ca?: string;
  /** What else must not be shown, should the answer hold it. */
  readonly secrets?: readonly string[];
}

/** In milliseconds. `whole`: from the beginning to the answer, however slowly that comes. */
export interface PostTimeouts {
  readonly connect: number;
  readonly whole: number;
}

const usualTimeouts: PostTimeouts = { connect: 10_000, whole: 30_000 };

/** Makes one request. Follows nothing. Never rejects, unless `signal` is aborted: then with its reason. */
export async function request(
  wanted: Request,
  signal: AbortSignal,
  { connect, whole }: PostTimeouts = usualTimeouts,
): Promise<Attempt> {
  const url = new URL(wanted.url);
  const ca = await readCertificates(wanted.ca);
  signal.throwIfAborted();
  if (typeof ca === "object" && "problem" in ca) return ca;
  const establish = createConnector(ca === undefined ? {} : { ca }, connect);
  let phase: "connect" | "wait" = "connect";
  let socket: Socket | undefined;
  const client = new Client(url.origin, {
    connect: (target, callback) => {
      socket = establish(target, (...result) => {
        if (result[0] === null) phase = "wait";
        callback(...result);
      });
    },
  });
  const end = (): void => {
    client.destroy().catch(() => undefined);
    socket?.destroy();
  };
  const limit = AbortSignal.timeout(whole);
  const either = AbortSignal.any([signal, limit]);
  either.addEventListener("abort", end);
  try {
    const answer = await client.request({
      method: wanted.method,
      path: url.pathname + url.search,
      headers: { "user-agent": "rollcall", ...wanted.headers },
      body: wanted.body ?? null,
    });
    answer.body.on("error", () => undefined);
    return await judge(answer, wanted, url);
  } catch (error) {
    signal.throwIfAborted();
    const timeouts = { connect, headers: whole, body: whole };
    const reason = limit.aborted
      ? `no answer within ${formatDuration(whole)}`
      : breakageOf(error, phase, { url, timeouts, owner: "channel" }).reason;
    return { problem: `${url.origin}: ${reason}`, again: true };
  } finally {
    either.removeEventListener("abort", end);
    end();
  }
}

async function judge(answer: Dispatcher.ResponseData, wanted: Request, url: URL): Promise<Attempt> {
  const { statusCode: status, headers } = answer;
  if (status >= 200 && status < 300) return { accepted: `${url.origin} (${status})` };
  if (status >= 300 && status < 400) {
    const to = URL.parse(String(headers["location"] ?? ""), url)?.origin;
    const where = to === undefined || to === url.origin ? "elsewhere" : `to ${to}`;
    return {
      problem: `${url.origin} points ${where} (${status}), which is not followed: give the address itself`,
      again: false,
    };
  }
  const again = status >= 500 || [408, 425, 429].includes(status);
  const after = retryAfter(headers["retry-after"], Date.now());
  const said = await excerpt(answer.body, [...secretsIn(url), ...(wanted.secrets ?? [])]);
  const advice = again ? "" : "; look at the address and what the receiver expects";
  return {
    problem: `${url.origin} answered ${status}${said === "" ? "" : ` (${said})`}${advice}`,
    again,
    ...(after === undefined ? {} : { after }),
  };
}

/** The beginning of what a server said about its refusal, without what it may have repeated of the request. */
async function excerpt(body: AsyncIterable<Buffer>, secrets: readonly string[]): Promise<string> {
  let text = "";
  try {
    const decoder = new TextDecoder();
    for await (const chunk of body) {
      text += decoder.decode(chunk, { stream: true });
      if (text.length > 4096) break;
    }
  } catch {
    // What it said until then will do.
  }
  return concealed(
    visible(
      text
        .replaceAll(/<[^>]*>/g, " ")
        .replaceAll(/\s+/g, " ")
        .trim(),
    ),
    secrets,
  ).slice(0, 200);
}

/** A text of somebody else without the secrets that it may repeat. */
export function concealed(text: string, secrets: readonly string[]): string {
  return [...secrets]
    .filter((secret) => secret.length >= 4)
    .sort((a, b) => b.length - a.length)
    .reduce((rest, secret) => rest.replaceAll(secret, "***"), text);
}

/** Whatever follows the host may be what lets somebody in. */
function secretsIn({ href, pathname, search, searchParams }: URL): string[] {
  const parts = [...pathname.split("/"), ...searchParams.values()];
  return [href, pathname + search, pathname, ...parts, ...parts.flatMap((part) => decoded(part))];
}

function decoded(part: string): string[] {
  try {
    return [decodeURIComponent(part)];
  } catch {
    return [];
  }
}

/** The certificates of a file, where there is one, or that it cannot be read. */
export async function readCertificates(
  file: string | undefined,
): Promise<string | undefined | (Attempt & { readonly problem: string })> {
  if (file === undefined) return undefined;
  return readFile(file, "utf8").catch((error: unknown) => ({
    problem: `the file of certificates cannot be read: ${messageOf(error)}`,
    again: true,
  }));
}
