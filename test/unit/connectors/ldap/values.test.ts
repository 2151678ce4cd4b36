import { expect, test } from "vitest";
import { formOf, guidOf, sidInFilter, sidOf } from "#connectors/ldap/values.ts";

test("writes a GUID as Microsoft does", () => {
  const bytes = Buffer.from("90395f191ab51b4a9e9686c66cb18d11", "hex");
  expect(guidOf(bytes)).toBe("195f3990-b51a-4a1b-9e96-86c66cb18d11");
  expect(guidOf(Buffer.alloc(16))).toBe("00000000-0000-0000-0000-000000000000");
  expect(guidOf(bytes.subarray(1))).toBeUndefined();
});

test("writes a security identifier as Microsoft does, and back", () => {
  const bytes = Buffer.from("01050000000000051500000079e2a5abdc6d7c1ff2a4cdf4e9030000", "hex");
  const sid = "S-1-5-21-2879775353-528248284-4107117810-1001";
  expect(sidOf(bytes)).toBe(sid);
  expect(sidInFilter(sid).replaceAll("\\", "")).toBe(bytes.toString("hex"));
  expect(sidOf(Buffer.from("010100000000000512000000", "hex"))).toBe("S-1-5-18");
  expect(sidOf(bytes.subarray(0, 20))).toBeUndefined();
  expect(sidOf(Buffer.alloc(0))).toBeUndefined();
});

test("knows bytes and secrets by their names", () => {
  expect(["objectguid", "objectsid", "jpegphoto", "userpassword", "cn"].map(formOf)).toEqual([
    "guid",
    "sid",
    "bytes",
    "secret",
    "text",
  ]);
});
