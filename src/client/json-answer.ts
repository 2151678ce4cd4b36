import type { z } from "zod";
import { textOf } from "#http/client.ts";
import type { Answer } from "#http/client.ts";
import { unusableAnswer } from "#http/errors.ts";

/** No more of an answer is read, in bytes: a status may list many errors. */
const usualLimit = 64 * 1024 * 1024;

/** The value of a JSON answer, held in memory; it may say that it is plain text (specification 4.1). @throws {HttpError} */
export async function jsonOf<T>(answer: Answer, schema: z.ZodType<T>, limit = usualLimit): Promise<T> {
  const text = await textOf(answer, limit);
  try {
    return schema.parse(JSON.parse(text));
  } catch {
    throw unusableAnswer("the answer is not one of this interface: check the url", "fix");
  }
}
