import { z } from "zod";
import * as values from "#values.ts";

const { text } = values;

const mailbox = text("an address like ops@example.com").regex(
  /^(?:[^<>"@,;\p{Cc}]+ <[^\s<>"@,;]+@[^\s<>"@,;]+>|[^\s<>"@,;]+@[^\s<>"@,;]+)$/u,
  { error: "expected an address like ops@example.com or Operations <ops@example.com>" },
);

/** `smtps://host`, `smtp://host:587`. `tls`: from the start; otherwise STARTTLS. */
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

/** What people can be notified of. `test`: somebody tries the channel. */
export type NoticeEvent = z.output<typeof event> | "test";
type Events = readonly NoticeEvent[];

const common = {
  events: events
    .min(1, { error: "expected at least one event" })
    .transform((list): Events => list)
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
      values.duration.transform((every): { every: number; except: Events } => ({ every, except: [] })),
      z.strictObject({
        every: values.duration.describe("How long notices are collected."),
        except: events
          .transform((list): Events => list)
          .prefault([])
          .describe("Events that are told at once all the same."),
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
  ...common,
});
export type EmailChannel = z.output<typeof email>;

const webhook = z.strictObject({
  by: z.literal("webhook").describe("A request with JSON."),
  url: values.webAddress.describe("Where notices are posted as JSON."),
  secret: text("a secret of at least 16 characters, or where it is: ${env:NAME} or ${file:/path}")
    .min(16, { error: "expected a secret of at least 16 characters" })
    .describe("The key of the signature, by which the receiver knows who sent it."),
  ca,
  ...common,
});
export type WebhookChannel = z.output<typeof webhook>;

const chat = z.strictObject({
  by: z.literal("chat").describe("A message in a chat."),
  url: values.webAddress.describe(
    'Where {"text": "…"} is posted: an incoming webhook of Slack, Mattermost, Teams and others.',
  ),
  ca,
  ...common,
});
export type ChatChannel = z.output<typeof chat>;

/** `notifications.NAME`: a channel by which people are notified. Durations come out in milliseconds. */
export const channel = z.discriminatedUnion("by", [email, webhook, chat], { error: "expected email, webhook or chat" });
export type Channel = z.output<typeof channel>;
