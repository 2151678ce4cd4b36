import { breakageOf } from "#http/trouble.ts";
import { firstLineOf } from "#errors.ts";
import { inWords } from "#text.ts";
import type { EmailChannel } from "./channel.ts";
import type { MailTimeouts } from "./email.ts";

/** What of the errors of the mail library is used; any of it may be missing. */
interface MailError {
  readonly code?: string;
  readonly originalCode?: string;
  readonly response?: string;
  readonly responseCode?: number;
  readonly permanent?: boolean;
  readonly timeoutType?: string;
}

/** Why mail did not go, for a person, and whether it may later: what a person must put right first, it may. */
export function problemOf(
  error: unknown,
  { server: { host, port, tls }, username }: EmailChannel,
  timeouts: MailTimeouts,
): { readonly problem: string; readonly again: boolean } {
  const { code, originalCode, response, responseCode, permanent, timeoutType } = error as MailError;
  const said = response === undefined ? "" : ` (${response.replaceAll(/\s+/g, " ").slice(0, 300)})`;
  switch (code) {
    case "EAUTH":
    case "ENOAUTH":
      return {
        problem: `the login as ${username ?? "nobody"} was refused${said}: check username and password`,
        again: true,
      };
    case "ETLS":
      if (originalCode === undefined && responseCode !== undefined && !tls)
        return {
          problem: `the server offers no encryption (STARTTLS)${said}: use another port or smtps://, or set allowPlain: true`,
          again: true,
        };
      break;
    case "ETIMEDOUT": {
      if (timeoutType === "CONNECT_TIMEOUT")
        return {
          problem: `no connection within ${inWords(timeouts.connect)}: check the network and its firewalls`,
          again: true,
        };
      return {
        problem: `the server said nothing for ${inWords(timeouts.silence)}: is the port right, and is it ${tls ? "smtps://" : "smtp://"}?`,
        again: true,
      };
    }
    case "EENVELOPE":
    case "EMESSAGE":
      if (permanent === true)
        return { problem: `the server refuses the message for good${said}: check from and to`, again: false };
      return { problem: `the server does not take the message now${said}`, again: true };
    case undefined:
    default:
  }
  if (responseCode !== undefined) return { problem: `the server answered something unexpected${said}`, again: true };
  if (originalCode === undefined && code !== "ESOCKET" && code !== "ETLS")
    return { problem: firstLineOf(error), again: true };
  const url = new URL(`https://${host}:${port}`);
  const cause = Object.assign(error as Error, { code: originalCode ?? code });
  const limits = { connect: timeouts.connect, headers: timeouts.silence, body: timeouts.silence };
  const place = { url, timeouts: limits, owner: "channel", scheme: tls ? "smtp://" : "smtps://" };
  return { problem: breakageOf(cause, "wait", place).reason, again: true };
}
