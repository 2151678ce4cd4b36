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
    if (url === null || !["smtp:", "smtps:"].includes(url.protocol) || url.hostname === "")
      return values.refused(context, "expected a server like smtp://mail.example.com or smtps://mail.example.com");
    if (url.username !== "" || url.password !== "")
      return values.refused(
        context,
        "the address must not contain a user name or a password; use the keys username and password",
      );
    if (!["", "/"].includes(url.pathname) || url.search !== "" || url.hash !== "")
      return values.refused(context, "expected a server without a path, like smtp://mail.example.com:587");
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
    .describe("The events to send."),
  syncs: z
    .array(text("the name of a sync"), { error: "expected a list of syncs like [staff]" })
    .min(1, { error: "expected at least one sync" })
    .exactOptional()
    .describe("The syncs to report on, by name. Absent: all."),
  names: z
    .boolean()
    .prefault(false)
    .describe(
      "true: messages may name users and groups. false: messages have counts only, and say where to see the rest.",
    ),
  digest: z
    .union([
      values.duration.transform((every): { every: number; except: Events } => ({ every, except: [] })),
      z.strictObject({
        every: values.duration.describe("How long to collect notices."),
        except: events
          .transform((list): Events => list)
          .prefault([])
          .describe("Events to send immediately."),
      }),
    ])
    .exactOptional()
    .describe("How long to collect notices and send them as one: 1h, or { every: 1h, except: [held, failed] }."),
  allowPlain: z.boolean().prefault(false).describe("Allow an unencrypted connection to another machine."),
};

const ca = values.path
  .exactOptional()
  .describe("A PEM file with the certificate authority that signed the server's certificate.");

const email = z.strictObject({
  by: z.literal("email").describe("Send mail."),
  server: mailServer.describe(
    "The mail server: smtps://host (TLS, port 465) or smtp://host (STARTTLS, port 587). Add :port for another port.",
  ),
  username: text("a user of the mail server").exactOptional().describe("The user name. Absent: no login."),
  password: text("the user's password, or where it is: ${env:NAME} or ${file:/path}")
    .exactOptional()
    .describe("The password. Keep it out of this file: use ${env:NAME} or ${file:/path}."),
  ca,
  from: mailbox.describe("The sender: an address, or Name <address>."),
  to: z
    .array(mailbox, { error: "expected a list of addresses like [ops@example.com]" })
    .min(1, { error: "expected at least one address" })
    .max(50, { error: "expected at most 50 addresses" })
    .describe("The recipients."),
  ...common,
});
export type EmailChannel = z.output<typeof email>;

const webhook = z.strictObject({
  by: z.literal("webhook").describe("Post JSON."),
  url: values.webAddress.describe("The URL to post notices to, as JSON."),
  secret: text("a secret of at least 16 characters, or where it is: ${env:NAME} or ${file:/path}")
    .min(16, { error: "expected a secret of at least 16 characters" })
    .describe("The key that signs each request, so that the receiver can tell who sent it."),
  ca,
  proxy: values.proxy.exactOptional(),
  ...common,
});
export type WebhookChannel = z.output<typeof webhook>;

const chat = z.strictObject({
  by: z.literal("chat").describe("Post to a chat."),
  url: values.webAddress
    .refine((url) => !isOfTeams(url), { error: "is an address of Microsoft Teams, which needs by: teams" })
    .describe('The URL to post {"text": "…"} to: an incoming webhook of Slack, Mattermost, Rocket.Chat or others.'),
  ca,
  proxy: values.proxy.exactOptional(),
  ...common,
});
export type ChatChannel = z.output<typeof chat>;

/** What Teams' Workflows app gives, and what its connectors gave. They answer 202 to a body that they then drop. */
function isOfTeams(url: string): boolean {
  const host = URL.parse(url)?.hostname ?? "";
  return /\.(?:logic\.azure\.com|api\.powerplatform\.com|webhook\.office\.com)$/.test(host);
}

const teams = z.strictObject({
  by: z.literal("teams").describe("Post a card to a chat or a channel of Microsoft Teams."),
  url: values.webAddress.describe(
    "The URL that Teams' Workflows app gives for “Send webhook alerts to a chat” or “… to a channel”.",
  ),
  ca,
  proxy: values.proxy.exactOptional(),
  ...common,
});
export type TeamsChannel = z.output<typeof teams>;

/** `notifications.NAME`: a channel by which people are notified. Durations come out in milliseconds. */
export const channel = z.discriminatedUnion("by", [email, webhook, chat, teams], {
  error: "expected email, webhook, chat or teams",
});
export type Channel = z.output<typeof channel>;
