import { randomUUID } from "node:crypto";
import type { OutgoingHttpHeaders } from "node:http";

/** An answer: a status, headers, and a value (or plain text). */
export interface Answer {
  readonly status: number;
  readonly body: object | string;
  readonly headers?: OutgoingHttpHeaders;
}

/** An error in the form that Graph gives it. */
export class Refusal extends Error {
  readonly answer: Answer;

  constructor(status: number, code: string, message: string, headers: OutgoingHttpHeaders = {}) {
    super(message);
    const id = randomUUID();
    const innerError = { date: new Date().toISOString().slice(0, 19), "request-id": id, "client-request-id": id };
    this.answer = { status, body: { error: { code, message, innerError } }, headers };
  }
}
