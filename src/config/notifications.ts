import { z } from "zod";
import type { Channel } from "#sync/notify/options.ts";
import * as values from "#values.ts";

const text = values.text;
const mailbox = text("an address like ops@example.com").regex(
  /^(?:[^<>"@,;\p{Cc}]+ <[^\s<>"@,;]+@[^\s<>"@,;]+>|[^\s<>"@,;]+@[^\s<>"@,;]+)$/u,
  { error: "expected an address like ops@example.com or Operations <ops@example.com>" },
);

/** Where requests go: `https://host/path?query`. */
export const webAddress = text("a URL like https://hooks.example.com/rollcall").transform((value, context) => {
  const url = URL.parse(value);
  const problem = (message: string): never => {
    context.addIssue({ code: "custom", message });
    return z.NEVER;
  };
  if (url === null || !["http:", "https:"].includes(url.protocol))
    return problem("expected a URL like https://hooks.example.com/rollcall");
  if (url.username !== "" || url.password !== "") return problem("a URL with a user or a password in it; remove them");
  return url.href;
});

/** `smtps://host`, `smtp://host:587`. */
const mailServer = text("a server like smtp://mail.example.com or smtps://mail.example.com").transform(
  (value, context) => {
    const url = URL.parse(value);
    const problem = (message: string): never => {
      context.addIssue({ code: "custom", message });
      return z.NEVER;
    };
    if (url === null || !["smtp:", "smtps:"].includes(url.protocol) || url.hostname === "")
      return problem("expected a server like smtp://mail.example.com or smtps://mail.example.com");
    if (url.username !== "" || url.password !== "")
      return problem("a user or a password in an address; they have keys of their own: username and password");
    if (!["", "/"].includes(url.pathname) || url.search !== "" || url.hash !== "")
      return problem("expected a server without a path, like smtp://mail.example.com:587");
    const tls = url.protocol === "smtps:";
    return { host: url.hostname, port: url.port === "" ? (tls ? 465 : 587) : Number(url.port), tls };
  },
);

const event = z.enum(["pending", "held", "failed", "recovered", "applied", "overdue", "skipped"]);
const events = z.array(event, { error: "expected a list of events like [held, failed]" });

const settings = {
  events: events
    .min(1, { error: "expected at least one event" })
    .prefault(["pending", "held", "failed", "recovered", "overdue"])
    .describe("What it is used for."),
  syncs: z
    .array(text("the name of a sync"), { error: "expected a list of syncs like [staff]" })
    .min(1, { error: "expected at least one sync" })
    .exactOptional()
    .describe("For which syncs, by name. Absent: for all."),
  names: z
    .boolean()
    .prefault(false)
    .describe("true: names of users and groups may be in it. false: counts only, and where to see the rest."),
  digest: z
    .union([
      values.duration,
      z.strictObject({
        every: values.duration.describe("How long notices are collected."),
        except: events.prefault([]).describe("Events that are told at once all the same."),
      }),
    ])
    .exactOptional()
    .describe("How long notices are collected and then sent as one: 1h, or { every: 1h, except: [held, failed] }."),
  allowPlain: z.boolean().prefault(false).describe("Allow a connection to another machine without encryption."),
};

const ca = values.path.exactOptional().describe("A file in PEM form that the server's certificate is checked against.");

const email = z.strictObject({
  by: z.literal("email").describe("Mail."),
  server: mailServer.describe(
    "smtps://host (TLS, port 465) or smtp://host (STARTTLS, port 587); another port after a colon.",
  ),
  username: text("a user of the mail server").exactOptional().describe("Absent: no login."),
  password: text("the user's password, or where it is: ${env:NAME} or ${file:/path}")
    .exactOptional()
    .describe("Better not here but in the environment, ${env:NAME}, or in a file, ${file:/path}."),
  ca,
  from: mailbox.describe("The sender: an address, or Name <address>."),
  to: z
    .array(mailbox, { error: "expected a list of addresses like [ops@example.com]" })
    .min(1, { error: "expected at least one address" })
    .max(50, { error: "expected at most 50 addresses" })
    .describe("Who gets it."),
  ...settings,
});

const webhook = z.strictObject({
  by: z.literal("webhook").describe("A request with JSON."),
  url: webAddress.describe("Where notices are posted as JSON."),
  secret: text("a secret of at least 16 characters, or where it is: ${env:NAME} or ${file:/path}")
    .min(16, { error: "expected a secret of at least 16 characters" })
    .describe("The key of the signature, by which the receiver knows who sent it."),
  ca,
  ...settings,
});

const chat = z.strictObject({
  by: z.literal("chat").describe("A message in a chat."),
  url: webAddress.describe(
    'Where {"text": "…"} is posted: an incoming webhook of Slack, Mattermost, Teams and others.',
  ),
  ca,
  ...settings,
});

/** `notifications.NAME`. */
export const channel = z.discriminatedUnion("by", [email, webhook, chat], { error: "expected email, webhook or chat" });

/** What a channel means: its file absolute, its digest in one form. */
export function buildChannel(
  { digest, ca, ...rest }: z.infer<typeof channel>,
  resolve: (path: string) => string,
): Channel {
  return {
    ...rest,
    ...(ca === undefined ? {} : { ca: resolve(ca) }),
    ...(digest === undefined ? {} : { digest: typeof digest === "number" ? { every: digest, except: [] } : digest }),
  };
}
