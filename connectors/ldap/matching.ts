import { AndFilter, NotFilter, OrFilter } from "ldapts";
import type { Filter } from "ldapts";
import { comparable, dnKey, parseDn } from "#principals/dn.ts";
import { formIn, sidBytes } from "./attributes.ts";
import { Comparison, parseFilter } from "./filter.ts";
import type { Item } from "./filter.ts";
import { descriptionOf } from "./ldif.ts";
import type { LdifEntry } from "./ldif.ts";
import type { Options } from "./options.ts";

/** Whether an entry matches. */
export type Matcher = (entry: LdifEntry) => boolean;

/** Matching rules of Active Directory: all bits of a number, or one of them. */
const [allBits, anyBit] = ["1.2.840.113556.1.4.803", "1.2.840.113556.1.4.804"];

/**
 * Evaluates a filter as servers do (RFC 4511, 4.5.1), without their schema: texts compare regardless of case and repeated
 * spaces, names as names, numbers as numbers, bytes as bytes. What an entry does not have is false.
 * @throws {SyntaxError} only a server can evaluate it
 */
export function matcherOf(filter: string, options: Pick<Options, "binary">): Matcher {
  return matcher(parseFilter(filter), options);
}

function matcher(filter: Filter, options: Pick<Options, "binary">): Matcher {
  if (filter instanceof AndFilter || filter instanceof OrFilter) {
    const parts = filter.filters.map((part) => matcher(part, options));
    return filter instanceof AndFilter
      ? (entry) => parts.every((matches) => matches(entry))
      : (entry) => parts.some((matches) => matches(entry));
  }
  if (filter instanceof NotFilter) {
    const matches = matcher(filter.filter, options);
    return (entry) => !matches(entry);
  }
  if (!(filter instanceof Comparison)) throw new SyntaxError("expected a filter of RFC 4515");
  const { item } = filter;
  const description = descriptionOf(item.type);
  const matches = valueMatcher(item, options);
  return (entry) => entry.has(description, matches);
}

function valueMatcher(item: Item, options: Pick<Options, "binary">): (value: Buffer) => boolean {
  const { kind, type } = item;
  const [wanted = Buffer.alloc(0)] = item.values;
  if (kind === "present") return () => true;
  if (kind === "extensibleMatch" && item.rule !== undefined) return bitMatcher(item);
  if (kind === "extensibleMatch" && (item.dn === true || type === ""))
    throw new SyntaxError(`${type}:dn: parts of a name cannot be compared in a file; use base instead`);
  const form = formIn(options, type);
  if (form !== "text") {
    if (kind === "substrings" || kind === "greaterOrEqual" || kind === "lessOrEqual" || form === "secret")
      throw new SyntaxError(`${type} holds bytes, which a file is only searched for as a whole`);
    const text = wanted.toString();
    const bytes = form === "sid" && text.startsWith("S-") ? sidBytes(text) : wanted;
    return (value) => value.equals(bytes);
  }
  if (kind === "substrings") return substringMatcher(item.values);
  if (kind === "greaterOrEqual") return (value) => order(value, wanted) >= 0;
  if (kind === "lessOrEqual") return (value) => order(value, wanted) <= 0;
  return equalityMatcher(type, wanted);
}

/** Classes that a server counts an entry of another class in. */
const superiors: Readonly<Record<string, readonly string[]>> = {
  inetorgperson: ["organizationalperson", "person"],
  organizationalperson: ["person"],
  residentialperson: ["person"],
};

function equalityMatcher(type: string, bytes: Buffer): (value: Buffer) => boolean {
  const text = bytes.toString();
  const wanted = comparable(text);
  const name = type.toLowerCase();
  if (name === "objectclass")
    return (value) => {
      const own = comparable(value.toString());
      return own === wanted || wanted === "top" || superiors[own]?.includes(wanted) === true;
    };
  // Active Directory compares the name of the category, and stores its DN.
  if (name === "objectcategory" && !text.includes("="))
    return (value) => comparable(parseDn(value.toString())[0]?.[0]?.value ?? "") === wanted;
  const key = text.includes("=") ? dnKey(text) : undefined;
  return (value) => {
    const own = value.toString();
    return comparable(own) === wanted || (key !== undefined && own.includes("=") && dnKey(own) === key);
  };
}

function substringMatcher(parts: readonly Buffer[]): (value: Buffer) => boolean {
  // As `comparable` has it, but with the spaces beside an asterisk.
  const texts = parts.map((part) => part.toString().normalize("NFKC").toLowerCase().replaceAll(/\s+/g, " "));
  const first = texts.shift()?.trimStart() ?? "";
  const last = texts.pop()?.trimEnd() ?? "";
  return (value) => {
    const text = comparable(value.toString());
    if (!text.startsWith(first) || !text.endsWith(last) || text.length < first.length + last.length) return false;
    const end = text.length - last.length;
    let at = first.length;
    for (const part of texts) {
      const found = text.indexOf(part, at);
      if (found === -1 || found + part.length > end) return false;
      at = found + part.length;
    }
    return true;
  };
}

const number = /^-?\d+$/;

function order(value: Buffer, wanted: Buffer): number {
  const [own, other] = [value.toString(), wanted.toString()];
  if (number.test(own) && number.test(other))
    return BigInt(own) < BigInt(other) ? -1 : Number(BigInt(own) > BigInt(other));
  const [one, two] = [comparable(own), comparable(other)];
  return one < two ? -1 : Number(one > two);
}

function bitMatcher({ type, rule, values: [wanted = Buffer.alloc(0)] }: Item): (value: Buffer) => boolean {
  if ((rule !== allBits && rule !== anyBit) || !number.test(wanted.toString()))
    throw new SyntaxError(`${type}:${rule}: only a server has this matching rule; a file has ${allBits} and ${anyBit}`);
  const bits = BigInt(wanted.toString());
  return (value) => {
    const own = value.toString();
    if (!number.test(own)) return false;
    const common = BigInt(own) & bits;
    return rule === allBits ? common === bits : common !== 0n;
  };
}
