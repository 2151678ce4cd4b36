import { hostname } from "node:os";
import type { Mail, SMTPSentMessageInfo, SMTPTransportOptions } from "nodemailer";
import { firstLineOf } from "#errors.ts";
import { isLoopback } from "#http/listening.ts";
import { requestProblem } from "#http/errors.ts";
import { presentable } from "#redact.ts";
import { formatDuration } from "#text.ts";
import type { Attempt, Sender } from "./delivery.ts";
import type { EmailChannel } from "./options.ts";
import type { Message } from "./notice.ts";
import { readCertificates } from "./webhook.ts";
import { subjectOf, textOf } from "./text.ts";

/** In milliseconds. `whole`: until the server has taken the message, however slowly it answers. */
export interface MailTimeouts {
  readonly connect: number;
  readonly silence: number;
  readonly whole: number;
}

const usualTimeouts: MailTimeouts = { connect: 10_000, silence: 30_000, whole: 90_000 };

/** Sends plain text by SMTP: over TLS, unless the server is on this machine or `allowPlain` is set. */
export function emailSender(channel: EmailChannel, timeouts: MailTimeouts = usualTimeouts): Sender {
  const { server, from, to } = channel;
  const place = `${server.host}:${server.port}`;
  const said = (text: string): string => presentable(text, channel.password === undefined ? [] : [channel.password]);

  /** Opens a connection for `work`: mail is too rare to keep one open. */
  async function connected(
    signal: AbortSignal,
    work: (transport: Transport, signal: AbortSignal) => Promise<Attempt>,
  ): Promise<Attempt> {
    const ca = readCertificates(channel.ca);
    if (typeof ca === "object") return ca;
    // Loaded only when there is something to send.
    const { createTransport } = await import("nodemailer");
    signal.throwIfAborted();
    const transport = createTransport(optionsOf(channel, ca, timeouts));
    const limit = AbortSignal.timeout(timeouts.whole);
    const either = AbortSignal.any([signal, limit]);
    const { promise: aborted, reject } = Promise.withResolvers<never>();
    const onAbort = (): void => {
      transport.close();
      reject(new Error("aborted"));
    };
    either.addEventListener("abort", onAbort);
    aborted.catch(() => undefined);
    try {
      return await Promise.race([work(transport, either), aborted]);
    } catch (error) {
      signal.throwIfAborted();
      if (limit.aborted)
        return {
          problem: `${place}: the server did not accept it within ${formatDuration(timeouts.whole)}`,
          again: true,
        };
      return { problem: `${place}: ${said(problemOf(error, channel, timeouts))}`, again: !isFinal(error as MailError) };
    } finally {
      either.removeEventListener("abort", onAbort);
      transport.close();
    }
  }

  return {
    send: (message, signal) =>
      connected(signal, async (transport, signal) => {
        const { response, accepted, rejected } = await transport.sendMail({ ...mailOf(message, from, to), signal });
        return {
          accepted: `${place} for ${accepted.map(String).join(", ")} (${said(response)})`,
          warning: rejected.length === 0 ? undefined : `${place} refused ${rejected.map(String).join(", ")}`,
        };
      }),
    check: (signal) =>
      connected(signal, async (transport) => {
        await transport.verify();
        return {
          accepted: `reached ${place}${channel.username === undefined ? "" : `, logged in as ${channel.username}`}`,
        };
      }),
  };
}

type Transport = Mail<SMTPSentMessageInfo, SMTPTransportOptions>;

