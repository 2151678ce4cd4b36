import { BerWriter } from "ldapts";
import { expect, test } from "vitest";
import { parseFilter } from "#connectors/ldap/filter.ts";

function bytesOf(text: string): string {
  const writer = new BerWriter();
  parseFilter(text).write(writer);
  return writer.buffer.toString("latin1");
}

test.each([
  ["(cn=Jörg)", "\xa3\x0b\x04\x02cn\x04\x05J\xc3\xb6rg"],
  [String.raw`(cn=J\c3\b6rg)`, "\xa3\x0b\x04\x02cn\x04\x05J\xc3\xb6rg"],
  [String.raw`(objectGUID=\ff\00\29)`, "\xa3\x11\x04\x0aobjectGUID\x04\x03\xff\0)"],
  ["(cn=*)", "\x87\x02cn"],
  ["(cn;lang-de=*)", "\x87\x0acn;lang-de"],
  ["(2.5.4.3=a)", "\xa3\x0c\x04\x072.5.4.3\x04\x01a"],
  ["(cn=a*)", "\xa4\x09\x04\x02cn\x30\x03\x80\x01a"],
  ["(cn=*a*b*)", "\xa4\x0c\x04\x02cn\x30\x06\x81\x01a\x81\x01b"],
  ["(cn=a*b)", "\xa4\x0c\x04\x02cn\x30\x06\x80\x01a\x82\x01b"],
  ["(cn>=a)", "\xa5\x07\x04\x02cn\x04\x01a"],
  ["(cn<=a)", "\xa6\x07\x04\x02cn\x04\x01a"],
  ["(cn~=a)", "\xa8\x07\x04\x02cn\x04\x01a"],
  ["(cn=)", "\xa3\x06\x04\x02cn\x04\x00"],
  ["(uac:1.2.840:=2)", "\xa9\x11\x81\x071.2.840\x82\x03uac\x83\x012"],
  ["(ou:dn:=x)", "\xa9\x0a\x82\x02ou\x83\x01x\x84\x01\xff"],
  ["(:dn:1.2:=x)", "\xa9\x0b\x81\x031.2\x83\x01x\x84\x01\xff"],
  ["(&)", "\xa0\x00"],
  ["(!(cn=*))", "\xa2\x04\x87\x02cn"],
  [" ( & (a=*)\n  (| (b=*) ) ) ", "\xa0\x08\x87\x01a\xa1\x03\x87\x01b"],
])("sends %s as RFC 4511 has it", (text, expected) => {
  expect(bytesOf(text)).toBe(expected);
});

test.each([
  ["", /expected \( at its end/],
  ["cn=a", /expected \( at "cn=a"/],
  ["(cn=a", /expected \) at its end/],
  ["(cn=a))", /expected nothing after the filter at "\)"/],
  ["(cn=a)(b=c)", /expected nothing after the filter/],
  ["(&(cn=a)", /expected \) at its end/],
  ["(!(a=b)(c=d))", /expected \) at "\(c=d\)\)"/],
  ["(cn)", /expected attribute=value/],
  ["(=a)", /expected attribute=value/],
  ["(c n=a)", /expected attribute=value/],
  [String.raw`(cn=a\2)`, /two hexadecimal digits/],
  ["(cn=a(b)", /\\28/],
  ["(:=a)", /expected attribute=value/],
])("refuses %j and says what was expected", (text, message) => {
  expect(() => parseFilter(text)).toThrow(message);
});
