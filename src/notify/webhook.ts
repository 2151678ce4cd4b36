import { command } from "#commands.ts";
import { createHmac } from "node:crypto";
import { hostname } from "node:os";
import { messageOf } from "#errors.ts";
import { readAuthorities } from "#files/certificates.ts";
import { bytesBody, HttpClient } from "#http/client.ts";
import type { Answer } from "#http/client.ts";
import type { ProxySetting } from "#http/proxy.ts";
import { presentable } from "#redact.ts";
import { retryAfter } from "#http/retries.ts";
import { decoded, visible } from "#text.ts";
import type { Attempt, Sender } from "./delivery.ts";
import type { Message } from "./notice.ts";
import type { ChatChannel, TeamsChannel, WebhookChannel } from "./options.ts";
import { chatText, teamsMessage } from "./text.ts";
import { noticeDocument } from "./notice.ts";

/** The version of the posted JSON. New fields keep it; any other change raises it. */
const version = 1;

/** Posts notices as JSON, signed: the receiver knows who sent them, and when. */
export function webhookSender(channel: WebhookChannel): Sender {
  const { url, secret } = channel;
  return {
    send: (message, signal) => {
      const body = bodyOf(message);
      const seconds = Math.floor(Date.now() / 1000);
      const headers = {
        "x-rollcall-delivery": message.id,
        "x-rollcall-signature": `t=${seconds},v1=${signatureOf(secret, seconds, body)}`,
      };
      return post(channel, body, signal, { headers, secrets: [secret] });
    },
    check: () => untried(url),
  };
}

/** Posts `{"text": "…"}`, which most chats understand. */
export function chatSender(channel: ChatChannel, timeouts?: RequestTimeouts): Sender {
  return {
    send: (message, signal) =>
      post(channel, JSON.stringify({ text: chatText(message, hostname()) }), signal, { timeouts }),
    check: () => untried(channel.url),
  };
}

/** Posts an Adaptive Card, as Teams' workflows take it. */
export function teamsSender(channel: TeamsChannel): Sender {
  return {
    send: async (message, signal) => {
      const attempt = await post(channel, JSON.stringify(teamsMessage(message, hostname())), signal);
      if ("problem" in attempt || message.test !== true) return attempt;
      return { ...attempt, warning: "Teams accepts everything at first: look whether the card is in the chat" };
    },
    check: () => untried(channel.url),
  };
}

/** Posts JSON to the address of a channel. */
function post(
  { url, ca, proxy }: WebhookChannel | ChatChannel | TeamsChannel,
  body: string,
  signal: AbortSignal,
  {
    timeouts,
    headers,
    secrets,
  }: Pick<SecretRequest, "headers" | "secrets"> & {
    readonly timeouts?: RequestTimeouts | undefined;
  } = {},
): Promise<Attempt> {
  const all = { "content-type": "application/json", ...headers };
  return request({ method: "POST", url, headers: all, body, ca, proxy, secrets }, signal, timeouts);
}

/** HMAC-SHA256 in hexadecimal over the time, a dot and the body: neither can be changed or replayed much later. */
function signatureOf(secret: string, seconds: number, body: string): string {
  return createHmac("sha256", secret).update(`${seconds}.${body}`).digest("hex");
}

function bodyOf({ id, notices, more, test }: Message): string {
  return JSON.stringify({ version, delivery: id, host: hostname(), test, notices: notices.map(noticeDocument), more });
}

/** Such an address can only be tried by posting to it. */
function untried(url: string): Promise<{ readonly accepted: string }> {
  return Promise.resolve({
    accepted: `${new URL(url).origin}, not tried: \`${command("notify test")}\` sends something there`,
  });
}

/** A request to an address of which only the host may be shown: anyone who knows the rest of it may post there. */
interface SecretRequest {
  readonly method: "GET" | "POST";
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** A file in PEM form that the server's certificate is checked against. */
  readonly ca?: string | undefined;
  readonly proxy?: ProxySetting;
  /** More secrets that the answer may repeat. */
  readonly secrets?: readonly string[] | undefined;
}

/** In milliseconds. `whole`: from the start to the answer, however slowly that comes. */
export interface RequestTimeouts {
  readonly connect: number;
  readonly whole: number;
}

const usualTimeouts: RequestTimeouts = { connect: 10_000, whole: 30_000 };

/** Makes one request. Never rejects, unless `signal` is aborted: then with its reason. */
export async function request(
  { method, headers, body, ...wanted }: SecretRequest,
  signal: AbortSignal,
  { connect, whole }: RequestTimeouts = usualTimeouts,
): Promise<Attempt> {
  const url = new URL(wanted.url);
  const ca = readCertificates(wanted.ca);
  signal.throwIfAborted();
  if (typeof ca === "object") return ca;
  const secrets = [...secretsIn(url), ...(wanted.secrets ?? [])].filter((secret) => secret !== "");
  const client = new HttpClient({
    owner: "channel",
    ca,
    proxy: wanted.proxy,
    timeouts: { connect, headers: whole, body: whole, whole },
  });
  try {
    const content = body === undefined ? undefined : bytesBody(body);
    return await client.exchange(
      { url, method, headers, body: content },
      (answer) => judge(answer, url, secrets),
      signal,
    );
  } catch (error) {
    signal.throwIfAborted();
    return { problem: `${url.origin}: ${messageOf(error)}`, again: true };
  }
}

async function judge(answer: Answer, url: URL, secrets: readonly string[]): Promise<Attempt> {
  const { status, headers } = answer;
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
  const said = await excerpt(answer.body, secrets);
  const advice = again ? "" : "; look at the address and what the receiver expects";
  return { problem: `${url.origin} answered ${status}${said === "" ? "" : ` (${said})`}${advice}`, again, after };
}

/** The beginning of an answer's text, without what it may repeat of the request. */
async function excerpt(body: AsyncIterable<Buffer>, secrets: readonly string[]): Promise<string> {
  let text = "";
  try {
    const decoder = new TextDecoder();
    for await (const chunk of body) {
      text += decoder.decode(chunk, { stream: true });
      if (text.length > 4096) break;
    }
  } catch {
    // What came until then will do.
  }
  const plain = text.replaceAll(/<[^>]*>/g, " ").replaceAll(/\s+/g, " ");
  return visible(presentable(plain, secrets)).slice(0, 200);
}

/** Everything after the host may be a secret. */
function secretsIn({ href, pathname, search, searchParams }: URL): string[] {
  const parts = [...pathname.split("/"), ...searchParams.values()];
  return [href, pathname + search, pathname, ...parts, ...parts.flatMap((part) => decoded(part) ?? [])];
}

/** The certificates in a file, or the problem with reading it. */
export function readCertificates(
  file: string | undefined,
): string | undefined | (Attempt & { readonly problem: string }) {
  if (file === undefined) return undefined;
  try {
    return readAuthorities(file, `the file of certificates ${file}`);
  } catch (error) {
    return { problem: messageOf(error), again: true };
  }
}