function optionsOf(
  { server: { host, port, tls }, username, password, ca: file, allowPlain }: EmailChannel,
  ca: string | undefined,
  timeouts: MailTimeouts,
): SMTPTransportOptions {
  // Mail to this machine needs no encryption, and a local server rarely has a certificate for the name.
  const here = isLoopback(host) && file === undefined;
  return {
    host: host.replace(/^\[(.*)\]$/, "$1"),
    port,
    secure: tls,
    requireTLS: !tls && !here && !allowPlain,
    ignoreTLS: here,
    tls: { minVersion: "TLSv1.2", ca },
    connectionTimeout: timeouts.connect,
    dnsTimeout: timeouts.connect,
    greetingTimeout: timeouts.silence,
    socketTimeout: timeouts.silence,
    socketCloseTimeout: 1000,
    disableFileAccess: true,
    disableUrlAccess: true,
    auth: username === undefined ? undefined : { user: username, pass: password ?? "" },
  };
}

/** Mail programs group the notices of a run: they all refer to one message, which need not exist. */
function mailOf(message: Message, from: string, to: readonly string[]) {
  const domain = /@([^\s>]+)>?$/.exec(from)?.[1] ?? hostname();
  const runs = new Set(message.notices.flatMap(({ run }) => (run === undefined ? [] : [run])));
  const thread = [...runs].slice(0, 10).map((run) => `<run.${run}@${domain}>`);
  const events = [...new Set(message.notices.map(({ event }) => event))];
  return {
    from,
    to: [...to],
    subject: subjectOf(message),
    text: textOf(message, hostname()),
    date: new Date(message.dueAt),
    messageId: `<${message.id}@${domain}>`,
    references: thread.length === 0 ? undefined : thread,
    headers: {
      // Prevents automatic replies.
      "Auto-Submitted": "auto-generated",
      "X-Auto-Response-Suppress": "All",
      "X-Rollcall-Event": events.join(", "),
    },
    disableFileAccess: true,
    disableUrlAccess: true,
  };
}

/** The parts of nodemailer's errors that are used; any of them may be missing. */
interface MailError {
  readonly code?: string;
  readonly originalCode?: string;
  readonly response?: string;
  readonly responseCode?: number;
  readonly permanent?: boolean;
  readonly timeoutType?: string;
}

/** Whether trying again is of no use. It is where somebody must fix something first. */
function isFinal({ code, permanent }: MailError): boolean {
  return permanent === true && (code === "EENVELOPE" || code === "EMESSAGE");
}

/** Why mail was not sent, in words. */
function problemOf(
  error: unknown,
  { server: { host, port, tls }, username }: EmailChannel,
  timeouts: MailTimeouts,
): string {
  const { code, originalCode, response, responseCode, timeoutType } = error as MailError;
  const said = response === undefined ? "" : ` (${response.replaceAll(/\s+/g, " ").slice(0, 300)})`;
  if (code === "EAUTH" || code === "ENOAUTH")
    return `the login as ${username ?? "nobody"} was refused${said}: check username and password`;
  if (code === "ETLS" && originalCode === undefined && responseCode !== undefined && !tls)
    return `the server offers no encryption (STARTTLS)${said}: use another port or smtps://, or set allowPlain: true`;
  if (code === "ETIMEDOUT" && timeoutType === "CONNECT_TIMEOUT")
    return `no connection within ${formatDuration(timeouts.connect)}: check the network and its firewalls`;
  if (code === "ETIMEDOUT")
    return `the server said nothing for ${formatDuration(timeouts.silence)}: is the port right, and is it ${tls ? "smtps://" : "smtp://"}?`;
  if (isFinal(error as MailError)) return `the server refuses the message for good${said}: check from and to`;
  if (code === "EENVELOPE" || code === "EMESSAGE") return `the server does not accept the message now${said}`;
  if (responseCode !== undefined) return `the server answered something unexpected${said}`;
  if (originalCode === undefined && code !== "ESOCKET" && code !== "ETLS") return firstLineOf(error);
  const cause = Object.assign(error as Error, { code: originalCode ?? code });
  return requestProblem(cause, "wait", {
    host: `${host}:${port}`,
    timeouts: { connect: timeouts.connect, headers: timeouts.silence, body: timeouts.silence },
    owner: "channel",
    scheme: tls ? "smtp://" : "smtps://",
  }).reason;
}
