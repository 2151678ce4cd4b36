import { attributeNames, coreSchemas, enterprise, multiValued, spellings } from "../schema.ts";
import type { Resource } from "../schema.ts";

/*
 * The attributes of SCIM users and groups (RFC 7643, 4) as far as an inbox must know them. Others are kept as they came.
 */

/** Attributes, or parts of one, that are true or false. */
const booleans = new Set(["active", "primary"]);

const spelled = spellings([...attributeNames, "password", coreSchemas.user, coreSchemas.group, enterprise]);

export function isMultiValued(attribute: string): boolean {
  return multiValued.includes(attribute);
}

export function isBoolean(attribute: string): boolean {
  return booleans.has(attribute);
}

/** The name under which an object has an attribute, or should have it. */
export function nameIn(holder: Resource, attribute: string): string {
  if (Object.hasOwn(holder, attribute)) return attribute;
  const lower = attribute.toLowerCase();
  return Object.keys(holder).find((key) => key.toLowerCase() === lower) ?? spelled.get(lower) ?? attribute;
}

/** An attribute with its known spelling, `Emails` as `emails`. */
export function spelling(attribute: string): string {
  return spelled.get(attribute.toLowerCase()) ?? attribute;
}
