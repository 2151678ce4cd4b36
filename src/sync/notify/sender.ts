import { randomUUID } from "node:crypto";
import type { Attempt, Channel, Sender } from "./channel.ts";
import { emailSender } from "./email.ts";
import { noticeOfTest } from "./notice.ts";
import { chatSender, webhookSender } from "./webhook.ts";

export function senderOf(channel: Channel): Sender {
  switch (channel.by) {
    case "email":
      return emailSender(channel);
    case "webhook":
      return webhookSender(channel);
    case "chat":
    default:
      return chatSender(channel);
  }
}

/**
 * Sends a test by a channel, once, whatever it is for and however it collects.
 * @throws the reason of `signal`, when it is aborted
 */
export function testChannel(channel: Channel, signal: AbortSignal): Promise<Attempt> {
  const now = new Date().toISOString();
  const letter = {
    id: randomUUID(),
    createdAt: now,
    dueAt: now,
    notices: [noticeOfTest()],
    more: 0,
    test: true,
  } as const;
  return senderOf(channel).send(letter, signal);
}

/**
 * Looks whether something could be sent by a channel, as far as that can be known without sending.
 * @throws the reason of `signal`, when it is aborted
 */
export function checkChannel(channel: Channel, signal: AbortSignal): Promise<Attempt> {
  return senderOf(channel).check(signal);
}
