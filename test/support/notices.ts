import { randomUUID } from "node:crypto";
import type { ChatChannel, EmailChannel, TeamsChannel, WebhookChannel } from "#notify/options.ts";
import type { Message, Notice } from "#notify/notice.ts";
import { noticeOfRun } from "#notify/notice.ts";
import { appliedRun, trippedLimit } from "./runs.ts";

const settings = {
  events: ["pending", "held", "failed", "recovered", "overdue"],
  names: false,
  allowPlain: false,
} as const;

export function emailTo(port: number, channel: Partial<EmailChannel> = {}): EmailChannel {
  const server = { host: "127.0.0.1", port, tls: false };
  return {
    by: "email",
    server,
    from: "Rollcall <rollcall@example.com>",
    to: ["ops@example.com"],
    ...settings,
    ...channel,
  };
}

export const webhookSecret = "5ecret-of-the-w3bhook";

export function webhookTo(url: string, channel: Partial<WebhookChannel> = {}): WebhookChannel {
  return { by: "webhook", url, secret: webhookSecret, ...settings, ...channel };
}

export function chatTo(url: string, channel: Partial<ChatChannel> = {}): ChatChannel {
  return { by: "chat", url, ...settings, ...channel };
}

export function teamsTo(url: string, channel: Partial<TeamsChannel> = {}): TeamsChannel {
  return { by: "teams", url, ...settings, ...channel };
}

/** A held run with everything that a notice can mention. */
export const heldRun = appliedRun({
  state: "held",
  heldBy: "limits",
  expiresAt: "2026-11-22T10:12:40.000Z",
  limits: [
    trippedLimit({ value: 40, earlier: 5, bound: 10, basis: "10% of 100" }),
    trippedLimit({ limit: "updates", value: 1, bound: 50, basis: "50% of 100", tripped: false }),
  ],
  causes: [
    { id: "c1", kind: "gone", source: "corp", users: 39, groups: 0, example: { kind: "user", name: "zoe" } },
    {
      id: "c2",
      kind: "membership",
      attribute: "Tigers",
      users: 1,
      groups: 0,
      example: { kind: "user", name: "zoe" },
    },
  ],
  notes: [
    {
      text: "2 records quarantined: they stay unchanged in the target",
      details: [{ text: "user zoe (people.csv:4): <two> @here" }],
    },
  ],
});

export function messageWith(...notices: readonly Notice[]): Message {
  const now = new Date().toISOString();
  const all = notices.length === 0 ? [noticeOfRun("held", heldRun, { names: ["- user zoe"] })] : notices;
  return { id: randomUUID(), createdAt: now, dueAt: now, notices: all, more: 0 };
}
