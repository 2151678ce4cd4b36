import fc from "fast-check";
import { expect, test } from "vitest";
import { dnKey, dnKeys, isWithin, parseDn } from "#principals/dn.ts";
import { cases } from "../../support/random.ts";

test.each([
  ["uid=ada,ou=people,dc=example", "UID = Ada , OU=People,DC=example", "case and spaces around"],
  ["cn=Hopper\\, Grace,dc=x", "cn=Hopper\\2C Grace,dc=x", "an escaped comma"],
  ["cn=J\u{f6}rg,dc=x", "CN=J\\C3\\B6RG,dc=x", "bytes of UTF-8"],
  ["cn=J\u{f6}rg,dc=x", "cn=Jo\u{308}rg,dc=x", "a composed letter"],
  ["cn=\u{3a3}\u{399}\u{3a3},dc=x", "cn=\u{3c3}\u{3b9}\u{3c3},dc=x", "a sigma at the end of a word"],
  ["cn=a+sn=b,dc=x", "SN=B+CN=A,dc=x", "the order within a name of several"],
  ["commonName=a,domainComponent=x", "2.5.4.3=a,oid.0.9.2342.19200300.100.1.25=x", "names and numbers of types"],
  ["cn=\\ foo\\ ,dc=x", "cn=foo,dc=x", "spaces at the ends, which matching ignores"],
  ["cn=a  b,dc=x", "cn=a b,dc=x", "spaces inside, of which one counts"],
  ["cn=foo,dc=x", "cn=#0C03666F6F,dc=x", "a value in BER"],
  ["cn=\\#a,dc=x", "cn=\\23A,dc=x", "a number sign"],
  ["cn=#0c03236262,dc=x", "cn=\\#bb,dc=x", "a value in BER that begins with a number sign"],
  ["cn=x\\0ACNF:1,dc=x", "CN=X\\0acnf:1,DC=x", "the name of a conflict in Active Directory"],
])("%s is %s: %s", (one, other) => {
  expect(dnKey(one)).toBe(dnKey(other));
  const key = dnKeys();
  expect(key(one)).toBe(key(other));
});

test.each([
  ["cn=a,dc=x", "cn=a,dc=y"],
  ["cn=a\\,dc=x", "cn=a,dc=x"],
  ["cn=a\\+sn=b,dc=x", "cn=a+sn=b,dc=x"],
  ["cn=a,dc=x", "sn=a,dc=x"],
  ["cn=a\\\\,dc=x", "cn=a\\,dc=x"],
  ["cn=#3000,dc=x", "cn=\\#3000,dc=x"],
  ["cn=\\# bb,dc=x", "cn=\\#bb,dc=x"],
])("%s is not %s", (one, other) => {
  expect(dnKey(one)).not.toBe(dnKey(other));
});

test.each(["ada", "cn=a,,dc=x", "cn", "=a", "cn=a\\", "cn=a\\zz", "cn=<a>", "cn=#zz", "cn=a;dc=x"])(
  "%s is no name, and its own key",
  (text) => {
    expect(() => parseDn(text)).toThrow(SyntaxError);
    expect(dnKeys()(` ${text.toUpperCase()}`)).toBe(text.toLowerCase());
  },
);

test.each(["cn=\\# bb", "cn=\\#bb,dc=x", "cn=#3000", 'cn=\\"a\\<b\\>\\;c', "cn=a\\,b\\+c\\\\"])(
  "the key of %s is a name with that key",
  (text) => {
    const key = dnKey(text);
    expect(() => parseDn(key)).not.toThrow();
    expect(dnKey(key)).toBe(key);
  },
);

test("knows which names are below others", () => {
  const [outer, inner, beside] = ["ou=people,dc=x", "uid=a,ou=people,dc=x", "uid=a,ou=more people,dc=x"].map(dnKey);
  expect(isWithin(inner!, outer!)).toBe(true);
  expect(isWithin(outer!, outer!)).toBe(true);
  expect(isWithin(beside!, outer!)).toBe(false);
  expect(isWithin(outer!, inner!)).toBe(false);
  // A name that only ends like it.
  expect(isWithin(dnKey("cn=a\\,ou=people,dc=x"), outer!)).toBe(false);
});

