import { z } from "zod";

/** Keys with values of which none is needed: all of them absent, or the section empty, is the same as every default. */
export function section<Shape extends z.ZodRawShape>(shape: Shape) {
  const schema = z.strictObject(shape);
  return schema.nullish().transform((value) => value ?? schema.parse({}));
}
