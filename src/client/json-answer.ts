import type { z } from "zod";
import { Unusable } from "#http/trouble.ts";
import { Broken } from "#http/exchange.ts";
import type { Answer } from "#http/exchange.ts";
import { textOf } from "#http/refusal.ts";

/** No more of an answer is read, in bytes: a status may list many errors. */
const usualLimit = 64 * 1024 * 1024;

/** The value of a JSON answer, held in memory; it may say that it is plain text (specification 4.1). @throws {Broken} */
export async function jsonOf<T>(answer: Answer, schema: z.ZodType<T>, limit = usualLimit): Promise<T> {
  let text: string;
  try {
    text = await textOf(answer, limit);
  } catch (error) {
    throw new Broken("receive", error);
  }
  try {
    return schema.parse(JSON.parse(text));
  } catch {
    throw new Broken("receive", new Unusable("the answer is not one of this interface: check the url", "fix"));
  }
}
