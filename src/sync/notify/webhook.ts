import { createHmac } from "node:crypto";
import { hostname } from "node:os";
import type { ChatChannel, Sender, WebhookChannel } from "./channel.ts";
import type { Letter } from "./letter.ts";
import { request } from "./post.ts";
import type { PostTimeouts } from "./post.ts";
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
