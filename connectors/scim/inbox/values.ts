import { isObject } from "#values.ts";
import { isBoolean, isMultiValued, spelling } from "./attributes.ts";
import { flagOf } from "../resource.ts";
import type { Resource } from "../schema.ts";
import { invalid } from "./errors.ts";

/**
 * A value as it is stored: attributes have their known spelling, `"True"` is true, `manager` is an object, what is null is left out.
 * @param name of its attribute
 * @param isList a single value becomes a list
 * @returns undefined: nothing is left
 * @throws {ScimError} invalidValue
 */
export function cleaned(name: string, value: unknown, isList: boolean): unknown {
  if (value === null || value === undefined) return undefined;
  if (isList) return [value].flat().flatMap((each) => cleaned(name, each, false) ?? []);
  // Some providers send a list with one value for an attribute that has one.
  if (Array.isArray(value) && value.length === 1 && !isMultiValued(name) && isSingle(name))
    return cleaned(name, value[0], false);
  if (isBoolean(name)) return booleanOf(name, value);
  if (name === "manager" && typeof value === "string") return value === "" ? undefined : { value };
  if (Array.isArray(value)) return value.flatMap((each) => cleaned("", each, false) ?? []);
  return isObject(value) ? cleanedObject(value) : value;
}

/** Attributes of one value that RFC 7643 defines. Of others we do not know. */
function isSingle(name: string): boolean {
  return spelling(name.toLowerCase()) !== name.toLowerCase() || /^(?:active|locale|title|timezone|manager)$/.test(name);
}

function cleanedObject(object: Resource): Resource | undefined {
  const entries = new Map<string, unknown>();
  for (const [key, value] of Object.entries(object)) {
    const name = spelling(key);
    const kept = cleaned(name, value, isMultiValued(name));
    if (kept !== undefined) entries.set(name, kept);
  }
  return entries.size === 0 ? undefined : Object.fromEntries(entries);
}

/** As a server's `active` is read: a provider whose deactivation is refused leaves somebody in. */
function booleanOf(name: string, value: unknown): boolean {
  const flag = flagOf(isObject(value) ? value["value"] : value);
  if (flag !== undefined) return flag;
  throw invalid("invalidValue", `${name} is ${JSON.stringify(value)}; expected true or false`);
}
