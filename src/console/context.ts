import type { FastifyReply, FastifyRequest } from "fastify";
import type { Logger } from "pino";
import type { Control } from "#control/control.ts";
import type { Accounts, Visitor } from "./accounts.ts";
import type { Html } from "./html.ts";
import type { Frame } from "./layout.ts";

declare module "fastify" {
  interface FastifyRequest {
    /** Who is signed in. */
    visitor: Visitor | undefined;
  }
}

/** What all pages share. */
export interface AppOptions {
  readonly version: string;
  readonly log: Logger;
  readonly viewers: boolean;
  readonly control: Pick<Control, "daemon" | "track" | "isStopping">;
  readonly accounts: Accounts;
}

/** Sends a page. */
export type Send = (
  request: FastifyRequest,
  reply: FastifyReply,
  frame: Omit<Frame, "version" | "visitor">,
  main: Html,
) => FastifyReply;

/** The fields of a form. */
export function formOf({ body }: FastifyRequest): URLSearchParams {
  return body instanceof URLSearchParams ? body : new URLSearchParams();
}
