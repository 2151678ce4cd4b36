import type { AttributeValue } from "#principals/entry.ts";
import { nfc } from "#text.ts";
import { isObject } from "#values.ts";

/** A part of a path: a name, or which element of a list. */
type Step = { readonly name: string } | { readonly index: number } | { readonly key: string; readonly value: string };

/** Where a value is in a record, or in an answer. */
export interface Path {
  /** As written. */
  readonly text: string;
  readonly steps: readonly Step[];
}

const step = /(?:"([^"]+)"|([^\s."[\]=]+))|\[(\d+)\]|\[([^\s."[\]=]+)=([^\]]*)\]/y;

/**
 * `name.first`; `emails[0].value`, `emails[type=work].value`: one element of a list; `emails.value`: all of them;
 * `"a name with.dots"`.
 * @returns undefined when it is none
 */
export function parsePath(text: string): Path | undefined {
  const steps: Step[] = [];
  for (let at = 0; at < text.length; at = step.lastIndex) {
    const isName = text[at] !== "[";
    // A dot stands between names, and after an element.
    if (steps.length > 0 && isName && text[at++] !== ".") return undefined;
    step.lastIndex = at;
    const [, quoted, name, index, key, value] = step.exec(text) ?? [];
    const found = quoted ?? name;
    if (found !== undefined) steps.push({ name: found });
    else if (index !== undefined && steps.length > 0) steps.push({ index: Number(index) });
    else if (key !== undefined && value !== undefined && steps.length > 0) steps.push({ key, value });
    else return undefined;
  }
  return steps.length === 0 ? undefined : { text, steps };
}

/** The names of a path that leads through no list; undefined: it does. */
export function namesOf({ steps }: Path): readonly string[] | undefined {
  const names = steps.flatMap((each) => ("name" in each ? [each.name] : []));
  return names.length === steps.length ? names : undefined;
}

/** What is there: one value, a list of those of all elements, or undefined. */
export function valueAt(from: unknown, { steps }: Path): unknown {
  return steps.reduce<unknown>(next, from);
}

function next(from: unknown, step: Step): unknown {
  if (Array.isArray(from)) {
    if ("index" in step) return from[step.index];
    if ("key" in step) return from.find((each) => String(next(each, { name: step.key })) === step.value);
    return from.flatMap((each) => next(each, step) ?? []);
  }
  const isObject = typeof from === "object" && from !== null;
  return isObject && "name" in step && Object.hasOwn(from, step.name)
    ? (from as Readonly<Record<string, unknown>>)[step.name]
    : undefined;
}

/** The text of a number or a text, without space around it and in Unicode form NFC; undefined: it is neither, or empty. */
export function keyIn(value: unknown): string | undefined {
  if (typeof value !== "string" && typeof value !== "number") return undefined;
  const text = nfc(String(value).trim());
  return text === "" ? undefined : text;
}

/** The same of one value or of several. */
export function keysIn(value: unknown): readonly string[] {
  return [value].flat().flatMap((each) => keyIn(each) ?? []);
}

/** Whether what a path leads to are objects, and so no values. */
export function hasObjects(value: unknown): boolean {
  return [value].flat().some((each) => typeof each === "object" && each !== null);
}

/** A value as rules read it: what is empty is missing, a list has texts alone. Undefined: it is missing, or no such value. */
export function attributeIn(value: unknown): AttributeValue | undefined {
  if (typeof value === "boolean" || (typeof value === "string" && value !== "")) return value;
  if (typeof value === "number") return value;
  if (!Array.isArray(value)) return undefined;
  const texts = value.flatMap((each) => (["string", "number", "boolean"].includes(typeof each) ? [String(each)] : []));
  return texts.length === 0 ? undefined : texts;
}

/** Deeper values are no attributes by themselves: a path leads to them. */
const deepest = 5;

/** Every value of a record by its path, `name.first`, but for what is in lists of objects. */
export function* flattened(
  record: object,
  prefix = "",
  depth = 1,
): Generator<readonly [name: string, value: AttributeValue]> {
  for (const [name, value] of Object.entries(record)) {
    const attribute = attributeIn(value);
    if (attribute !== undefined) yield [`${prefix}${name}`, attribute];
    else if (isObject(value) && depth < deepest) yield* flattened(value, `${prefix}${name}.`, depth + 1);
  }
}