const types = [
  ["cn", "CN", "commonName", "2.5.4.3"],
  ["ou", "OU", "organizationalUnitName", "oid.2.5.4.11"],
  ["employeeNumber", "EMPLOYEENUMBER"],
];
const character = fc.oneof(
  fc.constantFrom(",", " ", "+", '"', "\\", "<", ">", ";", "=", "#", "a", "b", "Z", "\n", "\u{f6}", "\u{1f989}"),
  fc.string({ unit: "binary", minLength: 1, maxLength: 1 }).filter((one) => one.isWellFormed()),
);
const ava = fc.record({ type: fc.nat({ max: types.length - 1 }), value: fc.array(character, { maxLength: 6 }) });
const name = fc.array(fc.array(ava, { minLength: 1, maxLength: 3 }), { minLength: 1, maxLength: 4 });
type Name = readonly (readonly { type: number; value: readonly string[] }[])[];

/** One of the ways to write a name down. */
function written(dn: Name, pick: (choices: number) => number): string {
  const spaces = (): string => " ".repeat(pick(3));
  const letter = (text: string, isFirst: boolean): string => {
    const way = pick(4);
    if (way === 0) return [...Buffer.from(text)].map((byte) => `\\${byte.toString(16).padStart(2, "0")}`).join("");
    if (/[,+"\\<>;=]/.test(text) || (isFirst && /[# ]/.test(text))) return `\\${text}`;
    return way === 1 && /^[a-z]$/.test(text) ? text.toUpperCase() : text;
  };
  const rdns = dn.map((rdn) => {
    const order = pick(2) === 0 ? rdn : rdn.toReversed();
    const avas = order.map(({ type, value }) => {
      const names = types[type] ?? [];
      const text = value.map((one, index) => letter(one, index === 0)).join("");
      return `${names[pick(names.length)]}${spaces()}=${text}`;
    });
    return avas.join("+");
  });
  return rdns.join(`${spaces()},${spaces()}`);
}

/** What a name means, said without any escapes. */
function meaning(dn: Name): string {
  const rdns = dn.map((rdn) =>
    rdn.map(({ type, value }) => {
      const folded = value.join("").normalize("NFKC").toLowerCase().normalize("NFKC").replaceAll("ς", "σ");
      return JSON.stringify([type, folded.trim().replaceAll(/\s+/g, " ")]);
    }),
  );
  return JSON.stringify(rdns.map((rdn) => rdn.sort()));
}

test("has one key for all ways to write a name, and another for every other name", () => {
  const keys = dnKeys();
  fc.assert(
    fc.property(name, name, fc.infiniteStream(fc.nat()), (one, other, numbers) => {
      const pick = (choices: number): number => numbers.next().value! % choices;
      const key = keys(written(one, pick));
      expect(keys(written(one, pick))).toBe(key);
      expect(dnKey(written(one, pick))).toBe(key);
      // A key is a way to write the name as well.
      expect(dnKey(key)).toBe(key);
      expect(keys(written(other, pick)) === key).toBe(meaning(one) === meaning(other));
    }),
    { numRuns: cases(2_000) },
  );
});

test("tells names apart that differ by one character", () => {
  const keys = dnKeys();
  fc.assert(
    fc.property(name, fc.infiniteStream(fc.nat()), (dn, numbers) => {
      const pick = (choices: number): number => numbers.next().value! % choices;
      const at = pick(dn.length);
      const changed = dn.map((rdn, index) =>
        index === at
          ? rdn.map(({ type, value }, first) => ({ type, value: first === 0 ? [...value, "q"] : value }))
          : rdn,
      );
      expect(keys(written(changed, pick)) === keys(written(dn, pick))).toBe(meaning(changed) === meaning(dn));
    }),
    { numRuns: cases(1_000) },
  );
});
