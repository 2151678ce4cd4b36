import { once } from "node:events";
import { createServer } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import { buffer } from "node:stream/consumers";
import PostalMime from "postal-mime";
import type { Email } from "postal-mime";
import { SMTPServer } from "smtp-server";
import type { SMTPServerOptions } from "smtp-server";
import { stop, track } from "./scripted-server.ts";

/** A message as it arrived. */
export interface ArrivedMail extends Email {
  readonly raw: string;
  /** The recipients in the envelope. */
  readonly recipients: readonly string[];
  readonly encrypted: boolean;
  readonly user: string | undefined;
}

export interface MailServer {
  readonly port: number;
  readonly arrived: readonly ArrivedMail[];
  close(): Promise<void>;
}

export interface MailServerOptions {
  readonly tls?: { readonly key: string; readonly cert: string };
  /** TLS from the start; otherwise STARTTLS, where there is `tls`. */
  readonly secure?: boolean;
  /** The login it demands. Absent: none. */
  readonly login?: { readonly user: string; readonly password: string };
  /** What recipients, or messages, are refused with, by turns; `undefined` takes one. The last one stays. */
  readonly recipients?: readonly (Refusal | undefined)[];
  readonly messages?: readonly (Refusal | undefined)[];
  readonly port?: number;
}

interface Refusal {
  readonly code: number;
  readonly text: string;
}

/** An SMTP server on the loopback address. */
export async function startMailServer(options: MailServerOptions = {}): Promise<MailServer> {
  const { tls, secure = false, login, recipients = [], messages = [], port = 0 } = options;
  const arrived: ArrivedMail[] = [];
  const turns = { recipients: [...recipients], messages: [...messages] };
  const refusal = (of: "recipients" | "messages"): Error | undefined => {
    const list = turns[of];
    const wanted = list.length > 1 ? list.shift() : list[0];
    return wanted === undefined ? undefined : Object.assign(new Error(wanted.text), { responseCode: wanted.code });
  };
  const settings: SMTPServerOptions = {
    secure,
    ...(tls ?? { hideSTARTTLS: true, disabledCommands: ["STARTTLS"] }),
    authOptional: login === undefined,
    allowInsecureAuth: tls === undefined,
    // Its log would go to the terminal.
    logger: false,
    onAuth: ({ username, password }, _session, callback) => {
      if (username === login?.user && password === login?.password) callback(null, { user: username });
      // Some servers repeat what they were sent.
      else callback(new Error(`Authentication failed for ${username} with ${password}`));
    },
    onRcptTo: (_address, _session, callback) => {
      callback(refusal("recipients"));
    },
    onData: (stream, session, callback) => {
      const take = async (): Promise<void> => {
        const raw = await buffer(stream);
        const error = refusal("messages");
        if (error !== undefined) throw error;
        arrived.push({
          ...(await PostalMime.parse(raw)),
          raw: raw.toString("utf8"),
          recipients: session.envelope.rcptTo.map(({ address }) => address),
          encrypted: session.secure,
          user: typeof session.user === "string" ? session.user : undefined,
        });
      };
      void answering(take, callback);
    },
  };
  const server = new SMTPServer(settings);
  // A client may refuse the certificate.
  server.on("error", () => undefined);
  const listening = server.listen(port, "127.0.0.1");
  await once(listening, "listening");
  return {
    port: (listening.address() as AddressInfo).port,
    arrived,
    close: () =>
      new Promise((resolve) => {
        server.close(() => {
          resolve();
        });
      }),
  };
}

/** A server that accepts connections and passes them to the test, without a protocol of its own. */
export async function startRawServer(
  behave: (socket: Socket) => void,
): Promise<{ readonly port: number; close(): Promise<void> }> {
  const server = createServer(behave);
  const open = track(server);
  await once(server.listen(0, "127.0.0.1"), "listening");
  return { port: (server.address() as AddressInfo).port, close: () => stop(server, open) };
}

async function answering(
  take: () => Promise<void>,
  callback: (error?: Error | null, message?: string) => void,
): Promise<void> {
  let problem: Error | undefined;
  try {
    await take();
  } catch (error) {
    problem = error as Error;
  }
  if (problem === undefined) callback(null, "OK: queued as 4F9C2E");
  else callback(problem);
}
